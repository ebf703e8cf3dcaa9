//! What the papers' schedulers are for, shown in virtual time: at least two effects each, as an ordering or a
//! ratio over a range of seeds.
//!
//! `cargo test -p squall-lab --test all -- behaviour:: --nocapture` prints what was measured.

mod augur;
mod blest;
mod dams;
mod dems;
mod ecf;
mod ninetails;
mod ras;
mod raven;
mod runs;
mod scene;
mod srpt_ecf;
mod stock;
mod storm;

//! Effects of the papers' schedulers in virtual time: at least two each, as an ordering or a ratio
//! over a range of seeds.
//!
//! `cargo test -p squall-lab --test all -- behaviour:: --nocapture` prints the measurements.

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

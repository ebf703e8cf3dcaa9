//! What each scheduler does in small situations.

mod augur;
mod blest;
mod dams;
mod dems;
mod ecf;
mod every;
mod link;
mod links;
mod minrtt;
mod ninetails;
mod paths;
mod ras;
mod raven;
mod redundant;
mod round_robin;
mod single_path;
mod squall;
mod srpt_ecf;
mod stage;

//! Behaviour of each scheduler in small situations.

mod augur;
mod blest;
mod dams;
mod dems;
mod ecf;
mod every;
#[allow(dead_code, reason = "schedulers of other crates use the rest")]
#[path = "../../../squall-sched/tests/schedulers/link.rs"]
mod link;
mod links;
mod ninetails;
mod paths;
mod ras;
mod raven;
mod srpt_ecf;
#[allow(dead_code, reason = "schedulers of other crates use the rest")]
#[path = "../../../squall-sched/tests/schedulers/stage.rs"]
mod stage;

use squall_papers::registry;

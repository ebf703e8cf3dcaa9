//! Decisions of each scheduler in small situations.

#[allow(dead_code, reason = "schedulers of other crates use the rest")]
mod link;
mod minrtt;
mod redundant;
mod round_robin;
mod single_path;
mod squall;
#[allow(dead_code, reason = "schedulers of other crates use the rest")]
mod stage;

use squall_sched::Registry;

fn registry() -> Registry {
    Registry::standard()
}

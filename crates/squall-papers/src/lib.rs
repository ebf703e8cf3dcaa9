//! Schedulers and congestion controllers of published systems, reimplemented for comparison on one
//! engine.
//!
//! | module | source |
//! | --- | --- |
//! | [`ras`](schedulers::ras) | STORM, USENIX ATC 2025 |
//! | [`dams`](schedulers::dams) | DAMS, INFOCOM 2022 |
//! | [`ninetails`](schedulers::ninetails) | the paper of MAppLE and NineTails |
//! | [`augur`](schedulers::augur) | AUGUR, NSDI 2024 |
//! | [`ecf`](schedulers::ecf) | CoNEXT 2017; a baseline of AUGUR |
//! | [`blest`](schedulers::blest) | IFIP Networking 2016; a baseline of AUGUR |
//! | [`raven`](schedulers::raven) | MobiCom 2018; a baseline of AUGUR |
//! | [`dems`](schedulers::dems) | MobiCom 2017; a baseline of DAMS |
//! | [`srpt_ecf`](schedulers::srpt_ecf) | FIT 2020; a baseline of DAMS |
//!
//! | controller | source |
//! | --- | --- |
//! | [`sqp`](controllers::sqp) | arXiv 2207.11857; one of AUGUR's evaluation |
//! | [`salsify`](controllers::salsify) | NSDI 2018; one of AUGUR's evaluation |
//! | [`cubic`](controllers::cubic) | CUBIC for several connections, as quic-go's; NineTails ran on it |
//!
//! Each is a file or folder that starts with its source, its equations, and the decisions on points
//! that the paper leaves open.
//!
//! ```
//! let registry = squall_papers::registry();
//! assert!(registry.build("dams-robust(alpha=2)").is_ok());
//! assert!(registry.build("minrtt").is_ok());
//! assert!(squall_papers::controllers().build("cubic(connections=2)").is_ok());
//! ```

#![forbid(unsafe_code)]

mod candidates;
pub mod controllers;
mod earliest_completion;
mod latency;
mod near_tail;
mod plan;
mod remaining;
pub mod schedulers;

pub use near_tail::near_tail;
use squall_proto::congestion;
use squall_sched::Registry;

/// Returns a registry of the schedulers of `squall-sched` and of this crate.
pub fn registry() -> Registry {
    let mut registry = Registry::standard();
    schedulers::register(&mut registry);
    registry
}

/// Returns a registry of the congestion controllers of `squall-proto` and of this crate.
pub fn controllers() -> congestion::Registry {
    let mut registry = congestion::Registry::standard();
    controllers::register(&mut registry);
    registry
}

#[cfg(test)]
mod tests {
    use squall_sched::{COMMON_OPTIONS, PathId, Sharing};

    use super::*;

    fn error(description: &str) -> String {
        registry().build(description).err().expect("is refused").to_string()
    }

    #[test]
    fn controllers_are_picked_by_name_and_others_are_refused() {
        for control in controllers().controls() {
            assert_eq!(controllers().build(control.name()).as_ref(), Ok(control));
        }
        assert!(controllers().build("cubic(connections=8)").is_ok());
        for none in ["reno", "cubic(connections=0)", "cubic(connections=9)", "cubic(connections=x)"] {
            let known = "steady, cubic, cubic-tolerant, newreno, bbr3, cubic(connections=2), sqp, salsify";
            let error = controllers().build(none).expect_err("is refused").to_string();
            assert_eq!(error, format!("unknown congestion control '{none}'; there are {known}"));
        }
    }

    #[test]
    fn schedulers_declare_how_their_paths_add_up() {
        let sharing = |scheduler: &str| registry().build(scheduler).expect(scheduler).profile().sharing;
        for half in ["augur", "augur-retransmit", "augur-switch"] {
            assert_eq!(sharing(half), Sharing::Primary(None));
            assert_eq!(sharing(&format!("{half}(primary=1, cap=1GB)")), Sharing::Primary(Some(PathId(1))));
        }
        for other in ["storm(alpha=0.2)", "dams", "ninetails(cap=1GB)"] {
            assert_eq!(sharing(other), Sharing::Sum);
        }
    }

    #[test]
    fn every_scheduler_takes_a_cap() {
        for entry in registry().entries() {
            let cap = |cap: &str| {
                let built = registry().build(&format!("{}(cap={cap})", entry.name)).expect(entry.name);
                built.profile().metered_cap
            };
            assert_eq!((cap("250MB"), cap("none")), (Some(250_000_000), None), "{}", entry.name);
            assert!(entry.options.iter().all(|option| option.name != "cap"), "{}: taken", entry.name);
        }
    }

    #[test]
    fn options_that_contradict_each_other_are_refused() {
        let refused = [
            ("blest(max=1.1, lambda=1.2)", "lambda=1.2: must be from 1 to 1.1"),
            ("augur(primary=1, backup=1)", "backup=1: must differ from the primary path"),
            ("augur(stall=100, sample=101)", "sample=101: must not be longer than stall"),
            ("augur-switch(stall=2000, window=2)", "window=2: must be longer than stall"),
        ];
        for (description, why) in refused {
            assert_eq!(error(description), format!("scheduler option {why}"));
        }
        for taken in ["blest(max=1.1)", "augur(stall=100, sample=100)", "augur(stall=1999, window=2)"] {
            assert!(registry().build(taken).is_ok(), "{taken}");
        }
    }

    #[test]
    fn every_option_refuses_what_it_cannot_mean_in_one_line() {
        let registry = registry();
        for entry in registry.entries() {
            for option in entry.options.iter().chain(COMMON_OPTIONS) {
                for value in ["", "x", "-1", "nan", "inf", "1e300"] {
                    let error = error(&format!("{}({}={value})", entry.name, option.name));
                    let start = format!("scheduler option {}=", option.name);
                    assert!(error.starts_with(&start) && !error.contains('\n'), "{}: {error}", entry.name);
                }
            }
        }
    }
}

//! SRPT-ECF: the mean completion time of small and large blocks together, and its cost for the
//! large ones.
//!
//! # Findings
//!
//! - Small blocks overtake large ones, and the mean over all blocks falls to less than half of that
//!   of minRTT and of ECF, which send in the order of submission. Large blocks wait a few per cent
//!   longer.
//! - When more is offered than fits, the same order keeps the small blocks as fast as if they were
//!   alone, while the age of the large ones grows without bound: waiting time does not count, as in
//!   any scheduler with shortest remaining time first.
//! - With blocks of one size it behaves like ECF, repairs included.

use crate::behaviour::{
    runs::Runs,
    scene::{blocks, path},
};

const ALL: [&str; 3] = ["srpt-ecf", "ecf", "minrtt"];

/// Small blocks among large ones over 10 and 4 Mbps.
fn mix(name: &str, seconds: u64, small_interval: &str, large: &str) -> Runs {
    let paths = path("fast", "10mbps", "15ms", "") + &path("slow", "4mbps", "40ms", "");
    let flows = blocks("small", "15kB", small_interval) + &blocks("large", large, "600ms");
    Runs::run(name, seconds, &(paths + &flows), &ALL, 1..=3)
}

/// Mean over the blocks of both flows.
fn mean_of_all(runs: &Runs, scheduler: &str) -> f64 {
    let count = |flow| runs.tally(scheduler, flow).delivered_blocks as f64;
    let sum = |flow| count(flow) * runs.mean_latency_ms(scheduler, flow);
    (sum("small") + sum("large")) / (count("small") + count("large"))
}

#[test]
fn the_mean_over_all_blocks_is_lower_and_large_ones_pay() {
    let runs = mix("10.4 Mbps for 14", 20, "50ms", "600kB");
    for other in ["ecf", "minrtt"] {
        assert!(mean_of_all(&runs, "srpt-ecf") < 0.75 * mean_of_all(&runs, other), "{other}");
        let small = |scheduler| runs.mean_latency_ms(scheduler, "small");
        assert!(small("srpt-ecf") < 0.7 * small(other), "{other}");
        let large = |scheduler| runs.mean_latency_ms(scheduler, "large");
        assert!((1.0..1.3).contains(&(large("srpt-ecf") / large(other))), "{other}");
    }
}

#[test]
fn under_overload_small_blocks_do_not_notice() {
    let runs = mix("16.3 Mbps for 14", 12, "40ms", "1000kB");
    let small = |scheduler| runs.mean_latency_ms(scheduler, "small");
    let large = |scheduler| runs.latency_ms(scheduler, "large", 100.0);
    for other in ["ecf", "minrtt"] {
        assert!(small("srpt-ecf") < 0.15 * small(other), "{other}");
        assert!(large("srpt-ecf") > 1.1 * large(other), "{other}");
    }
}

#[test]
fn blocks_of_one_size_wait_for_the_fast_path() {
    let paths = path("fast", "8.6mbps", "10ms", "") + &path("slow", "0.3mbps", "50ms", "");
    let body = paths + &blocks("burst", "300kB", "1s");
    let runs = Runs::run("300 kB over 8.6 and 0.3 Mbps", 20, &body, &ALL, 1..=3);
    let mean = |scheduler| runs.mean_latency_ms(scheduler, "burst");
    assert!(mean("srpt-ecf") < 0.5 * mean("minrtt"));
    assert!((0.9..1.1).contains(&(mean("srpt-ecf") / mean("ecf"))));
}

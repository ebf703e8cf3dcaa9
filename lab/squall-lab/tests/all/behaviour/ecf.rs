//! ECF: bursts complete sooner over unequal paths, because their ends wait for the fast one.
//!
//! # Findings
//!
//! - The effect of the paper (CoNEXT 2017, §5: 8.6 Mbps and a path of 0.3 to 8.6 Mbps) is confirmed
//!   and large: at 0.3 Mbps, bursts of 300 kB take a third of the time that they take with minRTT.
//!   From 2.2 Mbps on, little of it is left.
//! - The decision must also apply to repairs. When these used any path with room, the losses of the
//!   fast path alone filled the queue of the slow one, and half of the effect was lost. A TCP
//!   subflow retransmits its losses itself, so the paper has no rule for them.
//! - With 0.3 Mbps no scheduler is better than leaving the slow path unused. The median of ECF
//!   comes within a tenth of that. Some bursts are slower: an idle path is probed every 5 s, the
//!   round trip of its empty queue replaces the one measured under load, and ECF, which derives the
//!   rate only from window and round trip, tries the path again.
//! - With a path of the same rate and five times the delay, ECF is a tenth to a third slower than
//!   minRTT. It compares smoothed round trips, which include the queue that CUBIC builds on the
//!   fast path, and counts whole windows, so it waits a little too often when the two are nearly
//!   equal.

use crate::behaviour::{
    runs::Runs,
    scene::{blocks, path},
};

/// Bursts over 8.6 Mbps and a path with this rate and delay.
fn bursts(rate: &str, delays: [&str; 2], interval: &str) -> Runs {
    let paths = path("fast", "8.6mbps", delays[0], "") + &path("slow", rate, delays[1], "");
    let body = paths + &blocks("burst", "300kB", interval);
    let name = format!("300 kB each {interval}, 8.6 Mbps {} and {rate} {}", delays[0], delays[1]);
    Runs::run(&name, 20, &body, &["ecf", "minrtt", "sp(path=0)"], 1..=3)
}

#[test]
fn bursts_do_not_wait_for_a_slow_path() {
    for (rate, share) in [("0.3mbps", 0.5), ("0.7mbps", 0.7), ("1.1mbps", 0.8)] {
        let runs = bursts(rate, ["10ms", "50ms"], "1s");
        let mean = |scheduler| runs.mean_latency_ms(scheduler, "burst");
        assert!(mean("ecf") < share * mean("minrtt"), "{rate}");
        let median = |scheduler| runs.latency_ms(scheduler, "burst", 50.0);
        assert!(
            median("ecf") < 1.2 * median("sp(path=0)"),
            "{rate}: hardly worse than without the slow path"
        );
        let on_slow = |scheduler| runs.path_bytes(scheduler, "slow");
        assert!(on_slow("ecf") < 0.4 * on_slow("minrtt"), "{rate}");
    }
}

#[test]
fn a_path_that_is_worth_it_is_used() {
    let runs = bursts("8.6mbps", ["10ms", "50ms"], "1s");
    let mean = |scheduler| runs.mean_latency_ms(scheduler, "burst");
    assert!(mean("ecf") < 0.95 * mean("sp(path=0)"));
    assert!(mean("ecf") < 1.5 * mean("minrtt"), "slower, see the findings");
}

#[test]
fn like_paths_are_used_as_by_minrtt() {
    let runs = bursts("8.6mbps", ["20ms", "20ms"], "500ms");
    let mean = |scheduler| runs.mean_latency_ms(scheduler, "burst");
    assert!((0.9..1.1).contains(&(mean("ecf") / mean("minrtt"))));
    assert!(mean("ecf") < 0.75 * mean("sp(path=0)"));
}

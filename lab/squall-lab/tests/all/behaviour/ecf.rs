//! ECF: bursts are complete sooner over unequal paths, because their ends wait for the fast one.
//!
//! # Findings
//!
//! - The effect of the paper (CoNEXT 2017, §5: 8.6 Mbps and a path of 0.3 to 8.6 Mbps) is there and large: at
//!   0.3 Mbps bursts of 300 kB take a third of the time that they take with minRTT. From 2.2 Mbps on little is
//!   left of it.
//! - It needs repairs to be put to the test as well. Put on any path with room, the losses of the fast path
//!   alone filled the queue of the slow one, and half of the effect was gone. A TCP subflow repeats its losses
//!   itself, so that the paper has no rule for them.
//! - With 0.3 Mbps no scheduler is better than leaving the slow path alone. The median of ECF comes within a tenth of
//!   that by itself. Some bursts are slower: an idle path is probed each 5 s, the round trip of its empty queue
//!   replaces what earlier bursts made of it, and ECF, which has no rate but window over round trip, tries it again.
//! - With a path of the same rate and five times the delay ECF is a tenth to a third slower than minRTT. It compares round
//!   trips, whose smoothed values hold the queue that CUBIC builds on the fast path, and counts whole
//!   windows, so that it waits a little too often when the two are nearly as good.

use crate::behaviour::{
    runs::Runs,
    scene::{blocks, path},
};

/// Bursts over 8.6 Mbps and a path of another rate and delay.
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

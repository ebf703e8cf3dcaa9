//! BLEST: a slow path stays unused when its data in flight would block the fast one.
//!
//! # Findings
//!
//! - With a buffer of a given size, BLEST has the intended effect over unequal paths: bursts of 300
//!   kB over 8.6 and 0.3 Mbps take a third of the time that they take with minRTT, and the slow
//!   path carries next to nothing.
//! - The buffer that it models does not exist here: sessions share no receive window, and each
//!   block is delivered when it is complete, so nothing is blocked. BLEST gains only because fewer
//!   blocks end on the slow path.
//! - The automatic buffer, which RFC 6182 recommends so that no path ever blocks another, is twice
//!   the data that the fast path can send in the slow one's round trip. Against it the estimate,
//!   1.2 times that, almost never signals blocking: BLEST then behaves like minRTT, up to round
//!   trips of 20 against 200 ms; at 600 ms it is no better either. A comparison with BLEST should
//!   set a size.
//! - A buffer smaller than the data in flight on two similar paths leaves one of them idle, and
//!   bursts take nearly twice as long: the estimate considers one round trip, not the amount of
//!   data to send.
//! - As with ECF, the estimate must also apply to repairs, or the fast path's losses fill the slow
//!   one.

use crate::behaviour::{
    runs::Runs,
    scene::{blocks, path},
};

/// Bursts over 8.6 Mbps and a path with this rate and delay.
fn bursts(rate: &str, delays: [&str; 2], interval: &str, schedulers: &[&str]) -> Runs {
    let paths = path("fast", "8.6mbps", delays[0], "") + &path("slow", rate, delays[1], "");
    let body = paths + &blocks("burst", "300kB", interval);
    let name = format!("300 kB each {interval}, 8.6 Mbps {} and {rate} {}", delays[0], delays[1]);
    Runs::run(&name, 20, &body, schedulers, 1..=3)
}

#[test]
fn with_a_limited_buffer_bursts_do_not_wait_for_a_slow_path() {
    let limited = "blest(window=100000)";
    for (rate, share) in [("0.3mbps", 0.5), ("1.1mbps", 0.8), ("2.2mbps", 0.9)] {
        let runs = bursts(rate, ["10ms", "50ms"], "1s", &[limited, "minrtt"]);
        let mean = |scheduler| runs.mean_latency_ms(scheduler, "burst");
        assert!(mean(limited) < share * mean("minrtt"), "{rate}");
        let on_slow = |scheduler| runs.path_bytes(scheduler, "slow");
        assert!(on_slow(limited) < 0.5 * on_slow("minrtt"), "{rate}");
    }
}

#[test]
fn with_the_recommended_buffer_it_is_minrtt() {
    for slow in ["20ms", "50ms", "100ms"] {
        let runs = bursts("2.2mbps", ["10ms", slow], "1s", &["blest", "minrtt"]);
        let mean = |scheduler| runs.mean_latency_ms(scheduler, "burst");
        assert!((0.85..1.15).contains(&(mean("blest") / mean("minrtt"))), "{slow}");
    }
}

#[test]
fn like_paths_are_both_used_unless_the_buffer_is_too_small_for_them() {
    let [enough, small] = ["blest(window=400000)", "blest(window=60000)"];
    let runs = bursts("8.6mbps", ["20ms", "20ms"], "500ms", &["blest", enough, small, "minrtt"]);
    let mean = |scheduler| runs.mean_latency_ms(scheduler, "burst");
    for scheduler in ["blest", enough] {
        assert!((0.9..1.1).contains(&(mean(scheduler) / mean("minrtt"))), "{scheduler}");
    }
    assert!(mean(small) > 1.4 * mean("minrtt"));
}

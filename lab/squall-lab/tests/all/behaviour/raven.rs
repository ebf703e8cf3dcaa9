//! RAVEN: small messages in time although it is uncertain which path is the fastest.
//!
//! # Findings
//!
//! - Over two similar paths that stall alternately, messages take as long as with `redundant`, at
//!   the same bytes: the two round trips are never far enough apart for a certain prediction.
//!   minRTT detects each stall only by the messages that it delayed.
//! - If one path is clearly faster, data is sent twice only to keep the other's measurement recent
//!   (some 4 % of the copies of `redundant`), and the latency is that of minRTT.
//! - A stall of the path that was certainly the fastest is not predicted. As in the paper, data
//!   sent before it is not repeated, so the tail is no better than that of minRTT, while
//!   `redundant` has none. After the stall, the window of 64 measurements makes RAVEN replicate for
//!   a second or two, and it stays on the fast path, which minRTT leaves for as long as the
//!   smoothed RTT is high. For that reason some of the next stalls do not affect minRTT.
//! - A measurement is a change of the latest round trip. On an emulated path without any jitter it
//!   never changes, so that a single stall is never outdated; hence the jitter of 2 to 4 ms in
//!   these tests.

use crate::behaviour::{
    runs::Runs,
    scene::{blocks, events, path},
};

const ALL: [&str; 3] = ["raven", "minrtt", "redundant"];

fn stalls(at_ms: &[u64]) -> String {
    format!("outage = \"hold\"\n{}", events(at_ms, "outage = \"300ms\""))
}

#[test]
fn paths_that_stall_in_turn_are_both_used() {
    let one: Vec<u64> = (0..5).map(|i| 3_500 + 4_000 * i).collect();
    let other: Vec<u64> = one.iter().map(|ms| ms + 2_000).collect();
    let like = |name, delay, at: &[u64]| {
        path(name, "10mbps", delay, &("jitter = \"4ms\"\n".to_owned() + &stalls(at)))
    };
    let paths = like("one", "15ms", &one) + &like("other", "17ms", &other);
    for size in ["160B", "1kB"] {
        let body = paths.clone() + &blocks("message", size, "20ms");
        let runs = Runs::run(&format!("{size} each 20 ms, stalls in turn"), 24, &body, &ALL, 1..=5);
        let at = |scheduler, percentile| runs.latency_ms(scheduler, "message", percentile);
        for percentile in [99.0, 100.0] {
            assert!(at("raven", percentile) < 0.3 * at("minrtt", percentile), "{size}, {percentile}");
            assert!(at("raven", percentile) < 1.1 * at("redundant", percentile), "{size}, {percentile}");
        }
    }
}

#[test]
fn the_luckier_of_two_jittering_paths_counts() {
    let like = |name| path(name, "10mbps", "15ms", "jitter = \"30ms\"");
    let body = like("one") + &like("other") + &blocks("message", "1kB", "20ms");
    let runs = Runs::run("1 kB each 20 ms, jitter", 15, &body, &ALL, 1..=5);
    assert!(runs.mean_latency_ms("raven", "message") < 0.8 * runs.mean_latency_ms("minrtt", "message"));
    assert!(runs.latency_ms("raven", "message", 95.0) < 0.85 * runs.latency_ms("minrtt", "message", 95.0));
}

#[test]
fn hardly_anything_is_sent_twice_while_predictions_are_good() {
    let like = |name, delay| path(name, "10mbps", delay, "jitter = \"2ms\"");
    let body = like("near", "15ms") + &like("far", "40ms") + &blocks("message", "1kB", "20ms");
    let runs = Runs::run("1 kB each 20 ms, one path nearer", 20, &body, &ALL, 1..=5);
    assert!(runs.path_bytes("raven", "far") < 0.1 * runs.path_bytes("redundant", "far"));
    let p99 = |scheduler| runs.latency_ms(scheduler, "message", 99.0);
    assert!(p99("raven") < 1.05 * p99("minrtt"));
    assert!(
        runs.path_bytes("raven", "far") > runs.path_bytes("minrtt", "far"),
        "but the other path is measured now and then"
    );
}

#[test]
fn a_stall_out_of_the_blue_is_not_foreseen() {
    let near = format!("jitter = \"2ms\"\n{}", stalls(&[3_500, 7_500, 11_500, 15_500, 19_500]));
    let paths = path("near", "10mbps", "15ms", &near) + &path("far", "10mbps", "40ms", "jitter = \"2ms\"");
    let body = paths + &blocks("message", "1kB", "20ms");
    let runs = Runs::run("1 kB each 20 ms, the nearer path stalls", 24, &body, &ALL, 1..=5);
    let at = |scheduler, percentile| runs.latency_ms(scheduler, "message", percentile);
    assert!(at("raven", 100.0) > 2.0 * at("redundant", 100.0));
    assert!(
        at("raven", 99.0) > 0.8 * at("minrtt", 99.0),
        "no better than minRTT, which is away from that path"
    );
    assert!(runs.mean_latency_ms("raven", "message") < 0.9 * runs.mean_latency_ms("minrtt", "message"));
    let far = |scheduler| runs.path_bytes(scheduler, "far");
    assert!((0.2..0.8).contains(&(far("raven") / far("redundant"))), "for a while after each stall");
}

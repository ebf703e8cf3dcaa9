//! AUGUR: a game in time over Wi-Fi that stalls, with little of it on LTE.
//!
//! # Findings
//!
//! - If stalls delay packets, as those of Wi-Fi do, the effect of the paper (Fig. 12) is confirmed:
//!   after the first stall no frame is later than 200 ms, with 8 % of the bytes on LTE, 92 % less
//!   than with minRTT (the paper: 88 to 96 %). minRTT is no later, but stays on LTE for seconds
//!   after each stall, because the smoothed RTT of Wi-Fi keeps the value of the stall until the
//!   next probe of the idle path.
//! - If stalls drop packets, minRTT is as good as AUGUR, with the same bytes on LTE. Sessions here
//!   suspect a silent path after some 100 ms and send its data elsewhere, which the paper's
//!   schedulers lacked; and drops leave no long round trip behind.
//! - The first stall is late in full, because nothing has been learned before it. It accounts for
//!   all of AUGUR's p99.9 in runs this short.
//! - Either half achieves nearly all of the effect (the paper: −55.5 % of stalls by retransmission
//!   alone). The transport suspects Wi-Fi after some 100 ms of a stall, and new frames leave on LTE
//!   from then on with either half; retransmission rescues the data in flight before.
//! - If LTE is opened first, acknowledgements of Wi-Fi continue on LTE for seconds after a stall.
//!   The round trip of Wi-Fi is then 44 instead of 25 ms, above X₂ if that was learned to be short,
//!   and AUGUR stays away for as long: in one of two runs of 18 s, two fifths of the bytes used
//!   LTE.
//! - A path that becomes slow instead of silent is left and used again, but not at once. With
//!   default options, after one stall and with 1 Mbps left of 30, a second passes: retransmission,
//!   which comes first, rescues the data in flight, so that nothing counts as a stall, and the
//!   threshold of the switch stays the same, or does not exist at all, while frames that have not
//!   begun wait for a window and do not count anywhere. With `learn=primary`, which estimates the
//!   behaviour of Wi-Fi alone, no frame is late. The encoder of the paper follows the rate
//!   controller and leaves no such queue; the flows here offer a constant 8 Mbps. Measuring the age
//!   of a frame from its submission was tried: it solves this, but retransmission then repeats data
//!   after each stall that is too late anyway (five times the bytes on LTE).
//! - A larger budget (δ 20 instead of 1.75) lowers p99 by a third and costs up to half as many
//!   bytes more on LTE; p99.9 is determined by the first stall. The values of δ in the paper, 1.75
//!   and 3.5, lie within 10 % of one another here.

use crate::behaviour::{
    runs::Runs,
    scene::{events, path},
};

const GAME: &str = r#"
[[flow]]
name = "game"
kind = "video"
fps = 60
bitrate = "8mbps"
keyframe_interval = "10s"
key_ratio = 2.0
jitter = "20%"
start = "500ms"
"#;

const SINGLE: &str = "sp(path=0)";

/// Start times of the Wi-Fi stalls in milliseconds.
const STALLS: [u64; 6] = [3_000, 9_300, 14_100, 21_700, 27_200, 33_900];

/// Second from which one stall has been observed.
const LEARNED: u64 = 6;

fn wifi(more: &str) -> String {
    path("Wi-Fi", "30mbps", "10ms", &format!("jitter = \"4ms\"\n{more}"))
}

fn lte() -> String {
    path("LTE", "20mbps", "30ms", "metered = true")
}

/// A game over LTE and Wi-Fi with occasional stalls.
fn stalling(outage: &str, length: &str, schedulers: &[&str]) -> Runs {
    let stalls = events(&STALLS, &format!("outage = {length:?}"));
    let body = wifi(&format!("outage = {outage:?}\n{stalls}")) + &lte() + GAME;
    Runs::run(&format!("stalls of {length}, {outage}"), 40, &body, schedulers, 1..=3)
}

/// Frames later than 200 ms after the first stall.
fn late(runs: &Runs, scheduler: &str) -> f64 {
    runs.later_than(scheduler, "game", 200, LEARNED) as f64
}

fn on_lte(runs: &Runs, scheduler: &str) -> f64 {
    runs.path_bytes(scheduler, "LTE")
}

#[test]
fn stalls_are_bridged_with_a_tenth_of_the_bytes_of_minrtt() {
    let runs = stalling("hold", "400ms", &["augur", "minrtt", SINGLE]);
    assert!(late(&runs, SINGLE) > 100.0);
    assert!(late(&runs, "augur") < 0.05 * late(&runs, SINGLE));
    let at = |scheduler, percentile| runs.latency_ms(scheduler, "game", percentile);
    assert!(at("augur", 99.9) < 0.7 * at(SINGLE, 99.9));
    assert!(on_lte(&runs, "augur") < 0.12 * on_lte(&runs, "minrtt"));
    assert!(at("augur", 50.0) < 0.6 * at("minrtt", 50.0), "minRTT stays on LTE");
}

#[test]
fn where_stalls_drop_packets_minrtt_does_as_well() {
    let runs = stalling("drop", "400ms", &["augur", "minrtt", SINGLE]);
    for scheduler in ["augur", "minrtt"] {
        assert!(late(&runs, scheduler) < 0.05 * late(&runs, SINGLE), "{scheduler}");
    }
    assert!((0.75..1.25).contains(&(on_lte(&runs, "augur") / on_lte(&runs, "minrtt"))));
}

#[test]
fn more_budget_lowers_the_tail_and_costs_more() {
    let runs = stalling("hold", "400ms", &["augur(delta=1.75)", "augur(delta=20)"]);
    let p99 = |scheduler| runs.latency_ms(scheduler, "game", 99.0);
    assert!(p99("augur(delta=20)") < 0.85 * p99("augur(delta=1.75)"));
    assert!(on_lte(&runs, "augur(delta=20)") > 1.2 * on_lte(&runs, "augur(delta=1.75)"));
}

#[test]
fn each_half_carries_long_stalls_where_the_transport_suspects_a_silent_path() {
    let all = ["augur", "augur-retransmit", "augur-switch", SINGLE];
    let runs = stalling("hold", "400ms", &all);
    for half in ["augur-switch", "augur-retransmit"] {
        assert!(late(&runs, half) < 0.05 * late(&runs, SINGLE), "{half}");
        assert!((0.8..1.1).contains(&(on_lte(&runs, half) / on_lte(&runs, "augur"))), "{half}");
    }
    let runs = stalling("hold", "250ms", &["augur-retransmit", SINGLE]);
    assert!(late(&runs, "augur-retransmit") < 0.3 * late(&runs, SINGLE), "short stalls");
}

#[test]
fn the_backup_keeps_to_its_cap() {
    let capped = "augur(cap=1500kB)";
    let runs = stalling("hold", "400ms", &[capped, "augur"]);
    for run in runs.of(capped) {
        let down = run.paths[1].totals.wire_bytes_down;
        assert!((1_200_000..=1_500_000).contains(&down), "seed {}: {down}", run.seed);
    }
    assert!(on_lte(&runs, "augur") > 1.5 * on_lte(&runs, capped));
    assert!(late(&runs, "augur") < 0.1 * late(&runs, capped), "then stalls are felt again");
}

/// Share of the new data that LTE carried between two times, in seconds, over all seeds.
fn share_on_lte(runs: &Runs, scheduler: &str, from: u64, to: u64) -> f64 {
    runs.mean(scheduler, |run| {
        let sum = |path: usize| {
            let series = &run.paths[path].series;
            let within = |at: u64| (from * 1_000_000..to * 1_000_000).contains(&at);
            let samples = series.at_us.iter().zip(&series.down_bps).filter(|(at, _)| within(**at));
            samples.map(|(_, bps)| *bps as f64).sum::<f64>()
        };
        sum(1) / (sum(0) + sum(1))
    })
}

#[test]
fn leaves_a_path_that_is_degraded_and_comes_back() {
    let script = "outage = \"hold\"\nevents = [{ at = \"3s\", outage = \"400ms\" }, \
                  { at = \"12s\", rate = \"1mbps\" }, { at = \"18s\", rate = \"30mbps\" }]";
    let (body, primary) = (wifi(script) + &lte() + GAME, "augur(learn=primary)");
    let runs = Runs::run("1 Mbps for 6 s", 34, &body, &["augur", primary, "minrtt", SINGLE], 1..=3);
    for scheduler in ["augur", primary] {
        let share = |from, to| share_on_lte(&runs, scheduler, from, to);
        assert!(share(8, 12) < 0.05, "{scheduler}");
        assert!(share(14, 18) > 0.9, "{scheduler}");
        assert!(share(20, 26) < 0.05, "{scheduler}");
        assert!(late(&runs, scheduler) < 0.5 * late(&runs, SINGLE), "{scheduler}");
    }
    assert!(late(&runs, primary) < 0.1 * late(&runs, "augur"), "see the findings");
    assert!(share_on_lte(&runs, "minrtt", 30, 34) < 0.1, "minRTT comes back after the next probe of Wi-Fi");
}

#[test]
fn the_metered_path_is_found_whatever_the_order_of_the_paths() {
    for direction in ["down", "up"] {
        let body = lte() + &wifi("") + GAME + &format!("direction = {direction:?}\n");
        let runs = Runs::run(&format!("LTE first, {direction}"), 5, &body, &["augur", "sp(path=0)"], 1..=2);
        assert!(on_lte(&runs, "augur") < 0.02 * runs.path_bytes("augur", "Wi-Fi"), "{direction}");
        assert!(on_lte(&runs, SINGLE) > 50.0 * runs.path_bytes(SINGLE, "Wi-Fi"), "{direction}");
    }
}

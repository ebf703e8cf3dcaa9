//! RAS: reliable data in time, and unreliable data out of its way.
//!
//! # Findings
//!
//! - The completion of critical data matches the paper (Fig. 10): nearly all of it at 15 + 10 Mbps
//!   and 86 % at 10 + 5 for 30 Mbps offered, with minRTT near 0.
//! - Over *all* blocks DAMS completes more than RAS when bandwidth is severely short, unlike in the
//!   paper: it cancels the one large block in favour of several small ones. Measured in bytes, or
//!   by decodable pictures, RAS is ahead.
//! - With very different delays RAS is ahead of minRTT by a tenth, and level with DAMS in blocks
//!   (97 %) at RTTs of 30 and 180 ms, where DAMS falls behind in the paper; this implementation of
//!   DAMS moves data that would be late to the path with the shorter delay, by measured one-way
//!   delays.

use crate::behaviour::runs::Runs;

/// The toolkit of the paper's microbenchmark (§5.2): every 100 ms one I, three P and two B blocks, 30 Mbps.
fn groups(rates: [&str; 2], delays: [&str; 2]) -> String {
    let path = |i: usize| {
        let (name, rate, delay) = (["fast", "slow"][i], rates[i], delays[i]);
        format!(
            "[[path]]\nname = {name:?}\nrate = {rate:?}\ndelay = {delay:?}\nloss = \"0.01%\"\nqueue = \"150kB\"\n"
        )
    };
    let flow = |name: &str, size: &str, priority: u8, reliable: bool| {
        format!(
            "[[flow]]\nname = {name:?}\nkind = \"blocks\"\nsize = {size:?}\ninterval = \"100ms\"\ndeadline = \"300ms\"\npriority = {priority}\nreliable = {reliable}\nstart=\"1s\"\n"
        )
    };
    let flows = [
        flow("I", "120kB", 0, true),
        flow("P1", "60kB", 1, true),
        flow("P2", "60kB", 1, true),
        flow("P3", "60kB", 1, true),
        flow("B1", "37500B", 2, false),
        flow("B2", "37500B", 2, false),
    ];
    format!("{}{}{}", path(0), path(1), flows.concat())
}

#[test]
fn critical_data_is_in_time_when_bandwidth_is_short() {
    let body = groups(["15mbps", "10mbps"], ["15ms", "25ms"]);
    let runs = Runs::run("25 Mbps for 30", 10, &body, &["ras", "dams", "minrtt", "minrtt-R"], 1..=3);
    assert!(runs.in_time("ras", "I") > 0.95);
    assert!(runs.in_time("ras", "I") > 1.5 * runs.in_time("dams", "I"));
    assert!(runs.in_time("ras", "B") > runs.in_time("dams", "B"), "time holes are free");
    for other in ["minrtt", "minrtt-R"] {
        assert!(runs.in_time("ras", "") > 5.0 * runs.in_time(other, ""), "{other}, all blocks");
    }
}

#[test]
fn and_when_it_is_severely_short() {
    let body = groups(["10mbps", "5mbps"], ["15ms", "25ms"]);
    let runs = Runs::run("15 Mbps for 30", 10, &body, &["ras", "dams", "minrtt"], 1..=3);
    for other in ["dams", "minrtt"] {
        assert!(runs.in_time("ras", "I") > 5.0 * runs.in_time(other, "I"), "{other}");
    }
    assert!(
        runs.in_time("dams", "") > runs.in_time("ras", ""),
        "what it costs: many small blocks for a large one"
    );
}

#[test]
fn paths_of_very_different_delay_are_worth_having() {
    let body = groups(["20mbps", "14mbps"], ["15ms", "90ms"]);
    let runs = Runs::run("RTT 30 and 180 ms", 20, &body, &["ras", "dams", "minrtt"], 1..=3);
    assert!(runs.in_time("ras", "") > 1.05 * runs.in_time("minrtt", ""));
    let critical = |scheduler| runs.latency_ms(scheduler, "I", 50.0);
    for other in ["dams", "minrtt"] {
        assert!(critical("ras") < 0.9 * critical(other), "{other}");
    }
}

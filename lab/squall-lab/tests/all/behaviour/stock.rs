//! Standard multipath QUIC (`+stock`), which the papers compared with, compared with Squall's
//! transport under the same scheduler.

use crate::behaviour::{
    runs::Runs,
    scene::{blocks, events, path},
};

/// Three outages of two seconds on the fast path; blocks without deadlines.
fn outages() -> String {
    let outage = events(&[3_000, 9_000, 15_000], "outage = \"2s\"");
    path("fast", "20mbps", "10ms", &outage)
        + &path("slow", "20mbps", "25ms", "")
        + &blocks("messages", "5kB", "20ms")
}

/// Data in flight on a dead path either waits for the path or is repaired on the other one at once.
#[test]
fn a_stock_transport_strands_what_is_in_flight() {
    let runs =
        Runs::run("outages", 21, &outages(), &["minrtt", "minrtt+stock", "minrtt+stock+stream"], 1..=3);
    let worst = |scheduler| runs.latency_ms(scheduler, "messages", 100.0);
    assert!(worst("minrtt") < 300.0, "{}", worst("minrtt"));
    assert!(worst("minrtt+stock") > 2_000.0, "{}", worst("minrtt+stock"));
    for scheduler in ["minrtt", "minrtt+stock", "minrtt+stock+stream"] {
        assert_eq!(runs.tally(scheduler, "messages").delivered_ratio(), Some(1.0), "{scheduler}");
    }
    // In one ordered stream, all blocks behind a stranded one wait as well.
    let late = |scheduler| runs.later_than(scheduler, "messages", 500, 1);
    assert!(late("minrtt+stock+stream") > 3 * late("minrtt+stock"), "{}", late("minrtt+stock+stream"));
    assert_eq!(late("minrtt"), 0);
    // minRTT sends on the dead path until its window of ten packets, i.e. two blocks, is full. The
    // acknowledgement delayed by the outage then keeps it off the path, until a probe of the idle
    // path corrects the RTT.
    assert_eq!(late("minrtt+stock"), 3 * 2);
}

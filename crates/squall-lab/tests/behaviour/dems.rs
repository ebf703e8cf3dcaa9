//! DEMS: a block is complete sooner, because its parts arrive together.
//!
//! # Findings
//!
//! - The gain over minRTT depends on the slow path's window being open: bandwidth is window over RTT, and a
//!   path that carries a few packets a block never opens its window. After a bulk transfer it is open, and DEMS
//!   is ahead; without, the two send nearly everything on the fast path.
//! - What it takes is an honest bandwidth. With window over RTT alone, which is what the papers use, the fast path
//!   was thought twice as quick as it is, and DEMS was level with minRTT.

use crate::trial::Trial;

/// A bulk transfer to open the windows, then blocks that both paths can share.
const LARGE_BLOCKS: &str = r#"
[[path]]
name = "fast"
rate = "20mbps"
delay = "15ms"
queue = "100kB"

[[path]]
name = "slow"
rate = "10mbps"
delay = "60ms"
queue = "150kB"

[[flow]]
name = "opening"
kind = "bulk"
end = "3s"

[[flow]]
name = "blocks"
kind = "blocks"
size = "200kB"
interval = "300ms"
start = "5s"
"#;

#[test]
fn large_blocks_are_complete_sooner() {
    let trial = Trial::run("large blocks", 25, LARGE_BLOCKS, &["dems", "minrtt", "rr"], 1..=5);
    let median = |scheduler| trial.latency_ms(scheduler, "blocks", 50.0);
    for other in ["minrtt", "rr"] {
        assert!(median("dems") < 0.95 * median(other), "{other}");
    }
}

#[test]
fn over_three_paths_too() {
    let third = "[[path]]\nname = \"third\"\nrate = \"10mbps\"\ndelay = \"30ms\"\nqueue = \"100kB\"\n";
    let body = format!("{third}{LARGE_BLOCKS}");
    let trial = Trial::run("large blocks, three paths", 25, &body, &["dems", "minrtt", "rr"], 1..=5);
    let median = |scheduler| trial.latency_ms(scheduler, "blocks", 50.0);
    for other in ["minrtt", "rr"] {
        assert!(median("dems") < 0.95 * median(other), "{other}");
    }
}

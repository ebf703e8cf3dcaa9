//! A second link that is as good as dead at first, then carries 20 Mbps: a scheduler that left it uses it again within a second.
//!
//! Where video needs more than the first link carries, the second one brings a tenth of its rate in each second from one
//! second after the change on. `SQUALL_GRID=all` runs every cell, and without it the suite takes every fifth.

use std::sync::Arc;

use squall_lab::{Batch, RunResult, Scenario};

/// How the second link is until it is good, and for how many seconds longer packets of before stand in its way.
const BAD: [(&str, u64); 7] = [
    ("outage", 0),
    ("0.02", 0),
    ("0.1", 0),
    ("0.5", 0),
    // In order: the last packet of the slow time holds up those behind it.
    ("2s", 2),
    // What is overtaken counts as lost until it has arrived.
    ("2s, overtaken", 2),
    ("unopened", 0),
];

/// Schedulers, and the seconds within which they use it: on links of up to 40 ms, and of 150 ms, where the answer to a probe takes 0.3 s
/// and half of the initial window is three round trips away from a tenth of the rate. STORM divides by window over round trip: a
/// window that its share does not fill grows slowly, and what was overtaken has halved it. DAMS gives a path that had 100 kbps
/// little until a keep-alive has shown its round trip.
const SCHEDULERS: [(&str, f64, f64); 4] =
    [("squall", 1.0, 1.5), ("minrtt", 1.0, 2.5), ("storm", 2.5, 3.5), ("dams", 2.0, 3.5)];

/// Seconds for which the use is watched.
const WATCHED: u64 = 4;

/// Samples of a series in a second.
const WINDOW: usize = 10;

#[derive(Clone, Copy, Debug)]
struct Cell {
    bad: &'static str,
    /// Seconds until the link is good.
    good_at: u64,
    /// Of the second link, in milliseconds.
    delay: u64,
    /// Of video, in Mbps.
    offered: u64,
}

fn cells() -> Vec<(Cell, u64)> {
    let mut cells = Vec::new();
    for good_at in [1, 4, 20] {
        for delay in [10, 40, 150] {
            for offered in [26, 30] {
                cells.extend(
                    BAD.map(|(bad, longer)| (Cell { bad, good_at, delay, offered }, good_at + longer)),
                );
            }
        }
    }
    cells
}

impl Cell {
    fn link(&self) -> String {
        let Self { good_at, delay, .. } = self;
        let slow = |more: &str| {
            let steps = format!("[[\"0s\", \"2s\"], [\"{good_at}s\", \"{delay}ms\"]]");
            format!("rate = \"20mbps\"\ndelay = {{ steps = {steps} }}\n{more}")
        };
        let out = |from: u64| {
            let length = 1_000 * good_at - from;
            format!(
                "rate = \"20mbps\"\ndelay = \"{delay}ms\"\nevents = [{{ at = \"{from}ms\", outage = \"{length}ms\" }}]"
            )
        };
        match self.bad {
            "unopened" => out(0),
            "outage" => out(100),
            "2s" => slow(""),
            "2s, overtaken" => slow("jitter = { uniform = \"0ms\", reorder = true }"),
            mbps => format!(
                "rate = \"{mbps}mbps\"\ndelay = \"{delay}ms\"\nevents = [{{ at = \"{good_at}s\", rate = \"20mbps\" }}]"
            ),
        }
    }

    fn run(&self, schedulers: &[&str], seconds: u64) -> Vec<RunResult> {
        let text = format!(
            "name = \"cold\"\nduration = \"{seconds}s\"\nseeds = [1]\nschedulers = {schedulers:?}\n\
             [[path]]\nname = \"first\"\nrate = \"20mbps\"\ndelay = \"25ms\"\nqueue = \"250kB\"\n\
             [[path]]\nname = \"second\"\nqueue = \"250kB\"\n{}\n\
             [[flow]]\nname = \"video\"\nkind = \"video\"\nfps = 30\nbitrate = \"{}mbps\"\nreliable = \"all\"\n\
             keyframe_interval = \"500ms\"\nkey_ratio = 4.0\ndeadline = \"{}ms\"\n",
            self.link(),
            self.offered,
            200 + self.delay,
        );
        let scenario = Scenario::parse(&text, "test.toml").unwrap_or_else(|error| panic!("{error}"));
        Batch::of(&scenario, Arc::new(squall_papers::registry())).run(&|_| {}).expect("runs")
    }
}

/// When the second link last brought less than a tenth of its rate for a second, in seconds after it was good.
fn unused_until(run: &RunResult, good_at: u64) -> Option<f64> {
    let series = &run.paths[1].series;
    let from = series.at_us.iter().position(|at| *at > 1_000_000 * good_at).expect("samples");
    let mut windows = series.down_bps[from..].windows(WINDOW);
    let unused = windows.rposition(|rates| rates.iter().sum::<u64>() < 2_000_000 * WINDOW as u64);
    unused.map(|index| (index + 1) as f64 / 10.0)
}

#[test]
fn a_link_that_was_dead_is_used_within_a_second_of_being_good() {
    let all = std::env::var("SQUALL_GRID").is_ok_and(|grid| grid == "all");
    let mut wrong = Vec::new();
    for (cell, good_at) in cells().into_iter().step_by(if all { 1 } else { 5 }) {
        let runs = cell.run(&SCHEDULERS.map(|(name, ..)| name), good_at + WATCHED);
        for (run, (scheduler, short, long)) in runs.iter().zip(SCHEDULERS) {
            let until = unused_until(run, good_at).unwrap_or(0.0);
            println!("{cell:?}, {scheduler}: {until}");
            let is_slow = cell.delay > 40 || cell.bad == "2s, overtaken";
            if until > if is_slow { long } else { short } {
                wrong.push(format!("{cell:?}, {scheduler}: unused for {until} s"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

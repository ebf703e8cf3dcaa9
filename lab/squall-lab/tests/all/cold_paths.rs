//! A second link that is practically dead at first, then carries 20 Mbps: a scheduler that has left
//! it uses it again within a second.
//!
//! If the video exceeds the capacity of the first link, the second one carries at least a tenth of
//! its rate in each second, from one second after the change on. If the first link suffices, the
//! second costs no frames. `SQUALL_GRID=all` runs every cell with every scheduler; otherwise the
//! suite runs every fifth.

use std::sync::Arc;

use squall_lab::{Batch, RunResult, Scenario};

/// State of the second link before it becomes good, and the number of seconds for which earlier
/// packets then delay later ones.
const BAD: [(&str, u64); 7] = [
    ("outage", 0),
    ("0.02", 0),
    ("0.1", 0),
    ("0.5", 0),
    // In order: the last packet of the slow period delays those behind it.
    ("2s", 2),
    // Overtaken packets count as lost until they arrive.
    ("2s, overtaken", 2),
    ("unopened", 0),
];

/// Schedulers, and the seconds within which they use the link: for links of up to 40 ms, and of 150
/// ms, where the answer to a probe takes 0.3 s and half of the initial window is three round trips
/// away from a tenth of the rate. STORM divides by window over round trip: a window that its share
/// does not fill grows slowly, and overtaken packets have halved it. DAMS gives little to a path
/// that had 100 kbps until a keep-alive has measured its round trip.
const SCHEDULERS: [(&str, f64, f64); 4] =
    [("squall", 1.0, 1.5), ("minrtt", 1.0, 2.5), ("storm", 2.5, 3.5), ("dams", 2.0, 3.5)];

/// Duration of the observation in seconds.
const WATCHED: u64 = 4;

/// Samples per second in a series.
const WINDOW: usize = 10;

#[derive(Clone, Copy, Debug)]
struct Cell {
    bad: &'static str,
    /// Time in seconds at which the link becomes good.
    good_at: u64,
    /// Delay of the second link in milliseconds.
    delay: u64,
    /// Bitrate of the video in Mbps.
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

    /// Returns the scenario with or without the second link.
    fn run(&self, schedulers: &[&str], seconds: u64, has_second: bool) -> Vec<RunResult> {
        let second = format!("[[path]]\nname = \"second\"\nqueue = \"250kB\"\n{}\n", self.link());
        let text = format!(
            "name = \"cold\"\nduration = \"{seconds}s\"\nseeds = [1]\nschedulers = {schedulers:?}\n\
             [[path]]\nname = \"first\"\nrate = \"20mbps\"\ndelay = \"25ms\"\nqueue = \"250kB\"\n\
             {}\
             [[flow]]\nname = \"video\"\nkind = \"video\"\nfps = 30\nbitrate = \"{}mbps\"\nreliable = \"all\"\n\
             keyframe_interval = \"500ms\"\nkey_ratio = 4.0\ndeadline = \"{}ms\"\n",
            if has_second { &second } else { "" },
            self.offered,
            200 + self.delay,
        );
        let scenario = Scenario::parse(&text, "test.toml").unwrap_or_else(|error| panic!("{error}"));
        Batch::of(&scenario, Arc::new(squall_papers::registry())).run(&|_| {}).expect("runs")
    }
}

/// Last time at which the second link had carried less than a tenth of its rate for a second, in
/// seconds after it became good.
fn unused_until(run: &RunResult, good_at: u64) -> Option<f64> {
    let series = &run.paths[1].series;
    let from = series.at_us.iter().position(|at| *at > 1_000_000 * good_at).expect("samples");
    let mut windows = series.down_bps[from..].windows(WINDOW);
    let unused = windows.rposition(|rates| rates.iter().sum::<u64>() < 2_000_000 * WINDOW as u64);
    unused.map(|index| (index + 1) as f64 / 10.0)
}

fn is_whole() -> bool {
    std::env::var("SQUALL_GRID").is_ok_and(|grid| grid == "all")
}

/// Step through the list of cells.
fn every() -> usize {
    if is_whole() { 1 } else { 5 }
}

#[test]
fn a_link_that_was_dead_is_used_within_a_second_of_being_good() {
    let mut wrong = Vec::new();
    for (cell, good_at) in cells().into_iter().step_by(every()) {
        let runs = cell.run(&SCHEDULERS.map(|(name, ..)| name), good_at + WATCHED, true);
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

/// Squall's own scheduler, also without each of the rules that do not choose block or path.
const OURS: [&str; 5] = [
    "squall",
    "squall(without=needs)",
    "squall(without=rescue)",
    "squall(without=parity)",
    "squall(without=silence)",
];

/// Only recorded: published schedulers, and Squall's without the rules that choose block and path.
const OTHERS: [&str; 18] = [
    "squall(without=value)",
    "squall(without=place)",
    "minrtt",
    "rr",
    "redundant",
    "ecf",
    "blest",
    "srpt-ecf",
    "dems",
    "dams",
    "dams-c",
    "dams-robust",
    "ras",
    "ninetails",
    "raven",
    "augur-retransmit",
    "augur-switch",
    "augur",
];

/// Rates of the second link in Mbps.
const THIN: [&str; 4] = ["0.005", "0.02", "0.1", "0.5"];
/// Durations of that rate in seconds.
const SECONDS: [u64; 3] = [1, 4, 15];

/// Less than a tenth of the data that 20 Mbps have in flight at a round trip of 80 ms.
const UNUSED: u64 = 20_000;

/// Percentage of the frames that the thin link may delay.
const COST: f64 = 5.0;

/// Last time at which the second link had had almost no data in flight for a second, in seconds
/// after it became good. Copies count as data.
fn idle_until(run: &RunResult, good_at: u64) -> f64 {
    let series = &run.paths[1].series;
    let from = series.at_us.iter().position(|at| *at > 1_000_000 * good_at).expect("samples");
    let mut windows = series.in_flight[from..].windows(WINDOW);
    let idle = windows.rposition(|bytes| bytes.iter().sum::<u64>() < UNUSED * WINDOW as u64);
    idle.map_or(0.0, |index| (index + 1) as f64 / 10.0)
}

/// Percentage of the frames that were not in time.
fn late(run: &RunResult) -> f64 {
    100.0 * (1.0 - run.flows[0].completion_rate.expect("frames are due"))
}

#[test]
fn a_thin_link_costs_no_frames_and_is_used_within_a_second_of_being_good() {
    let mut cells = Vec::new();
    for bad in THIN {
        cells.extend(SECONDS.map(|good_at| Cell { bad, good_at, delay: 40, offered: 0 }));
    }
    let others = if is_whole() { &OTHERS[..] } else { &[] };
    let schedulers: Vec<&str> = OURS.iter().chain(others).copied().collect();
    // Cells in which the link was not used, and cells in which it made frames late.
    let mut failed = vec![(Vec::new(), Vec::new()); schedulers.len()];
    for cell in cells.into_iter().step_by(every()) {
        let seconds = cell.good_at + WATCHED;
        let run = |offered, has_second| Cell { offered, ..cell }.run(&schedulers, seconds, has_second);
        let (loaded, with, without) = (run(26, true), run(16, true), run(16, false));
        for (place, failed) in failed.iter_mut().enumerate() {
            let idle = idle_until(&loaded[place], cell.good_at);
            let cost = late(&with[place]) - late(&without[place]);
            let name = format!("{} Mbps for {} s", cell.bad, cell.good_at);
            if idle > 1.0 {
                failed.0.push(format!("{name}: {idle} s"));
            }
            if cost > COST {
                failed.1.push(format!("{name}: {cost:.1} %"));
            }
        }
    }
    for (scheduler, (unused, late)) in schedulers.iter().zip(&failed) {
        println!("{scheduler}: unused in {} {unused:?}, late in {} {late:?}", unused.len(), late.len());
    }
    let ours: Vec<_> = schedulers.iter().zip(&failed).take(OURS.len()).collect();
    assert!(ours.iter().all(|(_, (unused, late))| unused.is_empty() && late.is_empty()), "{ours:#?}");
}

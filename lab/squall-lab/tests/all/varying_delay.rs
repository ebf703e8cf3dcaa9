//! Links whose delay varies independently of the session's queue: Steady carries at least as much
//! as CUBIC.
//!
//! Packets stay in order, none is lost, and at most four fifths of the rate are offered: so the
//! controller is the cause of every late frame.

use std::sync::Arc;

use rand_pcg::{
    Pcg64Mcg,
    rand_core::{Rng, SeedableRng},
};
use squall_lab::{Batch, Scenario};

/// Tolerance for random differences.
const NOISE: f64 = 0.02;

/// Share of a stream's frames in time with each scheduler.
fn in_time(congestion: &str, schedulers: &str, path: &str, mbps: f64, deadline_ms: u64) -> Vec<f64> {
    let text = format!(
        "name = \"delay\"\nduration = \"30s\"\nseeds = [1]\nschedulers = [{schedulers}]\ncongestion = \"{congestion}\"\n\
         [[path]]\nname = \"radio\"\nqueue = \"1MB\"\n{path}\n\
         [[flow]]\nname = \"camera\"\nkind = \"video\"\ndirection = \"up\"\nfps = 30\nbitrate = \"{:.0}kbps\"\n\
         keyframe_interval = \"2s\"\nkey_ratio = 4.0\ndeadline = \"{deadline_ms}ms\"\n",
        1e3 * mbps
    );
    let scenario = Scenario::parse(&text, "test.toml").unwrap_or_else(|error| panic!("{error}"));
    let runs = Batch::of(&scenario, Arc::new(squall_papers::registry())).run(&|_| {}).expect("runs");
    runs.iter().map(|run| run.flows[0].total.in_time_ratio().expect("frames were due")).collect()
}

/// Runs a cell with both controllers; returns a description of the failure, if any.
fn cell(name: &str, path: &str, mbps: f64, deadline_ms: u64) -> Option<String> {
    let cubic = in_time("cubic", "\"minrtt\"", path, mbps, deadline_ms)[0];
    let ours = in_time("steady", "\"squall\", \"minrtt\"", path, mbps, deadline_ms);
    println!("{name}, {mbps:.1} Mbps: cubic {cubic:.3}, squall and minrtt {ours:.3?}");
    ours.iter()
        .any(|ours| *ours < cubic - NOISE)
        .then(|| format!("{name}, {mbps} Mbps: {ours:?}, cubic {cubic}"))
}

#[test]
fn jitter_in_order_costs_no_more_than_with_cubic() {
    let mut wrong = Vec::new();
    for (jitter, least) in [
        ("\"5ms\"", 5),
        ("\"10ms\"", 10),
        ("\"15ms\"", 15),
        ("\"20ms\"", 20),
        ("{ normal = \"5ms\" }", 10),
        ("{ normal = \"10ms\" }", 20),
    ] {
        for (delay, rate) in [(20_u64, 5.0), (20, 20.0), (60, 20.0), (20, 60.0)] {
            for load in [0.1, 0.4, 0.7] {
                let delay = delay.max(least);
                let path = format!("rate = \"{rate}mbps\"\ndelay = \"{delay}ms\"\njitter = {jitter}");
                let name = format!("{rate} Mbps, {delay} ms, jitter {jitter}");
                wrong.extend(cell(&name, &path, load * rate, 500));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn an_encoder_that_follows_reaches_its_rate_over_jitter() {
    for jitter in ["\"10ms\"", "\"20ms\"", "{ normal = \"10ms\" }"] {
        let text = format!(
            "name = \"follow\"\nduration = \"30s\"\nschedulers = [\"squall\", \"minrtt\"]\n\
             [[path]]\nname = \"radio\"\nrate = \"20mbps\"\ndelay = \"20ms\"\nqueue = \"1MB\"\njitter = {jitter}\n\
             [[flow]]\nname = \"camera\"\nkind = \"game\"\ndirection = \"up\"\nfps = 30\nbitrate_min = \"300kbps\"\n\
             bitrate_max = \"12mbps\"\nfollow = \"safe\"\nshare = 0.9\nkeyframe_interval = \"2s\"\ndeadline = \"500ms\"\n"
        );
        let mut scenario = Scenario::parse(&text, "test.toml").unwrap_or_else(|error| panic!("{error}"));
        scenario.seeds = (1..=20).collect();
        for run in Batch::of(&scenario, Arc::new(squall_papers::registry())).run(&|_| {}).expect("runs") {
            let mbps = run.flows[0].goodput_bps as f64 / 1e6;
            assert!(mbps > 6.5, "jitter {jitter}, {}, seed {}: {mbps:.1} Mbps", run.scheduler, run.seed);
        }
    }
}

#[test]
fn a_satellite_that_takes_another_way_each_15_s_costs_no_more_than_with_cubic() {
    let mut wrong = Vec::new();
    for jitter in [0, 5, 10, 15] {
        let path = format!(
            "rate = \"20mbps\"\ndelay = {{ steps = [[\"0s\", \"20ms\"], [\"7s\", \"35ms\"], [\"22s\", \"18ms\"]] }}\n\
             jitter = \"{jitter}ms\"\nevents = [{{ at = \"7s\", outage = \"120ms\" }}, {{ at = \"22s\", outage = \"250ms\" }}]"
        );
        wrong.extend(cell(&format!("jitter {jitter} ms"), &path, 12.0, 500));
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn holds_cost_no_more_than_with_cubic() {
    let mut wrong = Vec::new();
    // Longer holds and more load cost minRTT up to a tenth of its frames: it expires blocks by the
    // delay of the hold.
    for (length, every, rate, load) in [(100, 1_000, 20.0, 0.6), (300, 2_000, 20.0, 0.6)] {
        // Each packet of a hold arrives at its end.
        let holds = (1..30_000 / every).map(|hold| {
            let (from, delay) = (hold * every, 20 + length);
            format!("[\"{from}ms\", \"{delay}ms\"], [\"{}ms\", \"20ms\"]", from + length)
        });
        let steps = holds.collect::<Vec<_>>().join(", ");
        let path = format!("rate = \"{rate}mbps\"\ndelay = {{ steps = [[\"0s\", \"20ms\"], {steps}] }}");
        wrong.extend(cell(&format!("holds of {length} ms"), &path, load * rate, 500 + length));
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Number of conditions in the wide grid.
const WIDE: usize = 100;

/// Variations of the delay in the wide grid.
const KINDS: [&str; 7] = ["uniform", "normal", "two-state", "exponential", "spikes", "walk", "every 15 s"];

/// Random number generator of the wide grid.
struct Draw(Pcg64Mcg);

impl Draw {
    /// Uniform between 0 and 1.
    fn share(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Log-uniform between two positive values.
    fn log(&mut self, least: f64, most: f64) -> f64 {
        least * (most / least).powf(self.share())
    }

    /// A path whose delay varies by up to about `spread` milliseconds beyond `base`.
    fn path(&mut self, kind: &str, rate: f64, base: f64, spread: f64) -> String {
        let path = format!("rate = \"{rate:.2}mbps\"\n");
        let half = spread / 2.0;
        match kind {
            "uniform" => return format!("{path}delay = \"{:.2}ms\"\njitter = \"{half:.2}ms\"", base + half),
            "normal" => {
                let deviation = spread / 4.0;
                let delay = base + half;
                return format!(
                    "{path}delay = \"{delay:.2}ms\"\njitter = {{ normal = \"{deviation:.2}ms\" }}"
                );
            }
            _ => {}
        }
        let period = if kind == "every 15 s" { 15_000.0 } else { self.log(20.0, 2_000.0) };
        let (mut at, mut walk, mut steps) = (0.0, half, Vec::new());
        while at < 30_000.0 {
            let more = match kind {
                "two-state" => spread * f64::from(u8::from(steps.len() % 2 == 1)),
                "exponential" => (-0.25 * spread * (1.0 - self.share()).ln()).min(2.0 * spread),
                "spikes" if self.share() < 0.8 => 0.0,
                "walk" => {
                    walk = (walk + spread * (self.share() - 0.5) / 2.0).clamp(0.0, spread);
                    walk
                }
                _ => spread * self.share(),
            };
            steps.push(format!("[\"{at:.0}ms\", \"{:.2}ms\"]", base + more));
            at += period * (0.5 + self.share());
        }
        format!("{path}delay = {{ steps = [{}] }}", steps.join(", "))
    }
}

/// Random conditions: 1 to 100 Mbps, round trips of 4 to 200 ms, delays that vary by up to 200 ms,
/// loads of a tenth to four fifths. `SQUALL_GRID=all` runs all of them; otherwise the suite runs
/// every fifth.
#[test]
fn a_wide_grid_costs_less_than_a_point_beyond_cubic() {
    let every = if std::env::var("SQUALL_GRID").is_ok_and(|grid| grid == "all") { 1 } else { 5 };
    let mut draw = Draw(Pcg64Mcg::seed_from_u64(7));
    let (mut below, mut missing, mut count) = ([0; 2], [0.0; 2], 0);
    for index in 0..WIDE {
        let kind = KINDS[index % KINDS.len()];
        let (rate, base) = (draw.log(1.0, 100.0), draw.log(2.0, 100.0));
        let (spread, load) = (draw.log(2.0, 200.0), 0.1 + 0.7 * draw.share());
        let path = draw.path(kind, rate, base, spread);
        if index % every != 0 {
            continue;
        }
        let deadline = 500 + (2.0 * spread) as u64;
        let cubic = in_time("cubic", "\"minrtt\"", &path, load * rate, deadline)[0];
        let ours = in_time("steady", "\"squall\", \"minrtt\"", &path, load * rate, deadline);
        println!(
            "{index}, {kind}: {rate:.1} Mbps, {base:.0} ms and up to {spread:.0}, load {load:.2}: cubic {cubic:.3}, \
             squall and minrtt {ours:.3?}"
        );
        count += 1;
        for (place, ours) in ours.iter().enumerate() {
            below[place] += usize::from(*ours < cubic - NOISE);
            missing[place] += (cubic - ours).max(0.0);
        }
    }
    let mean = missing.map(|missing| 100.0 * missing / count as f64);
    println!(
        "{count} conditions, squall and minrtt: {below:?} below CUBIC, {mean:.2?} points of the frames in the mean"
    );
    assert!(below.iter().all(|below| 10 * below <= count), "{below:?} of {count} below CUBIC");
    assert!(mean.iter().all(|mean| *mean < 1.0), "{mean:.2?} points below CUBIC");
}

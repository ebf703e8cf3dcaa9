//! Results of a demo: a table, the better run by each measure, and the report.

use std::{fs, path::Path, time::Duration};

use squall_lab::{
    RunResult, Scenario,
    result::{self, Extra, FlowResult, PathResult, Percentiles, PictureQuality, Playback},
    table::{self, Column, Table},
};
use squall_net::RelayReport;
use squall_terminal::{note, output};

use super::args::DemoArgs;

/// Maximum slip of 99 % of the datagrams for the emulation to count as accurate.
const MAX_SLIP: Duration = Duration::from_millis(10);

/// A run with the report of its emulation.
type Run = (RunResult, RelayReport);

/// Evaluates the runs, prints the table, writes the files, and reports their names.
pub(super) fn publish(args: &DemoArgs, scenario: &Scenario, mut runs: Vec<Run>) -> anyhow::Result<()> {
    for (run, relay) in &mut runs {
        run.extra.extend(extras(run, relay));
        run.checks = scenario.judge(run);
    }
    let results: Vec<RunResult> = runs.iter().map(|(run, _)| run.clone()).collect();
    let title = format!("Squall demo: {}", scenario.name);
    output::write(&args.report, &squall_report::html(&results, &title))?;
    let mut notes = Vec::new();
    if args.json_to_stdout() {
        output::print(&result::to_json(&results))?;
    } else {
        output::print(&format!("\n{}\n", table::render(&comparison(&runs))))?;
        notes.extend(verdict(&runs));
    }
    for (run, relay) in &runs {
        let invalid = relay.invalid(MAX_SLIP);
        notes.extend(invalid.map(|why| format!("warning: INVALID RUN of {}: {why}", run.scheduler)));
    }
    if results.iter().any(|run| run.duration_us < scenario.duration_us) {
        notes.push("note: ended early; the figures are about what was played".to_owned());
    }
    notes.push(format!("report: {}", shown(&args.report)));
    if let Some(file) = args.json.as_deref().filter(|_| !args.json_to_stdout()) {
        output::write(file, &result::to_json(&results))?;
        notes.push(format!("measurements: {}", shown(file)));
    }
    notes.iter().for_each(|line| note!("{line}"));
    Ok(())
}

/// Returns the absolute path, which terminals may turn into a link.
fn shown(file: &Path) -> String {
    fs::canonicalize(file).unwrap_or_else(|_| file.to_owned()).display().to_string()
}

/// Additional values for report and JSON besides blocks and paths.
fn extras(run: &RunResult, relay: &RelayReport) -> Vec<(String, Extra)> {
    let played = |value: fn(&Playback) -> f64| flow(run).playback.as_ref().map_or(0.0, value);
    let numbers = [
        ("fps", played(|play| play.mean_fps)),
        ("freezes", played(|play| play.stalls as f64)),
        ("frozen s", played(|play| play.stall_us as f64 / 1e6)),
        ("lost in outages", lost_in_outages(relay) as f64),
        ("PSNR dB", flow(run).pictures.map_or(0.0, |pictures| pictures.psnr.mean)),
        ("slip ms", relay.live.slip.p99 as f64 / 1e3),
    ];
    let valid = if relay.invalid(MAX_SLIP).is_none() { "yes" } else { "NO" };
    let numbers = numbers.into_iter().map(|(name, value)| (name.to_owned(), Extra::from(value)));
    numbers.chain([("valid".to_owned(), Extra::from(valid))]).collect()
}

/// The only flow of a demo.
fn flow(run: &RunResult) -> &FlowResult {
    &run.flows[0]
}

/// Datagrams lost in outages, in both directions.
fn lost_in_outages(relay: &RelayReport) -> u64 {
    let links = relay.live.paths.iter().flat_map(|path| [&path.up, &path.down]);
    links.map(|link| link.dropped.outage.packets).sum()
}

/// Name and value of a measure for a run.
type Measure<T> = (&'static str, fn(&Run) -> T);

/// Rows of the table: one per measure, as there are more of them than schedulers.
const MEASURES: [Measure<String>; 17] = [
    ("frames sent", |(run, _)| flow(run).total.offered_blocks.to_string()),
    ("frames in time", |(run, _)| {
        let total = &flow(run).total;
        let share = 100.0 * total.in_time_blocks as f64 / total.offered_blocks.max(1) as f64;
        format!("{} ({share:.1} %)", total.in_time_blocks)
    }),
    ("frames late / never", |(run, _)| {
        let total = &flow(run).total;
        let (late, never) =
            (total.delivered_blocks - total.in_time_blocks, total.offered_blocks - total.delivered_blocks);
        format!("{late} / {never}")
    }),
    ("frames shown", |(run, _)| played(run, |play| play.shown.to_string())),
    ("shown per second", |(run, _)| played(run, |play| format!("{:.1}", play.mean_fps))),
    ("in the worst second", |(run, _)| {
        played(run, |play| play.shown_per_second.iter().min().unwrap_or(&0).to_string())
    }),
    ("freezes", |(run, _)| played(run, |play| play.stalls.to_string())),
    ("time frozen", |(run, _)| played(run, |play| format!("{:.2} s", play.stall_us as f64 / 1e6))),
    ("longest gap", |(run, _)| milliseconds(flow(run).longest_gap_us)),
    ("latency p50", |(run, _)| latency(run, |latency| latency.p50_us)),
    ("latency p95", |(run, _)| latency(run, |latency| latency.p95_us)),
    ("latency p99", |(run, _)| latency(run, |latency| latency.p99_us)),
    ("latency max", |(run, _)| latency(run, |latency| latency.max_us)),
    ("PSNR of pictures", |(run, _)| psnr(run, |pictures| pictures.psnr.mean)),
    ("PSNR, worst 5 %", |(run, _)| psnr(run, |pictures| pictures.psnr.p5)),
    ("packets lost in outages", |(_, relay)| lost_in_outages(relay).to_string()),
    ("alerts of radios", |(run, _)| {
        run.paths.iter().map(|path| path.alerts.len()).sum::<usize>().to_string()
    }),
];

fn played(run: &RunResult, cell: fn(&Playback) -> String) -> String {
    flow(run).playback.as_ref().map_or_else(|| "none".to_owned(), cell)
}

fn latency(run: &RunResult, value: fn(&Percentiles) -> u64) -> String {
    flow(run).latency.as_ref().map_or_else(|| "none".to_owned(), |latency| milliseconds(value(latency)))
}

fn psnr(run: &RunResult, value: fn(&PictureQuality) -> f64) -> String {
    flow(run).pictures.as_ref().map_or_else(|| "none".to_owned(), |all| format!("{:.1} dB", value(all)))
}

fn milliseconds(us: u64) -> String {
    format!("{:.1} ms", us as f64 / 1e3)
}

/// Table of all measures of all runs.
fn comparison(runs: &[Run]) -> Table {
    let names = runs.iter().map(|(run, _)| Column::number(&run.scheduler, ""));
    let row = |name: &str, cell: &dyn Fn(&Run) -> String| {
        std::iter::once(name.to_owned()).chain(runs.iter().map(cell)).collect::<Vec<_>>()
    };
    let mut rows: Vec<_> = MEASURES.iter().map(|(name, measure)| row(name, measure)).collect();
    for (index, path) in runs.iter().take(1).flat_map(|(run, _)| &run.paths).enumerate() {
        rows.push(row(&format!("sent over {}", path.name), &|(run, _)| {
            format!("{:.1} MB", run.paths[index].wire_bytes() as f64 / 1e6)
        }));
    }
    rows.push(row("emulation late, p99", &|(_, relay)| milliseconds(relay.live.slip.p99)));
    Table {
        title: "The same video at the same time over the same links".to_owned(),
        columns: std::iter::once(Column::text("")).chain(names).collect(),
        rows,
    }
}

/// Measures of quality and cost, with `true` if more is better.
const JUDGEMENTS: [(Measure<u64>, bool); 6] = [
    (("frames in time", |(run, _)| flow(run).total.in_time_blocks), true),
    (("freezes", |(run, _)| flow(run).playback.as_ref().map_or(0, |play| play.stalls)), false),
    (("time frozen", |(run, _)| flow(run).playback.as_ref().map_or(0, |play| play.stall_us)), false),
    (("longest gap", |(run, _)| flow(run).longest_gap_us), false),
    (("packets lost in outages", |(_, relay)| lost_in_outages(relay)), false),
    (("metered bytes", |(run, _)| metered_bytes(run)), false),
];

/// Bytes on metered links.
fn metered_bytes(run: &RunResult) -> u64 {
    run.paths.iter().filter(|path| path.metered).map(PathResult::wire_bytes).sum()
}

/// Names the better of two runs that sent the same for each measure, one line each; empty unless
/// there are exactly two.
fn verdict(runs: &[Run]) -> Vec<String> {
    let follows = |run: &RunResult| squall_lab::Variant::of(&run.scheduler).follow;
    let same: Vec<_> = runs.iter().filter(|(run, _)| !follows(run)).collect();
    let [first, second] = same[..] else { return Vec::new() };
    let values = JUDGEMENTS.map(|((name, value), more)| (name, value(first), value(second), more));
    sentences([&first.0.scheduler, &second.0.scheduler], &values)
}

fn sentences(schedulers: [&str; 2], values: &[(&str, u64, u64, bool)]) -> Vec<String> {
    let words = schedulers.map(|scheduler| format!("better with {scheduler}"));
    let mut lines: [(&str, Vec<&str>); 3] =
        [(words[0].as_str(), Vec::new()), (words[1].as_str(), Vec::new()), ("even", Vec::new())];
    for (name, first, second, more) in values {
        let place = if first == second { 2 } else { usize::from((first > second) != *more) };
        lines[place].1.push(*name);
    }
    let said = lines.iter().filter(|(_, names)| !names.is_empty());
    said.map(|(words, names)| format!("{words}: {}", names.join(", "))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_better_one_is_named_for_each_measure() {
        let values = [("frames", 9, 10, true), ("freezes", 3, 3, false), ("gap", 7, 8, false)];
        let said = sentences(["a", "b"], &values);
        assert_eq!(said, ["better with a: gap", "better with b: frames", "even: freezes"]);
        assert_eq!(sentences(["a", "b"], &values[1..2]), ["even: freezes"]);
    }
}

//! Runs condensed to tables of text, for the terminal and the report alike.
//!
//! Runs of one scheduler with several seeds share a row: mean ± half of the 95 % confidence
//! interval.

use std::collections::BTreeSet;

use squall_units::format;

use crate::result::{Extra, FlowResult, PathResult, RunResult};
use crate::statistics::Estimate;
use crate::table::{Column, Table, parts, render};

/// Explanation of the columns.
const LEGEND: &str = "in time, delivered, decodable: of the blocks that were due. limit: the most that\n\
    any scheduler could have had. ±: half of the 95 % confidence interval over\n\
    the seeds.\n";

/// Formats all tables of these runs as text, scenario by scenario. Tables wider than `width`
/// columns, if given, are split.
pub fn results(runs: &[RunResult], width: Option<usize>) -> String {
    let mut text = String::new();
    for (scenario, runs) in by_scenario(runs) {
        text.push_str(&format!("scenario {scenario}\n\n"));
        let tables = [blocks(&runs), pictures(&runs), paths(&runs), checks(&runs)];
        for (index, table) in tables.iter().filter(|table| !table.rows.is_empty()).enumerate() {
            for part in parts(table, width) {
                text.push_str(&render(&part));
                text.push('\n');
            }
            if index == 0 {
                text.push_str(LEGEND);
                text.push('\n');
            }
        }
    }
    text
}

/// Groups runs by scenario, in order of first appearance.
pub fn by_scenario(runs: &[RunResult]) -> Vec<(&str, Vec<&RunResult>)> {
    group(runs.iter(), |run| run.scenario.as_str())
}

/// Groups runs by scheduler, in order of first appearance.
pub fn by_scheduler<'a>(runs: &[&'a RunResult]) -> Vec<(&'a str, Vec<&'a RunResult>)> {
    group(runs.iter().copied(), |run| run.scheduler.as_str())
}

fn group<'a, T>(
    all: impl Iterator<Item = &'a T>,
    key: impl Fn(&'a T) -> &'a str,
) -> Vec<(&'a str, Vec<&'a T>)> {
    let mut groups: Vec<(&str, Vec<&T>)> = Vec::new();
    for one in all {
        let key = key(one);
        match groups.iter_mut().find(|(name, _)| *name == key) {
            Some((_, members)) => members.push(one),
            None => groups.push((key, vec![one])),
        }
    }
    groups
}

fn flows<'a>(runs: &[&'a RunResult]) -> Vec<(&'a str, Vec<&'a FlowResult>)> {
    group(runs.iter().flat_map(|run| &run.flows), |flow| &flow.name)
}

fn paths_of<'a>(runs: &[&'a RunResult]) -> Vec<(&'a str, Vec<&'a PathResult>)> {
    group(runs.iter().flat_map(|run| &run.paths), |path| &path.name)
}

/// A column of numbers: name, unit, decimals and value.
type Number<T> = (&'static str, &'static str, usize, fn(&T) -> Option<f64>);

const FLOWS: [Number<FlowResult>; 10] = [
    ("p50", "ms", 1, |flow| flow.latency.map(|all| ms(all.p50_us))),
    ("p95", "ms", 1, |flow| flow.latency.map(|all| ms(all.p95_us))),
    ("p99", "ms", 1, |flow| flow.latency.map(|all| ms(all.p99_us))),
    ("p99.9", "ms", 1, |flow| flow.latency.map(|all| ms(all.p999_us))),
    ("max", "ms", 1, |flow| flow.latency.map(|all| ms(all.max_us))),
    ("in time", "%", 2, |flow| percent(flow.completion_rate)),
    ("limit", "%", 2, |flow| percent(flow.bound?.in_time_ratio())),
    ("delivered", "%", 2, |flow| percent(flow.total.delivered_ratio())),
    ("longest gap", "ms", 1, |flow| Some(ms(flow.longest_gap_us))),
    ("goodput", "Mbps", 2, |flow| Some(flow.goodput_bps as f64 / 1e6)),
];

/// Columns for films, whose pictures depend on each other.
const DECODABLE: [Number<FlowResult>; 2] = [
    ("decodable", "%", 2, |flow| percent(flow.total.decodable_ratio())),
    ("limit", "%", 2, |flow| percent(flow.bound?.decodable_ratio())),
];

const PICTURES: [Number<FlowResult>; 7] = [
    ("PSNR", "dB", 2, |flow| Some(flow.pictures?.psnr.mean)),
    ("median", "dB", 2, |flow| Some(flow.pictures?.psnr.median)),
    ("p5", "dB", 2, |flow| Some(flow.pictures?.psnr.p5)),
    ("lost", "dB", 2, |flow| Some(flow.pictures?.psnr_loss)),
    ("SSIM", "", 4, |flow| Some(flow.pictures?.ssim.mean)),
    ("p5", "", 4, |flow| Some(flow.pictures?.ssim.p5)),
    ("perceived", "%", 2, |flow| percent(flow.pictures.and(flow.perceived_ratio))),
];

const PATHS: [Number<PathResult>; 9] = [
    ("down", "MB", 2, |path| Some(mega(path.totals.wire_bytes_down))),
    ("up", "MB", 2, |path| Some(mega(path.totals.wire_bytes_up))),
    ("goodput", "Mbps", 2, |path| Some(mega(path.goodput_down_bps + path.goodput_up_bps))),
    ("lost", "%", 2, |path| {
        let sent = path.totals.packets;
        (sent > 0).then(|| path.totals.lost_packets as f64 * 100.0 / sent as f64)
    }),
    ("retransmitted", "MB", 2, |path| Some(mega(path.totals.retransmitted_bytes))),
    ("reinjected", "MB", 2, |path| Some(mega(path.totals.reinjected_bytes))),
    ("duplicate", "MB", 2, |path| Some(mega(path.totals.duplicate_bytes))),
    ("RTT p50", "ms", 1, |path| path.rtt.map(|all| ms(all.p50_us))),
    ("RTT p99", "ms", 1, |path| path.rtt.map(|all| ms(all.p99_us))),
];

fn ms(us: u64) -> f64 {
    us as f64 / 1e3
}

fn mega(number: u64) -> f64 {
    number as f64 / 1e6
}

fn percent(share: Option<f64>) -> Option<f64> {
    share.map(|share| share * 100.0)
}

fn headings<T>(numbers: &[Number<T>]) -> impl Iterator<Item = Column> {
    numbers.iter().map(|(name, unit, ..)| Column::number(name, unit))
}

/// Returns the cells of one row.
fn cells<T>(numbers: &[Number<T>], all: &[&T]) -> impl Iterator<Item = String> {
    numbers.iter().map(|(_, _, decimals, value)| {
        mean_cell(all.iter().filter_map(|one| value(one)), |value| format!("{value:.decimals$}"))
    })
}

/// Table per scheduler and flow: latencies, share of blocks in time with the clairvoyant bound,
/// gaps, goodput, bytes per path and extra measures.
pub fn blocks(runs: &[&RunResult]) -> Table {
    let extras: BTreeSet<&str> = runs.iter().flat_map(|run| run.extra.keys().map(String::as_str)).collect();
    let many_flows = flows(runs).len() > 1;
    let paths: Vec<&str> = paths_of(runs).iter().map(|path| path.0).collect();
    let mut columns = vec![Column::text("scheduler")];
    columns.extend(many_flows.then(|| Column::text("flow")));
    columns.extend(headings(&FLOWS));
    // For a player of segments, each segment counts as one picture.
    let films =
        runs.iter().flat_map(|run| &run.flows).any(|flow| flow.playback.is_some() && flow.kind != "dash");
    let decodable = if films { &DECODABLE[..] } else { &[] };
    columns.extend(headings(decodable));
    columns.extend(paths.iter().map(|name| Column::number(name, "MB")));
    columns.extend(extras.iter().map(|name| Column::number(name, "")));
    let mut rows = Vec::new();
    for (scheduler, runs) in by_scheduler(runs) {
        for (flow, all) in flows(&runs) {
            let mut row = vec![scheduler.to_owned()];
            row.extend(many_flows.then(|| flow.to_owned()));
            row.extend(cells(&FLOWS, &all));
            row.extend(cells(decodable, &all));
            row.extend(paths.iter().map(|name| {
                let own = runs.iter().flat_map(|run| &run.paths).filter(|path| path.name == *name);
                mean_cell(own.map(|path| mega(path.wire_bytes())), |value| format!("{value:.2}"))
            }));
            row.extend(extras.iter().map(|name| extra_cell(&runs, name)));
            rows.push(row);
        }
    }
    let title = "Latency of delivered blocks, shares of offered blocks, bytes sent per path";
    Table { title: title.into(), columns, rows }
}

/// Table per scheduler and flow with real pictures: quality that a viewer saw.
pub fn pictures(runs: &[&RunResult]) -> Table {
    let mut columns = vec![Column::text("scheduler"), Column::text("flow")];
    columns.extend(headings(&PICTURES));
    let mut rows = Vec::new();
    for (scheduler, runs) in by_scheduler(runs) {
        for (flow, all) in flows(&runs) {
            if all.iter().any(|flow| flow.pictures.is_some()) {
                let names = [scheduler, flow].map(str::to_owned).into_iter();
                rows.push(names.chain(cells(&PICTURES, &all)).collect());
            }
        }
    }
    Table { title: "Pictures as they were shown, against those that were encoded".into(), columns, rows }
}

/// Table per scheduler and path: bytes, goodput, loss, repairs and round-trip times.
pub fn paths(runs: &[&RunResult]) -> Table {
    let mut columns = vec![Column::text("scheduler"), Column::text("path")];
    columns.extend(headings(&PATHS));
    let mut rows = Vec::new();
    for (scheduler, runs) in by_scheduler(runs) {
        for (path, all) in paths_of(&runs) {
            rows.push([scheduler, path].map(str::to_owned).into_iter().chain(cells(&PATHS, &all)).collect());
        }
    }
    Table { title: "Bytes sent, new data delivered, loss, repairs, round-trip times".into(), columns, rows }
}

/// Table of all checks of all runs.
pub fn checks(runs: &[&RunResult]) -> Table {
    let columns = ["result", "scheduler", "seed", "check", "measured", "limit"].map(Column::text).into();
    let mut rows = Vec::new();
    for run in runs {
        for verdict in &run.checks {
            rows.push(vec![
                if verdict.pass { "pass" } else { "FAIL" }.to_owned(),
                run.scheduler.clone(),
                run.seed.to_string(),
                verdict.check.clone(),
                verdict.measured.clone(),
                verdict.limit.clone(),
            ]);
        }
    }
    Table { title: "Checks".into(), columns, rows }
}

fn extra_cell(runs: &[&RunResult], name: &str) -> String {
    let values: Vec<&Extra> = runs.iter().filter_map(|run| run.extra.get(name)).collect();
    match values.first() {
        Some(Extra::Text(text)) => text.clone(),
        _ => {
            let number = |value: &&Extra| match value {
                Extra::Number(number) => Some(*number),
                Extra::Text(_) => None,
            };
            mean_cell(values.iter().filter_map(number), format::digits)
        }
    }
}

/// Formats the values as `mean ± half-width`, a single value alone, no value as `–`.
fn mean_cell(values: impl Iterator<Item = f64>, show: impl Fn(f64) -> String) -> String {
    match Estimate::of(&values.collect::<Vec<_>>()) {
        None => "–".into(),
        Some(Estimate { mean, half: None }) => show(mean),
        Some(Estimate { mean, half: Some(half) }) => format!("{} ± {}", show(mean), show(half)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::sample::run;

    #[test]
    fn seeds_share_a_row() {
        let runs = [run("minrtt", 1), run("minrtt", 2), run("dams", 1)];
        let table = blocks(&runs.iter().collect::<Vec<_>>());
        assert_eq!(table.rows.len(), 2);
        assert!(table.rows[0][1].contains(" ± "));
        assert!(!table.rows[1][1].contains('±'));
        assert!(table.rows.iter().all(|row| row.len() == table.columns.len()));
    }

    #[test]
    fn cells_have_intervals_where_there_are_several_values() {
        let cell = mean_cell([1.0, 2.0, 3.0].into_iter(), |value| format!("{value:.3}"));
        assert_eq!(cell, "2.000 ± 2.484", "4.303 × 1 / √3");
        assert_eq!(mean_cell([5.0].into_iter(), format::digits), "5.00");
        assert_eq!(mean_cell(std::iter::empty(), format::digits), "–");
    }

    #[test]
    fn paths_and_extras_have_columns() {
        let runs = [run("redundant", 1)];
        let runs: Vec<_> = runs.iter().collect();
        let table = blocks(&runs);
        let headings: Vec<_> = table.columns.iter().map(Column::heading).collect();
        assert!(headings.contains(&"LTE MB".to_owned()) && headings.contains(&"stalls".to_owned()));
        assert_eq!(paths(&runs).rows.len(), 2);
        assert_eq!(checks(&runs).rows[0][0], "pass");
    }

    #[test]
    fn every_scheduler_path_and_check_is_listed() {
        let runs: Vec<_> = ["minrtt", "storm(alpha=0.5)"].map(|name| run(name, 1)).into();
        let text = results(&runs, None);
        for word in [
            "scenario fading",
            "minrtt",
            "storm(alpha=0.5)",
            "LTE",
            "p99.9 ms",
            "decodable %",
            "in_time_ratio",
        ] {
            assert!(text.contains(word), "{word} in\n{text}");
        }
    }

    #[test]
    fn a_wide_table_is_cut_between_its_numbers() {
        let runs: Vec<_> = ["minrtt", "storm(alpha=0.5)"].map(|name| run(name, 1)).into();
        let (wide, narrow) = (results(&runs, None), results(&runs, Some(80)));
        assert!(wide.lines().any(|line| line.chars().count() > 100));
        let before_checks = narrow.split("Checks").next().expect("is there");
        for line in before_checks.lines() {
            assert!(line.chars().count() <= 80, "{line}");
        }
        assert!(narrow.matches("(continued)").count() > 1);
        for number in wide.split_whitespace().filter(|word| !word.contains('─')) {
            assert!(narrow.contains(number), "{number} is lost in\n{narrow}");
        }
    }
}

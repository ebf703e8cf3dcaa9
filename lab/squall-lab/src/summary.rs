//! Runs condensed to tables of text, for the terminal and the report alike.
//!
//! Runs of one scheduler with several seeds share a row: mean ± half of the 95 % confidence interval.

use std::collections::BTreeSet;

use squall_units::format;

use crate::result::{Extra, FlowResult, PathResult, Percentiles, PictureQuality, RunResult};

/// A table of text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table {
    /// What it shows.
    pub title: String,
    /// Its columns.
    pub columns: Vec<Column>,
    /// As many cells as columns in each row.
    pub rows: Vec<Vec<String>>,
}

/// A column of a [`Table`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// What it shows.
    pub name: String,
    /// Unit of its cells; empty for none.
    pub unit: String,
    /// Numbers are aligned to the right.
    pub numeric: bool,
}

impl Column {
    /// A column of words.
    pub fn text(name: &str) -> Self {
        Self { name: name.into(), unit: String::new(), numeric: false }
    }

    /// A column of numbers.
    pub fn number(name: &str, unit: &str) -> Self {
        Self { name: name.into(), unit: unit.into(), numeric: true }
    }

    /// Name and unit.
    pub fn heading(&self) -> String {
        if self.unit.is_empty() { self.name.clone() } else { format!("{} {}", self.name, self.unit) }
    }
}

/// Groups runs by scenario, in order of first appearance.
pub fn by_scenario(runs: &[RunResult]) -> Vec<(&str, Vec<&RunResult>)> {
    group(runs.iter(), |run| run.scenario.as_str())
}

/// Groups runs by scheduler, in order of first appearance.
pub fn by_scheduler<'a>(runs: &[&'a RunResult]) -> Vec<(&'a str, Vec<&'a RunResult>)> {
    group(runs.iter().copied(), |run| run.scheduler.as_str())
}

fn group<'a>(
    runs: impl Iterator<Item = &'a RunResult>,
    key: impl Fn(&'a RunResult) -> &'a str,
) -> Vec<(&'a str, Vec<&'a RunResult>)> {
    let mut groups: Vec<(&str, Vec<&RunResult>)> = Vec::new();
    for run in runs {
        let key = key(run);
        match groups.iter_mut().find(|(name, _)| *name == key) {
            Some((_, members)) => members.push(run),
            None => groups.push((key, vec![run])),
        }
    }
    groups
}

/// Per scheduler and flow: latencies, shares in time and the most that any scheduler could have had (the clairvoyant
/// bound), gaps, goodput, bytes per path and the extra measures.
pub fn blocks(runs: &[&RunResult]) -> Table {
    let extras: BTreeSet<&str> = runs.iter().flat_map(|run| run.extra.keys().map(String::as_str)).collect();
    let many_flows = flow_names(runs).len() > 1;
    let mut columns = vec![Column::text("scheduler")];
    columns.extend(many_flows.then(|| Column::text("flow")));
    columns.extend(LATENCIES.iter().map(|(name, _)| Column::number(name, "ms")));
    columns.extend([
        Column::number("in time", "%"),
        Column::number("limit", "%"),
        Column::number("delivered", "%"),
        Column::number("longest gap", "ms"),
        Column::number("goodput", "Mbps"),
    ]);
    let path_names = path_names(runs);
    columns.extend(path_names.iter().map(|name| Column::number(name, "MB")));
    columns.extend(extras.iter().map(|name| Column::number(name, "")));

    let mut rows = Vec::new();
    for (scheduler, runs) in by_scheduler(runs) {
        for flow in flow_names(&runs) {
            let mut row = vec![scheduler.to_owned()];
            row.extend(many_flows.then(|| flow.to_owned()));
            row.extend(flow_cells(&runs, flow));
            row.extend(path_names.iter().map(|name| wire_cell(&runs, name)));
            row.extend(extras.iter().map(|name| extra_cell(&runs, name)));
            rows.push(row);
        }
    }
    Table {
        title: "Latency of delivered blocks, shares of offered blocks, bytes sent per path".into(),
        columns,
        rows,
    }
}

type Pick = fn(&Percentiles) -> u64;

const LATENCIES: [(&str, Pick); 5] = [
    ("p50", |all| all.p50_us),
    ("p95", |all| all.p95_us),
    ("p99", |all| all.p99_us),
    ("p99.9", |all| all.p999_us),
    ("max", |all| all.max_us),
];

fn flow_cells(runs: &[&RunResult], name: &str) -> Vec<String> {
    let flows: Vec<&FlowResult> =
        runs.iter().flat_map(|run| &run.flows).filter(|flow| flow.name == name).collect();
    let over = |measure: &dyn Fn(&FlowResult) -> Option<f64>, decimals| {
        mean_cell(flows.iter().filter_map(|flow| measure(flow)), fixed(decimals))
    };
    let mut cells: Vec<String> = LATENCIES
        .iter()
        .map(|(_, pick)| over(&|flow| flow.latency.as_ref().map(|all| pick(all) as f64 / 1e3), 1))
        .collect();
    cells.push(over(&|flow| percent(flow.completion_rate), 2));
    cells.push(over(&|flow| percent(flow.bound?.in_time_ratio()), 2));
    cells.push(over(&|flow| percent(flow.total.delivered_ratio()), 2));
    cells.push(over(&|flow| Some(flow.longest_gap_us as f64 / 1e3), 1));
    cells.push(over(&|flow| Some(flow.goodput_bps as f64 / 1e6), 2));
    cells
}

fn percent(share: Option<f64>) -> Option<f64> {
    share.map(|share| share * 100.0)
}

/// Per scheduler and flow with real pictures: what a viewer saw of them.
pub fn pictures(runs: &[&RunResult]) -> Table {
    let mut columns = vec![Column::text("scheduler"), Column::text("flow")];
    columns.extend(PICTURES.iter().map(|(name, unit, ..)| Column::number(name, unit)));
    let mut rows = Vec::new();
    for (scheduler, runs) in by_scheduler(runs) {
        for name in flow_names(&runs) {
            let flows = runs.iter().flat_map(|run| &run.flows).filter(|flow| flow.name == name);
            let seen: Vec<&FlowResult> = flows.filter(|flow| flow.pictures.is_some()).collect();
            if seen.is_empty() {
                continue;
            }
            let cell = |(_, _, decimals, pick): &(&str, &str, usize, Part)| {
                mean_cell(
                    seen.iter().filter_map(|flow| pick(flow, flow.pictures.as_ref()?)),
                    fixed(*decimals),
                )
            };
            let mut row = vec![scheduler.to_owned(), name.to_owned()];
            row.extend(PICTURES.iter().map(cell));
            rows.push(row);
        }
    }
    Table { title: "Pictures as they were shown, against those that were encoded".into(), columns, rows }
}

type Part = fn(&FlowResult, &PictureQuality) -> Option<f64>;

/// Name, unit, decimals and value of each column about pictures.
const PICTURES: [(&str, &str, usize, Part); 7] = [
    ("PSNR", "dB", 2, |_, pictures| Some(pictures.psnr.mean)),
    ("median", "dB", 2, |_, pictures| Some(pictures.psnr.median)),
    ("p5", "dB", 2, |_, pictures| Some(pictures.psnr.p5)),
    ("lost", "dB", 2, |_, pictures| Some(pictures.psnr_loss)),
    ("SSIM", "", 4, |_, pictures| Some(pictures.ssim.mean)),
    ("p5", "", 4, |_, pictures| Some(pictures.ssim.p5)),
    ("perceived", "%", 2, |flow, _| flow.perceived_ratio.map(|ratio| ratio * 100.0)),
];

/// Per scheduler and path: bytes, goodput, loss, repairs and round-trip times.
pub fn paths(runs: &[&RunResult]) -> Table {
    let columns = vec![
        Column::text("scheduler"),
        Column::text("path"),
        Column::number("down", "MB"),
        Column::number("up", "MB"),
        Column::number("goodput", "Mbps"),
        Column::number("lost", "%"),
        Column::number("retransmitted", "MB"),
        Column::number("reinjected", "MB"),
        Column::number("duplicate", "MB"),
        Column::number("RTT p50", "ms"),
        Column::number("RTT p99", "ms"),
    ];
    let mut rows = Vec::new();
    for (scheduler, runs) in by_scheduler(runs) {
        for name in path_names(&runs) {
            let mut row = vec![scheduler.to_owned(), name.to_owned()];
            row.extend(path_cells(&runs, name));
            rows.push(row);
        }
    }
    Table { title: "Bytes sent, new data delivered, loss, repairs, round-trip times".into(), columns, rows }
}

fn path_cells(runs: &[&RunResult], name: &str) -> Vec<String> {
    let paths: Vec<&PathResult> =
        runs.iter().flat_map(|run| &run.paths).filter(|path| path.name == name).collect();
    let over = |measure: &dyn Fn(&PathResult) -> Option<f64>, decimals| {
        mean_cell(paths.iter().filter_map(|path| measure(path)), fixed(decimals))
    };
    let megabytes = |pick: fn(&PathResult) -> u64| over(&|path| Some(pick(path) as f64 / 1e6), 2);
    vec![
        megabytes(|path| path.totals.wire_bytes_down),
        megabytes(|path| path.totals.wire_bytes_up),
        over(&|path| Some((path.goodput_down_bps + path.goodput_up_bps) as f64 / 1e6), 2),
        over(
            &|path| {
                let sent = path.totals.packets;
                (sent > 0).then(|| path.totals.lost_packets as f64 * 100.0 / sent as f64)
            },
            2,
        ),
        megabytes(|path| path.totals.retransmitted_bytes),
        megabytes(|path| path.totals.reinjected_bytes),
        megabytes(|path| path.totals.duplicate_bytes),
        over(&|path| path.rtt.as_ref().map(|all| all.p50_us as f64 / 1e3), 1),
        over(&|path| path.rtt.as_ref().map(|all| all.p99_us as f64 / 1e3), 1),
    ]
}

/// Every check of every run.
pub fn checks(runs: &[&RunResult]) -> Table {
    let columns =
        ["result", "scheduler", "seed", "check", "measured", "limit"].map(Column::text).into_iter().collect();
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

/// Megabytes that both ends sent over a path.
fn wire_cell(runs: &[&RunResult], name: &str) -> String {
    let paths = runs.iter().flat_map(|run| &run.paths).filter(|path| path.name == name);
    let bytes = paths.map(|path| (path.totals.wire_bytes_down + path.totals.wire_bytes_up) as f64);
    mean_cell(bytes.map(|bytes| bytes / 1e6), fixed(2))
}

fn flow_names<'a>(runs: &[&'a RunResult]) -> Vec<&'a str> {
    distinct(runs.iter().flat_map(|run| &run.flows).map(|flow| flow.name.as_str()))
}

fn path_names<'a>(runs: &[&'a RunResult]) -> Vec<&'a str> {
    distinct(runs.iter().flat_map(|run| &run.paths).map(|path| path.name.as_str()))
}

fn distinct<'a>(names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut seen = Vec::new();
    for name in names {
        if !seen.contains(&name) {
            seen.push(name);
        }
    }
    seen
}

fn extra_cell(runs: &[&RunResult], name: &str) -> String {
    let values: Vec<&Extra> = runs.iter().filter_map(|run| run.extra.get(name)).collect();
    let numbers: Vec<f64> = values
        .iter()
        .filter_map(|value| match value {
            Extra::Number(number) => Some(*number),
            Extra::Text(_) => None,
        })
        .collect();
    match values.first() {
        Some(Extra::Text(text)) => text.clone(),
        _ => mean_cell(numbers.into_iter(), format::digits),
    }
}

/// Shows numbers with so many decimals, so that a column lines up.
fn fixed(decimals: usize) -> impl Fn(f64) -> String {
    move |value| format!("{value:.decimals$}")
}

/// `mean ± half-width` of the values, the value alone if there is one, `–` if there is none.
fn mean_cell(values: impl Iterator<Item = f64>, show: impl Fn(f64) -> String) -> String {
    let values: Vec<f64> = values.collect();
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    match values.len() {
        0 => "–".into(),
        1 => show(mean),
        n => {
            let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1.0);
            format!("{} ± {}", show(mean), show(student_t(n - 1) * (variance / count).sqrt()))
        }
    }
}

/// 97.5 % quantile of Student's t distribution, the larger neighbour where the table has gaps.
pub(crate) fn student_t(freedom: usize) -> f64 {
    const TABLE: [(usize, f64); 16] = [
        (1, 12.706),
        (2, 4.303),
        (3, 3.182),
        (4, 2.776),
        (5, 2.571),
        (6, 2.447),
        (7, 2.365),
        (8, 2.306),
        (9, 2.262),
        (10, 2.228),
        (12, 2.179),
        (15, 2.131),
        (20, 2.086),
        (30, 2.042),
        (60, 2.000),
        (120, 1.980),
    ];
    TABLE.iter().rev().find(|(at, _)| *at <= freedom).map_or(TABLE[0].1, |(_, t)| *t)
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
    fn confidence_follows_student() {
        let cell = mean_cell([1.0, 2.0, 3.0].into_iter(), |value| format!("{value:.3}"));
        assert_eq!(cell, "2.000 ± 2.484", "4.303 × 1 / √3");
        assert_eq!(mean_cell([5.0].into_iter(), format::digits), "5.00");
        assert_eq!(mean_cell(std::iter::empty(), format::digits), "–");
        assert_eq!((student_t(1), student_t(11), student_t(10_000)), (12.706, 2.228, 1.98));
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
}

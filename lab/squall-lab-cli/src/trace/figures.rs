//! Statistics of recorded links as text, as a table, and as JSON.

use std::fmt::Write as _;

use serde_json::{Value, json};
use squall_trace::{LinkSurvey, RateSurvey, Spread};

/// Formats one link in detail.
pub(super) fn text(file: &str, survey: &LinkSurvey) -> String {
    let mut text = format!("{file}: {}, {} s\n", survey.format, seconds(survey.duration));
    let columns = survey.columns.join(", ");
    // Writing to a string cannot fail, here and below.
    let _ = writeln!(text, "  columns: {columns}");
    if survey.rate.is_some() || survey.rtt.is_some() {
        push_row(&mut text, "", &["mean", "min", "5 %", "25 %", "median", "75 %", "95 %", "99 %", "max"]);
    }
    if let Some(rate) = &survey.rate {
        push_spread(&mut text, rate.column.name(), number(rate.mean_mbps), &rate.windows);
    }
    if let Some(rtt) = &survey.rtt {
        push_spread(&mut text, "rtt_ms", String::new(), rtt);
    }
    if let Some(rate) = &survey.rate {
        push_slow(&mut text, rate);
    }
    if let Some(loss) = survey.loss {
        let _ = writeln!(text, "  packets lost: {}", percent(loss));
    }
    if let Some(lost) = survey.lost {
        let _ = writeln!(text, "  probes without an answer: {}", percent(lost));
    }
    if !survey.events.is_empty() {
        let events: Vec<String> =
            survey.events.iter().map(|(name, count)| format!("{count} {name}")).collect();
        let _ = writeln!(text, "  rows with events: {}", events.join(", "));
    }
    text
}

fn push_slow(text: &mut String, rate: &RateSurvey) {
    let (half, one) = (percent(rate.below_half), percent(rate.below_one));
    let _ = writeln!(text, "  below 0.5 Mbit/s: {half} of the time; below 1 Mbit/s: {one}");
    let (longest, total) = longest_and_total(&rate.outages);
    let lengths = format!("longest {} s, {} s in all", seconds(longest), seconds(total));
    let _ = match rate.outages.len() {
        0 => writeln!(text, "  outages of more than 200 ms: none"),
        count => writeln!(text, "  outages of more than 200 ms: {count}, {lengths}"),
    };
}

fn longest_and_total(outages: &[u64]) -> (u64, u64) {
    (outages.iter().copied().max().unwrap_or_default(), outages.iter().sum())
}

fn push_spread(text: &mut String, name: &str, mean: String, spread: &Spread) {
    let shares = [0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99, 1.0];
    let cells = shares.map(|share| number(spread.at(share)));
    push_row(text, name, &[&[mean], cells.as_slice()].concat());
}

fn push_row(text: &mut String, name: &str, cells: &[impl std::fmt::Display]) {
    let cells: String = cells.iter().map(|cell| format!(" {cell:>8}")).collect();
    text.push_str(format!("  {name:<10}{cells}").trim_end());
    text.push('\n');
}

const HEAD: [&str; 17] = [
    "file", "format", "s", "column", "mean", "min", "5 %", "median", "95 %", "max", "<0.5", "<1", "outages",
    "longest", "RTT 50 %", "RTT 95 %", "lost",
];

/// Indices of the columns that contain words.
const WORDS: [usize; 3] = [0, 1, 3];

/// Formats several links as a table with one row each, with an explanation of the columns.
pub(super) fn table(surveys: &[(String, LinkSurvey)]) -> String {
    let rows: Vec<[String; HEAD.len()]> = std::iter::once(HEAD.map(str::to_owned))
        .chain(surveys.iter().map(|(file, survey)| row(file, survey)))
        .collect();
    let widths: Vec<usize> = (0..HEAD.len())
        .map(|column| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or_default())
        .collect();
    let mut text = String::new();
    for row in &rows {
        let cells = row.iter().zip(&widths).enumerate().map(|(column, (cell, &width))| {
            if WORDS.contains(&column) { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
        });
        text.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
        text.push('\n');
    }
    text.push_str(
        "Rates in Mbit/s, of windows of 1 s; <0.5 and <1: share of the time below this rate; longest outage in s; \
         RTT in ms\n",
    );
    text
}

fn row(file: &str, survey: &LinkSurvey) -> [String; HEAD.len()] {
    let none = || "-".to_owned();
    let rate = survey.rate.as_ref();
    let of = |pick: fn(&RateSurvey) -> f64| rate.map_or_else(none, |rate| number(pick(rate)));
    let share = |pick: fn(&RateSurvey) -> f64| rate.map_or_else(none, |rate| percent(pick(rate)));
    let rtt = |share: f64| survey.rtt.as_ref().map_or_else(none, |rtt| number(rtt.at(share)));
    [
        file.to_owned(),
        survey.format.to_string(),
        seconds(survey.duration),
        rate.map_or_else(none, |rate| rate.column.to_string()),
        of(|rate| rate.mean_mbps),
        of(|rate| rate.windows.at(0.0)),
        of(|rate| rate.windows.at(0.05)),
        of(|rate| rate.windows.at(0.5)),
        of(|rate| rate.windows.at(0.95)),
        of(|rate| rate.windows.at(1.0)),
        share(|rate| rate.below_half),
        share(|rate| rate.below_one),
        rate.map_or_else(none, |rate| rate.outages.len().to_string()),
        rate.map_or_else(none, |rate| seconds(longest_and_total(&rate.outages).0)),
        rtt(0.5),
        rtt(0.95),
        survey.loss.or(survey.lost).map_or_else(none, percent),
    ]
}

/// Formats one link as JSON.
pub(super) fn json(file: &str, survey: &LinkSurvey) -> Value {
    let spread = |spread: &Spread| {
        json!({
            "count": spread.count(), "min": spread.at(0.0), "p5": spread.at(0.05), "p25": spread.at(0.25),
            "p50": spread.at(0.5), "p75": spread.at(0.75), "p95": spread.at(0.95), "p99": spread.at(0.99),
            "max": spread.at(1.0),
        })
    };
    let rate = survey.rate.as_ref().map(|rate| {
        let (longest, total) = longest_and_total(&rate.outages);
        json!({
            "column": rate.column.name(),
            "mean_mbps": rate.mean_mbps,
            "windows_mbps": spread(&rate.windows),
            "below_half_mbps": rate.below_half,
            "below_one_mbps": rate.below_one,
            "outages": {
                "count": rate.outages.len(),
                "longest_s": longest as f64 / 1e6,
                "total_s": total as f64 / 1e6,
            },
        })
    });
    json!({
        "file": file,
        "format": survey.format.name(),
        "duration_s": survey.duration as f64 / 1e6,
        "columns": survey.columns,
        "rate": rate,
        "rtt_ms": survey.rtt.as_ref().map(spread),
        "loss": survey.loss,
        "probes_lost": survey.lost,
        "events": survey.events,
    })
}

fn percent(share: f64) -> String {
    number(100.0 * share) + " %"
}

pub(crate) fn seconds(micros: u64) -> String {
    number(micros as f64 / 1e6)
}

/// Formats a number with a meaningful number of decimals.
pub(crate) fn number(value: f64) -> String {
    let decimals = if value.abs() < 10.0 { 2 } else { 1 };
    let text = format!("{value:.decimals$}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

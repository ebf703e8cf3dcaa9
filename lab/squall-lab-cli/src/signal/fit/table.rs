//! Findings as tables.

use std::fmt::Write as _;

use super::{
    Finding,
    bins::{Bin, WIDTH, bins},
    habit::Habit,
    judgement::{Judgement, quantile},
};

/// Both tables, as far as there is something to tell, each with the medians of its columns at the end.
pub(super) fn text(findings: &[Finding]) -> String {
    let mut text = String::new();
    let fits: Vec<(&str, [Cell; 8])> =
        findings.iter().filter_map(|one| Some((one.name.as_str(), fit_cells(one.fit.as_ref()?)))).collect();
    let levels: Vec<(&str, [Cell; 8])> = findings
        .iter()
        .filter_map(|one| Some((one.name.as_str(), level_cells(one.levels.as_ref()?))))
        .collect();
    table(&mut text, &["rows", "Mbit/s", "rank", "lag s", "at lag", "error %", "weak %", "measured"], &fits);
    if !(fits.is_empty() || levels.is_empty()) {
        text.push('\n');
    }
    table(
        &mut text,
        &["readings", "<good %", "<warn %", "<out %", "fades/min", "fade s", "dev dB", "decor s"],
        &levels,
    );
    let bins = bins_of(findings);
    if !bins.is_empty() {
        text.push('\n');
        by_level(&mut text, &bins);
    }
    for one in findings.iter().filter(|one| one.fit.is_none() && one.levels.is_none()) {
        let _ = writeln!(text, "{}: no levels", one.name);
    }
    text
}

/// The rate by level over all recordings.
pub(super) fn bins_of(findings: &[Finding]) -> Vec<Bin> {
    bins(findings.iter().filter_map(|one| one.fit.as_ref()).flat_map(|fit| &fit.compared))
}

fn by_level(text: &mut String, bins: &[Bin]) {
    let heads = ["rows", "model", "quarter", "median", "3 quarters", "weak %"];
    let _ = write!(text, "{:16}", "level");
    for head in heads {
        let _ = write!(text, "  {head:>10}");
    }
    text.push('\n');
    for Bin { kind, from, rows, model, measured: [low, median, high], weak } in bins {
        let level = format!("{kind} {from} to {}", from + WIDTH);
        let _ = write!(text, "{level:16}  {rows:>10}");
        for value in [model, low, median, high] {
            let _ = write!(text, "  {value:>10.2}");
        }
        let _ = writeln!(text, "  {:>10.1}", weak * 100.0);
    }
}

/// A number with its decimals.
#[derive(Clone, Copy)]
struct Cell {
    value: Option<f64>,
    decimals: usize,
}

fn cell(value: impl Into<Option<f64>>, decimals: usize) -> Cell {
    Cell { value: value.into(), decimals }
}

fn fit_cells(fit: &Judgement) -> [Cell; 8] {
    [
        cell(fit.rows as f64, 0),
        cell(fit.ceiling_mbps, 1),
        cell(fit.rank, 2),
        cell(fit.best_lag_s.map(|lag| lag as f64), 0),
        cell(fit.best_rank, 2),
        cell(fit.error.map(|error| error * 100.0), 0),
        cell(fit.weak_by_model * 100.0, 1),
        cell(fit.weak_measured * 100.0, 1),
    ]
}

fn level_cells(habit: &Habit) -> [Cell; 8] {
    [
        cell(habit.readings as f64, 0),
        cell(habit.below_good * 100.0, 1),
        cell(habit.below_warning * 100.0, 1),
        cell(habit.below_outage * 100.0, 1),
        cell(habit.fades_per_minute, 2),
        cell(habit.fade_s, 1),
        cell(habit.deviation_db, 1),
        cell(habit.decorrelation_s, 0),
    ]
}

fn table(text: &mut String, heads: &[&str; 8], rows: &[(&str, [Cell; 8])]) {
    if rows.is_empty() {
        return;
    }
    let median = |column: usize| {
        let values = rows.iter().filter_map(|(_, cells)| cells[column].value).collect();
        Cell { value: quantile(values, 0.5), decimals: rows[0].1[column].decimals }
    };
    let medians = std::array::from_fn(median);
    let words = format!("median of {}", rows.len());
    let last = (rows.len() > 1).then_some((words.as_str(), medians));
    let width = rows.iter().map(|(name, _)| name.chars().count()).chain([words.len()]).max().unwrap_or(0);
    let _ = write!(text, "{:width$}", "");
    for head in heads {
        let _ = write!(text, "  {head:>9}");
    }
    text.push('\n');
    for (name, cells) in rows.iter().copied().chain(last) {
        let _ = write!(text, "{name:width$}");
        for Cell { value, decimals } in cells {
            let shown = value.map_or("-".to_owned(), |value| format!("{value:.decimals$}"));
            let _ = write!(text, "  {shown:>9}");
        }
        text.push('\n');
    }
}

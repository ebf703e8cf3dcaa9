//! The numbers as text.

use super::{Cell, Estimate, Gain, Measure, Sweep};
use crate::{
    summary::{Column, Table},
    table::render,
};

const MEASURES: [(Measure, &str, &str, usize); 5] = [
    (Measure::P99, "p99", "ms", 1),
    (Measure::Max, "max", "ms", 0),
    (Measure::InTime, "in time", "%", 2),
    (Measure::Lost, "lost", "", 1),
    (Measure::Again, "sent again", "%", 3),
];

/// Of which the difference to the same without the signal is told.
const DIFFERENCES: [(Measure, &str, &str, usize); 3] = [
    (Measure::P99, "Δ p99", "ms", 1),
    (Measure::InTime, "Δ in time", "%", 2),
    (Measure::Lost, "Δ lost", "", 1),
];

/// A table for each sweep. Means over the seeds with half of their 95 % confidence interval (Student's t).
pub fn text(gain: &Gain) -> String {
    let mut text = format!("scenario {}: {}\n", gain.scenario, gain.description);
    let seeds = gain.seeds.len();
    text.push_str(&format!(
        "{seeds} seed{} of {} s for each line: mean ± half of the 95 % interval. Δ: difference to the same scheduler \
         without the signal.\nDelays are of packets that arrived, of all flows together. *: what the file has.\n\n",
        if seeds == 1 { "" } else { "s" },
        gain.duration_us as f64 / 1e6,
    ));
    for sweep in &gain.sweeps {
        text.push_str(&render(&table(gain, sweep)));
        text.push('\n');
    }
    text
}

fn table(gain: &Gain, sweep: &Sweep) -> Table {
    let mut columns = vec![Column::number(sweep.parameter.name(), ""), Column::text("scheduler")];
    let numbers = MEASURES.iter().chain(&DIFFERENCES);
    columns.extend(numbers.map(|(_, name, unit, _)| Column::number(name, unit)));
    let row = |value: String, cell: &Cell| {
        let mut row = vec![value, cell.contender.clone()];
        row.extend(
            MEASURES.iter().map(|(measure, .., digits)| show(cell.estimate(*measure), *digits, false)),
        );
        row.extend(
            DIFFERENCES
                .iter()
                .map(|(measure, .., digits)| show(gain.difference(cell, *measure), *digits, true)),
        );
        row
    };
    let mut rows: Vec<Vec<String>> = gain.without.iter().map(|cell| row("any".into(), cell)).collect();
    for point in &sweep.points {
        let mark = if point.own { "* " } else { "" };
        let value = format!("{mark}{}", sweep.parameter.show(point.value));
        rows.extend(point.cells.iter().map(|cell| row(value.clone(), cell)));
    }
    let title = format!("By {}; all else as in the file", sweep.parameter.title());
    Table { title, columns, rows }
}

fn show(estimate: Option<Estimate>, digits: usize, signed: bool) -> String {
    let Some(Estimate { mean, half }) = estimate else { return "–".into() };
    let mean = if signed { format!("{mean:+.digits$}") } else { format!("{mean:.digits$}") };
    half.map_or(mean.clone(), |half| format!("{mean} ± {half:.digits$}"))
}

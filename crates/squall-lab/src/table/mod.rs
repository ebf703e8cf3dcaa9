//! Results as plain text for the terminal: aligned columns with units.

pub mod format;

use crate::result::RunResult;
use crate::summary::{self, Table};

/// All tables of these runs, scenario by scenario.
pub fn results(runs: &[RunResult]) -> String {
    let mut text = String::new();
    for (scenario, runs) in summary::by_scenario(runs) {
        text.push_str(&format!("scenario {scenario}\n\n"));
        let tables =
            [summary::blocks(&runs), summary::pictures(&runs), summary::paths(&runs), summary::checks(&runs)];
        for table in tables {
            if !table.rows.is_empty() {
                text.push_str(&render(&table));
                text.push('\n');
            }
        }
    }
    text
}

/// One table: its title, a line of names with units, a rule, and a line per row.
pub fn render(table: &Table) -> String {
    let headings: Vec<String> = table.columns.iter().map(summary::Column::heading).collect();
    let widths: Vec<usize> = headings
        .iter()
        .enumerate()
        .map(|(index, heading)| {
            let cells = table.rows.iter().map(|row| width(&row[index]));
            cells.chain([width(heading)]).max().unwrap_or(0)
        })
        .collect();
    let mut text = format!("{}\n", table.title);
    push_line(&mut text, &headings, table, &widths);
    text.push_str(&"─".repeat(widths.iter().sum::<usize>() + 2 * widths.len().saturating_sub(1)));
    text.push('\n');
    for row in &table.rows {
        push_line(&mut text, row, table, &widths);
    }
    text
}

/// Numbers to the right, words to the left.
fn push_line(text: &mut String, cells: &[String], table: &Table, widths: &[usize]) {
    let mut line = String::new();
    for ((cell, column), &cell_width) in cells.iter().zip(&table.columns).zip(widths) {
        let padding = " ".repeat(cell_width - width(cell));
        let (before, after) =
            if column.numeric { (padding, String::new()) } else { (String::new(), padding) };
        line.push_str(&format!("{before}{}{after}  ", plain(cell)));
    }
    text.push_str(line.trim_end());
    text.push('\n');
}

/// Names come from files: a control character must not reach the terminal.
fn plain(cell: &str) -> String {
    cell.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

fn width(cell: &str) -> usize {
    cell.chars().count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::sample::run;
    use crate::summary::Column;

    #[test]
    fn columns_are_aligned() {
        let table = Table {
            title: "t".into(),
            columns: vec![Column::text("name"), Column::number("p50", "ms")],
            rows: vec![vec!["a".into(), "1.00".into()], vec!["longer\x1b".into(), "1234".into()]],
        };
        let expected = "t\nname     p50 ms\n───────────────\na          1.00\nlonger\u{fffd}    1234\n";
        assert_eq!(render(&table), expected);
    }

    #[test]
    fn lists_every_scheduler_path_and_check() {
        let runs: Vec<_> = ["minrtt", "storm(alpha=0.5)"].map(|name| run(name, 1)).into();
        let text = results(&runs);
        for word in ["scenario fading", "minrtt", "storm(alpha=0.5)", "LTE", "p99.9 ms", "in_time_ratio"] {
            assert!(text.contains(word), "{word} in\n{text}");
        }
    }
}

//! Results as plain text for the terminal: aligned columns with units.

use crate::result::RunResult;
use crate::summary::{self, Table};

/// How to read the columns of results.
const LEGEND: &str = "in time, delivered: of the blocks that were due. limit: the most that any\n\
    scheduler could have had in time. ±: half of the 95 % confidence interval over\n\
    the seeds.\n";

/// All tables of these runs, scenario by scenario. Those that are wider than `width` columns, if that is given, are cut
/// into parts.
pub fn results(runs: &[RunResult], width: Option<usize>) -> String {
    let mut text = String::new();
    for (scenario, runs) in summary::by_scenario(runs) {
        text.push_str(&format!("scenario {scenario}\n\n"));
        let tables =
            [summary::blocks(&runs), summary::pictures(&runs), summary::paths(&runs), summary::checks(&runs)];
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

/// The table as several that are no wider than this, if it has numbers: each begins with the columns of words.
fn parts(table: &Table, width: Option<usize>) -> Vec<Table> {
    let widths = widths(table);
    let words = table.columns.iter().take_while(|column| !column.numeric).count();
    let span = |columns: &[usize]| columns.iter().map(|index| widths[*index] + GAP).sum::<usize>();
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for (index, own) in widths.iter().enumerate().skip(words) {
        let fits = |group: &&mut Vec<usize>| width.is_none_or(|width| span(group) + own <= width);
        match groups.last_mut().filter(fits) {
            Some(group) => group.push(index),
            None => groups.push((0..words).chain([index]).collect()),
        }
    }
    if groups.len() < 2 {
        return vec![table.clone()];
    }
    let part = |(number, group): (usize, Vec<usize>)| Table {
        title: if number == 0 { table.title.clone() } else { "(continued)".into() },
        columns: group.iter().map(|index| table.columns[*index].clone()).collect(),
        rows: table.rows.iter().map(|row| group.iter().map(|index| row[*index].clone()).collect()).collect(),
    };
    groups.into_iter().enumerate().map(part).collect()
}

/// Characters between two columns.
const GAP: usize = 2;

fn widths(table: &Table) -> Vec<usize> {
    let of = |(index, column): (usize, &summary::Column)| {
        let cells = table.rows.iter().map(|row| width(&row[index]));
        cells.chain([width(&column.heading())]).max().unwrap_or(0)
    };
    table.columns.iter().enumerate().map(of).collect()
}

/// One table: its title, a line of names with units, a rule, and a line per row.
pub fn render(table: &Table) -> String {
    let headings: Vec<String> = table.columns.iter().map(summary::Column::heading).collect();
    let widths = widths(table);
    let mut text = format!("{}\n", table.title);
    push_line(&mut text, &headings, table, &widths);
    text.push_str(&"─".repeat(widths.iter().sum::<usize>() + GAP * widths.len().saturating_sub(1)));
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
        let text = results(&runs, None);
        for word in ["scenario fading", "minrtt", "storm(alpha=0.5)", "LTE", "p99.9 ms", "in_time_ratio"] {
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

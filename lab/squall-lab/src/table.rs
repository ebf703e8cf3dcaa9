//! Tables of text for the terminal: aligned columns with units.

use std::borrow::Cow;

/// A table of text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table {
    /// Title.
    pub title: String,
    /// Columns.
    pub columns: Vec<Column>,
    /// Rows, each with one cell per column.
    pub rows: Vec<Vec<String>>,
}

/// A column of a [`Table`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// Name.
    pub name: String,
    /// Unit of the cells; empty for none.
    pub unit: String,
    /// Numbers are aligned to the right.
    pub numeric: bool,
}

impl Column {
    /// Creates a column of words.
    pub fn text(name: &str) -> Self {
        Self { name: name.into(), unit: String::new(), numeric: false }
    }

    /// Creates a column of numbers.
    pub fn number(name: &str, unit: &str) -> Self {
        Self { name: name.into(), unit: unit.into(), numeric: true }
    }

    /// Returns name and unit.
    pub fn heading(&self) -> String {
        if self.unit.is_empty() { self.name.clone() } else { format!("{} {}", self.name, self.unit) }
    }
}

/// Splits a table that is wider than this, if it has numbers. Each part begins with the columns of
/// words.
pub(crate) fn parts(table: &Table, width: Option<usize>) -> Vec<Table> {
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
    let of = |(index, column): (usize, &Column)| {
        let cells = table.rows.iter().map(|row| width(&row[index]));
        cells.chain([width(&column.heading())]).max().unwrap_or(0)
    };
    table.columns.iter().enumerate().map(of).collect()
}

/// Formats a table: title, a line of names with units, a rule, and one line per row.
pub fn render(table: &Table) -> String {
    let headings: Vec<String> = table.columns.iter().map(Column::heading).collect();
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

/// Aligns numbers to the right, words to the left.
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

/// Replaces control characters, which must not reach the terminal: names come from files.
fn plain(cell: &str) -> String {
    cell.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

fn width(cell: &str) -> usize {
    cell.chars().count()
}

/// Returns a field of a CSV file, quoted if necessary (RFC 4180).
pub fn csv_field(field: &str) -> Cow<'_, str> {
    if field.contains([',', '"', '\n', '\r']) {
        Cow::Owned(format!("\"{}\"", field.replace('"', "\"\"")))
    } else {
        Cow::Borrowed(field)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_with_commas_are_quoted() {
        assert_eq!(csv_field("rr(a=1,b=2)"), "\"rr(a=1,b=2)\"");
        assert_eq!(csv_field("say \"hi\""), "\"say \"\"hi\"\"\"");
        assert_eq!(csv_field("plain"), "plain");
    }

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
}

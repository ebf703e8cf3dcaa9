//! Tables of text, and the format of numbers in them.

/// A table of text.
pub(crate) struct Table {
    pub(crate) head: Vec<&'static str>,
    pub(crate) rows: Vec<Vec<String>>,
    /// Number of left-aligned columns; the others are numbers.
    pub(crate) left: usize,
    /// Columns that are omitted on a narrow terminal, in this order.
    pub(crate) spare: &'static [&'static str],
}

/// Characters between columns.
pub(crate) const SPACING: usize = 2;

impl Table {
    /// Returns the width of each column in characters.
    pub(crate) fn widths(&self) -> Vec<usize> {
        let width = |column: usize| {
            let cells = self.rows.iter().map(|row| row[column].chars().count());
            cells.chain([self.head[column].chars().count()]).max().unwrap_or(0)
        };
        (0..self.head.len()).map(width).collect()
    }

    /// Omits spare columns until the table fits this width.
    pub(crate) fn fit(mut self, width: usize) -> Self {
        for spare in self.spare {
            let widths = self.widths();
            if widths.iter().sum::<usize>() + SPACING * widths.len().saturating_sub(1) <= width {
                break;
            }
            let Some(column) = self.head.iter().position(|name| name == spare) else { continue };
            self.head.remove(column);
            for row in &mut self.rows {
                row.remove(column);
            }
            self.left -= usize::from(column < self.left);
        }
        self
    }

    /// Formats the table as lines of text.
    pub(crate) fn text(&self) -> String {
        let widths = self.widths();
        let line = |cells: &mut dyn Iterator<Item = &str>| {
            let padded: Vec<String> = cells
                .zip(&widths)
                .enumerate()
                .map(|(column, (cell, width))| pad(cell, *width, column < self.left))
                .collect();
            format!("{}\n", padded.join(&" ".repeat(SPACING)).trim_end())
        };
        let mut text = line(&mut self.head.iter().copied());
        for row in &self.rows {
            text.push_str(&line(&mut row.iter().map(String::as_str)));
        }
        text
    }
}

/// Pads a cell to this width.
pub(crate) fn pad(cell: &str, width: usize, left: bool) -> String {
    if left { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
}

/// Formats a time in milliseconds, with one decimal.
pub(crate) fn millis(us: u64) -> String {
    format!("{:.1}", us as f64 / 1e3)
}

/// Formats a time as on a clock.
pub(crate) fn span(seconds: f64) -> String {
    let whole = seconds as u64;
    match whole {
        0..60 => format!("{seconds:.1} s"),
        60..3600 => format!("{}:{:02}", whole / 60, whole % 60),
        _ => format!("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_as_wide_as_what_is_in_them() {
        let table = Table {
            head: vec!["name", "n"],
            rows: vec![vec!["a".into(), "1".into()], vec!["longer".into(), "100".into()]],
            left: 1,
            spare: &["n"],
        };
        assert_eq!(table.text(), "name      n\na         1\nlonger  100\n");
        let table = table.fit(11);
        assert_eq!(table.head.len(), 2);
        assert_eq!(table.fit(10).text(), "name\na\nlonger\n");
    }

    #[test]
    fn spans_are_shown_as_on_clocks() {
        assert_eq!([5.0, 65.0, 3_700.0].map(span), ["5.0 s", "1:05", "1:01:40"]);
    }
}

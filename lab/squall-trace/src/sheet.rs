//! Tables as text, read row by row; every mistake names its line and column.

use std::str::Lines;

use csv::{ReaderBuilder, StringRecord};

use super::{MAX_ROWS, Quantity, TraceError};

/// A table with a line of names.
pub(super) struct Sheet<'t> {
    file: &'t str,
    names: Vec<String>,
    source: Source<'t>,
    record: StringRecord,
    line: u64,
    count: usize,
    /// Whether rows may be shorter than the line of names, and names may stand twice.
    ragged: bool,
}

enum Source<'t> {
    /// Cells between commas.
    Commas { text: &'t str, reader: Box<csv::Reader<&'t [u8]>> },
    /// Cells between spaces.
    Spaces { lines: Lines<'t>, line: u64 },
}

/// A row of a table.
#[derive(Clone, Copy)]
pub(super) struct Cells<'s> {
    file: &'s str,
    names: &'s [String],
    record: &'s StringRecord,
    /// The row's line in the file, from 1.
    pub(super) line: u64,
}

impl<'t> Sheet<'t> {
    /// A table with commas between its cells.
    ///
    /// # Errors
    /// If it has no names, or one twice.
    pub(super) fn with_commas(file: &'t str, text: &'t str) -> Result<Self, TraceError> {
        Self::open(file, commas(text), false)
    }

    /// A table with commas between its cells, whose rows may have less or more cells than there are names. A name that
    /// stands twice means its first column.
    ///
    /// # Errors
    /// If it has no names.
    pub(super) fn ragged(file: &'t str, text: &'t str) -> Result<Self, TraceError> {
        Self::open(file, commas(text), true)
    }

    /// A table with spaces between its cells.
    ///
    /// # Errors
    /// As [`Self::with_commas`].
    pub(super) fn with_spaces(file: &'t str, text: &'t str) -> Result<Self, TraceError> {
        Self::open(file, Source::Spaces { lines: text.lines(), line: 0 }, false)
    }

    fn open(file: &'t str, source: Source<'t>, ragged: bool) -> Result<Self, TraceError> {
        let (names, record) = (Vec::new(), StringRecord::new());
        let mut sheet = Self { file, names, source, record, line: 0, count: 0, ragged };
        if !sheet.advance()? {
            return Err(TraceError::file(file, "is empty; a line with the names of the columns is needed"));
        }
        let names: Vec<String> = sheet.record.iter().map(|name| name.trim().to_owned()).collect();
        for (index, name) in names.iter().enumerate() {
            if !ragged && names[..index].contains(name) {
                return Err(TraceError::line(file, sheet.line, format!("there are two columns {name:?}")));
            }
        }
        sheet.names = names;
        Ok(sheet)
    }

    /// The names of its columns.
    pub(super) fn names(&self) -> &[String] {
        &self.names
    }

    /// Where a column is, if there is one of that name.
    pub(super) fn column(&self, name: &str) -> Option<usize> {
        self.names.iter().position(|known| known == name)
    }

    /// Where a column is.
    ///
    /// # Errors
    /// If there is none of that name.
    pub(super) fn need(&self, name: &str) -> Result<usize, TraceError> {
        let missing = || TraceError::line(self.file, 1, format!("there is no column {name:?}"));
        self.column(name).ok_or_else(missing)
    }

    /// The next row.
    ///
    /// # Errors
    /// If it has more or fewer cells than there are columns, or there are too many rows.
    pub(super) fn next(&mut self) -> Result<Option<Cells<'_>>, TraceError> {
        if !self.advance()? {
            return Ok(None);
        }
        self.count += 1;
        let fault = |problem: String| TraceError::line(self.file, self.line, problem);
        if self.count > MAX_ROWS && !self.ragged {
            return Err(fault(format!("there are more than {MAX_ROWS} rows")));
        }
        let (cells, columns) = (self.record.len(), self.names.len());
        if cells != columns && !self.ragged {
            return Err(fault(format!("{cells} cells instead of {columns}")));
        }
        let (file, names, record, line) = (self.file, &self.names, &self.record, self.line);
        Ok(Some(Cells { file, names, record, line }))
    }

    /// Whether there was one more line with cells.
    fn advance(&mut self) -> Result<bool, TraceError> {
        match &mut self.source {
            Source::Commas { text, reader } => {
                let (start, line) = (reader.position().byte(), reader.position().line());
                self.line = line + empty_lines(text, start);
                let fault = |error: csv::Error| TraceError::line(self.file, self.line, error.to_string());
                reader.read_record(&mut self.record).map_err(fault)
            }
            Source::Spaces { lines, line } => {
                self.record.clear();
                for text in lines {
                    *line += 1;
                    self.record.extend(text.split_whitespace());
                    if !self.record.is_empty() {
                        self.line = *line;
                        return Ok(true);
                    }
                }
                Ok(false)
            }
        }
    }
}

fn commas(text: &str) -> Source<'_> {
    let reader = ReaderBuilder::new().has_headers(false).flexible(true).from_reader(text.as_bytes());
    Source::Commas { text, reader: Box::new(reader) }
}

/// The reader passes over them, but counts from where it was.
fn empty_lines(text: &str, start: u64) -> u64 {
    let rest = usize::try_from(start).ok().and_then(|start| text.as_bytes().get(start..)).unwrap_or_default();
    let empty = rest.iter().take_while(|byte| matches!(byte, b'\r' | b'\n'));
    empty.filter(|&&byte| byte == b'\n').count() as u64
}

impl<'s> Cells<'s> {
    /// The text of a cell, without spaces around it.
    pub(super) fn text(self, column: usize) -> &'s str {
        self.record.get(column).unwrap_or_default().trim()
    }

    /// The number in a cell; `None` if it is empty, or `-`, as some logs write for the same.
    ///
    /// # Errors
    /// If it is no finite number.
    pub(super) fn number(self, column: usize) -> Result<Option<f64>, TraceError> {
        let text = self.text(column);
        if text.is_empty() || text == "-" {
            return Ok(None);
        }
        let number = text.parse().ok().filter(|number: &f64| number.is_finite());
        number.map(Some).ok_or_else(|| self.fault(column, format!("{text:?} is not a number")))
    }

    /// The number in a cell that must have one.
    ///
    /// # Errors
    /// As [`Self::number`], and if it is empty.
    pub(super) fn given(self, column: usize) -> Result<f64, TraceError> {
        self.number(column)?.ok_or_else(|| self.fault(column, "is empty"))
    }

    /// A level of a radio. A number that no radio reports says that the level was not known.
    ///
    /// # Errors
    /// As [`Self::number`].
    pub(super) fn level(self, column: usize, quantity: Quantity) -> Result<Option<f64>, TraceError> {
        Ok(self.number(column)?.filter(|&level| quantity.check(level).is_ok()))
    }

    /// A number within the bounds of a quantity; the cell has so many `per` unit of it.
    ///
    /// # Errors
    /// As [`Self::number`], and if it is out of bounds.
    pub(super) fn quantity(
        self,
        column: usize,
        quantity: Quantity,
        per: f64,
    ) -> Result<Option<f64>, TraceError> {
        let Some(number) = self.number(column)? else { return Ok(None) };
        quantity.check(number / per).map(Some).map_err(|problem| self.fault(column, problem))
    }

    /// What is wrong with a cell.
    pub(super) fn fault(self, column: usize, problem: impl Into<String>) -> TraceError {
        let column = self.names.get(column).cloned().unwrap_or_default();
        TraceError::Cell { file: self.file.to_owned(), line: self.line, column, problem: problem.into() }
    }
}

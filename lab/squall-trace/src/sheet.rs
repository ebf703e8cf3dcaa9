//! Tables as text, read row by row; every mistake names its line and column.

use std::{ops::RangeInclusive, str::Lines};

use csv::{ReaderBuilder, StringRecord};

use crate::{Quantity, TraceError, quantity::within};

/// A table with a line of names.
pub(crate) struct Sheet<'t> {
    file: &'t str,
    names: Vec<String>,
    source: Source<'t>,
    record: StringRecord,
    line: u64,
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
pub(crate) struct Cells<'s> {
    file: &'s str,
    names: &'s [String],
    record: &'s StringRecord,
    /// The row's line in the file, from 1.
    pub(crate) line: u64,
}

/// How a table is written.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Layout {
    /// Cells between commas.
    Commas,
    /// Cells between commas, where rows may have less or more cells than there are names, and a name that is there twice
    /// means its first column.
    Ragged,
    /// Cells between spaces.
    Spaces,
}

impl<'t> Sheet<'t> {
    /// Reads the names of a table.
    ///
    /// # Errors
    /// If it has none, or one twice.
    pub(crate) fn open(file: &'t str, text: &'t str, layout: Layout) -> Result<Self, TraceError> {
        let ragged = layout == Layout::Ragged;
        let source = match layout {
            Layout::Spaces => Source::Spaces { lines: text.lines(), line: 0 },
            Layout::Commas | Layout::Ragged => {
                let reader =
                    ReaderBuilder::new().has_headers(false).flexible(true).from_reader(text.as_bytes());
                Source::Commas { text, reader: Box::new(reader) }
            }
        };
        let (names, record) = (Vec::new(), StringRecord::new());
        let mut sheet = Self { file, names, source, record, line: 0, ragged };
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
    pub(crate) fn names(&self) -> &[String] {
        &self.names
    }

    /// Whether it has all of these columns.
    pub(crate) fn has(&self, names: &[&str]) -> bool {
        names.iter().all(|name| self.names.iter().any(|known| known == name))
    }

    /// Checks that these columns are there.
    ///
    /// # Errors
    /// Names the first that is not.
    pub(crate) fn need(&self, names: &[&str]) -> Result<(), TraceError> {
        match names.iter().find(|name| !self.has(&[name])) {
            Some(name) => Err(TraceError::line(self.file, 1, format!("there is no column {name:?}"))),
            None => Ok(()),
        }
    }

    /// The next row.
    ///
    /// # Errors
    /// If it has more or fewer cells than there are columns.
    pub(crate) fn next(&mut self) -> Result<Option<Cells<'_>>, TraceError> {
        if !self.advance()? {
            return Ok(None);
        }
        let (cells, columns) = (self.record.len(), self.names.len());
        if cells != columns && !self.ragged {
            let problem = format!("{cells} cells instead of {columns}");
            return Err(TraceError::line(self.file, self.line, problem));
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

/// The reader passes over them, but counts from where it was.
fn empty_lines(text: &str, start: u64) -> u64 {
    let rest = usize::try_from(start).ok().and_then(|start| text.as_bytes().get(start..)).unwrap_or_default();
    let empty = rest.iter().take_while(|byte| matches!(byte, b'\r' | b'\n'));
    empty.filter(|&&byte| byte == b'\n').count() as u64
}

impl<'s> Cells<'s> {
    /// The text of a cell, without spaces around it; empty if there is no such column.
    pub(crate) fn text(self, column: &str) -> &'s str {
        let place = self.names.iter().position(|known| known == column);
        place.and_then(|place| self.record.get(place)).unwrap_or_default().trim()
    }

    /// The number in a cell; `None` if it is empty, or `-`, as some logs write for the same.
    ///
    /// # Errors
    /// If it is no finite number.
    pub(crate) fn number(self, column: &str) -> Result<Option<f64>, TraceError> {
        let text = self.text(column);
        if text.is_empty() || text == "-" {
            return Ok(None);
        }
        let number = text.parse().ok().filter(|number: &f64| number.is_finite());
        number.map(Some).ok_or_else(|| self.fault(column, format!("{text:?} is not a number")))
    }

    /// A number within bounds; the cell has `per` of them in a unit.
    ///
    /// # Errors
    /// As [`Self::number`], and if it is out of bounds.
    pub(crate) fn within(
        self,
        column: &str,
        bounds: &RangeInclusive<f64>,
        per: f64,
    ) -> Result<Option<f64>, TraceError> {
        let number = self.number(column)?.map(|number| within(number / per, bounds));
        number.transpose().map_err(|problem| self.fault(column, problem))
    }

    /// The number in a cell that must have one.
    ///
    /// # Errors
    /// As [`Self::within`], and if it is empty.
    pub(crate) fn given(self, column: &str, bounds: &RangeInclusive<f64>) -> Result<f64, TraceError> {
        self.within(column, bounds, 1.0)?.ok_or_else(|| self.fault(column, "is empty"))
    }

    /// A quantity of which the cell has `per` in a unit. A level that no radio reports was not known.
    ///
    /// # Errors
    /// As [`Self::within`].
    pub(crate) fn quantity(
        self,
        column: &str,
        quantity: Quantity,
        per: f64,
    ) -> Result<Option<f64>, TraceError> {
        if quantity.is_level() {
            return Ok(self.number(column)?.filter(|level| quantity.bounds().contains(level)));
        }
        self.within(column, &quantity.bounds(), per)
    }

    /// What is wrong with the row.
    pub(crate) fn fault_of_row(self, problem: impl Into<String>) -> TraceError {
        TraceError::line(self.file, self.line, problem)
    }

    /// What is wrong with a cell.
    pub(crate) fn fault(self, column: &str, problem: impl Into<String>) -> TraceError {
        TraceError::cell(self.file, self.line, column, problem)
    }
}

//! Text tables, read row by row; every error has its line and column.

use std::ops::RangeInclusive;

use csv::{ReaderBuilder, StringRecord};

use crate::{Quantity, TraceError, quantity::within};

/// A table with a header line.
pub(crate) struct Sheet<'t> {
    file: &'t str,
    names: Vec<String>,
    source: Source<'t>,
    record: StringRecord,
    line: u64,
    /// Decimal commas are used, because cells are not separated by commas.
    has_decimal_commas: bool,
}

enum Source<'t> {
    /// Cells separated by commas, semicolons or tabs.
    Delimited { text: &'t str, reader: Box<csv::Reader<&'t [u8]>> },
    /// Cells separated by spaces.
    Spaces(Box<dyn Iterator<Item = (u64, &'t str)> + 't>),
}

/// A row of a table.
#[derive(Clone, Copy)]
pub(crate) struct Cells<'s> {
    file: &'s str,
    names: &'s [String],
    record: &'s StringRecord,
    has_decimal_commas: bool,
    /// The row's line in the file, from 1.
    pub(crate) line: u64,
}

/// Layout of a table.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Layout {
    /// Cells separated by commas, or by semicolons or tabs, with decimal commas or points,
    /// according to the header.
    Delimited,
    /// Cells separated by spaces.
    Spaces,
}

/// Returns the lines of a text without surrounding spaces, with their numbers from 1. Empty lines
/// and comments, which begin with `#`, are left out.
pub(crate) fn lines(text: &str) -> impl Iterator<Item = (u64, &str)> {
    let lines = (1..).zip(text.lines().map(str::trim));
    lines.filter(|(_, line)| !line.is_empty() && !line.starts_with(REMARK))
}

const REMARK: char = '#';

/// Returns the names in the first line of a table, and the delimiter.
pub(crate) fn names(first: &str) -> (Vec<&str>, u8) {
    let delimiter = [',', ';', '\t'].into_iter().find(|delimiter| first.contains(*delimiter)).unwrap_or(',');
    let names = first.split(delimiter).map(|name| name.trim().trim_matches('"').trim()).collect();
    (names, delimiter as u8)
}

impl<'t> Sheet<'t> {
    /// Reads the names of a table.
    ///
    /// # Errors
    /// If it has none.
    pub(crate) fn open(file: &'t str, text: &'t str, layout: Layout) -> Result<Self, TraceError> {
        let delimiter = lines(text).next().map_or(b',', |(_, first)| names(first).1);
        let source = match layout {
            Layout::Spaces => Source::Spaces(Box::new(lines(text))),
            Layout::Delimited => {
                let mut builder = ReaderBuilder::new();
                builder.has_headers(false).flexible(true).delimiter(delimiter).comment(Some(REMARK as u8));
                Source::Delimited { text, reader: Box::new(builder.from_reader(text.as_bytes())) }
            }
        };
        let has_decimal_commas = layout == Layout::Delimited && delimiter != b',';
        let (names, record) = (Vec::new(), StringRecord::new());
        let mut sheet = Self { file, names, source, record, line: 0, has_decimal_commas };
        if !sheet.advance()? {
            return Err(TraceError::file(file, "is empty; a line with the names of the columns is needed"));
        }
        sheet.names = sheet.record.iter().map(|name| name.trim().to_owned()).collect();
        Ok(sheet)
    }

    /// Returns the names of its columns.
    pub(crate) fn names(&self) -> &[String] {
        &self.names
    }

    /// Returns `true` if it has all of these columns.
    pub(crate) fn has(&self, names: &[&str]) -> bool {
        names.iter().all(|name| self.names.iter().any(|known| known.eq_ignore_ascii_case(name)))
    }

    /// Checks that these columns exist.
    ///
    /// # Errors
    /// The name of the first missing column.
    pub(crate) fn need(&self, names: &[&str]) -> Result<(), TraceError> {
        match names.iter().find(|name| !self.has(&[name])) {
            Some(name) => Err(self.fault_of_names(format!("there is no column {name:?}"))),
            None => Ok(()),
        }
    }

    /// Creates an error for the header line.
    pub(crate) fn fault_of_names(&self, problem: impl Into<String>) -> TraceError {
        TraceError::line(self.file, self.line, problem)
    }

    /// Returns the next non-empty row.
    ///
    /// # Errors
    /// If it has more or fewer cells than there are columns.
    pub(crate) fn next(&mut self) -> Result<Option<Cells<'_>>, TraceError> {
        if !self.advance()? {
            return Ok(None);
        }
        let (cells, columns) = (self.record.len(), self.names.len());
        if cells != columns {
            let end = if cells < columns { "; the file may be cut off" } else { "" };
            let problem = format!("{cells} cells instead of {columns}{end}");
            return Err(TraceError::line(self.file, self.line, problem));
        }
        let (file, names, record, line) = (self.file, &self.names, &self.record, self.line);
        Ok(Some(Cells { file, names, record, has_decimal_commas: self.has_decimal_commas, line }))
    }

    /// Advances to the next line with a non-empty cell; returns `false` at the end.
    fn advance(&mut self) -> Result<bool, TraceError> {
        match &mut self.source {
            Source::Delimited { text, reader } => loop {
                let (start, line) = (reader.position().byte(), reader.position().line());
                self.line = line + passed_over(text, start);
                let fault = |error: csv::Error| TraceError::line(self.file, self.line, error.to_string());
                if !reader.read_record(&mut self.record).map_err(fault)? {
                    return Ok(false);
                }
                if self.record.iter().any(|cell| !cell.trim().is_empty()) {
                    return Ok(true);
                }
            },
            Source::Spaces(lines) => {
                self.record.clear();
                let Some((line, text)) = lines.next() else { return Ok(false) };
                self.record.extend(text.split_whitespace());
                self.line = line;
                Ok(true)
            }
        }
    }
}

/// Returns the number of lines that the reader skips, because it counts from its previous position.
fn passed_over(text: &str, start: u64) -> u64 {
    let rest = usize::try_from(start).ok().and_then(|start| text.get(start..)).unwrap_or_default();
    let is_passed = |line: &&str| line.trim_end_matches(['\r', '\n']).is_empty() || line.starts_with(REMARK);
    rest.split_inclusive('\n').take_while(is_passed).filter(|line| line.ends_with('\n')).count() as u64
}

impl<'s> Cells<'s> {
    /// Returns the text of a cell, without surrounding spaces; empty if there is no such column.
    pub(crate) fn text(self, column: &str) -> &'s str {
        let place = self.names.iter().position(|known| known.eq_ignore_ascii_case(column));
        place.and_then(|place| self.record.get(place)).unwrap_or_default().trim()
    }

    /// Returns the number in a cell; `None` if it is empty, or `-`, which some logs use for the
    /// same.
    ///
    /// # Errors
    /// If it is not a finite number.
    pub(crate) fn number(self, column: &str) -> Result<Option<f64>, TraceError> {
        let text = self.text(column);
        if text.is_empty() || text == "-" {
            return Ok(None);
        }
        let decimal = self.has_decimal_commas.then(|| text.replacen(',', ".", 1));
        let number =
            decimal.as_deref().unwrap_or(text).parse().ok().filter(|number: &f64| number.is_finite());
        number.map(Some).ok_or_else(|| self.fault(column, format!("{text:?} is not a number{}", hint(text))))
    }

    /// Returns a number within bounds; the cell's value is `per` times the number.
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

    /// Returns the number in a cell that must have one.
    ///
    /// # Errors
    /// As [`Self::within`], and if it is empty.
    pub(crate) fn given(self, column: &str, bounds: &RangeInclusive<f64>) -> Result<f64, TraceError> {
        self.within(column, bounds, 1.0)?.ok_or_else(|| self.fault(column, "is empty"))
    }

    /// Returns a quantity; the cell's value is `per` times the quantity. A level that no radio
    /// reports is unknown.
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

    /// Creates an error for the row.
    pub(crate) fn fault_of_row(self, problem: impl Into<String>) -> TraceError {
        TraceError::line(self.file, self.line, problem)
    }

    /// Creates an error for a cell.
    pub(crate) fn fault(self, column: &str, problem: impl Into<String>) -> TraceError {
        TraceError::cell(self.file, self.line, column, problem)
    }
}

/// Returns advice about a cell that is not a number.
fn hint(text: &str) -> &'static str {
    if text.eq_ignore_ascii_case("nan")
        || text.eq_ignore_ascii_case("null")
        || text.eq_ignore_ascii_case("na")
    {
        "; leave empty what was not measured"
    } else {
        ""
    }
}

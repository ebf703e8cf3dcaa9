//! A recording, independent of its format.

use std::fmt;

use squall_signal::Reading;

use crate::{
    Format, Gaps, MAX_ROWS, Micros, Quantity, RecordingError, Row, Supply, mahimahi, own, row::usual_step,
    schedule,
};

/// A recorded network: rates, round trips and levels by time, or delivery opportunities instead of
/// rates.
#[derive(Debug, Clone, PartialEq)]
pub struct Recording {
    pub(crate) format: Format,
    /// By time. A last row with only a time marks the end of the recording.
    pub(crate) rows: Vec<Row>,
    /// In milliseconds, by time; if present, no row has a rate.
    pub(crate) opportunities: Option<Vec<u64>>,
    /// End of the last row's validity; not before the last opportunity.
    pub(crate) end: Micros,
    /// Usual time between rows.
    pub(crate) step: Micros,
    /// The selected rate; `None` if there is none.
    pub(crate) rate: Option<Quantity>,
}

impl Recording {
    /// Creates a recording of these rows.
    ///
    /// # Errors
    /// If there are none or too many, a number is out of its bounds ([`Quantity::bounds`]), or time goes back.
    pub fn new(rows: Vec<Row>) -> Result<Self, RecordingError> {
        if rows.is_empty() {
            return Err(RecordingError::NoRows);
        }
        if rows.len() > MAX_ROWS {
            return Err(RecordingError::TooManyRows);
        }
        let mut before = 0;
        for (index, row) in rows.iter().enumerate() {
            row.check(before).map_err(|problem| RecordingError::Row { row: index + 1, problem })?;
            before = row.at;
        }
        Ok(Self::of_checked(rows))
    }

    /// As [`Self::new`], for rows that are valid.
    pub(crate) fn of_checked(rows: Vec<Row>) -> Self {
        let (last, measured) = (rows.last().map_or(0, |row| row.at), measured(&rows));
        let step = usual_step(measured);
        let end = if measured.len() < rows.len() { last } else { last + step };
        let rate = Quantity::RATES.into_iter().find(|&rate| rows.iter().any(|row| row[rate].is_some()));
        Self { format: Format::Csv, rows, opportunities: None, end, step, rate }
    }

    /// Creates a recording of opportunities in milliseconds until `end`, and rows of other
    /// measurements.
    pub(crate) fn of_opportunities(millis: Vec<u64>, end: Micros, rows: Vec<Row>) -> Self {
        let rate = Some(Quantity::Down);
        Self { format: Format::Mahimahi, rows, opportunities: Some(millis), end, step: 1_000_000, rate }
    }

    /// Returns the recording with another end, which is not before its last row.
    pub(crate) fn ending(self, end: Micros) -> Self {
        Self { rows: closed(self.rows, end), end, ..self }
    }

    /// Returns the rows from `from` on, at most `length` long; time begins at 0. `None` if there
    /// are none.
    pub fn cut(&self, from: Micros, length: Micros) -> Option<Self> {
        let end = from.saturating_add(length);
        let part = self.rows.iter().filter(|row| (from..=end).contains(&row.at));
        let rows: Vec<Row> = part.map(|row| Row { at: row.at - from, ..row.clone() }).collect();
        (!rows.is_empty()).then(|| Self { format: self.format, ..Self::of_checked(rows) })
    }

    /// Returns its original format.
    pub fn format(&self) -> Format {
        self.format
    }

    /// Returns its rows, by time.
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// Returns the selected rate, [`Quantity::Down`] or [`Quantity::Up`]; `None` if there is none.
    pub fn rate(&self) -> Option<Quantity> {
        self.rate
    }

    /// Returns its length in microseconds: to the end of its last interval. A table ends one usual
    /// step after its last row, unless that row has only a time: then it ends there. Opportunities
    /// end with the last.
    pub fn duration(&self) -> Micros {
        self.end
    }

    /// Returns the time of the last row.
    pub fn last(&self) -> Micros {
        self.rows.last().map_or(0, |row| row.at)
    }

    /// Returns the names of the non-empty columns.
    pub fn columns(&self) -> Vec<&'static str> {
        let has = |test: &dyn Fn(&Row) -> bool| self.rows.iter().any(test);
        let numbers =
            Quantity::ALL.into_iter().filter(|&one| has(&|row| row[one].is_some())).map(Quantity::name);
        let words =
            [("tech", has(&|row| !row.tech.is_empty())), ("event", has(&|row| !row.events.is_empty()))];
        self.opportunities
            .iter()
            .map(|_| "opportunities")
            .chain(numbers)
            .chain(words.into_iter().filter(|(_, has)| *has).map(|(name, _)| name))
            .collect()
    }

    /// Returns the radio's readings, with the time of the recording. Rows without a reading are
    /// left out.
    pub fn readings(&self) -> impl DoubleEndedIterator<Item = Reading> + Clone + '_ {
        self.rows.iter().filter_map(Row::reading)
    }

    /// Returns the numbers of a quantity, with their times.
    pub fn numbers(&self, quantity: Quantity) -> impl Iterator<Item = (Micros, f64)> + Clone + '_ {
        self.rows.iter().filter_map(move |row| Some((row.at, row[quantity]?)))
    }

    /// Returns the selected rates in Mbit/s, with their times; none if it has opportunities.
    pub fn rates(&self) -> impl Iterator<Item = (Micros, f64)> + Clone + '_ {
        self.numbers(self.rate.unwrap_or(Quantity::Down))
    }

    /// Returns the supply of the link; `None` if there is no rate.
    pub fn supply(&self, gaps: Gaps) -> Option<Supply> {
        match &self.opportunities {
            None => Supply::of_rows(&self.rows, self.end, self.step, self.rate?, gaps),
            Some(millis) => Some(Supply::of_opportunities(millis.clone(), self.end)),
        }
    }

    /// Converts the link to a trace of mahimahi.
    ///
    /// # Errors
    /// If it has no rate, carries no packet, or would have too many lines.
    pub fn mahimahi(&self, gaps: Gaps) -> Result<mahimahi::Trace, RecordingError> {
        match &self.opportunities {
            Some(millis) if millis.is_empty() => Err(RecordingError::Never),
            Some(millis) => mahimahi::Trace::new(millis.clone()),
            None => schedule::opportunities(&self.supply(gaps).ok_or(RecordingError::NoRate)?),
        }
    }

    /// Converts the recording to a table. Opportunities become the mean rate of each `step`, which
    /// is longer than 0.
    ///
    /// # Errors
    /// If there would be too many rows, or a rate is out of its bounds.
    pub fn table(&self, step: Micros) -> Result<Self, RecordingError> {
        let Some(millis) = &self.opportunities else { return Ok(self.clone()) };
        let supply = Supply::of_opportunities(millis.clone(), self.end);
        let mut rows = schedule::rows(&supply, step, self.rate.unwrap_or(Quantity::Down));
        rows.extend_from_slice(&self.rows);
        rows.sort_by_key(|row| row.at);
        Ok(Self { format: self.format, rate: self.rate, ..Self::new(rows)?.ending(self.end) })
    }
}

/// Returns the rows without a last one that has only a time.
pub(crate) fn measured(rows: &[Row]) -> &[Row] {
    match rows {
        [before @ .., last] if !before.is_empty() && last.is_bare() => before,
        all => all,
    }
}

/// Adds a last row that marks the end, if the rows would not end there by themselves.
pub(crate) fn closed(mut rows: Vec<Row>, end: Micros) -> Vec<Row> {
    rows.truncate(measured(&rows).len());
    if rows.last().is_some_and(|last| last.at + usual_step(&rows) != end) {
        rows.push(Row::new(end));
    }
    rows
}

impl fmt::Display for Recording {
    /// Writes the rows as a CSV file.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        own::write(&self.rows, f)
    }
}

#[cfg(test)]
mod tests;

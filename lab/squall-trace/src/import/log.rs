//! Conversion of the rows of a log to a recording.

use std::ops::Range;

use crate::{
    Event, MAX_ROWS, Micros, Quantity, Recording, RecordingError, Row, TraceError,
    quantity::{TIMES, within},
    row::usual_step,
};

/// The rows so far.
pub(super) struct Log<'t> {
    file: &'t str,
    rows: Vec<Row>,
    /// The time of the first row, by the log's clock.
    origin: i64,
    /// Serving cell of the previous row.
    cell: Option<String>,
}

impl<'t> Log<'t> {
    pub(super) fn new(file: &'t str) -> Self {
        Self { file, rows: Vec::new(), origin: 0, cell: None }
    }

    /// Adds a row from a line, at a time in microseconds by the log's clock, and marks changes
    /// since the previous row: of the serving cell, if the log has it, and of the technology.
    ///
    /// # Errors
    /// If the time goes back.
    pub(super) fn push(
        &mut self,
        line: u64,
        clock: i64,
        mut row: Row,
        cell: Option<String>,
    ) -> Result<(), TraceError> {
        let fault = |problem: String| TraceError::line(self.file, line, problem);
        let before = self.rows.last();
        if before.is_none() {
            self.origin = clock;
        }
        let since = clock.checked_sub(self.origin).and_then(|since| Micros::try_from(since).ok());
        row.at = since
            .filter(|&at| before.is_none_or(|before| before.at <= at))
            .ok_or_else(|| fault("its time is before that of the row above".to_owned()))?;
        within(row.at as f64 / 1e6, &TIMES).map_err(fault)?;
        if self.rows.len() == MAX_ROWS {
            return Err(fault(RecordingError::TooManyRows.to_string()));
        }
        if self.cell.is_some() && cell.is_some() && self.cell != cell {
            row.events.push(Event::Handover);
        }
        if let Some(before) = before.map(|before| &before.tech)
            && !before.is_empty()
            && !row.tech.is_empty()
            && *before != row.tech
        {
            row.events.push(Event::Changed { from: before.clone(), to: row.tech.clone() });
        }
        self.cell = cell.or_else(|| self.cell.take());
        for quantity in Quantity::ALL {
            row[quantity] = row[quantity].map(|value| quantity.rounded(value));
        }
        self.rows.push(row);
        Ok(())
    }

    /// Returns the time of the last row; `None` before the first.
    pub(super) fn last(&self) -> Option<i64> {
        self.rows.last().map(|row| self.origin + row.at as i64)
    }

    /// Marks runs of rows with a low rate; `meaning` classifies a run by its duration.
    pub(super) fn mark(&mut self, rate: Quantity, mbps: f64, meaning: impl Fn(Micros) -> Option<Low>) {
        self.mark_where(|row| row[rate].is_some_and(|rate| rate < mbps), meaning);
    }

    /// As [`Self::mark`], for rows that satisfy `low`.
    pub(super) fn mark_where(&mut self, low: impl Fn(&Row) -> bool, meaning: impl Fn(Micros) -> Option<Low>) {
        for (range, length) in runs(&self.rows, low) {
            match meaning(length) {
                Some(Low::Outage) => {
                    self.rows[range].iter_mut().for_each(|row| row.events.push(Event::Outage));
                }
                Some(Low::Idle) => self.rows[range].iter_mut().for_each(idle),
                None => {}
            }
        }
    }

    /// Returns the recording, with its gaps marked.
    ///
    /// # Errors
    /// If there are no rows.
    pub(super) fn finish(mut self) -> Result<Recording, TraceError> {
        let most = 3 * usual_step(&self.rows);
        for index in 1..self.rows.len() {
            if self.rows[index].at - self.rows[index - 1].at > most {
                self.rows[index].events.insert(0, Event::Gap);
            }
        }
        recording(self.file, self.rows)
    }
}

/// Creates a recording of these rows, which come from a file.
pub(super) fn recording(file: &str, rows: Vec<Row>) -> Result<Recording, TraceError> {
    Recording::new(rows).map_err(|error| TraceError::file(file, error.to_string()))
}

/// Cause of a low rate.
pub(super) enum Low {
    /// The network.
    Outage,
    /// The application.
    Idle,
}

/// Marks that the application paused: the downlink's rate is then meaningless.
pub(super) fn idle(row: &mut Row) {
    row[Quantity::Down] = None;
    row.events.push(Event::Idle);
}

/// Returns runs of consecutive rows that satisfy `low`, with the time from the first of them to the
/// row after them.
fn runs(rows: &[Row], low: impl Fn(&Row) -> bool) -> Vec<(Range<usize>, Micros)> {
    let step = usual_step(rows);
    let mut runs = Vec::new();
    let mut start = 0;
    for run in rows.chunk_by(|a, b| low(a) == low(b)) {
        let end = start + run.len();
        if low(&run[0]) {
            let until = rows.get(end).map_or_else(|| rows[end - 1].at + step, |next| next.at);
            runs.push((start..end, until - run[0].at));
        }
        start = end;
    }
    runs
}

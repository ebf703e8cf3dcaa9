//! Measured quantities that change over time in steps: capacity, delay or loss.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use serde::Deserialize;
use squall_trace::{Micros, Sample, TraceError, column, read_text};
use squall_units::Span;

/// Values over time, each of which holds until the next step.
///
/// The first value also holds before the first step; the last one holds from the last step on,
/// unless the series repeats.
#[derive(Debug, Clone, PartialEq)]
pub struct Series<V> {
    steps: Arc<[(Span, V)]>,
    /// Period after which the series restarts; longer than the time of the last step.
    repeat: Option<Span>,
    source: Option<CsvSource>,
}

/// A column of a CSV file from which a [`Series`] is read.
///
/// The first line has the names of the columns; time is in the column `time_s`, in seconds. The
/// suffix of the value column's name gives its unit: `_bps`, `_kbps`, `_mbps`, `_us`, `_ms`, `_s`,
/// or none for a share of 0 to 1. Rows with an empty value are skipped.
#[derive(Debug, Clone, PartialEq)]
pub struct CsvSource {
    /// The file, relative to the file that references it.
    pub csv: PathBuf,
    /// The column to read.
    pub column: String,
    /// Factor of all values: 0.5 turns a round-trip time into a one-way delay.
    pub scale: f64,
}

/// Error in a series.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SeriesError {
    /// There is no step at all.
    #[error("a series needs at least one step")]
    Empty,
    /// A step is earlier than the one before it.
    #[error("step {index} at {at} is earlier than the step before it")]
    Order {
        /// Number of the step, counted from 1.
        index: usize,
        /// Time of the step.
        at: Span,
    },
    /// The series would repeat before its last step is reached.
    #[error("the series repeats after {repeat}, which is not later than its last step at {last}")]
    Repeat {
        /// The period.
        repeat: Span,
        /// Time of the last step.
        last: Span,
    },
}

impl<V: Copy> Series<V> {
    /// Creates a series of `(time, value)` steps in order of time.
    ///
    /// # Errors
    ///
    /// There is no step, the steps are out of order, or `repeat` is not later than the last step.
    pub fn new(steps: Vec<(Span, V)>, repeat: Option<Span>) -> Result<Self, SeriesError> {
        let last = steps.last().ok_or(SeriesError::Empty)?.0;
        if let Some(index) = steps.windows(2).position(|pair| pair[1].0 < pair[0].0) {
            return Err(SeriesError::Order { index: index + 2, at: steps[index + 1].0 });
        }
        if let Some(repeat) = repeat.filter(|repeat| *repeat <= last) {
            return Err(SeriesError::Repeat { repeat, last });
        }
        Ok(Self { steps: steps.into(), repeat, source: None })
    }

    /// Creates a series that [`load`](crate::LinkConfig::load) reads from a file; until then it has
    /// no steps.
    pub fn from_file(source: CsvSource, repeat: Option<Span>) -> Self {
        Self { steps: Arc::new([]), repeat, source: Some(source) }
    }

    /// Returns the steps; empty until the file has been read.
    pub fn steps(&self) -> &[(Span, V)] {
        &self.steps
    }

    /// Returns the value at `now`, and the time of the next step after it.
    pub(crate) fn at(&self, now: Micros) -> (V, Option<Micros>) {
        let base = self.repeat.map_or(0, |repeat| now - now % repeat.micros());
        let local = now - base;
        let next = self.steps.partition_point(|(at, _)| at.micros() <= local);
        // `new` rejects an empty series and `Link::new` an unread one.
        let (_, value) = self.steps[next.saturating_sub(1)];
        let wrapped = self.repeat.map(|repeat| base.saturating_add(repeat.micros()));
        // In a repeated series the first value also holds from the start of a round up to the first
        // step.
        let change = self.steps.get(next).map(|(at, _)| base.saturating_add(at.micros())).or(wrapped);
        (value, change)
    }

    /// Reads the file of this series, unless it has been read already.
    pub(crate) fn load(&mut self, base: &Path) -> Result<(), TraceError>
    where
        V: Sample,
    {
        let Some(source) = self.source.clone().filter(|_| self.steps.is_empty()) else { return Ok(()) };
        let path = base.join(&source.csv);
        let file = path.display().to_string();
        let steps = column(&file, &read_text(&path)?, &source.column, source.scale)?;
        let loaded = match Self::new(steps, self.repeat) {
            Ok(loaded) => loaded,
            Err(SeriesError::Empty) => {
                let problem = format!("column \"{}\" has no value", source.column);
                return Err(TraceError::file(&file, problem));
            }
            Err(error) => return Err(TraceError::file(&file, error.to_string())),
        };
        *self = Self { source: Some(source), ..loaded };
        Ok(())
    }

    pub(crate) fn unread(&self) -> Option<&Path> {
        self.source.as_ref().filter(|_| self.steps.is_empty()).map(|source| source.csv.as_path())
    }
}

/// The table form of a series.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SeriesTable<V> {
    pub(crate) steps: Option<Vec<(Span, V)>>,
    pub(crate) csv: Option<PathBuf>,
    pub(crate) column: Option<String>,
    pub(crate) scale: Option<f64>,
    pub(crate) repeat: Option<Span>,
}

impl<V: Copy> SeriesTable<V> {
    /// Returns the series of these fields; `None` if all are absent.
    pub(crate) fn series(self) -> Result<Option<Series<V>>, String> {
        match (self.steps, self.csv, self.column) {
            (Some(steps), None, None) if self.scale.is_none() => {
                Series::new(steps, self.repeat).map(Some).map_err(|error| error.to_string())
            }
            (None, Some(csv), Some(column)) => {
                let source = CsvSource { csv, column, scale: self.scale.unwrap_or(1.0) };
                Ok(Some(Series::from_file(source, self.repeat)))
            }
            (None, None, None) if self.scale.is_none() && self.repeat.is_none() => Ok(None),
            _ => Err("a series is given by steps, or by csv and column (and scale)".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holds_each_value_until_the_next_and_repeats() {
        let at = Span::from_millis;
        let series = Series::new(vec![(at(1), 'a'), (at(3), 'b')], Some(at(5))).unwrap();
        assert_eq!(series.at(0), ('a', Some(1_000)));
        assert_eq!(series.at(2_999), ('a', Some(3_000)));
        assert_eq!(series.at(3_000), ('b', Some(5_000)));
        assert_eq!(series.at(5_000), ('a', Some(6_000)));
        let once = Series::new(vec![(at(0), 'a')], None).unwrap();
        assert_eq!(once.at(9), ('a', None));
    }
}

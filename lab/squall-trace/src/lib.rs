//! Recorded networks: what a radio said, and what the network did at the same time.
//!
//! A [`Trace`] is read from and written to a plain CSV file (see [`COLUMNS`]), made from public measurement logs by
//! [`import`](import()), and summed up by a [`Survey`]. [`link`] has recorded links: the formats of the field, and how
//! much a link carried up to any moment. [`mahimahi`] has packet-delivery traces.

mod column;
mod correlation;
mod event;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzz;
mod import;
pub mod link;
pub mod mahimahi;
mod quantity;
mod read;
mod row;
mod sheet;
mod survey;
mod tech;
mod write;

use std::fmt;

pub use column::{Sample, column, has_column};
pub use correlation::{LAGS, Lag, rank_correlation};
pub use event::Event;
pub use import::{Format, ImportError, Input, Wishes, import};
pub use quantity::Quantity;
pub use read::{COLUMNS, TraceError, read_text};
pub use row::Row;
pub use survey::{Spread, States, Survey};
pub use tech::Tech;

use squall_signal::Reading;
use squall_units::Micros;

/// Most rows of a trace: 23 days at one a second, 8 hours at one in 15 ms.
pub const MAX_ROWS: usize = 2_000_000;

/// A recording of a network, in the order of time. It has at least one row, and no more than [`MAX_ROWS`].
#[derive(Clone, Debug, PartialEq)]
pub struct Trace {
    rows: Vec<Row>,
}

/// Why rows are no trace.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RowError {
    /// There are none.
    #[error("there are no rows")]
    None,
    /// There are more than [`MAX_ROWS`].
    #[error("there are more than {MAX_ROWS} rows")]
    TooMany,
    /// A row does not fit.
    #[error("row {row}: {what}: {problem}")]
    Row {
        /// Which one, counted from 1.
        row: usize,
        /// What of it.
        what: Quantity,
        /// What is wrong.
        problem: String,
    },
}

impl Trace {
    /// A trace of these rows.
    ///
    /// # Errors
    /// If there are none or too many, a number is out of its bounds ([`Quantity::bounds`]), or time goes
    /// back.
    pub fn new(rows: Vec<Row>) -> Result<Self, RowError> {
        if rows.is_empty() {
            return Err(RowError::None);
        }
        if rows.len() > MAX_ROWS {
            return Err(RowError::TooMany);
        }
        let mut before = 0;
        for (index, row) in rows.iter().enumerate() {
            row.check(before).map_err(|(what, problem)| RowError::Row { row: index + 1, what, problem })?;
            before = row.at;
        }
        Ok(Self { rows })
    }

    /// Its rows, by time.
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// From time 0 to the last row.
    pub fn duration(&self) -> Micros {
        self.rows.last().map_or(0, |row| row.at)
    }

    /// The usual time from row to row: the median of the steps that are longer than 0; 1 s if there is none.
    pub fn step(&self) -> Micros {
        row::usual_step(&self.rows)
    }

    /// What the radio said, with the time of the trace. Rows that tell nothing of it are passed over.
    pub fn readings(&self) -> impl DoubleEndedIterator<Item = Reading> + Clone + '_ {
        self.rows.iter().filter_map(Row::reading)
    }

    /// The rates in Mbit/s, with their times: the downlink's, or the uplink's if there is no other.
    pub fn rates(&self) -> impl Iterator<Item = (Micros, f64)> + Clone + '_ {
        let down = self.rows.iter().any(|row| row.down_mbps.is_some());
        self.rows.iter().filter_map(move |row| {
            let rate = if down { row.down_mbps } else { row.up_mbps };
            rate.map(|rate| (row.at, rate))
        })
    }

    /// The part from `from` on, at most `length` long; its time begins at 0. `None` if there are no rows.
    pub fn cut(&self, from: Micros, length: Micros) -> Option<Self> {
        let end = from.saturating_add(length);
        let part = self.rows.iter().filter(|row| (from..=end).contains(&row.at));
        let rows: Vec<Row> = part.map(|row| Row { at: row.at - from, ..row.clone() }).collect();
        (!rows.is_empty()).then_some(Self { rows })
    }
}

impl fmt::Display for Trace {
    /// As a CSV file.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write::csv(&self.rows, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(times: &[Micros]) -> Vec<Row> {
        times.iter().map(|&at| Row { at, down_mbps: Some(1.0), ..Row::default() }).collect()
    }

    #[test]
    fn rows_are_checked_with_their_number() {
        let told = |rows| Trace::new(rows).expect_err("is refused").to_string();
        assert_eq!(told(Vec::new()), "there are no rows");
        assert_eq!(told(rows(&[0, 5, 4])), "row 3: time_s: 0.000004 is before the row above, 0.000005");
        let mut bad = rows(&[0, 5]);
        bad[1].rsrp = Some(2_147_483_647.0);
        assert_eq!(told(bad), "row 2: rsrp_dbm: 2147483647 is not within -200…0");
    }

    #[test]
    fn a_part_begins_at_zero() {
        let trace = Trace::new(rows(&[0, 10, 20, 30])).expect("is one");
        assert_eq!(trace.duration(), 30);
        let part = trace.cut(10, 10).expect("has rows");
        assert_eq!(part.rows().iter().map(|row| row.at).collect::<Vec<_>>(), [0, 10]);
        assert_eq!(trace.cut(31, 10), None);
    }

    #[test]
    fn the_step_is_the_usual_one() {
        let of = |times: &[Micros]| Trace::new(rows(times)).expect("is one").step();
        assert_eq!(of(&[0]), 1_000_000);
        assert_eq!(of(&[0, 0, 3, 6, 60]), 3);
    }

    #[test]
    fn the_uplink_counts_where_there_is_no_downlink() {
        let up = Row { up_mbps: Some(2.0), ..Row::default() };
        let only = Trace::new(vec![up.clone()]).expect("is one");
        assert_eq!(only.rates().collect::<Vec<_>>(), [(0, 2.0)]);
        let both =
            Trace::new(vec![up, Row { at: 7, down_mbps: Some(3.0), ..Row::default() }]).expect("is one");
        assert_eq!(both.rates().collect::<Vec<_>>(), [(7, 3.0)]);
    }
}

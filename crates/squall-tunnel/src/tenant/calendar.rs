//! Dates in UTC, and their calendar periods.

use time::OffsetDateTime;

use crate::config::Period;

/// A date in UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Date {
    pub(crate) year: i32,
    pub(crate) month: u8,
    pub(crate) day: u8,
}

impl Date {
    /// Returns the current date by the system clock.
    pub(crate) fn today() -> Self {
        let now = OffsetDateTime::now_utc();
        Self { year: now.year(), month: now.month().into(), day: now.day() }
    }

    /// Returns the period of the date as in ISO 8601: `2026-11` or `2026-11-26`. Later periods are
    /// greater.
    pub(crate) fn period(self, period: Period) -> String {
        let Self { year, month, day } = self;
        match period {
            Period::Month => format!("{year:04}-{month:02}"),
            Period::Day => format!("{year:04}-{month:02}-{day:02}"),
        }
    }
}

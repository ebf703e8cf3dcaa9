//! Dates in UTC, and the periods of the calendar that they belong to.

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
    /// That of the system's clock.
    pub(crate) fn today() -> Self {
        let now = OffsetDateTime::now_utc();
        Self { year: now.year(), month: now.month().into(), day: now.day() }
    }

    /// The period that it belongs to, as in ISO 8601: `2026-11` or `2026-11-26`. Later periods are greater.
    pub(crate) fn period(self, period: Period) -> String {
        let Self { year, month, day } = self;
        match period {
            Period::Month => format!("{year:04}-{month:02}"),
            Period::Day => format!("{year:04}-{month:02}-{day:02}"),
        }
    }
}

//! Spans and points in time in a few letters, for constants and tests.

use crate::{Span, Time};

/// A span in microseconds.
pub const fn us(micros: u64) -> Span {
    Span::from_micros(micros)
}

/// A span in milliseconds.
pub const fn ms(millis: u64) -> Span {
    Span::from_millis(millis)
}

/// The point this many microseconds after the epoch.
pub const fn at_us(micros: u64) -> Time {
    Time::from_micros(micros)
}

/// The point this many milliseconds after the epoch.
pub const fn at_ms(millis: u64) -> Time {
    Time::from_micros(Span::from_millis(millis).micros())
}

//! Short constructors of spans and points in time, for constants and tests.

use crate::{Span, Time};

/// Creates a span from microseconds.
pub const fn us(micros: u64) -> Span {
    Span::from_micros(micros)
}

/// Creates a span from milliseconds.
pub const fn ms(millis: u64) -> Span {
    Span::from_millis(millis)
}

/// Creates a point from microseconds after the epoch.
pub const fn at_us(micros: u64) -> Time {
    Time::from_micros(micros)
}

/// Creates a point from milliseconds after the epoch.
pub const fn at_ms(millis: u64) -> Time {
    Time::from_micros(Span::from_millis(millis).micros())
}

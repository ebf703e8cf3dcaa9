//! Points in time, and the arithmetic of spans between them.
//!
//! Sums stop at the largest value and differences at zero: a clock that is behind gives a span of
//! zero, never one that has wrapped.

use std::{
    iter::Sum,
    ops::{Add, AddAssign, Div, Mul, Sub, SubAssign},
    time::Duration,
};

use crate::Span;

/// A point in time, in microseconds after an epoch that its owner chooses: the start of a run, or of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Time(u64);

impl Time {
    /// The epoch, 0.
    pub const EPOCH: Self = Self(0);
    /// The latest point. As a sort key it places entries without a time last.
    pub const MAX: Self = Self(u64::MAX);

    /// Creates a point from microseconds after the epoch.
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros)
    }

    /// Returns the microseconds after the epoch.
    pub const fn micros(self) -> u64 {
        self.0
    }

    /// Returns the point that is earlier by `span`; `None` before the epoch.
    pub fn checked_sub(self, span: Span) -> Option<Self> {
        self.0.checked_sub(span.0).map(Self)
    }

    /// Returns the span since the epoch.
    pub const fn since_epoch(self) -> Span {
        Span(self.0)
    }
}

impl Add<Span> for Time {
    type Output = Self;

    fn add(self, span: Span) -> Self {
        Self(self.0.saturating_add(span.0))
    }
}

impl AddAssign<Span> for Time {
    fn add_assign(&mut self, span: Span) {
        *self = *self + span;
    }
}

impl Sub<Span> for Time {
    type Output = Self;

    fn sub(self, span: Span) -> Self {
        Self(self.0.saturating_sub(span.0))
    }
}

impl Sub for Time {
    type Output = Span;

    /// Returns the span from the earlier point to this one; zero if `earlier` is the later one.
    fn sub(self, earlier: Self) -> Span {
        Span(self.0.saturating_sub(earlier.0))
    }
}

impl Span {
    /// The empty span.
    pub const ZERO: Self = Self(0);
    /// The shortest span above zero, one microsecond.
    pub const TICK: Self = Self(1);
    /// The longest span, about 584,000 years.
    pub const MAX: Self = Self(u64::MAX);

    /// Creates a span from seconds.
    pub const fn from_secs(secs: u64) -> Self {
        Self(secs.saturating_mul(1_000_000))
    }

    /// Creates a span from fractional seconds, cut to whole microseconds. A negative number and NaN
    /// give zero.
    pub fn from_secs_f64(secs: f64) -> Self {
        Self((secs * 1e6) as u64)
    }

    /// Returns the seconds.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// Returns `true` if the span is zero.
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }

    /// Returns the span times a factor, cut to whole microseconds. A negative factor and NaN give
    /// zero.
    #[must_use]
    pub fn mul_f64(self, factor: f64) -> Self {
        Self((self.0 as f64 * factor) as u64)
    }

    /// Returns the span divided by a number, cut to whole microseconds. A negative divisor and NaN
    /// give zero.
    #[must_use]
    pub fn div_f64(self, divisor: f64) -> Self {
        Self((self.0 as f64 / divisor) as u64)
    }

    /// Returns the difference between the two spans, whichever is longer.
    #[must_use]
    pub const fn abs_diff(self, other: Self) -> Self {
        Self(self.0.abs_diff(other.0))
    }
}

impl From<Span> for Duration {
    fn from(span: Span) -> Self {
        span.duration()
    }
}

impl Add for Span {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Span {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sub for Span {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl SubAssign for Span {
    fn sub_assign(&mut self, other: Self) {
        *self = *self - other;
    }
}

impl Mul<u64> for Span {
    type Output = Self;

    fn mul(self, factor: u64) -> Self {
        Self(self.0.saturating_mul(factor))
    }
}

impl Div<u64> for Span {
    type Output = Self;

    fn div(self, divisor: u64) -> Self {
        Self(self.0 / divisor)
    }
}

impl Div for Span {
    type Output = u64;

    /// Returns how often the other span fits into this one, rounded down.
    ///
    /// # Panics
    /// If the other span is zero.
    fn div(self, other: Self) -> u64 {
        self.0 / other.0
    }
}

impl Sum for Span {
    fn sum<I: Iterator<Item = Self>>(spans: I) -> Self {
        spans.fold(Self::ZERO, Add::add)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_clock_that_is_behind_gives_no_span() {
        let (early, late) = (Time::from_micros(5), Time::from_micros(12));
        assert_eq!((late - early, early - late), (Span::from_micros(7), Span::ZERO));
        assert_eq!(early - Span::from_micros(9), Time::EPOCH);
    }

    #[test]
    fn fractions_are_cut_to_whole_microseconds() {
        assert_eq!(Span::from_secs_f64(0.001_000_9), Span::from_millis(1));
        assert_eq!(Span::from_secs_f64(-1.0), Span::ZERO);
        assert_eq!(Span::from_secs_f64(f64::NAN), Span::ZERO);
        assert_eq!(Span::from_micros(9).mul_f64(1.5), Span::from_micros(13));
    }

    proptest! {
        #[test]
        fn what_is_added_is_the_difference(at in 0..=u64::MAX / 2, span in 0..=u64::MAX / 2) {
            let (at, span) = (Time(at), Span(span));
            prop_assert_eq!((at + span) - at, span);
            prop_assert_eq!((at + span) - span, at);
        }

        #[test]
        fn sums_stop_at_the_largest_span(a in any::<u64>(), b in any::<u64>()) {
            prop_assert_eq!([Span(a), Span(b)].into_iter().sum::<Span>(), Span(a.saturating_add(b)));
            prop_assert_eq!(Span(a) * b, Span(a.saturating_mul(b)));
        }
    }
}

//! Delays and rates with fractions, for means and ratios.

use std::ops::{Add, Div, Mul, Sub};

use squall_units::Span;

macro_rules! quantities {
    ($($(#[$doc:meta])* $name:ident)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
        pub(super) struct $name(f64);

        impl $name {
            pub(super) const fn new(value: f64) -> Self {
                Self(value)
            }

            pub(super) const fn max(self, other: Self) -> Self {
                Self(self.0.max(other.0))
            }

            pub(super) const fn min(self, other: Self) -> Self {
                Self(self.0.min(other.0))
            }

            /// Moves a mean towards a new value, by this share of the difference.
            pub(super) fn approach(&mut self, value: Self, weight: f64) {
                self.0 += weight * (value.0 - self.0);
            }
        }
    )*};
}

macro_rules! operators {
    ($($trait:ident::$method:ident: ($left:ty, $right:ty) -> $output:ty = |$a:ident, $b:ident| $result:expr;)*) => {$(
        impl $trait<$right> for $left {
            type Output = $output;

            fn $method(self, other: $right) -> $output {
                let ($a, $b) = (self, other);
                $result
            }
        }
    )*};
}

quantities! {
    /// A span in microseconds, of either sign.
    Delay
    /// A rate in bytes per second.
    ByteRate
}

operators! {
    Add::add: (Delay, Delay) -> Delay = |a, b| Delay(a.0 + b.0);
    Sub::sub: (Delay, Delay) -> Delay = |a, b| Delay(a.0 - b.0);
    Mul::mul: (Delay, f64) -> Delay = |a, factor| Delay(a.0 * factor);
    Div::div: (Delay, f64) -> Delay = |a, divisor| Delay(a.0 / divisor);
    Div::div: (Delay, Delay) -> f64 = |a, b| a.0 / b.0;
    Mul::mul: (ByteRate, f64) -> ByteRate = |a, factor| ByteRate(a.0 * factor);
    Div::div: (ByteRate, ByteRate) -> f64 = |a, b| a.0 / b.0;
    // The bytes of that time.
    Mul::mul: (ByteRate, Delay) -> f64 = |rate, time| rate.0 * time.0 / 1e6;
}

impl Delay {
    pub(super) const ZERO: Self = Self(0.0);
    pub(super) const MAX: Self = Self(f64::MAX);

    pub(super) const fn micros(self) -> f64 {
        self.0
    }

    /// Returns the span, cut to whole microseconds; zero if it is negative.
    pub(super) const fn span(self) -> Span {
        Span::from_micros(self.0 as u64)
    }
}

impl From<Span> for Delay {
    fn from(span: Span) -> Self {
        Self(span.micros() as f64)
    }
}

impl ByteRate {
    /// The smallest divisor.
    pub(super) const ONE: Self = Self(1.0);
    pub(super) const INFINITY: Self = Self(f64::INFINITY);

    /// Returns the rate of bytes that take this time.
    pub(super) fn of(bytes: f64, time: Delay) -> Self {
        Self(bytes * 1e6 / time.0)
    }

    /// Returns the time that bytes take.
    pub(super) fn time_for(self, bytes: f64) -> Delay {
        Delay(bytes * 1e6 / self.0)
    }

    /// Returns `true` if more bytes than the rate's pass in this time.
    pub(super) fn is_exceeded_by(self, bytes: f64, time: Delay) -> bool {
        bytes * 1e6 > self.0 * time.0
    }

    pub(super) const fn bits_per_second(self) -> u64 {
        (8.0 * self.0) as u64
    }

    pub(super) const fn is_finite(self) -> bool {
        self.0.is_finite()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_rates_and_times_convert_into_each_other() {
        let (rate, time) = (ByteRate::new(1.25e6), Delay::new(40e3));
        assert_eq!(rate * time, 50e3);
        assert_eq!(rate.time_for(50e3), time);
        assert_eq!(ByteRate::of(50e3, time), rate);
        assert_eq!(rate.bits_per_second(), 10_000_000);
    }

    #[test]
    fn a_negative_delay_is_no_span() {
        let before = Delay::from(Span::from_millis(1)) - Delay::new(1_000.5);
        assert_eq!((before.micros(), before.span()), (-0.5, Span::ZERO));
    }
}

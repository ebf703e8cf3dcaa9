//! Quantities in readable form: `"20mbps"`, `"15ms"`, `"75kB"`, `"0.1%"`; points in [`Time`]; and
//! the [`Role`] of a path.
//!
//! Each quantity holds a whole number. It is parsed with [`FromStr`] and, with the feature `serde`,
//! deserialised from text or a plain number. It prints in the largest unit that fits, without
//! rounding, so printed values parse back to themselves.

#![forbid(unsafe_code)]

pub mod format;
mod role;
pub mod short;
mod time;

use std::{fmt, str::FromStr, time::Duration};

#[cfg(feature = "serde")]
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

pub use role::Role;
pub use time::Time;

/// Reason why a text is not a quantity.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnitError {
    /// The text does not start with a number.
    #[error("\"{text}\" is not {kind}: it does not start with a number")]
    NoNumber {
        /// The text as given.
        text: String,
        /// The expected quantity, with its article ("a rate").
        kind: &'static str,
    },
    /// The unit after the number is missing or unknown.
    #[error("\"{text}\" is not {kind}: the unit must be one of {units}")]
    Unit {
        /// The text as given.
        text: String,
        /// The expected quantity, with its article.
        kind: &'static str,
        /// The accepted units.
        units: &'static str,
    },
    /// The number is too large, or finer than the smallest step.
    #[error("\"{text}\" is not {kind}: the number is {problem}")]
    Range {
        /// The text as given.
        text: String,
        /// The expected quantity, with its article.
        kind: &'static str,
        /// The problem: "too large", "too fine" or "above 1".
        problem: &'static str,
    },
}

/// A rate in bits per second: `"20mbps"`, `"500kbps"`, `"1.5gbps"`; a number without unit is bits per second.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Rate(u64);

/// A span of time in microseconds: `"15ms"`, `"3s"`, `"250us"`, `"2min"`; only `"0"` may omit the
/// unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Span(u64);

/// A size in bytes: `"1500B"`, `"75kB"` (75,000), `"100KiB"` (102,400); a number without unit is bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Size(u64);

/// A share between 0 and 1, kept in billionths: `0.001` or `"0.1%"`. Finer digits are cut off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Ratio(u32);

impl Rate {
    /// Creates a rate from bits per second.
    pub const fn from_bps(bps: u64) -> Self {
        Self(bps)
    }

    /// Returns the bits per second.
    pub const fn bps(self) -> u64 {
        self.0
    }
}

impl Span {
    /// Creates a span from microseconds.
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros)
    }

    /// Creates a span from milliseconds.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis.saturating_mul(1_000))
    }

    /// Returns the microseconds.
    pub const fn micros(self) -> u64 {
        self.0
    }

    /// Returns the span as a standard [`Duration`].
    pub const fn duration(self) -> Duration {
        Duration::from_micros(self.0)
    }
}

impl From<Duration> for Span {
    /// Rounds down to whole microseconds; a duration above 584,000 years becomes the largest span.
    fn from(duration: Duration) -> Self {
        Self(u64::try_from(duration.as_micros()).unwrap_or(u64::MAX))
    }
}

impl Size {
    /// Creates a size from bytes.
    pub const fn from_bytes(bytes: u64) -> Self {
        Self(bytes)
    }

    /// Returns the bytes.
    pub const fn bytes(self) -> u64 {
        self.0
    }
}

impl Ratio {
    /// The share of nothing, 0.
    pub const ZERO: Self = Self(0);
    /// The share of everything, 1.
    pub const ONE: Self = Self(BILLION);

    /// Creates a ratio from billionths, clamped to one.
    pub const fn from_billionths(billionths: u32) -> Self {
        Self(if billionths > BILLION { BILLION } else { billionths })
    }

    /// Returns the nearest billionth to `value`, or `None` outside 0..=1.
    pub fn from_f64(value: f64) -> Option<Self> {
        (0.0..=1.0).contains(&value).then(|| Self((value * f64::from(BILLION)).round() as u32))
    }

    /// Returns the billionths, 0 to 1,000,000,000.
    pub const fn billionths(self) -> u32 {
        self.0
    }

    /// Returns the share as a floating point number.
    pub fn as_f64(self) -> f64 {
        f64::from(self.0) / f64::from(BILLION)
    }

    /// Returns this share of another, rounded down.
    pub fn of(self, other: Self) -> Self {
        // Two factors of at most a billion: neither overflows, and the quotient is at most a billion.
        Self((u64::from(self.0) * u64::from(other.0) / u64::from(BILLION)) as u32)
    }
}

const BILLION: u32 = 1_000_000_000;

/// The name of a unit, and its size in the smallest step.
type Unit = (&'static str, u64);

const RATE_UNITS: &[Unit] = &[("bps", 1), ("kbps", 1_000), ("mbps", 1_000_000), ("gbps", 1_000_000_000)];
const SPAN_UNITS: &[Unit] = &[("us", 1), ("ms", 1_000), ("s", 1_000_000)];
const SIZE_UNITS: &[Unit] = &[("B", 1), ("kB", 1_000), ("MB", 1_000_000), ("GB", 1_000_000_000)];

impl FromStr for Rate {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let reader = Reader::new(text, "a rate", "bps, kbps, mbps or gbps")?;
        let unit = reader.unit.to_ascii_lowercase();
        let factor = if unit.is_empty() { Some(1) } else { factor(RATE_UNITS, &unit) };
        reader.scale(factor).map(Self)
    }
}

impl FromStr for Span {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let reader = Reader::new(text, "a duration", "us, ms, s or min")?;
        let factor = match reader.unit {
            "min" => Some(60_000_000),
            "\u{b5}s" | "\u{3bc}s" => Some(1),
            "" if reader.is_zero() => Some(1),
            unit => factor(SPAN_UNITS, unit),
        };
        reader.scale(factor).map(Self)
    }
}

impl FromStr for Size {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let reader = Reader::new(text, "a size", "B, kB, MB, GB, KiB, MiB or GiB")?;
        let factor = match reader.unit {
            "" => Some(1),
            "KB" => Some(1_000),
            "KiB" => Some(1 << 10),
            "MiB" => Some(1 << 20),
            "GiB" => Some(1 << 30),
            unit => factor(SIZE_UNITS, unit),
        };
        reader.scale(factor).map(Self)
    }
}

impl FromStr for Ratio {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let reader = Reader::new(text, "a share", "% or none")?;
        let decimals = match reader.unit {
            "" => 9,
            "%" => 7,
            _ => return Err(reader.unknown_unit()),
        };
        let billionths = reader.cut_to(decimals).ok_or_else(|| reader.range("too large"))?;
        match u32::try_from(billionths) {
            Ok(billionths) if billionths <= BILLION => Ok(Self(billionths)),
            _ => Err(reader.range("above 1")),
        }
    }
}

/// A text split into its number and its unit.
struct Reader<'a> {
    text: &'a str,
    whole: &'a str,
    fraction: &'a str,
    unit: &'a str,
    kind: &'static str,
    units: &'static str,
}

impl<'a> Reader<'a> {
    fn new(text: &'a str, kind: &'static str, units: &'static str) -> Result<Self, UnitError> {
        let trimmed = text.trim();
        let end = trimmed.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(trimmed.len());
        let (number, unit) = trimmed.split_at(end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if whole.is_empty() || fraction.contains('.') || number.ends_with('.') {
            return Err(UnitError::NoNumber { text: text.to_owned(), kind });
        }
        Ok(Self { text, whole, fraction: fraction.trim_end_matches('0'), unit: unit.trim(), kind, units })
    }

    fn is_zero(&self) -> bool {
        self.fraction.is_empty() && self.whole.bytes().all(|digit| digit == b'0')
    }

    /// Returns the number times `factor`. An error if the product is not a whole number.
    fn scale(&self, factor: Option<u64>) -> Result<u64, UnitError> {
        let factor = factor.ok_or_else(|| self.unknown_unit())?;
        let large = || self.range("too large");
        let whole: u64 = self.whole.parse().map_err(|_| large())?;
        let whole = whole.checked_mul(factor).ok_or_else(large)?;
        if self.fraction.is_empty() {
            return Ok(whole);
        }
        // With more than eighteen decimals the product below could exceed 128 bits.
        let fine = || self.range("too fine");
        let digits =
            u32::try_from(self.fraction.len()).ok().filter(|&digits| digits <= 18).ok_or_else(fine)?;
        let fraction: u64 = self.fraction.parse().map_err(|_| fine())?;
        let product = u128::from(fraction) * u128::from(factor);
        let divisor = 10u128.pow(digits);
        if product % divisor != 0 {
            return Err(fine());
        }
        // The sum is less than `factor`, because the fraction is below one.
        whole.checked_add((product / divisor) as u64).ok_or_else(large)
    }

    /// Returns the number times ten to the power of `decimals`, with later digits cut off; `None`
    /// if it does not fit.
    fn cut_to(&self, decimals: usize) -> Option<u64> {
        let fraction = &self.fraction[..self.fraction.len().min(decimals)];
        format!("{}{fraction:0<decimals$}", self.whole).parse().ok()
    }

    fn unknown_unit(&self) -> UnitError {
        UnitError::Unit { text: self.text.to_owned(), kind: self.kind, units: self.units }
    }

    fn range(&self, problem: &'static str) -> UnitError {
        UnitError::Range { text: self.text.to_owned(), kind: self.kind, problem }
    }
}

fn factor(units: &[Unit], name: &str) -> Option<u64> {
    units.iter().find(|(unit, _)| *unit == name).map(|(_, factor)| *factor)
}

/// Writes `value` in the largest of `units` that is not above it, with all decimals that it has.
fn write_scaled(f: &mut fmt::Formatter<'_>, value: u64, units: &[Unit]) -> fmt::Result {
    let (unit, factor) = units.iter().rev().find(|(_, factor)| *factor <= value).unwrap_or(&units[0]);
    let width = factor.ilog10() as usize;
    let decimals = format!("{:0width$}", value % factor);
    let decimals = decimals.trim_end_matches('0');
    let point = if decimals.is_empty() { "" } else { "." };
    f.pad(&format!("{}{point}{decimals}{unit}", value / factor))
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_scaled(f, self.0, RATE_UNITS)
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_scaled(f, self.0, SPAN_UNITS)
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_scaled(f, self.0, SIZE_UNITS)
    }
}

impl fmt::Display for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const PERCENT: u32 = BILLION / 100;
        let decimals = format!("{:07}", self.0 % PERCENT);
        let decimals = decimals.trim_end_matches('0');
        let point = if decimals.is_empty() { "" } else { "." };
        f.pad(&format!("{}{point}{decimals}%", self.0 / PERCENT))
    }
}

#[cfg(feature = "serde")]
macro_rules! serde_as_text {
    ($($unit:ident: $expected:literal),* $(,)?) => {$(
        impl Serialize for $unit {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $unit {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Visitor;

                impl de::Visitor<'_> for Visitor {
                    type Value = $unit;

                    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                        f.write_str($expected)
                    }

                    fn visit_str<E: de::Error>(self, text: &str) -> Result<$unit, E> {
                        text.parse().map_err(E::custom)
                    }

                    fn visit_u64<E: de::Error>(self, number: u64) -> Result<$unit, E> {
                        self.visit_str(&number.to_string())
                    }

                    fn visit_i64<E: de::Error>(self, number: i64) -> Result<$unit, E> {
                        self.visit_str(&number.to_string())
                    }

                    fn visit_f64<E: de::Error>(self, number: f64) -> Result<$unit, E> {
                        self.visit_str(&number.to_string())
                    }
                }

                deserializer.deserialize_any(Visitor)
            }
        }
    )*};
}

#[cfg(feature = "serde")]
serde_as_text! {
    Rate: "a rate such as \"20mbps\", or bits per second",
    Span: "a duration such as \"15ms\"",
    Size: "a size such as \"75kB\", or bytes",
    Ratio: "a share such as 0.001 or \"0.1%\"",
}

/// Runs the example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn reads_what_people_write() {
        assert_eq!("20mbps".parse(), Ok(Rate(20_000_000)));
        assert_eq!("1.5 Gbps".parse(), Ok(Rate(1_500_000_000)));
        assert_eq!("64000".parse(), Ok(Rate(64_000)));
        assert_eq!("0.25ms".parse(), Ok(Span(250)));
        assert_eq!("2min".parse(), Ok(Span(120_000_000)));
        assert_eq!("0".parse(), Ok(Span(0)));
        assert_eq!("100KiB".parse(), Ok(Size(102_400)));
        assert_eq!("75kB".parse(), Ok(Size(75_000)));
        assert_eq!("0.1%".parse(), Ok(Ratio(1_000_000)));
        assert_eq!("0.001".parse(), Ok(Ratio(1_000_000)));
        assert_eq!("100%".parse(), Ok(Ratio::ONE));
    }

    #[test]
    fn errors_say_what_is_wrong() {
        let message = |text: &str| text.parse::<Rate>().unwrap_err().to_string();
        assert_eq!(
            message("20mpbs"),
            "\"20mpbs\" is not a rate: the unit must be one of bps, kbps, mbps or gbps"
        );
        assert_eq!(message("fast"), "\"fast\" is not a rate: it does not start with a number");
        assert_eq!(message("0.5bps"), "\"0.5bps\" is not a rate: the number is too fine");
        assert_eq!(message("99999999999gbps"), "\"99999999999gbps\" is not a rate: the number is too large");
        assert_eq!(
            "15".parse::<Span>().unwrap_err().to_string(),
            "\"15\" is not a duration: the unit must be one of us, ms, s or min"
        );
        assert_eq!(
            "101%".parse::<Ratio>().unwrap_err().to_string(),
            "\"101%\" is not a share: the number is above 1"
        );
    }

    proptest! {
        #[test]
        fn printed_rates_read_back(value in any::<u64>()) {
            prop_assert_eq!(Rate(value).to_string().parse(), Ok(Rate(value)));
        }

        #[test]
        fn printed_spans_read_back(value in any::<u64>()) {
            prop_assert_eq!(Span(value).to_string().parse(), Ok(Span(value)));
        }

        #[test]
        fn printed_sizes_read_back(value in any::<u64>()) {
            prop_assert_eq!(Size(value).to_string().parse(), Ok(Size(value)));
        }

        #[test]
        fn printed_ratios_read_back(value in 0..=BILLION) {
            prop_assert_eq!(Ratio(value).to_string().parse(), Ok(Ratio(value)));
        }

        #[test]
        fn any_text_is_read_or_refused(text in "\\PC*") {
            let _ = (text.parse::<Rate>(), text.parse::<Span>(), text.parse::<Size>(), text.parse::<Ratio>());
        }

        #[test]
        fn number_like_text_is_read_or_refused(text in "[0-9.]{0,40}[a-zA-Z%\u{b5}]{0,3}") {
            let _ = (text.parse::<Rate>(), text.parse::<Span>(), text.parse::<Size>(), text.parse::<Ratio>());
        }
    }
}

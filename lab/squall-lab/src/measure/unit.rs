//! Units of measures, and which value is better.

use serde::{Deserialize, Serialize};
use squall_units::format;

/// The unit of a measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Bits per second.
    Rate,
    /// Bytes.
    Size,
    /// A share from 0 to 1.
    Ratio,
    /// Microseconds.
    Time,
    /// Decibels.
    Level,
    /// A likeness, 1 for equal pictures.
    Likeness,
    /// Frames per second.
    Frames,
    /// None.
    Number,
}

/// Which is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Best {
    /// The highest.
    Highest,
    /// The lowest.
    Lowest,
}

impl Unit {
    /// A value with its unit, as people write it.
    pub fn show(self, value: f64) -> String {
        match self {
            Unit::Rate => format::rate(value),
            Unit::Size => format::size(value),
            Unit::Ratio => format!("{:.3} %", value * 100.0),
            Unit::Time => format::time(value as u64),
            Unit::Level => format!("{value:.2} dB"),
            Unit::Likeness => format!("{value:.4}"),
            Unit::Frames => format!("{} fps", format::digits(value)),
            Unit::Number => format::digits(value),
        }
    }
}

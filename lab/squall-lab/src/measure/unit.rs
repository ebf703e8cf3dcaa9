//! Units of measures, and the direction in which values improve.

use serde::{Deserialize, Serialize};
use squall_units::format;

/// Unit of a measure.
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
    /// Similarity, 1 for equal pictures.
    Likeness,
    /// Frames per second.
    Frames,
    /// Dimensionless.
    Number,
}

/// The better direction of a measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Best {
    /// The highest value is the best.
    Highest,
    /// The lowest value is the best.
    Lowest,
}

impl Unit {
    /// Formats a value with its unit for people.
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

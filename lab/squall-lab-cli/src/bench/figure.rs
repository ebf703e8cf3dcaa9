//! A measurement with its target.

use serde::Serialize;
use squall_lab::statistics;
use squall_units::format::digits;

/// One measurement.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Figure {
    /// Measured quantity.
    pub(super) name: &'static str,
    /// Median.
    pub(super) value: f64,
    /// Unit of the value.
    unit: &'static str,
    /// Target, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) target: Option<Target>,
    /// All measurements, if there are few.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    all: Vec<f64>,
}

/// Target of a measurement.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Target {
    /// Lower limit.
    AtLeast(f64),
    /// Upper limit.
    AtMost(f64),
}

impl Target {
    /// Returns the margin as a factor; the target is met from 1 on.
    pub(super) fn ratio(self, value: f64) -> f64 {
        match self {
            Self::AtLeast(limit) => value / limit,
            Self::AtMost(limit) => limit / value,
        }
    }

    pub(super) fn words(self) -> String {
        match self {
            Self::AtLeast(limit) => format!("≥ {}", digits(limit)),
            Self::AtMost(limit) => format!("≤ {}", digits(limit)),
        }
    }
}

impl Figure {
    pub(super) fn single(name: &'static str, unit: &'static str, value: f64) -> Self {
        Self { name, value, unit, target: None, all: Vec::new() }
    }

    /// Creates a figure from a few measurements, with their median.
    pub(super) fn of(name: &'static str, unit: &'static str, all: Vec<f64>) -> Self {
        let value = median(&all);
        Self { all, ..Self::single(name, unit, value) }
    }

    pub(super) fn target(mut self, target: Target) -> Self {
        self.target = Some(target);
        self
    }

    pub(super) fn row(&self) -> Vec<String> {
        let dash = || "–".to_owned();
        vec![
            self.name.to_owned(),
            digits(self.value),
            self.unit.to_owned(),
            self.target.map_or_else(dash, Target::words),
            self.target.map_or_else(dash, |target| digits(target.ratio(self.value))),
        ]
    }
}

/// Returns the median; NaN without values.
pub(super) fn median(values: &[f64]) -> f64 {
    statistics::median(values.to_vec()).unwrap_or(f64::NAN)
}

//! The measures of the laboratory and their units.

use pyo3::pyfunction;
use squall_lab::{Measure, measure::Unit};

/// Returns the name and unit of every measure, in the order of `squall-lab repro --csv`.
#[pyfunction]
pub(crate) fn measures() -> Vec<(String, &'static str)> {
    Measure::all().map(|measure| (measure.to_string(), unit(measure.unit()))).collect()
}

fn unit(unit: Unit) -> &'static str {
    match unit {
        Unit::Rate => "bit/s",
        Unit::Size => "B",
        Unit::Time => "us",
        Unit::Level => "dB",
        Unit::Frames => "1/s",
        Unit::Ratio | Unit::Likeness | Unit::Number => "1",
    }
}

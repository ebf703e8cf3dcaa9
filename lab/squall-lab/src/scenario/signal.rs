//! `[signal]`: use of radio reports by sessions.

use serde::Deserialize;
use squall_proto::signal::{Adaptation, FactorMap, Marks, WatermarkConfig};
use squall_units::Span;

use super::place::Problem;

/// The table in its written form. Omitted fields have the default of sessions.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SignalTable {
    good: Option<f64>,
    warning: Option<f64>,
    outage: Option<f64>,
    adapt: Option<bool>,
    recovery: Option<Span>,
    factor: Option<Factor>,
    stale: Option<Span>,
}

/// Mapping from the quality index to the factor F.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Factor {
    Share,
    Band,
}

pub(super) fn resolve(table: &SignalTable) -> Result<WatermarkConfig, Problem> {
    let usual = WatermarkConfig::default();
    let marks = Marks {
        good: table.good.unwrap_or(usual.marks.good),
        warning: table.warning.unwrap_or(usual.marks.warning),
        outage: table.outage.unwrap_or(usual.marks.outage),
    };
    let config = WatermarkConfig {
        marks,
        adaptation: table.adapt.unwrap_or(true).then(Adaptation::default),
        recovery: table.recovery.unwrap_or(usual.recovery),
        factor: match table.factor {
            None => usual.factor,
            Some(Factor::Share) => FactorMap::Share,
            Some(Factor::Band) => FactorMap::Band,
        },
        stale: table.stale.unwrap_or(usual.stale),
        ..usual
    };
    config.check().map_err(|error| Problem::at_key("signal", format!("signal: {error}")))?;
    Ok(config)
}

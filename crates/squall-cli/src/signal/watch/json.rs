//! Readings and alerts as JSON Lines. docs/signal.md lists the fields.

use serde::Serialize;
use squall_signal::Reading;
use squall_terminal::output;

use super::watched::{Raised, Watched};

/// Output to standard output.
pub(super) struct Json;

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "lowercase")]
enum Line<'a> {
    Reading {
        time_s: f64,
        radio: &'a str,
        technology: &'static str,
        disconnected: bool,
        #[serde(skip_serializing_if = "Option::is_none")]
        rsrp_dbm: Option<f64>,
        #[serde(skip_serializing_if = "Option::is_none")]
        rsrq_db: Option<f64>,
        #[serde(skip_serializing_if = "Option::is_none")]
        sinr_db: Option<f64>,
        #[serde(skip_serializing_if = "Option::is_none")]
        rssi_dbm: Option<f64>,
        #[serde(skip_serializing_if = "Option::is_none")]
        quality: Option<f64>,
        state: &'static str,
    },
    Alert {
        time_s: f64,
        radio: &'a str,
        kind: &'static str,
        quality: f64,
        gap: f64,
        factor: f64,
        silent: bool,
    },
}

impl Json {
    /// Writes a reading that `one` has just processed.
    pub(super) fn reading(&mut self, one: &Watched, reading: &Reading) -> anyhow::Result<()> {
        let finite = |level: Option<f64>| level.filter(|level| level.is_finite());
        write(&Line::Reading {
            time_s: reading.at.since_epoch().as_secs_f64(),
            radio: one.name(),
            technology: reading.technology.name(),
            disconnected: reading.disconnected,
            rsrp_dbm: finite(reading.rsrp),
            rsrq_db: finite(reading.rsrq),
            sinr_db: finite(reading.sinr),
            rssi_dbm: finite(reading.rssi),
            quality: one.quality(),
            state: one.state().name(),
        })
    }

    pub(super) fn alert(&mut self, one: &Watched, raised: &Raised) -> anyhow::Result<()> {
        write(&Line::Alert {
            time_s: raised.at.since_epoch().as_secs_f64(),
            radio: one.name(),
            kind: raised.alert.kind.name(),
            quality: raised.alert.quality,
            gap: raised.alert.gap,
            factor: raised.alert.factor(),
            silent: raised.silent,
        })
    }
}

fn write(line: &Line<'_>) -> anyhow::Result<()> {
    output::print(&(serde_json::to_string(line)? + "\n"))
}

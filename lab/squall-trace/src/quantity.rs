//! The numbers of a row: their names, units and bounds.

use std::{fmt, ops::RangeInclusive};

/// A number that a row of a trace may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Quantity {
    /// Seconds from the start.
    Time,
    /// Rate towards the device in Mbit/s (10^6 bits).
    Down,
    /// Rate from the device in Mbit/s.
    Up,
    /// Round trip in milliseconds.
    Rtt,
    /// RSRP in dBm; for UMTS the RSCP.
    Rsrp,
    /// RSRQ in dB.
    Rsrq,
    /// SINR in dB.
    Sinr,
    /// RSSI in dBm.
    Rssi,
}

impl Quantity {
    /// The levels of a radio.
    pub const LEVELS: [Self; 4] = [Self::Rsrp, Self::Rsrq, Self::Sinr, Self::Rssi];

    /// The name of its column, which says the unit.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Time => "time_s",
            Self::Down => "down_mbps",
            Self::Up => "up_mbps",
            Self::Rtt => "rtt_ms",
            Self::Rsrp => "rsrp_dbm",
            Self::Rsrq => "rsrq_db",
            Self::Sinr => "sinr_db",
            Self::Rssi => "rssi_dbm",
        }
    }

    /// What it may be. Wider than any radio reports (3GPP TS 36.133 §9.1 and TS 38.133 §10.1: RSRP
    /// −156…−31 dBm, RSRQ −43…20 dB, SINR −23…40 dB), but too narrow for the numbers by which chips say that
    /// they know nothing, such as 2147483647.
    pub const fn bounds(self) -> RangeInclusive<f64> {
        match self {
            Self::Time => 0.0..=1e9,
            Self::Down | Self::Up => 0.0..=1e6,
            Self::Rtt => 0.0..=1e7,
            Self::Rsrp => -200.0..=0.0,
            Self::Rsrq => -60.0..=30.0,
            Self::Sinr => -60.0..=60.0,
            Self::Rssi => -200.0..=30.0,
        }
    }

    /// Finds fault with a value.
    ///
    /// # Errors
    /// Says what it must be.
    pub(super) fn check(self, value: f64) -> Result<f64, String> {
        let bounds = self.bounds();
        if bounds.contains(&value) {
            return Ok(value);
        }
        Err(format!("{value} is not within {}…{}", bounds.start(), bounds.end()))
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

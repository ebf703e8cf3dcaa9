//! Numbers of a row: names, units and bounds.

use std::{fmt, ops::RangeInclusive};

/// A number that a row of a recording may have in addition to its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Quantity {
    /// Rate towards the device in Mbit/s (10^6 bits), from its row until the next row that has one.
    /// It is the achieved rate, and therefore at most the capacity of the network.
    Down,
    /// Rate from the device in Mbit/s, likewise.
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

/// Valid times in seconds.
pub(crate) const TIMES: RangeInclusive<f64> = 0.0..=1e9;

impl Quantity {
    /// Every quantity, in the order of the columns of a file.
    pub const ALL: [Self; 7] =
        [Self::Down, Self::Up, Self::Rtt, Self::Rsrp, Self::Rsrq, Self::Sinr, Self::Rssi];

    /// The two directions of a rate.
    pub const RATES: [Self; 2] = [Self::Down, Self::Up];

    /// Returns the name of its column, including the unit; its bounds; and the resolution per unit
    /// that importers keep.
    ///
    /// Rates end at 10 Gbit/s, which no radio has reached in a recording: higher values are kbit/s
    /// or bit/s mistaken for Mbit/s.
    ///
    /// Levels may be wider than any radio reports (3GPP TS 36.133 §9.1 and TS 38.133 §10.1: RSRP
    /// −156…−31 dBm, RSRQ −43…20 dB, SINR −23…40 dB), but exclude the placeholders of chips for
    /// unknown values, such as 2147483647.
    const fn facts(self) -> (&'static str, RangeInclusive<f64>, f64) {
        match self {
            Self::Down => ("down_mbps", 0.0..=1e4, 1e3),
            Self::Up => ("up_mbps", 0.0..=1e4, 1e3),
            Self::Rtt => ("rtt_ms", 0.0..=1e7, 1e3),
            Self::Rsrp => ("rsrp_dbm", -200.0..=0.0, 1e2),
            Self::Rsrq => ("rsrq_db", -60.0..=30.0, 1e2),
            Self::Sinr => ("sinr_db", -60.0..=60.0, 1e2),
            Self::Rssi => ("rssi_dbm", -200.0..=30.0, 1e2),
        }
    }

    /// Returns the name of its column, including the unit.
    pub const fn name(self) -> &'static str {
        self.facts().0
    }

    /// Returns the names of its column with other units, and the number of these in one of its own.
    pub(crate) const fn other_units(self) -> &'static [(&'static str, f64)] {
        match self {
            Self::Down => &[("down_kbps", 1e3), ("down_bps", 1e6)],
            Self::Up => &[("up_kbps", 1e3), ("up_bps", 1e6)],
            Self::Rtt | Self::Rsrp | Self::Rsrq | Self::Sinr | Self::Rssi => &[],
        }
    }

    /// Returns the quantity in a column of this name, in any of its units.
    pub(crate) fn of_column(name: &str) -> Option<Self> {
        let is = |known: &str| known.eq_ignore_ascii_case(name);
        let has = |one: &Self| is(one.name()) || one.other_units().iter().any(|(known, _)| is(known));
        Self::ALL.into_iter().find(has)
    }

    /// Returns its bounds.
    pub const fn bounds(self) -> RangeInclusive<f64> {
        self.facts().1
    }

    /// Rounds to the resolution of measurement logs: 1 kbit/s, 1 µs, 0.01 dB.
    pub(crate) fn rounded(self, value: f64) -> f64 {
        let parts = self.facts().2;
        (value * parts).round() / parts
    }

    /// Returns `true` for a level of a radio.
    pub const fn is_level(self) -> bool {
        matches!(self, Self::Rsrp | Self::Rsrq | Self::Sinr | Self::Rssi)
    }

    /// Returns the value, if it is within the bounds.
    ///
    /// # Errors
    /// A description of the bounds.
    pub(crate) fn check(self, value: f64) -> Result<f64, String> {
        within(value, &self.bounds()).map_err(|problem| match self.other_units() {
            [(kilo, _), (one, _)] if value > *self.bounds().end() => {
                format!("{problem}; which unit is it? A column {kilo} or {one} names another one")
            }
            _ => problem,
        })
    }
}

/// Returns the value, if it is within these bounds, otherwise a description of them.
pub(crate) fn within(value: f64, bounds: &RangeInclusive<f64>) -> Result<f64, String> {
    if bounds.contains(&value) {
        return Ok(value);
    }
    Err(format!("{value} is not within {}…{}", bounds.start(), bounds.end()))
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

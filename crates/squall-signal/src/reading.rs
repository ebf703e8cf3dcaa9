//! The levels of a radio at one moment.

use std::{fmt, str::FromStr};

use crate::Time;

/// The radio technology of a reading.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Technology {
    /// Not reported.
    #[default]
    Unknown,
    /// IEEE 802.11 of any generation.
    Wifi,
    /// GSM, GPRS, EDGE.
    Gsm,
    /// UMTS and HSPA.
    Umts,
    /// LTE and LTE-A.
    Lte,
    /// 5G beside an LTE anchor (non-standalone).
    NrNsa,
    /// 5G standalone.
    Nr,
}

impl Technology {
    /// All technologies, in the order of their codes.
    pub const ALL: [Self; 7] =
        [Self::Unknown, Self::Wifi, Self::Gsm, Self::Umts, Self::Lte, Self::NrNsa, Self::Nr];

    /// Returns the technology in one lower-case word.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Wifi => "wifi",
            Self::Gsm => "gsm",
            Self::Umts => "umts",
            Self::Lte => "lte",
            Self::NrNsa => "5g-nsa",
            Self::Nr => "5g",
        }
    }

    /// Returns its code, the index in [`Self::ALL`].
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// Parses the name of a technology in recordings, such as `LTE-A` or `5G-n78`. `5G` alone or
    /// followed by a band counts as non-standalone: phones show 5G for that, and it was the usual
    /// kind. Ambiguous names are [`Self::Unknown`].
    pub fn of_word(word: &str) -> Self {
        const STARTS: [(&str, Technology); 17] = [
            ("5G-OR-LTE", Technology::Unknown),
            ("5G-SA", Technology::Nr),
            ("NR-SA", Technology::Nr),
            ("5G", Technology::NrNsa),
            ("NR", Technology::NrNsa),
            ("LTE", Technology::Lte),
            ("4G", Technology::Lte),
            ("UMTS", Technology::Umts),
            ("HS", Technology::Umts),
            ("WCDMA", Technology::Umts),
            ("3G", Technology::Umts),
            ("GSM", Technology::Gsm),
            ("GPRS", Technology::Gsm),
            ("EDGE", Technology::Gsm),
            ("2G", Technology::Gsm),
            ("WIFI", Technology::Wifi),
            ("WI-FI", Technology::Wifi),
        ];
        let word = word.to_ascii_uppercase();
        STARTS.iter().find(|(start, _)| word.starts_with(start)).map_or(Self::Unknown, |(_, meant)| *meant)
    }

    /// Returns the technology with that code; [`Self::Unknown`] if there is none.
    pub fn from_code(code: u8) -> Self {
        Self::ALL.get(usize::from(code)).copied().unwrap_or_default()
    }
}

impl fmt::Display for Technology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Technology {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = |one: &&Self| one.name().eq_ignore_ascii_case(text);
        Self::ALL.iter().find(known).copied().ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            format!("\"{text}\" is not a radio technology: one of {names}")
        })
    }
}

/// The levels of a radio at one moment. A level that it does not report is `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Reading {
    /// Time of the radio's measurement, if it is reported; else the time of the read.
    pub at: Time,
    /// Technology of the radio.
    pub technology: Technology,
    /// The radio is in no network: not associated, not registered. Its levels are then ignored.
    pub disconnected: bool,
    /// Reference signal received power in dBm: coverage, in LTE and 5G (3GPP TS 36.214, 38.215).
    pub rsrp: Option<f64>,
    /// Reference signal received quality in dB, in LTE and 5G.
    pub rsrq: Option<f64>,
    /// Signal to interference and noise ratio in dB.
    pub sinr: Option<f64>,
    /// Received signal strength in dBm; the only level of Wi-Fi.
    pub rssi: Option<f64>,
}

impl Reading {
    /// Creates a reading of a Wi-Fi station.
    pub fn wifi(at: Time, rssi: f64) -> Self {
        Self { at, technology: Technology::Wifi, rssi: Some(rssi), ..Self::default() }
    }

    /// Creates a reading of an LTE modem.
    pub fn lte(at: Time, rsrp: f64, sinr: f64) -> Self {
        Self { at, technology: Technology::Lte, rsrp: Some(rsrp), sinr: Some(sinr), ..Self::default() }
    }

    /// Creates the reading of a radio that is in no network.
    pub fn disconnected(at: Time, technology: Technology) -> Self {
        Self { at, technology, disconnected: true, ..Self::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn technologies_have_names_and_codes_of_their_own() {
        for one in Technology::ALL {
            assert_eq!(one.name().parse(), Ok(one));
            assert_eq!(Technology::from_code(one.code()), one);
        }
        assert_eq!(Technology::from_code(99), Technology::Unknown);
        assert!("6g".parse::<Technology>().unwrap_err().starts_with("\"6g\" is not a radio technology"));
    }
}

//! Conditions of a Wi-Fi link as a function of its RSSI.

use serde::Deserialize;

use super::{
    Levels,
    conditions::{Conditions, share_of},
    model::within,
};
use crate::error::ConfigError;

/// Share of the rate and loss of a Wi-Fi link by RSSI: the steps of its modulation and coding schemes.
///
/// IEEE 802.11 (2020 §21.3.18.1, Table 21-25) specifies for each scheme the level at which a
/// receiver must decode nine of ten frames. The link is assumed to use the fastest scheme whose
/// level the RSSI reaches; its share is that scheme's rate over that of the fastest of all (256-QAM
/// 3/4). With a width of 20 MHz:
///
/// | from dBm | −82 | −79 | −77 | −74 | −70 | −66 | −65 | −64 | −59 |
/// | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |
/// | share of 12 | 1 | 2 | 3 | 4 | 6 | 8 | 9 | 10 | 12 |
///
/// Below the lowest step there is no slower scheme: one in ten frames is damaged at the step itself
/// and all of them `cliff` dB below it, with a constant number of decibels per factor in between.
/// Each frame is tried `attempts` times. A fade therefore causes little loss until the very edge;
/// the share falls first, and a sender that does not slow down loses packets in the queue, as in
/// Fig. 3 of the STORM paper.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct WifiMap {
    /// Margin in dB by which the receiver exceeds the standard's requirement. Default 0.
    pub margin: f64,
    /// Width of the channel in MHz: 20, 40, 80 or 160. Each doubling costs 3 dB (Table 21-25). Default 20.
    pub width: u32,
    /// Range in dB from one tenth of the frames damaged to all of them. Default 4, an assumption:
    /// the standard has only the one point.
    pub cliff: f64,
    /// Number of transmissions of a frame before it is dropped. Default 7 (dot11ShortRetryLimit).
    pub attempts: u32,
}

impl Default for WifiMap {
    fn default() -> Self {
        Self { margin: 0.0, width: 20, cliff: 4.0, attempts: 7 }
    }
}

/// Minimum level of each scheme at 20 MHz in dBm, and its rate in twelfths of that of 256-QAM 3/4.
const STEPS: [(f64, u8); 9] = [
    (-82.0, 1),
    (-79.0, 2),
    (-77.0, 3),
    (-74.0, 4),
    (-70.0, 6),
    (-66.0, 8),
    (-65.0, 9),
    (-64.0, 10),
    (-59.0, 12),
];

const TWELFTHS: f64 = 12.0;

/// Share of frames damaged at the minimum level of a scheme, by the standard.
const DAMAGED: f64 = 0.1;

impl WifiMap {
    /// Returns the conditions at this level. Without an RSSI: the full link.
    pub fn conditions(&self, levels: &Levels) -> Conditions {
        if levels.detached || levels.interrupted {
            return Conditions::OUTAGE;
        }
        let Some(rssi) = levels.rssi else { return Conditions::FULL };
        let level = rssi - self.offset();
        let (lowest, slowest) = STEPS[0];
        if level >= lowest {
            let rate =
                STEPS.iter().rev().find(|(least, _)| level >= *least).map_or(slowest, |(_, rate)| *rate);
            return Conditions { share: share_of(f64::from(rate) / TWELFTHS), ..Conditions::FULL };
        }
        let damaged = DAMAGED.powf(1.0 - (lowest - level) / self.cliff);
        // A NaN counts as an outage.
        if damaged.is_nan() || damaged >= 1.0 {
            return Conditions::OUTAGE;
        }
        Conditions {
            share: share_of(f64::from(slowest) / TWELFTHS * (1.0 - damaged)),
            loss: share_of(damaged.powf(f64::from(self.attempts))),
            outage: false,
        }
    }

    /// Returns the level in dB that this width and receiver need in addition to the table.
    fn offset(&self) -> f64 {
        3.0 * f64::from(self.width / 20).log2() - self.margin
    }

    /// Checks that all values are in range.
    ///
    /// # Errors
    ///
    /// The first invalid field.
    pub fn check(&self) -> Result<(), ConfigError> {
        within("radio.wifi.margin", self.margin, -20.0, 30.0)?;
        within("radio.wifi.cliff", self.cliff, 0.1, 30.0)?;
        within("radio.wifi.attempts", f64::from(self.attempts), 1.0, 255.0)?;
        if [20, 40, 80, 160].contains(&self.width) {
            return Ok(());
        }
        let problem = format!("{} is not 20, 40, 80 or 160 MHz", self.width);
        Err(ConfigError::Field { field: "radio.wifi.width".to_owned(), problem })
    }
}

#[cfg(test)]
mod tests {
    use squall_units::Ratio;

    use super::*;
    use proptest::prelude::*;

    fn at(map: WifiMap, rssi: f64) -> Conditions {
        map.conditions(&Levels { rssi: Some(rssi), ..Levels::default() })
    }

    #[test]
    fn schemes_begin_at_their_sensitivity() {
        let map = WifiMap::default();
        for (least, rate) in STEPS {
            assert_eq!(at(map, least).share, share_of(f64::from(rate) / 12.0), "{least}");
        }
        assert_eq!(at(map, -70.1).share, share_of(4.0 / 12.0));
        assert_eq!(at(map, -30.0), Conditions::FULL);
        let wide = WifiMap { width: 80, margin: 1.0, ..map };
        assert_eq!(at(wide, -65.0), at(map, -70.0));
    }

    #[test]
    fn below_the_slowest_scheme_frames_are_repeated_and_at_last_lost() {
        let map = WifiMap::default();
        // Halfway down the cliff 10^−0.5 of the frames are damaged, and that to the seventh power
        // lost.
        let half = at(map, -84.0);
        assert!((half.share.as_f64() - (1.0 - 0.316_228) / 12.0).abs() < 1e-6);
        assert!((half.loss.as_f64() - 0.000_316).abs() < 1e-6);
        assert!(at(map, -85.7).loss.as_f64() > 0.1);
        assert!(at(map, -86.0).outage);
        assert!(at(WifiMap { margin: 5.0, ..map }, -90.5).loss > Ratio::ZERO);
    }

    proptest! {
        #[test]
        fn a_better_level_never_gives_less(
            rssi in -120.0..0.0f64, up in 0.0..60.0f64, margin in -5.0..12.0f64, width in 0u32..4,
        ) {
            let map = WifiMap { margin, width: 20 << width, ..WifiMap::default() };
            let (one, better) = (at(map, rssi), at(map, rssi + up));
            prop_assert!(better.share >= one.share);
            prop_assert!(better.loss <= one.loss || one.outage);
            prop_assert!(one.outage || !better.outage);
            prop_assert!(one.share <= Ratio::ONE && one.loss <= Ratio::ONE);
        }
    }
}

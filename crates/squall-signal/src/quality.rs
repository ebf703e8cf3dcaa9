//! The quality index: one number in 0…1 for the levels of a radio (STORM §3.2.3, Eq. 1–3).

use crate::{Reading, Technology};

/// The levels that map to 0 and to 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Range {
    /// This level and lower ones map to 0.
    pub low: f64,
    /// This level and higher ones map to 1.
    pub high: f64,
}

impl Range {
    /// Returns the position of a level in the range, in 0…1.
    pub fn place(self, level: f64) -> f64 {
        ((level - self.low) / (self.high - self.low)).clamp(0.0, 1.0)
    }

    pub(crate) fn is_valid(self) -> bool {
        self.low.is_finite() && self.high.is_finite() && self.low < self.high
    }
}

/// The linear maps of levels to 0…1. The paper does not give them. The defaults agree with its Fig.
/// 3, where loss over Wi-Fi stays under 10 % at −70 dBm (mapped to the Good mark, 0.45) and
/// clusters at 60–80 % at −80 dBm (the Outage mark, 0.21). The RSSI of mobile networks has the
/// range of 3GPP TS 27.007 §8.5, because a cell is received at levels at which no Wi-Fi is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ranges {
    /// RSSI of Wi-Fi in dBm. Default −88.75…−47.
    pub rssi: Range,
    /// RSSI of GSM, UMTS and LTE, and of a radio of unknown technology, in dBm. Default −113…−51.
    pub mobile_rssi: Range,
    /// RSRP in dBm. Default −130…−70.
    pub rsrp: Range,
    /// SINR in dB. Default −10…30.
    pub sinr: Range,
}

impl Default for Ranges {
    fn default() -> Self {
        Self {
            rssi: Range { low: -88.75, high: -47.0 },
            mobile_rssi: Range { low: -113.0, high: -51.0 },
            rsrp: Range { low: -130.0, high: -70.0 },
            sinr: Range { low: -10.0, high: 30.0 },
        }
    }
}

/// Weights of the levels and of losses (STORM Table 2).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Weights {
    /// w_rsrp of Eq. 1. Default 0.8.
    pub rsrp: f64,
    /// w_sinr of Eq. 1. Default 0.6.
    pub sinr: f64,
    /// γ of Eq. 2, for each percentage point of growth of the loss. Default 0.01.
    pub gamma: f64,
}

impl Default for Weights {
    fn default() -> Self {
        Self { rsrp: 0.8, sinr: 0.6, gamma: 0.01 }
    }
}

/// The computation of the index from readings.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct QualityIndex {
    /// Maps of levels to shares.
    pub ranges: Ranges,
    /// Weights of the shares.
    pub weights: Weights,
}

impl QualityIndex {
    /// Returns Q_base of Eq. 1: the geometric mean of RSRP and SINR by their weights; for Wi-Fi the
    /// RSSI.
    ///
    /// If a mobile network reports only one of the two, that one is used; if it reports neither,
    /// its RSSI (GSM, UMTS). 0 if the radio is in no network; `None` if it reports no level.
    pub fn base(&self, reading: &Reading) -> Option<f64> {
        if reading.disconnected {
            return Some(0.0);
        }
        let Ranges { rssi, mobile_rssi, rsrp, sinr } = self.ranges;
        // Ignore NaN.
        let place = |range: Range, level: Option<f64>| level.filter(|l| !l.is_nan()).map(|l| range.place(l));
        if reading.technology == Technology::Wifi {
            return place(rssi, reading.rssi);
        }
        match (place(rsrp, reading.rsrp), place(sinr, reading.sinr)) {
            (Some(coverage), Some(purity)) => {
                let Weights { rsrp: w_rsrp, sinr: w_sinr, .. } = self.weights;
                Some((purity.powf(w_sinr) * coverage.powf(w_rsrp)).powf(1.0 / (w_sinr + w_rsrp)))
            }
            (coverage, purity) => coverage.or(purity).or_else(|| place(mobile_rssi, reading.rssi)),
        }
    }

    /// Returns H of Eq. 2, by which growing loss lowers the index. `grown` is the share of packets
    /// lost in the last window minus that in the window before.
    pub fn loss_factor(&self, grown: f64) -> f64 {
        if grown > 0.0 { (-self.weights.gamma * grown * 100.0).exp() } else { 1.0 }
    }

    /// Returns Q of Eq. 3.
    pub fn of(&self, reading: &Reading, loss_grown: f64) -> Option<f64> {
        Some(self.base(reading)? * self.loss_factor(loss_grown))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use squall_units::short::at_us;

    use super::*;

    fn close(a: Option<f64>, b: f64) {
        let a = a.expect("there is an index");
        assert!((a - b).abs() < 0.0005, "{a} instead of {b}");
    }

    #[test]
    fn wifi_levels_meet_the_marks_of_the_paper() {
        let index = QualityIndex::default();
        close(index.base(&Reading::wifi(at_us(0), -80.0)), 0.2096);
        close(index.base(&Reading::wifi(at_us(0), -70.0)), 0.4491);
        close(index.base(&Reading::wifi(at_us(0), -30.0)), 1.0);
        close(index.base(&Reading::wifi(at_us(0), -95.0)), 0.0);
    }

    #[test]
    fn mobile_levels_are_joined_by_weight() {
        let index = QualityIndex::default();
        // RSRP −100 dBm is 0.5, SINR 10 dB is 0.5, and so is their mean.
        close(index.base(&Reading::lte(at_us(0), -100.0, 10.0)), 0.5);
        // (0.25^0.6 · 0.5^0.8)^(1/1.4) = 0.3715
        close(index.base(&Reading::lte(at_us(0), -100.0, 0.0)), 0.3715);
        // RSRP weighs more: (0.5^0.6 · 0.25^0.8)^(1/1.4) = 0.3365
        close(index.base(&Reading::lte(at_us(0), -115.0, 10.0)), 0.3365);
        close(index.base(&Reading::lte(at_us(0), -130.0, 30.0)), 0.0);
    }

    #[test]
    fn a_missing_level_does_not_count() {
        let index = QualityIndex::default();
        let lte = Reading::lte(at_us(0), -100.0, 0.0);
        close(index.base(&Reading { sinr: None, ..lte }), 0.5);
        close(index.base(&Reading { rsrp: None, ..lte }), 0.25);
        close(index.base(&Reading { rsrp: Some(f64::NAN), ..lte }), 0.25);
        assert_eq!(index.base(&Reading { technology: Technology::Lte, ..Reading::default() }), None);
        // The levels of a Wi-Fi that is not associated are ignored.
        close(index.base(&Reading { disconnected: true, ..Reading::wifi(at_us(0), -40.0) }), 0.0);
    }

    #[test]
    fn strength_is_judged_by_the_scale_of_its_technology() {
        let index = QualityIndex::default();
        let at = |technology, dbm| {
            index
                .base(&Reading { technology, rssi: Some(dbm), ..Reading::default() })
                .expect("there is an index")
        };
        for technology in [Technology::Gsm, Technology::Umts, Technology::Lte, Technology::Unknown] {
            // (dBm + 113) / 62: a cell at −85 dBm is a good one, and Outage is at −100 dBm.
            let expected = [(-51.0, 1.0), (-85.0, 0.4516), (-99.5, 0.2177), (-100.0, 0.2097), (-113.0, 0.0)];
            for (dbm, share) in expected {
                close(Some(at(technology, dbm)), share);
            }
        }
        close(Some(at(Technology::Wifi, -85.0)), 0.0898);
    }

    #[test]
    fn growing_loss_makes_the_index_worse() {
        let index = QualityIndex::default();
        // Thirty points more at γ = 0.01: e^−0.3.
        close(Some(index.loss_factor(0.3)), 0.7408);
        assert_eq!(index.loss_factor(-0.3), 1.0);
        assert_eq!(index.loss_factor(0.0), 1.0);
        close(index.of(&Reading::lte(at_us(0), -100.0, 10.0), 0.3), 0.3704);
    }

    proptest! {
        #[test]
        fn the_index_is_a_share_and_grows_with_each_level(
            rsrp in -160.0..-20.0f64, sinr in -40.0..50.0f64, rssi in -120.0..0.0f64,
            better in 0.0..30.0f64, grown in -1.0..1.0f64, wifi: bool,
        ) {
            let index = QualityIndex::default();
            let technology = if wifi { Technology::Wifi } else { Technology::Lte };
            let reading =
                Reading { technology, rssi: Some(rssi), ..Reading::lte(at_us(0), rsrp, sinr) };
            let q = index.of(&reading, grown).unwrap();
            prop_assert!((0.0..=1.0).contains(&q), "{q}");
            let up = |level: Option<f64>| level.map(|l| l + better);
            for stronger in [
                Reading { rsrp: up(reading.rsrp), ..reading },
                Reading { sinr: up(reading.sinr), ..reading },
                Reading { rssi: up(reading.rssi), ..reading },
            ] {
                prop_assert!(index.of(&stronger, grown).unwrap() >= q - 1e-12);
            }
            prop_assert!(index.of(&reading, grown + better / 30.0).unwrap() <= q + 1e-12);
        }
    }
}

//! Conditions of a mobile network as a function of its levels.

use squall_units::Ratio;

use super::{
    Levels,
    conditions::{Conditions, share_of},
    model::model,
};

model! {
    /// Share of the rate and loss of a mobile network by SINR and RSRP: a truncated Shannon bound.
    ///
    /// 3GPP TR 36.942 Annex A.1 gives the throughput of LTE as `attenuation · log2(1 + SINR)`
    /// bit/s/Hz, 0 below `min_sinr` and at most `max_efficiency`, for its downlink. The share is
    /// that throughput over its maximum, which is reached at 22.1 dB. Both directions of a path use
    /// it.
    ///
    /// Coverage is the limit that noise alone sets: the SINR counts as at most RSRP −
    /// `noise_floor`. Without an SINR, that bound alone decides.
    pub struct CellularMap in "radio.cellular" as map {
        /// Share of the Shannon bound that real links reach. Default 0.6 (TR 36.942 Table A.1,
        /// downlink).
        attenuation: f64 = 0.6, within [0.01, 1.0];
        /// The highest throughput in bit/s/Hz. Default 4.4 (ibid.).
        max_efficiency: f64 = 4.4, within [0.1, 30.0];
        /// The lowest SINR in dB at which packets pass; below it is an outage. Default −10 (ibid.).
        min_sinr: f64 = -10.0, within [-40.0, 40.0];
        /// Receiver noise in a resource element in dBm. Default −123.2: thermal noise in 15 kHz
        /// (−132.2) plus the noise figure of 9 dB of TR 36.942's terminals.
        noise_floor: f64 = -123.2, within [-200.0, 0.0];
        /// The SINR in dB below which packets are lost in spite of retransmission at the link
        /// layer. Default −6.7, where link-level studies put the lowest of LTE's modulation and
        /// coding schemes (CQI 1) at its target of 10 % block errors: below that there is no more
        /// robust scheme. If it is not above `min_sinr`, no packets are lost in this way.
        edge_sinr: f64 = -6.7, within [-40.0, 40.0];
        /// The loss at `min_sinr`; it falls linearly to 0 at `edge_sinr`. Default 10 %. No standard
        /// gives this number: RLC retransmits losses of HARQ, up to a limit.
        edge_loss: Ratio = Ratio::from_billionths(100_000_000);
    }
}

/// Noise in the 5 MHz of UMTS at the same noise figure, in dBm: the reference for an RSSI if there
/// is neither SINR nor RSRP.
const WIDE_NOISE: f64 = -98.0;

impl CellularMap {
    /// Returns the conditions at these levels. Without any level: the full link.
    pub fn conditions(&self, levels: &Levels) -> Conditions {
        if levels.detached || levels.interrupted {
            return Conditions::OUTAGE;
        }
        let Some(sinr) = self.effective_sinr(levels) else { return Conditions::FULL };
        // A NaN counts as an outage.
        if sinr.is_nan() || sinr < self.min_sinr {
            return Conditions::OUTAGE;
        }
        let efficiency = self.attenuation * (1.0 + 10f64.powf(sinr / 10.0)).log2();
        let span = (self.edge_sinr - self.min_sinr).max(f64::MIN_POSITIVE);
        let below = ((self.edge_sinr - sinr) / span).clamp(0.0, 1.0);
        Conditions {
            share: share_of(efficiency / self.max_efficiency),
            loss: share_of(below * self.edge_loss.as_f64()),
            outage: false,
        }
    }

    /// Returns the effective SINR in dB.
    fn effective_sinr(&self, levels: &Levels) -> Option<f64> {
        let coverage = levels.rsrp.map(|rsrp| rsrp - self.noise_floor);
        let known = match (levels.sinr, coverage) {
            (Some(sinr), Some(coverage)) => Some(sinr.min(coverage)),
            (sinr, coverage) => sinr.or(coverage),
        };
        known.or_else(|| levels.rssi.map(|rssi| rssi - WIDE_NOISE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(sinr: f64) -> Conditions {
        CellularMap::default().conditions(&Levels { sinr: Some(sinr), ..Levels::default() })
    }

    #[test]
    fn the_bound_is_that_of_the_report() {
        // 0.6 · log2(1 + 1) = 0.6 bit/s/Hz of 4.4.
        assert!((at(0.0).share.as_f64() - 0.6 / 4.4).abs() < 1e-8);
        // 0.6 · log2(1 + 10) = 2.0757.
        assert!((at(10.0).share.as_f64() - 0.47174).abs() < 1e-4);
        assert_eq!(at(22.1).share, Ratio::ONE);
        assert!(at(22.0).share < Ratio::ONE);
        assert!(!at(-10.0).outage);
        assert!(at(-10.01).outage);
        assert_eq!(at(-6.7).loss, Ratio::ZERO);
        assert_eq!(at(-10.0).loss, CellularMap::default().edge_loss);
    }

    #[test]
    fn noise_limits_coverage() {
        let map = CellularMap::default();
        let levels = |rsrp, sinr| Levels { rsrp: Some(rsrp), sinr, ..Levels::default() };
        assert_eq!(map.conditions(&levels(-123.2, Some(25.0))), at(0.0));
        assert_eq!(map.conditions(&levels(-80.0, Some(5.0))), at(5.0));
        assert_eq!(map.conditions(&levels(-113.2, None)), at(10.0));
        assert!(map.conditions(&levels(-134.0, Some(25.0))).outage);
        assert_eq!(map.conditions(&Levels { rssi: Some(-88.0), ..Levels::default() }), at(10.0));
        assert_eq!(map.conditions(&Levels::default()), Conditions::FULL);
        assert!(map.conditions(&Levels { interrupted: true, ..levels(-80.0, None) }).outage);
    }

    proptest! {
        #[test]
        fn better_levels_never_give_less(
            rsrp in -160.0..-30.0f64, sinr in -40.0..50.0f64, up in 0.0..40.0f64,
        ) {
            let map = CellularMap::default();
            let levels = |rsrp, sinr| Levels { rsrp: Some(rsrp), sinr: Some(sinr), ..Levels::default() };
            let one = map.conditions(&levels(rsrp, sinr));
            for better in [levels(rsrp + up, sinr), levels(rsrp, sinr + up)] {
                let better = map.conditions(&better);
                prop_assert!(better.share >= one.share);
                prop_assert!(better.loss <= one.loss || one.outage);
                prop_assert!(one.outage || !better.outage);
            }
            prop_assert_eq!(one.outage, one.share == Ratio::ZERO);
        }
    }
}

//! A walk to the edge of an access point's coverage and back.

use rand_pcg::Pcg64Mcg;
use squall_units::Span;

use super::{
    place::{STEP_SECONDS, Shuttle, log_distance},
    random::Shadow,
};
use crate::radio::{Levels, model::model};

model! {
    /// A walk from an access point to the edge of its coverage outdoors and back, without end.
    ///
    /// Path loss and shadowing are those of a street without line of sight. A station with too weak
    /// a signal loses its association, and needs a while to restore it.
    pub struct WifiEdge in "radio.wifi_edge" as edge {
        /// Speed in m/s. Default 1.4.
        speed: f64 = 1.4, within [0.01, 100.0];
        /// The nearest point in metres. Default 3.
        near: f64 = 3.0, within [0.0, 10_000.0];
        /// The farthest point in metres. Default 40, where the mean RSSI is that of the slowest scheme, −82 dBm.
        far: f64 = 40.0, within [edge.near + 0.1, 20_000.0];
        /// RSSI at one metre in dBm. Default −26, as in [`Walk`](super::Walk).
        reference: f64 = -26.0, within [-100.0, 50.0];
        /// Path loss exponent. Default 3.53 (3GPP TR 38.901 Table 7.4.1-1, UMi street canyon
        /// without line of sight).
        exponent: f64 = 3.53, within [0.1, 10.0];
        /// Deviation of the shadowing in dB. Default 7.82 (ibid.).
        shadow: f64 = 7.82, within [0.0, 30.0];
        /// Its correlation distance in metres. Default 13 (ibid., Table 7.5-6).
        decorrelation: f64 = 13.0, within [0.1, 10_000.0];
        /// RSSI in dBm below which the association is lost. Default −92, an assumption: beacons are
        /// sent with the slowest scheme, and several must be missed.
        lost: f64 = -92.0, within [-200.0, 0.0];
        /// RSSI in dBm from which on the station associates again. Default −85, an assumption.
        found: f64 = -85.0, within [edge.lost, 0.0];
        /// Duration of the association. Default 1 s, an assumption: scan, association, key
        /// exchange, address.
        rejoin: Span = Span::from_millis(1_000);
    }
}

#[derive(Debug, Clone)]
pub(in crate::radio) struct State {
    edge: WifiEdge,
    way: Shuttle,
    shadow: Shadow,
    /// Seconds until it is associated again, once its signal is strong enough.
    away: Option<f64>,
}

impl WifiEdge {
    pub(in crate::radio) fn begin(&self, random: &mut Pcg64Mcg) -> State {
        State {
            edge: *self,
            way: Shuttle::new(self.near, self.far, self.speed),
            shadow: Shadow::new(self.shadow, self.decorrelation, self.speed, random),
            away: None,
        }
    }
}

impl State {
    pub(super) fn step(&mut self, random: &mut Pcg64Mcg) -> Levels {
        let WifiEdge { reference, exponent, .. } = self.edge;
        let rssi = log_distance(reference, exponent, self.way.go()) + self.shadow.go(random);
        self.associate(rssi);
        Levels { rssi: Some(rssi), detached: self.away.is_some(), ..Levels::default() }
    }

    fn associate(&mut self, rssi: f64) {
        let rejoin = self.edge.rejoin.duration().as_secs_f64();
        self.away = match self.away {
            None => (rssi < self.edge.lost).then_some(rejoin),
            Some(_) if rssi < self.edge.found => Some(rejoin),
            Some(left) => Some(left - STEP_SECONDS).filter(|left| *left > 0.0),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_pcg::rand_core::SeedableRng;

    #[test]
    fn an_association_is_lost_at_the_edge_and_comes_back_after_a_while() {
        let mut state = WifiEdge::default().begin(&mut Pcg64Mcg::seed_from_u64(0));
        let mut away = |rssi: f64| {
            state.associate(rssi);
            state.away.is_some()
        };
        assert!(!away(-91.0));
        assert!(away(-93.0));
        assert!(away(-86.0), "not yet found again");
        let steps = (0..100).take_while(|_| away(-84.0)).count();
        assert_eq!(steps, 49, "a second, whose last step is the first with a network");
    }
}

//! One handover.

use squall_trace::Micros;
use squall_units::Span;

use super::place::{STEP, cell};
use crate::radio::{Levels, model::model};

model! {
    /// One handover: a cell fades, no packets pass for a moment, and then there is a better cell.
    /// It has no random parameters.
    pub struct Handover in "radio.handover" as handover {
        /// Start of the interruption. Default 10 s.
        at: Span = Span::from_millis(10_000);
        /// Duration of the interruption. Default 50 ms, LTE's 49.5 ms in 3GPP TR 36.881 rounded. A
        /// failed handover takes 0.5 to 3.7 s: the worst round trip in STORM (Fig. 7) was 3.75 s on
        /// the wireless link.
        interruption: Span = Span::from_millis(50);
        /// Duration of the fade before the interruption. Default 4 s, an assumption.
        fading: Span = Span::from_millis(4_000);
        /// RSRP before and after in dBm. Default −85.
        rsrp: f64 = -85.0, within [-160.0, 0.0];
        /// RSRP at the end of the fade in dBm. Default −112.
        lowest: f64 = -112.0, within [-160.0, handover.rsrp];
        /// Interference in a resource element in dBm. Default −108, so that the old cell ends at about −4 dB.
        interference: f64 = -108.0, within [-200.0, 0.0];
    }
}

#[derive(Debug, Clone)]
pub(in crate::radio) struct State {
    handover: Handover,
    now: Micros,
}

impl Handover {
    pub(in crate::radio) fn begin(&self) -> State {
        State { handover: *self, now: 0 }
    }

    /// Returns the RSRP of the serving cell at `now`.
    fn rsrp_at(&self, now: Micros) -> f64 {
        let (at, fading) = (self.at.micros(), self.fading.micros());
        if now >= at.saturating_add(self.interruption.micros()) {
            return self.rsrp;
        }
        let left = at.saturating_sub(now);
        let faded = if left >= fading { 0.0 } else { 1.0 - left as f64 / fading as f64 };
        self.rsrp + (self.lowest - self.rsrp) * faded
    }
}

impl State {
    pub(super) fn step(&mut self) -> (Levels, Micros) {
        let Handover { at, interruption, interference, .. } = self.handover;
        let (start, end) = (at.micros(), at.micros().saturating_add(interruption.micros()));
        let now = self.now;
        let interrupted = (start..end).contains(&now);
        let until = if interrupted {
            end
        } else if now < start {
            start.min(now + STEP)
        } else {
            // The levels are constant from here on.
            Micros::MAX
        };
        self.now = until;
        let levels = Levels { interrupted, ..cell(self.handover.rsrp_at(now), interference) };
        (levels, until - now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interruption_has_its_time_and_length() {
        let handover = Handover { at: Span::from_millis(1_234), ..Handover::default() };
        let mut state = handover.begin();
        let (mut now, mut steps) = (0, Vec::new());
        while now < Micros::MAX {
            let (levels, span) = state.step();
            steps.push((now, levels));
            now += span;
        }
        let cut: Vec<Micros> =
            steps.iter().filter(|(_, levels)| levels.interrupted).map(|(at, _)| *at).collect();
        assert_eq!(cut, [1_234_000]);
        let (after, levels) = steps[steps.len() - 1];
        assert_eq!((after, levels.rsrp), (1_284_000, Some(-85.0)));
    }

    #[test]
    fn the_cell_fades_before() {
        let handover = Handover::default();
        assert_eq!(handover.rsrp_at(6_000_000), -85.0);
        assert_eq!(handover.rsrp_at(8_000_000), -98.5);
        assert_eq!(handover.rsrp_at(10_000_000), -112.0);
        assert_eq!(handover.rsrp_at(10_050_000), -85.0);
    }
}

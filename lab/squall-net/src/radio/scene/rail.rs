//! A train that moves from cell to cell.

use rand_pcg::Pcg64Mcg;
use squall_trace::Micros;
use squall_units::{Ratio, Span};

use super::{
    place::{STEP, STEP_SECONDS, cell, log_distance},
    random::{Shadow, between, uniform},
};
use crate::{
    error::ConfigError,
    radio::{
        Levels,
        model::{model, within},
    },
};

model! {
    /// A train along a line of cells, without end, with a handover at each.
    ///
    /// Two cells count at a time, the serving one and the next, each with its own path loss and
    /// shadowing. Once the next has been stronger by the hysteresis for the time to trigger (event
    /// A3 of 3GPP TS 36.331 §5.5.4.4), the train changes over: no packets pass during the
    /// interruption. Some handovers fail, and it takes much longer until a cell is found again. The
    /// signal of the next cell is the interference.
    pub struct Rail in "radio.rail" as rail {
        /// Speed in m/s. Default 83.3: 300 km/h.
        speed: f64 = 83.3, within [0.1, 300.0];
        /// Distance between sites in metres. Default 580, which is seven seconds; the shorter of
        /// the two distances in 3GPP TR 38.913 §6.1.5. The longer is 1732.
        spacing: f64 = 580.0, within [50.0, 1e5];
        /// Distance between track and sites in metres. Default 100 (ibid.).
        aside: f64 = 100.0, within [1.0, 10_000.0];
        /// RSRP next to a site in dBm. Default −75, an assumption.
        rsrp: f64 = -75.0, within [-160.0, 0.0];
        /// Path loss exponent. Default 2, the first-order value of 3GPP TR 38.901 for RMa in line
        /// of sight.
        exponent: f64 = 2.0, within [0.1, 10.0];
        /// Deviation of the shadowing in dB. Default 4 (ibid., Table 7.4.1-1).
        shadow: f64 = 4.0, within [0.0, 30.0];
        /// Its correlation distance in metres. Default 37 (ibid., Table 7.5-6).
        decorrelation: f64 = 37.0, within [0.1, 10_000.0];
        /// Share of the time in which the next cell transmits. Default 50 %, an assumption.
        load: Ratio = Ratio::from_billionths(500_000_000);
        /// Hysteresis: dB by which the next cell must be stronger. Default 3, an assumption.
        hysteresis: f64 = 3.0, within [0.0, 30.0];
        /// Time to trigger: duration for which it must be stronger. Default 160 ms, an assumption
        /// from the values that TS 36.331 allows.
        trigger: Span = Span::from_millis(160);
        /// Duration of the interruption in a handover. Default 50 ms (49.5 ms in 3GPP TR 36.881).
        interruption: Span = Span::from_millis(50);
        /// Share of handovers that fail. Default 5 %, an assumption.
        failure: Ratio = Ratio::from_billionths(50_000_000);
        /// The shortest time without a cell after a failure. Default 0.5 s.
        shortest: Span = Span::from_millis(500);
        /// The longest time without a cell after a failure. Default 3.7 s, about the worst case of
        /// STORM (Fig. 7).
        longest: Span = Span::from_millis(3_700);
    }
}

#[derive(Debug, Clone)]
pub(in crate::radio) struct State {
    rail: Rail,
    /// Metres beyond the serving site; negative before it.
    at: f64,
    serving: Shadow,
    next: Shadow,
    /// Duration for which the next cell has been strong enough.
    stronger: Micros,
    /// Remaining duration of the interruption.
    cut: Micros,
}

impl Rail {
    pub(in crate::radio) fn begin(&self, random: &mut Pcg64Mcg) -> State {
        State {
            rail: *self,
            at: 0.0,
            serving: self.shadow(random),
            next: self.shadow(random),
            stronger: 0,
            cut: 0,
        }
    }

    fn shadow(&self, random: &mut Pcg64Mcg) -> Shadow {
        Shadow::new(self.shadow, self.decorrelation, self.speed, random)
    }

    /// Returns the RSRP of a site at this distance along the track, without shadowing.
    fn rsrp_of(&self, along: f64) -> f64 {
        // Next to the site it is `rsrp`.
        log_distance(self.rsrp, self.exponent, along.hypot(self.aside) / self.aside)
    }

    /// Checks the range of the times without a cell.
    pub(in crate::radio) fn check_failures(&self) -> Result<(), ConfigError> {
        let [shortest, longest] = [self.shortest, self.longest].map(|span| span.duration().as_secs_f64());
        within("radio.rail.shortest in s", shortest, 0.0, 3_600.0)?;
        within("radio.rail.longest in s", longest, shortest, 3_600.0)
    }
}

impl State {
    pub(super) fn step(&mut self, random: &mut Pcg64Mcg) -> (Levels, Micros) {
        let rail = self.rail;
        let serving = rail.rsrp_of(self.at) + self.serving.go(random);
        let next = rail.rsrp_of(self.at - rail.spacing) + self.next.go(random);
        let busy = 10.0 * rail.load.as_f64().log10();
        let levels = Levels { interrupted: self.cut > 0, ..cell(serving, next + busy) };
        if self.cut > 0 {
            return self.change_over(levels, random);
        }
        self.at += rail.speed * STEP_SECONDS;
        self.stronger = if next >= serving + rail.hysteresis { self.stronger + STEP } else { 0 };
        if self.stronger > 0 && self.stronger >= rail.trigger.micros() {
            self.cut = self.draw(random);
        }
        (levels, STEP)
    }

    /// Returns the whole interruption with the levels before it; then the next cell is the serving
    /// one.
    fn change_over(&mut self, levels: Levels, random: &mut Pcg64Mcg) -> (Levels, Micros) {
        let span = std::mem::take(&mut self.cut);
        self.at += self.rail.speed * span as f64 / 1e6;
        self.at -= self.rail.spacing;
        // A long interruption may span several cells.
        while self.at > self.rail.spacing / 2.0 {
            self.at -= self.rail.spacing;
        }
        self.stronger = 0;
        let fresh = self.rail.shadow(random);
        self.serving = std::mem::replace(&mut self.next, fresh);
        (levels, span)
    }

    fn draw(&self, random: &mut Pcg64Mcg) -> Micros {
        let Rail { failure, shortest, longest, interruption, .. } = self.rail;
        let fails = uniform(random) < failure.as_f64();
        let long = between(random, shortest.micros() as f64, longest.micros() as f64);
        if fails { long as Micros } else { interruption.micros() }.max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_pcg::rand_core::SeedableRng;

    fn cuts(rail: Rail, seconds: u64) -> Vec<(Micros, Micros)> {
        let mut random = Pcg64Mcg::seed_from_u64(3);
        let mut state = rail.begin(&mut random);
        let (mut now, mut cuts) = (0, Vec::new());
        while now < seconds * 1_000_000 {
            let (levels, span) = state.step(&mut random);
            if levels.interrupted {
                cuts.push((now, span));
            }
            now += span;
        }
        cuts
    }

    #[test]
    fn there_is_a_handover_for_each_site() {
        let rail = Rail { failure: Ratio::ZERO, ..Rail::default() };
        let cuts = cuts(rail, 1_000);
        // 1,000 s at 83.3 m/s pass 143 sites.
        assert!((140..=146).contains(&cuts.len()), "{}", cuts.len());
        assert!(cuts.iter().all(|(_, span)| *span == 50_000));
    }

    #[test]
    fn some_fail_and_take_long() {
        let rail = Rail { failure: Ratio::from_billionths(200_000_000), ..Rail::default() };
        let cuts = cuts(rail, 5_000);
        let failed: Vec<Micros> = cuts.iter().map(|(_, span)| *span).filter(|span| *span != 50_000).collect();
        let share = failed.len() as f64 / cuts.len() as f64;
        assert!((0.15..0.25).contains(&share), "{share}");
        assert!(failed.iter().all(|span| (500_000..=3_700_000).contains(span)));
    }
}

//! Collects what one path does.

use super::distribution::Times;
use super::recorder::{PathSample, PathTotals};
use super::{Interval, PathResult, PathSeries, PathState, StateChange, rate_bps};

#[derive(Debug)]
pub(super) struct PathRecorder {
    series: PathSeries,
    states: Vec<StateChange>,
    outages: Vec<Interval>,
    rtt: Times,
    totals: PathTotals,
    delivered_down: u64,
    delivered_up: u64,
}

impl PathRecorder {
    pub(super) fn new(outages: Vec<Interval>) -> Self {
        Self {
            series: PathSeries::default(),
            states: Vec::new(),
            outages,
            rtt: Times::new(),
            totals: PathTotals::default(),
            delivered_down: 0,
            delivered_up: 0,
        }
    }

    pub(super) fn on_sample(&mut self, at_us: u64, sample: &PathSample) {
        let since_us = at_us.saturating_sub(self.series.at_us.last().copied().unwrap_or(0));
        let down = sample.delivered_down.saturating_sub(self.delivered_down);
        let up = sample.delivered_up.saturating_sub(self.delivered_up);
        (self.delivered_down, self.delivered_up) = (sample.delivered_down, sample.delivered_up);
        self.series.at_us.push(at_us);
        self.series.down_bps.push(rate_bps(down, since_us));
        self.series.up_bps.push(rate_bps(up, since_us));
        self.series.srtt_us.push(sample.srtt_us);
        self.series.in_flight.push(sample.in_flight);
        self.series.window.push(sample.window);
        self.series.queue.push(sample.queue);
        self.series.link_bps.push(sample.link_bps);
        self.on_state(at_us, sample.state);
    }

    pub(super) fn on_state(&mut self, at_us: u64, state: PathState) {
        if self.states.last().is_none_or(|last| last.state != state) {
            self.states.push(StateChange { at_us, state });
        }
    }

    pub(super) fn on_rtt(&mut self, rtt_us: u64) {
        self.rtt.record(rtt_us);
    }

    pub(super) fn on_outage(&mut self, outage: Interval) {
        self.outages.push(outage);
    }

    pub(super) fn set_totals(&mut self, totals: PathTotals) {
        self.totals = totals;
    }

    pub(super) fn finish(mut self, name: String, end_us: u64) -> PathResult {
        self.outages.sort_by_key(|outage| (outage.from_us, outage.to_us));
        PathResult {
            name,
            totals: self.totals,
            goodput_down_bps: rate_bps(self.delivered_down, end_us),
            goodput_up_bps: rate_bps(self.delivered_up, end_us),
            rtt: self.rtt.percentiles(),
            states: self.states,
            outages: self.outages,
            series: self.series,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_become_rates_and_state_changes() {
        let mut recorder = PathRecorder::new(vec![]);
        let sample = |down, state| PathSample {
            delivered_down: down,
            delivered_up: 0,
            srtt_us: 30_000,
            in_flight: 1,
            window: 2,
            queue: 3,
            link_bps: Some(20_000_000),
            state,
        };
        recorder.on_sample(0, &sample(0, PathState::Opening));
        recorder.on_sample(100_000, &sample(250_000, PathState::Active));
        recorder.on_sample(200_000, &sample(375_000, PathState::Active));
        recorder.on_state(250_000, PathState::Down);
        recorder.on_rtt(31_000);
        let path = recorder.finish("wifi".into(), 200_000);
        assert_eq!(path.series.down_bps, [0, 20_000_000, 10_000_000]);
        assert_eq!(path.goodput_down_bps, 15_000_000);
        let states: Vec<_> = path.states.iter().map(|change| (change.at_us, change.state)).collect();
        let expected = [(0, PathState::Opening), (100_000, PathState::Active), (250_000, PathState::Down)];
        assert_eq!(states, expected);
        assert_eq!(path.rtt.unwrap().max_us, 31_000);
    }
}

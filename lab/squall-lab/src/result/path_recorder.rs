//! Records the samples and events of one path.

use super::distribution::Times;
use super::inputs::PathSample;
use super::{
    AlertWord, Interval, PathResult, PathSeries, PathState, SignalBias, StateChange, rate_bps, round6,
};

#[derive(Debug)]
pub(crate) struct PathRecorder {
    /// Totals, states, alerts and samples so far.
    pub(crate) result: PathResult,
    rtt: Times,
    biases: Vec<f64>,
    delivered_down: u64,
    delivered_up: u64,
}

impl PathRecorder {
    pub(super) fn new(result: PathResult) -> Self {
        Self { result, rtt: Times::new(), biases: Vec::new(), delivered_down: 0, delivered_up: 0 }
    }

    /// Called with the state of the path every [`SAMPLE_INTERVAL_US`](super::SAMPLE_INTERVAL_US).
    pub(crate) fn on_sample(&mut self, at_us: u64, sample: &PathSample) {
        let series = &mut self.result.series;
        let since_us = at_us.saturating_sub(series.at_us.last().copied().unwrap_or(0));
        let down = sample.delivered_down.saturating_sub(self.delivered_down);
        let up = sample.delivered_up.saturating_sub(self.delivered_up);
        (self.delivered_down, self.delivered_up) = (sample.delivered_down, sample.delivered_up);
        series.at_us.push(at_us);
        series.down_bps.push(rate_bps(down, since_us));
        series.up_bps.push(rate_bps(up, since_us));
        series.srtt_us.push(sample.srtt_us);
        series.in_flight.push(sample.in_flight);
        series.window.push(sample.window);
        series.queue.push(sample.queue);
        series.link_bps.push(sample.link_bps);
        series.quality.push(sample.quality);
        series.factor.push(sample.factor);
        self.biases.extend(sample.signal_bias);
        self.on_state(at_us, sample.state);
    }

    /// Called when the path changes state between two samples.
    pub(crate) fn on_state(&mut self, at_us: u64, state: PathState) {
        let states = &mut self.result.states;
        if states.last().is_none_or(|last| last.state != state) {
            states.push(StateChange { at_us, state });
        }
    }

    /// Called for each measurement of the round-trip time.
    pub(crate) fn on_rtt(&mut self, rtt_us: u64) {
        self.rtt.record(rtt_us);
    }

    pub(super) fn finish(mut self, end_us: u64) -> PathResult {
        self.note_outages(end_us);
        self.forget_signals();
        let recoveries = self.result.alerts.iter().filter(|alert| alert.kind == AlertWord::Recovery).count();
        PathResult {
            goodput_down_bps: rate_bps(self.delivered_down, end_us),
            goodput_up_bps: rate_bps(self.delivered_up, end_us),
            rtt: self.rtt.percentiles(),
            recoveries: recoveries as u64,
            signal_bias: signal_bias(self.biases),
            ..self.result
        }
    }

    /// Adds outages that are not scripted, such as those of a radio, which only the samples show.
    /// Each lasts from the first sample with a dead link to the next with a live one.
    fn note_outages(&mut self, end_us: u64) {
        let PathResult { series: PathSeries { at_us, link_bps, .. }, outages, .. } = &mut self.result;
        let mut found: Vec<Interval> = Vec::new();
        for (place, at) in at_us.iter().enumerate().filter(|(place, _)| link_bps[*place] == Some(0)) {
            let to_us = at_us.get(place + 1).copied().unwrap_or(end_us);
            match found.last_mut() {
                Some(last) if last.to_us == *at => last.to_us = to_us,
                _ => found.push(Interval { from_us: *at, to_us }),
            }
        }
        let scripted = outages.clone();
        let is_known =
            |new: &Interval| scripted.iter().any(|old| new.from_us <= old.to_us && old.from_us <= new.to_us);
        outages.extend(found.into_iter().filter(|new| new.from_us < new.to_us && !is_known(new)));
        outages.sort_by_key(|outage| (outage.from_us, outage.to_us));
    }

    /// Clears columns that contain only the default.
    fn forget_signals(&mut self) {
        let series = &mut self.result.series;
        if series.quality.iter().all(Option::is_none) {
            series.quality.clear();
        }
        if series.factor.iter().all(|factor| *factor == 1_000) {
            series.factor.clear();
        }
    }
}

fn signal_bias(mut biases: Vec<f64>) -> Option<SignalBias> {
    biases.sort_by(f64::total_cmp);
    let median = *biases.get(biases.len() / 2)?;
    let mean = biases.iter().sum::<f64>() / biases.len() as f64;
    Some(SignalBias { mean: round6(mean), median: round6(median) })
}

#[cfg(test)]
mod tests {
    use super::super::PathAlert;
    use super::*;

    #[test]
    fn samples_become_rates_and_state_changes() {
        let mut recorder = with_outages(vec![]);
        let sample =
            |down, state| PathSample { delivered_down: down, link_bps: Some(20_000_000), state, ..plain() };
        recorder.on_sample(0, &sample(0, PathState::Opening));
        recorder.on_sample(100_000, &sample(250_000, PathState::Active));
        recorder.on_sample(200_000, &sample(375_000, PathState::Active));
        recorder.on_state(250_000, PathState::Down);
        recorder.on_rtt(31_000);
        let path = recorder.finish(200_000);
        assert_eq!(path.series.down_bps, [0, 20_000_000, 10_000_000]);
        assert_eq!(path.goodput_down_bps, 15_000_000);
        let states: Vec<_> = path.states.iter().map(|change| (change.at_us, change.state)).collect();
        let expected = [(0, PathState::Opening), (100_000, PathState::Active), (250_000, PathState::Down)];
        assert_eq!(states, expected);
        assert_eq!(path.rtt.unwrap().max_us, 31_000);
    }

    #[test]
    fn outages_are_those_of_the_script_and_those_that_were_seen() {
        let scripted = Interval { from_us: 150_000, to_us: 350_000 };
        let mut recorder = with_outages(vec![scripted]);
        for (step, dead) in (0..).zip([false, false, true, true, false, true, true, false, true]) {
            let link_bps = Some(if dead { 0 } else { 1_000 });
            recorder.on_sample(step * 100_000, &PathSample { link_bps, ..plain() });
        }
        let path = recorder.finish(900_000);
        let found: Vec<_> = path.outages.iter().map(|outage| (outage.from_us, outage.to_us)).collect();
        assert_eq!(found, [(150_000, 350_000), (500_000, 700_000), (800_000, 900_000)]);
    }

    #[test]
    fn signals_are_recorded_where_there_are_any() {
        let mut recorder = with_outages(vec![]);
        recorder.on_sample(0, &plain());
        let PathSeries { quality, factor, .. } = &recorder.result.series;
        assert!(quality.len() == 1 && factor.len() == 1);
        let silent = recorder.finish(100_000).series;
        assert!(silent.quality.is_empty() && silent.factor.is_empty());

        let mut recorder = with_outages(vec![]);
        recorder.on_sample(0, &plain());
        recorder.on_sample(100_000, &PathSample { quality: Some(250), factor: 781, ..plain() });
        let alert = PathAlert { at_us: 50_000, kind: AlertWord::Warning };
        recorder.result.alerts.push(alert);
        let path = recorder.finish(100_000);
        assert_eq!(path.series.quality, [None, Some(250)]);
        assert_eq!((path.series.factor, path.alerts), (vec![1_000, 781], vec![alert]));
    }

    fn with_outages(outages: Vec<Interval>) -> PathRecorder {
        PathRecorder::new(PathResult { outages, ..PathResult::default() })
    }

    fn plain() -> PathSample {
        PathSample {
            delivered_down: 0,
            delivered_up: 0,
            srtt_us: 30_000,
            in_flight: 1,
            window: 2,
            queue: 3,
            link_bps: None,
            state: PathState::Active,
            quality: None,
            factor: 1_000,
            signal_bias: None,
        }
    }
}

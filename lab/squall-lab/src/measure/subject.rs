//! What a measure is taken of.

use serde::{Deserialize, Serialize};
use squall_units::format;

use super::{Count, Measure, Quantile, Times, limit, pictures};
use crate::flow::{Direction, word};
use crate::result::{
    ClassResult, FlowResult, PathResult, Percentiles, Playback, RunResult, Tally, rate_bps, ratio, round6,
};

/// A whole run, one of its paths, one of its flows, or one class of a flow; a flow or class together with a
/// path is what it sent there. Names are those of the scenario.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Subject {
    /// A flow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flow: Option<String>,
    /// A class of the flow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<String>,
    /// A path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
}

/// Which part of a run, and which way.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct View {
    /// Direction, for the goodput of a path; without it, the one that the run is about.
    pub direction: Option<Direction>,
    /// The part of the run, in microseconds; `None`: all of it.
    pub window_us: Option<(u64, u64)>,
}

impl Subject {
    /// The whole run.
    pub const RUN: Self = Self { flow: None, class: None, path: None };

    /// A path of this name.
    pub fn path(name: &str) -> Self {
        Self { path: Some(name.to_owned()), ..Self::RUN }
    }

    /// A flow of this name.
    pub fn flow(name: &str) -> Self {
        Self { flow: Some(name.to_owned()), ..Self::RUN }
    }

    /// What it is, in a word.
    pub fn kind(&self) -> &'static str {
        match (&self.flow, &self.class, &self.path) {
            (None, _, None) => "run",
            (None, _, Some(_)) => "path",
            (Some(_), None, None) => "flow",
            (Some(_), Some(_), None) => "class",
            (Some(_), None, Some(_)) => "flow on a path",
            (Some(_), Some(_), Some(_)) => "class on a path",
        }
    }

    /// Whether subjects of its kind have the measure.
    pub fn has(&self, measure: Measure) -> bool {
        use Count::*;

        let playback =
            [MeanFps, BelowSmoothRatio, ShownRatio, Stalls, StallsPerMinute, StallTime, LongestStall];
        let fates = [
            InTimeRatio,
            LateRatio,
            InTimeBytesRatio,
            InTimeBitrate,
            DeliveredRatio,
            Efficiency,
            CancelledBlocks,
            WastedBlocks,
            OfferedBitrate,
            Goodput,
        ];
        let signal = [Recoveries, MeanSignalBias, MedianSignalBias];
        let bounds =
            [BoundInTimeRatio, BoundInTimeBytesRatio, BoundInTimeBitrate, InTimeOfBound, InTimeBytesOfBound];
        let fated = |count| fates.contains(&count) || bounds.contains(&count);
        let wire = [
            WireBytes,
            LostPackets,
            LossRatio,
            RetransmittedBytes,
            ReinjectedBytes,
            DuplicateBytes,
            RetransmissionRatio,
        ];
        match (self.kind(), measure) {
            ("run", Measure::Time(_, times)) => times == Times::PacketDelay,
            ("run", Measure::Count(count)) => {
                wire.contains(&count)
                    || fated(count)
                    || [MeteredRatio, SchedulingTime, Recoveries].contains(&count)
            }
            ("path", Measure::Time(_, times)) => times == Times::Rtt,
            ("path", Measure::Count(count)) => {
                wire.contains(&count)
                    || [Goodput, WireRatio, PathRatio].contains(&count)
                    || signal.contains(&count)
            }
            ("flow", Measure::Time(_, times)) => times != Times::Rtt,
            ("flow", Measure::Count(count)) => {
                fated(count)
                    || playback.contains(&count)
                    || pictures::PICTURES.contains(&count)
                    || [LongestGap, RebufferingTime, PerceivedRatio].contains(&count)
            }
            ("class", Measure::Time(_, times)) => {
                [Times::Latency, Times::Waiting, Times::LeastLatency].contains(&times)
            }
            ("class", Measure::Count(count)) => fated(count),
            (_, measure) => measure == Measure::Count(PathRatio),
        }
    }

    /// Whether a measure of it can be taken over a part of a run.
    pub fn has_over_time(&self, measure: Measure) -> bool {
        measure.is_over_time() && matches!(self.kind(), "path" | "flow")
    }

    /// Takes the measure; `None` if the run has nothing to take it of.
    pub fn measure(&self, measure: Measure, view: View, run: &RunResult) -> Option<f64> {
        let flow = |name: &String| run.flows.iter().find(|flow| flow.name == *name);
        match (&self.flow, &self.class, &self.path) {
            (None, _, None) => of_run(measure, run),
            (None, _, Some(path)) => {
                let path = run.paths.iter().find(|known| known.name == *path)?;
                of_path(measure, view, path, run)
            }
            (Some(name), None, None) => of_flow(measure, view, flow(name)?, run),
            (Some(name), Some(kind), None) => of_class(measure, &joined(flow(name)?, kind)?, run),
            (Some(name), kind, Some(path)) => {
                let path = run.paths.iter().position(|known| known.name == *path)?;
                let flow = flow(name)?;
                let classes = flow.classes.iter().filter(|c| kind.as_ref().is_none_or(|kind| is_of(c, kind)));
                (measure == Measure::Count(Count::PathRatio)).then(|| path_ratio(classes, path))?
            }
        }
    }

    /// Names it.
    pub fn describe(&self) -> String {
        let name = |word: &str, name: &Option<String>| name.as_ref().map(|name| format!("{word} {name}"));
        let parts = [name("flow", &self.flow), name("class", &self.class), name("path", &self.path)];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        if parts.is_empty() { "run".into() } else { parts.join(", ") }
    }
}

impl View {
    /// Describes it, with a space before it; nothing for the whole run.
    pub fn describe(&self) -> String {
        let direction = self.direction.map(|direction| format!(" {}", word(direction))).unwrap_or_default();
        let window = self
            .window_us
            .map(|(from, to)| format!(" from {} to {}", format::time(from), format::time(to)))
            .unwrap_or_default();
        format!("{direction}{window}")
    }
}

fn of_run(measure: Measure, run: &RunResult) -> Option<f64> {
    let total = || run.flows.iter().fold(Tally::default(), |sum, flow| sum.plus(&flow.total));
    match measure {
        Measure::Time(quantile, Times::PacketDelay) => at(quantile, run.packet_delay.as_ref()),
        Measure::Time(..) => None,
        Measure::Count(count) => match count {
            Count::MeteredRatio => {
                let metered = run.paths.iter().filter(|path| path.metered).map(PathResult::wire_bytes);
                ratio(metered.sum(), run.paths.iter().map(PathResult::wire_bytes).sum())
            }
            Count::RetransmissionRatio => run.retransmission_ratio(),
            Count::Recoveries => Some(run.paths.iter().map(|path| path.recoveries).sum::<u64>() as f64),
            Count::SchedulingTime => {
                let blocks = total().offered_blocks;
                let spent = run.scheduling_ns.filter(|_| blocks > 0)?;
                Some(round6(spent as f64 / 1e3 / blocks as f64))
            }
            Count::InTimeBytesRatio => in_time_bytes_ratio(run),
            _ => of_wire(count, &run.paths, run).or_else(|| of_fates(count, &total(), run)).or_else(|| {
                let reached = (total().in_time_ratio(), in_time_bytes_ratio(run));
                limit::of_limit(count, &limit::of_run(run)?, reached, run)
            }),
        },
    }
}

fn in_time_bytes_ratio(run: &RunResult) -> Option<f64> {
    let classes = run.flows.iter().flat_map(|flow| &flow.classes);
    let weighted = classes.map(timely_and_decided);
    let (timely, decided) = weighted.fold((0.0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    (decided > 0.0).then(|| round6(timely / decided))
}

/// Bytes of a class that were in time, and bytes of its decided blocks.
fn timely_and_decided(class: &ClassResult) -> (f64, f64) {
    let decided = (class.tally.offered_bytes - class.tally.open_bytes) as f64;
    (class.in_time_bytes_ratio.unwrap_or(0.0) * decided, decided)
}

fn of_path(measure: Measure, view: View, path: &PathResult, run: &RunResult) -> Option<f64> {
    match measure {
        Measure::Time(quantile, Times::Rtt) => at(quantile, path.rtt.as_ref()),
        Measure::Time(..) => None,
        Measure::Count(Count::Goodput) => {
            let rates = path.series.rate_bps(view.direction.unwrap_or(run.direction));
            mean_rate(&path.series.at_us, rates, view.window_us.unwrap_or((0, run.duration_us)))
        }
        Measure::Count(Count::WireRatio) => {
            ratio(path.wire_bytes(), run.paths.iter().map(PathResult::wire_bytes).sum())
        }
        Measure::Count(Count::PathRatio) => {
            let place = run.paths.iter().position(|known| known.name == path.name)?;
            path_ratio(run.flows.iter().flat_map(|flow| &flow.classes), place)
        }
        Measure::Count(Count::Recoveries) => Some(path.recoveries as f64),
        Measure::Count(Count::MeanSignalBias) => path.signal_bias.map(|bias| bias.mean),
        Measure::Count(Count::MedianSignalBias) => path.signal_bias.map(|bias| bias.median),
        Measure::Count(count) => of_wire(count, std::slice::from_ref(path), run),
    }
}

fn of_flow(measure: Measure, view: View, flow: &FlowResult, run: &RunResult) -> Option<f64> {
    match measure {
        Measure::Time(quantile, times) => {
            let all = match times {
                Times::Latency => flow.latency.as_ref(),
                Times::Waiting => flow.waiting.as_ref(),
                Times::PacketDelay => flow.packet_delay.as_ref(),
                Times::PictureLatency => flow.playback.as_ref()?.picture_latency.as_ref(),
                Times::LeastLatency => flow.bound.as_ref()?.latency.as_ref(),
                Times::Rtt => None,
            };
            at(quantile, all)
        }
        Measure::Count(Count::Goodput) => {
            Some(flow.goodput_within(view.window_us.unwrap_or((0, run.duration_us))))
        }
        Measure::Count(Count::InTimeBytesRatio) => flow.in_time_bytes_ratio,
        Measure::Count(Count::LongestGap) => {
            (flow.total.offered_blocks > 0).then_some(flow.longest_gap_us as f64)
        }
        Measure::Count(Count::PerceivedRatio) => flow.perceived_ratio,
        Measure::Count(count) => {
            let of_bound = || limit::of_limit(count, flow.bound.as_ref()?, limit::reached_by_flow(flow), run);
            let of_pictures = || pictures::of_pictures(count, flow.pictures.as_ref()?);
            of_fates(count, &flow.total, run)
                .or_else(|| of_playback(count, flow.playback.as_ref()?, run))
                .or_else(of_bound)
                .or_else(of_pictures)
        }
    }
}

fn of_class(measure: Measure, class: &ClassResult, run: &RunResult) -> Option<f64> {
    match measure {
        Measure::Time(quantile, Times::Latency) => at(quantile, class.latency.as_ref()),
        Measure::Time(quantile, Times::Waiting) => at(quantile, class.waiting.as_ref()),
        Measure::Time(quantile, Times::LeastLatency) => at(quantile, class.bound.as_ref()?.latency.as_ref()),
        Measure::Time(..) => None,
        Measure::Count(Count::InTimeBytesRatio) => class.in_time_bytes_ratio,
        Measure::Count(count) => of_fates(count, &class.tally, run)
            .or_else(|| limit::of_limit(count, class.bound.as_ref()?, limit::reached_by_class(class), run)),
    }
}

/// What stands for all classes of a flow that are reliable, and for all that are not.
pub(crate) const BY_RELIABILITY: [&str; 2] = ["reliable", "unreliable"];

fn is_of(class: &ClassResult, name: &str) -> bool {
    class.name == name || name == BY_RELIABILITY[usize::from(!class.reliable)]
}

/// The classes of this name as one. Percentiles and the bound are known of a single class only.
fn joined(flow: &FlowResult, name: &str) -> Option<ClassResult> {
    let mut classes = flow.classes.iter().filter(|class| is_of(class, name)).cloned();
    let first = classes.next()?;
    Some(classes.fold(first, |sum, class| {
        let (first, second) = (timely_and_decided(&sum), timely_and_decided(&class));
        let (timely, decided) = (first.0 + second.0, first.1 + second.1);
        let paths = sum.path_bytes.len().max(class.path_bytes.len());
        let bytes = |class: &ClassResult, path| class.path_bytes.get(path).copied().unwrap_or(0);
        ClassResult {
            in_time_bytes_ratio: (decided > 0.0).then(|| round6(timely / decided)),
            path_bytes: (0..paths).map(|path| bytes(&sum, path) + bytes(&class, path)).collect(),
            tally: sum.tally.plus(&class.tally),
            latency: None,
            waiting: None,
            bound: None,
            ..sum
        }
    }))
}

fn of_fates(count: Count, tally: &Tally, run: &RunResult) -> Option<f64> {
    match count {
        Count::InTimeRatio => tally.in_time_ratio(),
        Count::LateRatio => tally.in_time_ratio().map(|ratio| round6(1.0 - ratio)),
        Count::InTimeBitrate => Some(rate_bps(tally.in_time_bytes, run.duration_us) as f64),
        Count::DeliveredRatio => tally.delivered_ratio(),
        Count::Efficiency => tally.efficiency(),
        Count::CancelledBlocks => Some(tally.cancelled_blocks as f64),
        Count::WastedBlocks => Some(tally.wasted_blocks as f64),
        Count::OfferedBitrate => Some(rate_bps(tally.offered_bytes, run.duration_us) as f64),
        Count::Goodput => Some(rate_bps(tally.delivered_bytes, run.duration_us) as f64),
        _ => None,
    }
}

fn of_wire(count: Count, paths: &[PathResult], run: &RunResult) -> Option<f64> {
    let sum = |pick: fn(&PathResult) -> u64| paths.iter().map(pick).sum::<u64>();
    let packets = sum(|path| path.totals.packets);
    let again = || sum(|path| path.totals.retransmitted_bytes + path.totals.reinjected_bytes);
    match count {
        Count::WireBytes => Some(sum(PathResult::wire_bytes) as f64),
        Count::LostPackets => Some(sum(|path| path.totals.lost_packets) as f64),
        Count::LossRatio => ratio(sum(|path| path.totals.lost_packets), packets),
        Count::RetransmittedBytes => Some(sum(|path| path.totals.retransmitted_bytes) as f64),
        Count::ReinjectedBytes => Some(sum(|path| path.totals.reinjected_bytes) as f64),
        Count::DuplicateBytes => Some(sum(|path| path.totals.duplicate_bytes) as f64),
        Count::RetransmissionRatio => {
            let sent = paths.iter().map(|path| path.sent_bytes(run.direction)).sum();
            ratio(again(), sent)
        }
        _ => None,
    }
}

/// Nothing, if no picture was due: a player that never began has not stalled, but it has not played either.
fn of_playback(count: Count, playback: &Playback, run: &RunResult) -> Option<f64> {
    if playback.pictures == 0 {
        return None;
    }
    match count {
        Count::MeanFps => Some(playback.mean_fps),
        Count::BelowSmoothRatio => {
            (!playback.shown_per_second.is_empty()).then_some(playback.below_smooth_ratio)
        }
        Count::ShownRatio => ratio(playback.shown, playback.pictures),
        Count::Stalls => Some(playback.stalls as f64),
        Count::StallsPerMinute => {
            (run.duration_us > 0).then(|| round6(playback.stalls as f64 * 6e7 / run.duration_us as f64))
        }
        Count::StallTime => Some(playback.stall_us as f64),
        Count::LongestStall => Some(playback.longest_stall_us as f64),
        Count::RebufferingTime => Some(playback.rebuffering_us as f64),
        _ => None,
    }
}

fn path_ratio<'a>(classes: impl Iterator<Item = &'a ClassResult>, path: usize) -> Option<f64> {
    let (mut here, mut all) = (0, 0);
    for class in classes {
        here += class.path_bytes.get(path).copied().unwrap_or(0);
        all += class.path_bytes.iter().sum::<u64>();
    }
    ratio(here, all)
}

fn at(quantile: Quantile, all: Option<&Percentiles>) -> Option<f64> {
    all.map(|all| quantile.of(all) as f64)
}

/// Mean over the samples that end within the window, each weighted by the time it covers.
fn mean_rate(at_us: &[u64], rates: &[u64], (from_us, to_us): (u64, u64)) -> Option<f64> {
    let starts = std::iter::once(0).chain(at_us.iter().copied());
    let (mut weighted, mut covered) = (0.0, 0u64);
    for ((&end, start), &rate) in at_us.iter().zip(starts).zip(rates) {
        let overlap = end.min(to_us).saturating_sub(start.max(from_us));
        weighted += rate as f64 * overlap as f64;
        covered += overlap;
    }
    (covered > 0).then(|| weighted / covered as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::sample::run;

    #[test]
    fn rates_are_means_over_the_window() {
        let (at, rates) = ([0, 100, 200, 300], [0, 10, 20, 30]);
        assert_eq!(mean_rate(&at, &rates, (0, 300)), Some(20.0));
        assert_eq!(mean_rate(&at, &rates, (100, 200)), Some(20.0));
        assert_eq!(mean_rate(&at, &rates, (50, 150)), Some(15.0));
        assert_eq!(mean_rate(&at, &rates, (300, 400)), None);
    }

    #[test]
    fn every_subject_gives_what_it_has() {
        let run = run("minrtt", 1);
        let class = Subject { class: Some("key".into()), ..Subject::flow("camera") };
        let subjects = [Subject::RUN, Subject::path("LTE"), Subject::flow("camera"), class];
        for name in ["goodput", "in_time_ratio", "lost_packets", "p99_latency", "mean_fps", "p50_rtt"] {
            let measure: Measure = name.parse().expect("is one");
            for subject in &subjects {
                let measured = subject.measure(measure, View::default(), &run);
                assert_eq!(measured.is_some(), subject.has(measure), "{name} of {}", subject.kind());
            }
        }
    }

    #[test]
    fn what_is_not_there_is_not_measured() {
        let run = run("minrtt", 1);
        let measure = "goodput".parse().expect("is one");
        for subject in [Subject::flow("none"), Subject::path("none")] {
            assert_eq!(subject.measure(measure, View::default(), &run), None);
        }
    }

    #[test]
    fn shares_of_paths_are_of_all_that_arrived() {
        let class = |path_bytes: &[u64]| ClassResult {
            name: "I".into(),
            reliable: true,
            priority: 0,
            tally: Tally::default(),
            latency: None,
            waiting: None,
            in_time_bytes_ratio: Some(1.0),
            path_bytes: path_bytes.to_vec(),
            bound: None,
        };
        let classes = [class(&[300]), class(&[100, 100])];
        assert_eq!(path_ratio(classes.iter(), 0), Some(0.8));
        assert_eq!(path_ratio(classes.iter(), 1), Some(0.2));
        assert_eq!(path_ratio(std::iter::empty(), 1), None);
    }
}

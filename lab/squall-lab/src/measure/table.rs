//! One row per measure: name, unit, kinds of subjects, and computation.

use super::kind::Kind::{self, Class, ClassOnPath, Flow, FlowOnPath, Path, Run};
use super::kind::View;
use super::unit::{Best, Unit};
use crate::result::{
    ClassResult, FlowResult, Limit, PathResult, Percentiles, PictureQuality, Playback, RunResult, Tally,
    rate_bps, ratio, round6,
};

/// Data of a subject in a run.
pub(super) struct Scope<'a> {
    pub(super) kind: Kind,
    pub(super) run: &'a RunResult,
    pub(super) view: View,
    pub(super) flow: Option<&'a FlowResult>,
    /// Classes of the run, of the flow, or those of one name.
    pub(super) classes: Vec<&'a ClassResult>,
    /// Index of the path in the run.
    pub(super) path: Option<usize>,
    /// The path alone, or all paths.
    pub(super) paths: &'a [PathResult],
    pub(super) tally: Tally,
    pub(super) in_time_bytes_ratio: Option<f64>,
    pub(super) latency: Option<&'a Percentiles>,
    pub(super) waiting: Option<&'a Percentiles>,
    /// Clairvoyant bound.
    pub(super) limit: Option<Limit>,
}

/// A measure that is not a percentile.
pub(super) struct Row {
    pub(super) name: &'static str,
    pub(super) unit: Unit,
    pub(super) better: Option<Best>,
    pub(super) kinds: &'static [Kind],
    pub(super) take: fn(&Scope<'_>) -> Option<f64>,
}

/// Subjects that have blocks.
const BLOCKS: &[Kind] = &[Run, Flow, Class];
/// Subjects that have packets.
const WIRE: &[Kind] = &[Run, Path];

/// More is better for users.
const MORE: Option<Best> = Some(Best::Highest);
/// Less is better for users.
const LESS: Option<Best> = Some(Best::Lowest);
/// Neither: a means, or a property of the network.
const NEITHER: Option<Best> = None;

const fn row(
    name: &'static str,
    unit: Unit,
    better: Option<Best>,
    kinds: &'static [Kind],
    take: fn(&Scope<'_>) -> Option<f64>,
) -> Row {
    Row { name, unit, better, kinds, take }
}

/// Rows of all [`Count`](super::Count)s.
pub(super) const ROWS: [Row; 52] = [
    // New data to the receiver's application; the whole run or a part of it.
    row("goodput", Unit::Rate, MORE, &[Run, Path, Flow, Class], goodput),
    // UDP payload sent by both ends.
    row("wire_bytes", Unit::Size, NEITHER, WIRE, |s| Some(s.wire(PathResult::wire_bytes) as f64)),
    // UDP payload of a path / that of all paths.
    row("wire_ratio", Unit::Ratio, NEITHER, &[Path], |s| {
        ratio(s.wire(PathResult::wire_bytes), s.wire_bytes_of_run(|_| true))
    }),
    // UDP payload sent over metered paths / that of all paths.
    row("metered_ratio", Unit::Ratio, LESS, &[Run], |s| {
        ratio(s.wire_bytes_of_run(|path| path.metered), s.wire_bytes_of_run(|_| true))
    }),
    // New data that arrived over a path / that of all paths; of a flow or class, its own data.
    row("path_ratio", Unit::Ratio, NEITHER, &[Path, FlowOnPath, ClassOnPath], |s| {
        let path = s.path?;
        let here = s.classes.iter().filter_map(|class| class.path_bytes.get(path)).sum();
        ratio(here, s.classes.iter().flat_map(|class| &class.path_bytes).sum())
    }),
    // Packets declared lost.
    row("lost_packets", Unit::Number, LESS, WIRE, |s| Some(s.wire(|path| path.totals.lost_packets) as f64)),
    // Packets declared lost / packets sent.
    row("loss_ratio", Unit::Ratio, LESS, WIRE, |s| {
        ratio(s.wire(|path| path.totals.lost_packets), s.wire(|path| path.totals.packets))
    }),
    // Block bytes sent again after they were declared lost.
    row("retransmitted_bytes", Unit::Size, LESS, WIRE, |s| {
        Some(s.wire(|path| path.totals.retransmitted_bytes) as f64)
    }),
    // Block bytes sent again, or on a further path, while the first copy was in flight.
    row("reinjected_bytes", Unit::Size, LESS, WIRE, |s| {
        Some(s.wire(|path| path.totals.reinjected_bytes) as f64)
    }),
    // Bytes of parity sent.
    row("parity_bytes", Unit::Size, LESS, WIRE, |s| Some(s.wire(|path| path.totals.parity_bytes) as f64)),
    // Arrivals within the bounds that 9 of 10 should keep / arrivals for which there were bounds.
    row("predicted_ratio", Unit::Ratio, NEITHER, WIRE, |s| {
        let bounded = s.wire(|path| path.totals.predictions.bounded);
        ratio(s.wire(|path| path.totals.predictions.within), bounded)
    }),
    // Block bytes that arrived although the receiver already had them.
    row("duplicate_bytes", Unit::Size, LESS, WIRE, |s| {
        Some(s.wire(|path| path.totals.duplicate_bytes) as f64)
    }),
    // Block bytes sent again, for any reason / all bytes of the sender.
    row("retransmission_ratio", Unit::Ratio, LESS, WIRE, |s| {
        let again = s.wire(|path| path.totals.retransmitted_bytes + path.totals.reinjected_bytes);
        ratio(again, s.paths.iter().map(|path| path.sent_bytes(s.run.direction)).sum())
    }),
    // Completion rate: blocks in time / offered, undecided ones left out.
    row("in_time_ratio", Unit::Ratio, MORE, BLOCKS, |s| s.tally.in_time_ratio()),
    // Blocks in time with all their dependencies / offered, undecided ones left out.
    row("decodable_ratio", Unit::Ratio, MORE, BLOCKS, |s| s.tally.decodable_ratio()),
    // Stall rate: blocks that were late or never arrived / offered, undecided ones left out.
    row("late_ratio", Unit::Ratio, LESS, BLOCKS, |s| Some(round6(1.0 - s.tally.in_time_ratio()?))),
    // Completion rate by packets: bytes that arrived in time / bytes offered.
    row("in_time_bytes_ratio", Unit::Ratio, MORE, BLOCKS, |s| s.in_time_bytes_ratio),
    // Bytes of blocks in time over the run.
    row("in_time_bitrate", Unit::Rate, MORE, BLOCKS, |s| Some(s.rate(s.tally.in_time_bytes))),
    // Upper bound of the completion rate for any scheduler (the clairvoyant bound).
    row("bound_in_time_ratio", Unit::Ratio, NEITHER, BLOCKS, |s| s.limit?.in_time_ratio()),
    // Upper bound of the share of decodable blocks for any scheduler.
    row("bound_decodable_ratio", Unit::Ratio, NEITHER, BLOCKS, |s| s.limit?.decodable_ratio()),
    // Upper bound of the completion rate by packets for any scheduler.
    row("bound_in_time_bytes_ratio", Unit::Ratio, NEITHER, BLOCKS, |s| s.limit?.in_time_bytes_ratio()),
    // Upper bound of the in-time bitrate for any scheduler.
    row("bound_in_time_bitrate", Unit::Rate, NEITHER, BLOCKS, |s| Some(s.rate(s.limit?.in_time_bytes))),
    // Completion rate / its upper bound.
    row("in_time_of_bound", Unit::Ratio, MORE, BLOCKS, |s| {
        reached(s.tally.in_time_ratio(), s.limit?.in_time_ratio())
    }),
    // Share of decodable blocks / its upper bound.
    row("decodable_of_bound", Unit::Ratio, MORE, BLOCKS, |s| {
        reached(s.tally.decodable_ratio(), s.limit?.decodable_ratio())
    }),
    // Completion rate by packets / its upper bound.
    row("in_time_bytes_of_bound", Unit::Ratio, MORE, BLOCKS, |s| {
        reached(s.in_time_bytes_ratio, s.limit?.in_time_bytes_ratio())
    }),
    // Blocks delivered / offered.
    row("delivered_ratio", Unit::Ratio, MORE, BLOCKS, |s| s.tally.delivered_ratio()),
    // Efficiency: blocks in time / blocks delivered (DAMS §V-A).
    row("efficiency", Unit::Ratio, MORE, BLOCKS, |s| s.tally.efficiency()),
    // Blocks that the scheduler or the application cancelled.
    row("cancelled_blocks", Unit::Number, NEITHER, BLOCKS, |s| Some(s.tally.cancelled_blocks as f64)),
    // Blocks that never arrived, though some of their data did.
    row("wasted_blocks", Unit::Number, LESS, BLOCKS, |s| Some(s.tally.wasted_blocks as f64)),
    // Bytes submitted by the application over the run: the bitrate of an encoder.
    row("offered_bitrate", Unit::Rate, MORE, BLOCKS, |s| Some(s.rate(s.tally.offered_bytes))),
    // Longest time without a delivery.
    row("longest_gap", Unit::Time, LESS, &[Flow], |s| {
        s.flow.filter(|flow| flow.total.offered_blocks > 0).map(|flow| flow.longest_gap_us as f64)
    }),
    // Pictures shown per second.
    row("mean_fps", Unit::Frames, MORE, &[Flow], |s| Some(s.playback()?.mean_fps)),
    // Share of seconds with fewer than 24 pictures.
    row("below_smooth_ratio", Unit::Ratio, LESS, &[Flow], |s| {
        s.playback().filter(|all| !all.shown_per_second.is_empty()).map(|all| all.below_smooth_ratio)
    }),
    // Pictures shown / pictures.
    row("shown_ratio", Unit::Ratio, MORE, &[Flow], |s| ratio(s.playback()?.shown, s.playback()?.pictures)),
    // Number of stalls.
    row("stalls", Unit::Number, LESS, &[Flow], |s| Some(s.playback()?.stalls as f64)),
    // Number of stalls per minute.
    row("stalls_per_minute", Unit::Number, LESS, &[Flow], |s| {
        let stalls = s.playback()?.stalls as f64;
        (s.run.duration_us > 0).then(|| round6(stalls * 6e7 / s.run.duration_us as f64))
    }),
    // Total duration of the stalls.
    row("stall_time", Unit::Time, LESS, &[Flow], |s| Some(s.playback()?.stall_us as f64)),
    // Duration of the longest stall.
    row("longest_stall", Unit::Time, LESS, &[Flow], |s| Some(s.playback()?.longest_stall_us as f64)),
    row("rebuffering_time", Unit::Time, LESS, &[Flow], |s| Some(s.playback()?.rebuffering_us as f64)),
    // Recoveries of radios that the sender received.
    row("recoveries", Unit::Number, NEITHER, WIRE, |s| Some(s.wire(|path| path.recoveries) as f64)),
    // Mean deviation of the latest level reported by a radio from the true one / the true one in
    // dBm.
    row("mean_signal_bias", Unit::Ratio, NEITHER, &[Path], |s| Some(s.paths[0].signal_bias?.mean)),
    // Median of the same deviation.
    row("median_signal_bias", Unit::Ratio, NEITHER, &[Path], |s| Some(s.paths[0].signal_bias?.median)),
    // Real time of the schedulers per block, in microseconds; only for timed scenarios.
    row("scheduling_time", Unit::Time, LESS, &[Run], |s| {
        let spent = s.run.scheduling_ns.filter(|_| s.tally.offered_blocks > 0)?;
        Some(round6(spent as f64 / 1e3 / s.tally.offered_blocks as f64))
    }),
    // User perceived ratio of 360° video: bytes in the viewport that were in time / all of them.
    row("perceived_ratio", Unit::Ratio, MORE, &[Flow], |s| s.flow?.perceived_ratio),
    // PSNR of the shown pictures relative to their sources, mean over the pictures.
    row("psnr", Unit::Level, MORE, &[Flow], |s| Some(s.pictures()?.psnr.mean)),
    row("median_psnr", Unit::Level, MORE, &[Flow], |s| Some(s.pictures()?.psnr.median)),
    // 5th percentile.
    row("p5_psnr", Unit::Level, MORE, &[Flow], |s| Some(s.pictures()?.psnr.p5)),
    // PSNR of the mean squared error over all pictures.
    row("total_psnr", Unit::Level, MORE, &[Flow], |s| Some(s.pictures()?.total_psnr)),
    // Increase of the mean if everything had arrived in time.
    row("psnr_loss", Unit::Level, LESS, &[Flow], |s| Some(s.pictures()?.psnr_loss)),
    // Structural similarity of the shown pictures to their sources, mean over the pictures.
    row("ssim", Unit::Likeness, MORE, &[Flow], |s| Some(s.pictures()?.ssim.mean)),
    row("median_ssim", Unit::Likeness, MORE, &[Flow], |s| Some(s.pictures()?.ssim.median)),
    row("p5_ssim", Unit::Likeness, MORE, &[Flow], |s| Some(s.pictures()?.ssim.p5)),
];

impl<'a> Scope<'a> {
    /// Sum over the paths.
    fn wire(&self, pick: fn(&PathResult) -> u64) -> u64 {
        self.paths.iter().map(pick).sum()
    }

    fn wire_bytes_of_run(&self, takes: fn(&PathResult) -> bool) -> u64 {
        self.run.paths.iter().filter(|path| takes(path)).map(PathResult::wire_bytes).sum()
    }

    /// Converts bytes over the run to bits per second.
    fn rate(&self, bytes: u64) -> f64 {
        rate_bps(bytes, self.run.duration_us) as f64
    }

    /// Returns the playback, or `None` if no picture was due: a player that never began did not
    /// stall, but it did not play either.
    fn playback(&self) -> Option<&'a Playback> {
        self.flow?.playback.as_ref().filter(|playback| playback.pictures > 0)
    }

    fn pictures(&self) -> Option<&'a PictureQuality> {
        self.flow?.pictures.as_ref()
    }
}

fn reached(reached: Option<f64>, most: Option<f64>) -> Option<f64> {
    let most = most.filter(|most| *most > 0.0)?;
    Some(round6(reached? / most))
}

fn goodput(s: &Scope<'_>) -> Option<f64> {
    let window = s.view.window_us.unwrap_or((0, s.run.duration_us));
    match (s.kind, s.flow) {
        (Path, _) => {
            let series = &s.paths[0].series;
            mean_rate(&series.at_us, series.rate_bps(s.view.direction.unwrap_or(s.run.direction)), window)
        }
        (Flow, Some(flow)) if s.view.window_us.is_none() => Some(flow.goodput_bps as f64),
        // A condensed run has no time series for a window.
        (Flow, Some(flow)) if flow.delivered_bytes.is_empty() && flow.total.delivered_bytes > 0 => None,
        (Flow, Some(flow)) => Some(flow.goodput_within(window)),
        _ => Some(s.rate(s.tally.delivered_bytes)),
    }
}

/// Mean over the samples within the window, each weighted by the time it covers.
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

/// Statistic of a set of times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Quantile {
    /// The mean.
    Mean,
    /// The median.
    P50,
    /// 90th percentile.
    P90,
    /// 95th percentile.
    P95,
    /// 99th percentile.
    P99,
    /// 99.9th percentile.
    P999,
    /// 99.99th percentile.
    P9999,
    /// Maximum.
    Max,
    /// Minimum.
    Min,
}

/// Quantiles, each with its name and its value in microseconds.
pub(super) type QuantileRow = (Quantile, &'static str, fn(&Percentiles) -> u64);

pub(super) const QUANTILES: [QuantileRow; 9] = [
    (Quantile::Mean, "mean", |all| all.mean_us),
    (Quantile::P50, "p50", |all| all.p50_us),
    (Quantile::P90, "p90", |all| all.p90_us),
    (Quantile::P95, "p95", |all| all.p95_us),
    (Quantile::P99, "p99", |all| all.p99_us),
    (Quantile::P999, "p999", |all| all.p999_us),
    (Quantile::P9999, "p9999", |all| all.p9999_us),
    (Quantile::Max, "max", |all| all.max_us),
    (Quantile::Min, "min", |all| all.min_us),
];

impl Quantile {
    pub(super) fn row(self) -> &'static QuantileRow {
        &QUANTILES[self as usize]
    }
}

/// Set of times, in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Times {
    /// Latency of delivered blocks: offered → delivered.
    Latency,
    /// Waiting time of delivered blocks: offered → last byte sent for the first time.
    Waiting,
    /// Delay of packets: block offered → packet with new bytes of it arrived.
    PacketDelay,
    /// One-way time of packets with new bytes of a block: left → arrived.
    Transit,
    /// Latency of pictures: offered → decodable.
    PictureLatency,
    /// Minimum latency of a block with the network to itself (the clairvoyant bound).
    LeastLatency,
    /// Smoothed round-trip time, sampled every 100 ms.
    Rtt,
}

/// Sets of times, each with its name, the kinds of subjects, and the access to it.
pub(super) type TimesRow =
    (Times, &'static str, &'static [Kind], for<'a> fn(&'a Scope<'_>) -> Option<&'a Percentiles>);

pub(super) const TIMES: [TimesRow; 7] = [
    (Times::Latency, "latency", &[Flow, Class], |s| s.latency),
    (Times::Waiting, "waiting", &[Flow, Class], |s| s.waiting),
    (Times::PacketDelay, "packet_delay", &[Run, Flow], |s| {
        s.flow.map_or(&s.run.packet_delay, |flow| &flow.packet_delay).as_ref()
    }),
    (Times::Transit, "transit", &[Run, Flow], |s| {
        s.flow.map_or(&s.run.transit, |flow| &flow.transit).as_ref()
    }),
    (Times::PictureLatency, "picture_latency", &[Flow], |s| {
        s.flow?.playback.as_ref()?.picture_latency.as_ref()
    }),
    (Times::LeastLatency, "least_latency", &[Flow, Class], |s| s.limit.as_ref()?.latency.as_ref()),
    (Times::Rtt, "rtt", &[Path], |s| s.paths[0].rtt.as_ref()),
];

impl Times {
    pub(super) fn row(self) -> &'static TimesRow {
        &TIMES[self as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_means_over_the_window() {
        let (at, rates) = ([0, 100, 200, 300], [0, 10, 20, 30]);
        assert_eq!(mean_rate(&at, &rates, (0, 300)), Some(20.0));
        assert_eq!(mean_rate(&at, &rates, (100, 200)), Some(20.0));
        assert_eq!(mean_rate(&at, &rates, (50, 150)), Some(15.0));
        assert_eq!(mean_rate(&at, &rates, (300, 400)), None);
    }

    #[test]
    fn rows_are_in_the_order_of_their_names() {
        assert!(QUANTILES.iter().all(|row| row.0.row().1 == row.1));
        assert!(TIMES.iter().all(|row| row.0.row().1 == row.1));
    }
}

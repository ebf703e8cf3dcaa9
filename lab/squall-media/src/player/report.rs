//! The figures of a playback.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use super::playout::Slot;
use super::{LatePolicy, PlayerConfig};

/// Longest latency recorded, in microseconds: one hour. Longer ones count as that.
const MAX_LATENCY_US: u64 = 3_600_000_000;
/// Seconds of which the frame rate is listed, at most: twelve days. Only wrong times reach further.
const MAX_SECONDS: u64 = 1 << 20;

/// What a viewer saw, and when frames arrived.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlayReport {
    /// Deadline that was played with, in microseconds.
    pub deadline_us: u64,
    /// What became of late frames.
    pub late: LatePolicy,
    /// Numbers of frames.
    pub frames: FrameCounts,
    /// Pictures shown per second.
    pub fps: FrameRate,
    /// Times without a new picture.
    pub stalls: Stalls,
    /// Latency of the frames that arrived, late ones included.
    pub latency: Latency,
    /// Latency of all frames that were sent.
    pub offered_latency: OfferedLatency,
}

/// Numbers of frames. `sent = received + missing`, `received = in_time + late`,
/// `in_time = shown + undecodable`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FrameCounts {
    /// Frames of the stream.
    pub sent: u64,
    /// Arrived at all.
    pub received: u64,
    /// Arrived before their slot.
    pub in_time: u64,
    /// Arrived after their slot.
    pub late: u64,
    /// Never arrived.
    pub missing: u64,
    /// Could be decoded, late ones included when they are decoded.
    pub decoded: u64,
    /// Shown as a new picture in their slot.
    pub shown: u64,
    /// In time, but a frame they need was not there.
    pub undecodable: u64,
}

/// New pictures shown per second, over the whole seconds of the playback.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FrameRate {
    /// Pictures shown, divided by the length of the stream.
    pub mean: f64,
    /// The worst second; 0 when the stream is shorter than one.
    pub min: u32,
    /// The second that 5 % of the seconds are below or equal to; 0 when there is none.
    pub p5: u32,
    /// Pictures in each second, from the first slot on. A last second that is not whole is left out.
    pub per_second: Vec<u32>,
    /// Pictures that a second needs in order not to be slow.
    pub low_fps: u32,
    /// Number of slow seconds.
    pub slow_seconds: u32,
    /// Share of slow seconds, 0 to 1.
    pub slow_share: f64,
}

/// Stalls: no new picture for more than three frame intervals and at least 100 ms, before the first and
/// after the last picture included. A stall's duration counts from when the next picture was due.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stalls {
    /// How many.
    pub count: u64,
    /// All of them together, in microseconds.
    pub total_us: u64,
    /// The longest, in microseconds.
    pub longest_us: u64,
}

/// From capture to the arrival of the last byte, in microseconds; values have three significant digits.
/// All are 0 when there are no frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// Mean.
    pub mean_us: f64,
    /// Median.
    pub p50_us: u64,
    /// 95 % are not above.
    pub p95_us: u64,
    /// 99 % are not above.
    pub p99_us: u64,
    /// 99.9 % are not above.
    pub p999_us: u64,
    /// The largest.
    pub max_us: u64,
}

/// Like [`Latency`], but missing frames count as infinitely late, so that losing a frame never looks better
/// than delivering it late. Infinite values are absent (`null` in JSON).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OfferedLatency {
    /// Median.
    pub p50_us: Option<u64>,
    /// 95 % are not above.
    pub p95_us: Option<u64>,
    /// 99 % are not above.
    pub p99_us: Option<u64>,
    /// 99.9 % are not above.
    pub p999_us: Option<u64>,
}

pub(super) fn report(config: &PlayerConfig, slots: &[Slot]) -> PlayReport {
    let frames = count(slots);
    let latencies = latencies(slots);
    PlayReport {
        deadline_us: config.deadline_us,
        late: config.late,
        frames,
        fps: frame_rate(config, slots),
        stalls: stalls(config, slots),
        latency: latency(&latencies),
        offered_latency: offered_latency(&latencies, frames.sent),
    }
}

fn count(slots: &[Slot]) -> FrameCounts {
    let number = |test: &dyn Fn(&Slot) -> bool| slots.iter().filter(|slot| test(slot)).count() as u64;
    let sent = slots.len() as u64;
    let received = number(&|slot| slot.arrived_us.is_some());
    let in_time = number(&Slot::in_time);
    let shown = number(&|slot| slot.shown);
    FrameCounts {
        sent,
        received,
        in_time,
        late: received - in_time,
        missing: sent - received,
        decoded: slots.iter().map(|slot| slot.decoded).sum(),
        shown,
        undecodable: in_time - shown,
    }
}

fn frame_rate(config: &PlayerConfig, slots: &[Slot]) -> FrameRate {
    let (Some(first), Some(last)) = (slots.first(), slots.last()) else {
        return FrameRate { low_fps: config.low_fps, ..Default::default() };
    };
    let length_us = last.due_us.saturating_add(config.interval_us()).saturating_sub(first.due_us).max(1);
    let mut per_second = vec![0; (length_us / 1_000_000).min(MAX_SECONDS) as usize];
    for slot in slots.iter().filter(|slot| slot.shown) {
        let second = slot.due_us.saturating_sub(first.due_us) / 1_000_000;
        if let Some(pictures) = per_second.get_mut(second as usize) {
            *pictures += 1;
        }
    }
    let mut sorted = per_second.clone();
    sorted.sort_unstable();
    let slow_seconds = sorted.partition_point(|&pictures| pictures < config.low_fps) as u32;
    let shown = slots.iter().filter(|slot| slot.shown).count();
    FrameRate {
        mean: shown as f64 * 1e6 / length_us as f64,
        min: sorted.first().copied().unwrap_or(0),
        p5: sorted.get((sorted.len().div_ceil(20)).saturating_sub(1)).copied().unwrap_or(0),
        low_fps: config.low_fps,
        slow_seconds,
        slow_share: f64::from(slow_seconds) / (sorted.len().max(1) as f64),
        per_second,
    }
}

fn stalls(config: &PlayerConfig, slots: &[Slot]) -> Stalls {
    let mut stalls = Stalls::default();
    let (Some(first), Some(last)) = (slots.first(), slots.last()) else { return stalls };
    let interval = config.interval_us();
    let mut due = first.due_us;
    let end = last.due_us.saturating_add(interval);
    let shown = slots.iter().filter(|slot| slot.shown).map(|slot| slot.due_us);
    for shown_us in shown.chain([end]) {
        // `due` is one interval after the picture before: the gap is longer by that.
        let waited = shown_us.saturating_sub(due);
        if waited.saturating_add(interval) > config.stall_after_us() {
            stalls.count += 1;
            stalls.total_us = stalls.total_us.saturating_add(waited);
            stalls.longest_us = stalls.longest_us.max(waited);
        }
        due = shown_us.saturating_add(interval);
    }
    stalls
}

fn latencies(slots: &[Slot]) -> Histogram<u64> {
    let mut histogram =
        Histogram::new_with_bounds(1, MAX_LATENCY_US, 3).expect("the bounds are valid for three digits");
    for slot in slots {
        if let Some(arrived) = slot.arrived_us {
            histogram.saturating_record(arrived.saturating_sub(slot.captured_us));
        }
    }
    histogram
}

fn latency(latencies: &Histogram<u64>) -> Latency {
    if latencies.is_empty() {
        return Latency::default();
    }
    Latency {
        mean_us: latencies.mean(),
        p50_us: latencies.value_at_quantile(0.5),
        p95_us: latencies.value_at_quantile(0.95),
        p99_us: latencies.value_at_quantile(0.99),
        p999_us: latencies.value_at_quantile(0.999),
        max_us: latencies.max(),
    }
}

fn offered_latency(latencies: &Histogram<u64>, sent: u64) -> OfferedLatency {
    let received = latencies.len();
    let at = |share: f64| {
        let rank = (share * sent as f64).ceil().max(1.0);
        (rank <= received as f64).then(|| latencies.value_at_quantile(rank / received as f64))
    };
    OfferedLatency { p50_us: at(0.5), p95_us: at(0.95), p99_us: at(0.99), p999_us: at(0.999) }
}

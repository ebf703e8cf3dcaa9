//! A light meter for a live view: nothing is decoded, and a bounded second of history is kept.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

/// Length of the window, in microseconds.
const WINDOW_US: u64 = 1_000_000;
/// Most frames kept; more than this in a second are not counted.
const MAX_FRAMES: usize = 1024;

/// Counts frames and their latency over the last second.
#[derive(Clone, Debug)]
pub struct LiveMeter {
    deadline_us: u64,
    recent: VecDeque<Seen>,
    received: u64,
    late: u64,
}

#[derive(Clone, Copy, Debug)]
struct Seen {
    arrived_us: u64,
    latency_us: u64,
}

/// What a [`LiveMeter`] shows at one moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LiveReading {
    /// Frames of the last second that were in time. Whether they could be decoded is not considered.
    pub fps: u32,
    /// Frames of the last second that were late.
    pub late_fps: u32,
    /// Latency of the newest frame, in microseconds; absent when none came in the last second.
    pub latency_us: Option<u64>,
    /// Largest latency of the last second, in microseconds.
    pub max_latency_us: Option<u64>,
    /// Time since the newest frame, in microseconds; absent like `latency_us`.
    pub silence_us: Option<u64>,
    /// All frames so far.
    pub received: u64,
    /// All late frames so far.
    pub late: u64,
}

impl LiveMeter {
    /// A meter for frames with this deadline, in microseconds from their capture.
    #[must_use]
    pub fn new(deadline_us: u64) -> Self {
        Self { deadline_us, recent: VecDeque::new(), received: 0, late: 0 }
    }

    /// Takes a frame; both times on one timeline, arrivals in their order.
    pub fn on_frame(&mut self, arrived_at_us: u64, captured_at_us: u64) {
        let latency_us = arrived_at_us.saturating_sub(captured_at_us);
        self.received += 1;
        self.late += u64::from(latency_us > self.deadline_us);
        self.forget_before(arrived_at_us);
        if self.recent.len() == MAX_FRAMES {
            self.recent.pop_front();
        }
        self.recent.push_back(Seen { arrived_us: arrived_at_us, latency_us });
    }

    /// The reading at `now_us`.
    pub fn reading(&mut self, now_us: u64) -> LiveReading {
        self.forget_before(now_us);
        let late = self.recent.iter().filter(|seen| seen.latency_us > self.deadline_us).count();
        let newest = self.recent.back();
        LiveReading {
            fps: (self.recent.len() - late) as u32,
            late_fps: late as u32,
            latency_us: newest.map(|seen| seen.latency_us),
            max_latency_us: self.recent.iter().map(|seen| seen.latency_us).max(),
            silence_us: newest.map(|seen| now_us.saturating_sub(seen.arrived_us)),
            received: self.received,
            late: self.late,
        }
    }

    /// Latencies of the last second as of the last call, oldest first, in microseconds: for a small graph.
    pub fn latencies_us(&self) -> impl Iterator<Item = u64> {
        self.recent.iter().map(|seen| seen.latency_us)
    }

    fn forget_before(&mut self, now_us: u64) {
        while self.recent.front().is_some_and(|seen| seen.arrived_us.saturating_add(WINDOW_US) <= now_us) {
            self.recent.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_second_is_shown() {
        let mut meter = LiveMeter::new(100_000);
        for frame in 0..60 {
            let captured = frame * 33_333;
            let latency = if frame == 50 { 130_000 } else { 20_000 };
            meter.on_frame(captured + latency, captured);
        }
        let now = 59 * 33_333 + 20_000;
        let reading = meter.reading(now);
        assert_eq!((reading.fps, reading.late_fps, reading.received, reading.late), (30, 1, 60, 1));
        assert_eq!((reading.latency_us, reading.max_latency_us), (Some(20_000), Some(130_000)));
        assert_eq!(meter.latencies_us().count(), 31);
        assert_eq!(meter.reading(now + 300_000).silence_us, Some(300_000));

        let silent = meter.reading(now + 2_000_000);
        assert_eq!(silent, LiveReading { received: 60, late: 1, ..Default::default() });
    }

    #[test]
    fn a_flood_is_bounded() {
        let mut meter = LiveMeter::new(1);
        for _ in 0..5000 {
            meter.on_frame(7, 7);
        }
        assert_eq!(meter.reading(7).fps, 1024);
    }
}

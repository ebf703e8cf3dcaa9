//! Records the blocks of one class of a flow.

use super::distribution::Times;
use super::{ClassResult, LostReason, Tally, add_at, ratio};

#[derive(Debug)]
pub(super) struct ClassRecorder {
    result: ClassResult,
    pub(super) latency: Times,
    pub(super) waiting: Times,
    /// Bytes that arrived before their block's deadline.
    timely_bytes: u64,
    /// Part of `timely_bytes` in blocks that were undecided at the end.
    timely_open_bytes: u64,
}

impl ClassRecorder {
    pub(super) fn new(result: ClassResult) -> Self {
        Self { result, latency: Times::new(), waiting: Times::new(), timely_bytes: 0, timely_open_bytes: 0 }
    }

    pub(super) fn tally(&self) -> &Tally {
        &self.result.tally
    }

    pub(super) fn on_offer(&mut self, size: u64) {
        self.result.tally.offered_blocks += 1;
        self.result.tally.offered_bytes += size;
    }

    pub(super) fn on_packet(&mut self, path: usize, bytes: u64, timely: bool) {
        add_at(&mut self.result.path_bytes, path, bytes);
        self.timely_bytes += if timely { bytes } else { 0 };
    }

    pub(super) fn on_delivered(&mut self, size: u64, latency_us: u64, timely: bool) {
        let tally = &mut self.result.tally;
        tally.delivered_blocks += 1;
        tally.delivered_bytes += size;
        if timely {
            tally.in_time_blocks += 1;
            tally.in_time_bytes += size;
        }
        self.latency.record(latency_us);
    }

    /// Called for a block that was complete before its deadline with all its dependencies.
    pub(super) fn on_decodable(&mut self) {
        self.result.tally.decodable_blocks += 1;
    }

    pub(super) fn on_lost(&mut self, why: LostReason) {
        *lost_blocks(&mut self.result.tally, why) += 1;
    }

    /// Called when a lost block has arrived nevertheless.
    pub(super) fn on_found(&mut self, why: LostReason) {
        *lost_blocks(&mut self.result.tally, why) -= 1;
    }

    /// Called for a block of which only a part arrived.
    pub(super) fn on_wasted(&mut self) {
        self.result.tally.wasted_blocks += 1;
    }

    /// Called for a block that is undecided at the end of the run; `timely_bytes` of it have
    /// arrived.
    pub(super) fn on_open(&mut self, size: u64, timely_bytes: u64) {
        self.result.tally.open_blocks += 1;
        self.result.tally.open_bytes += size;
        self.timely_open_bytes += timely_bytes;
    }

    /// `true` if this waiting time exceeds the latency of every block that arrived.
    pub(super) fn is_later_than_all(&self, waited_us: u64) -> bool {
        self.latency.max_us() < waited_us
    }

    /// Timely bytes and total bytes of the decided blocks.
    pub(super) fn timely(&self) -> (u64, u64) {
        let Tally { offered_bytes, open_bytes, .. } = self.result.tally;
        (self.timely_bytes - self.timely_open_bytes, offered_bytes - open_bytes)
    }

    /// Returns the result, or `None` if the class has no blocks.
    pub(super) fn finish(self) -> Option<ClassResult> {
        let (timely, decided) = self.timely();
        (self.result.tally.offered_blocks > 0).then(|| ClassResult {
            latency: self.latency.percentiles(),
            waiting: self.waiting.percentiles(),
            in_time_bytes_ratio: ratio(timely, decided),
            ..self.result
        })
    }
}

fn lost_blocks(tally: &mut Tally, why: LostReason) -> &mut u64 {
    match why {
        LostReason::Expired => &mut tally.expired_blocks,
        LostReason::Cancelled => &mut tally.cancelled_blocks,
        LostReason::Refused => &mut tally.refused_blocks,
        LostReason::Closed => &mut tally.closed_blocks,
    }
}

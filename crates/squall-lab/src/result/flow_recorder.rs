//! Collects the blocks of one flow.

use std::collections::BTreeMap;

use super::distribution::{Thinned, Times};
use super::recorder::FlowInfo;
use super::{ClassResult, FlowResult, LatencyPoint, LostReason, SAMPLE_INTERVAL_US, Tally, rate_bps};
use crate::traffic::Offer;

#[derive(Debug)]
struct OpenBlock {
    at_us: u64,
    size: u64,
    deadline_us: Option<u64>,
    class: (bool, u8),
    sent: bool,
    lost: Option<LostReason>,
}

#[derive(Debug)]
pub(super) struct FlowRecorder {
    open: BTreeMap<u64, OpenBlock>,
    /// Keyed by (unreliable, priority), so that reliable classes come first.
    classes: BTreeMap<(bool, u8), Tally>,
    latency: Times,
    waiting: Times,
    packet_delay: Times,
    points: Thinned,
    missing: Thinned,
    /// Last delivery, or the first offer before there was one.
    quiet_since_us: Option<u64>,
    longest_gap_us: u64,
    stray_deliveries: u64,
    delivered_blocks: Vec<u64>,
    delivered_bytes: Vec<u64>,
}

impl FlowRecorder {
    pub(super) fn new(duration_us: u64) -> Self {
        Self {
            open: BTreeMap::new(),
            classes: BTreeMap::new(),
            latency: Times::new(),
            waiting: Times::new(),
            packet_delay: Times::new(),
            points: Thinned::new(duration_us),
            missing: Thinned::new(duration_us),
            quiet_since_us: None,
            longest_gap_us: 0,
            stray_deliveries: 0,
            delivered_blocks: Vec::new(),
            delivered_bytes: Vec::new(),
        }
    }

    pub(super) fn on_offer(&mut self, block: u64, offer: &Offer) {
        let class = (!offer.reliable, offer.priority);
        let tally = self.classes.entry(class).or_default();
        tally.offered_blocks += 1;
        tally.offered_bytes += offer.size;
        self.quiet_since_us.get_or_insert(offer.at_us);
        self.open.insert(
            block,
            OpenBlock {
                at_us: offer.at_us,
                size: offer.size,
                deadline_us: offer.deadline_us,
                class,
                sent: false,
                lost: None,
            },
        );
    }

    pub(super) fn on_sent(&mut self, block: u64, at_us: u64) {
        if let Some(open) = self.open.get_mut(&block)
            && !open.sent
        {
            open.sent = true;
            self.waiting.record(at_us.saturating_sub(open.at_us));
        }
    }

    pub(super) fn on_waited(&mut self, waited_us: u64) {
        self.waiting.record(waited_us);
    }

    pub(super) fn on_packet(&mut self, block: u64, at_us: u64) {
        if let Some(open) = self.open.get(&block) {
            self.packet_delay.record(at_us.saturating_sub(open.at_us));
        }
    }

    /// Delays of all packets with new bytes.
    pub(super) fn packet_delay(&self) -> &Times {
        &self.packet_delay
    }

    pub(super) fn on_delivered(&mut self, block: u64, at_us: u64) {
        let Some(open) = self.open.remove(&block) else {
            self.stray_deliveries += 1;
            return;
        };
        let latency_us = at_us.saturating_sub(open.at_us);
        let tally = self.classes.entry(open.class).or_default();
        if let Some(why) = open.lost {
            *lost_blocks(tally, why) -= 1;
        }
        tally.delivered_blocks += 1;
        tally.delivered_bytes += open.size;
        if open.deadline_us.is_none_or(|deadline| latency_us <= deadline) {
            tally.in_time_blocks += 1;
            tally.in_time_bytes += open.size;
        }
        self.latency.record(latency_us);
        self.points.record(LatencyPoint { at_us: open.at_us, latency_us });
        self.end_gap(at_us);
        let slot = (at_us / SAMPLE_INTERVAL_US) as usize;
        add_at(&mut self.delivered_blocks, slot, 1);
        add_at(&mut self.delivered_bytes, slot, open.size);
    }

    pub(super) fn on_lost(&mut self, block: u64, why: LostReason) {
        if let Some(open) = self.open.get_mut(&block)
            && open.lost.is_none()
        {
            open.lost = Some(why);
            *lost_blocks(self.classes.entry(open.class).or_default(), why) += 1;
        }
    }

    fn end_gap(&mut self, at_us: u64) {
        if let Some(since) = self.quiet_since_us.replace(at_us) {
            self.longest_gap_us = self.longest_gap_us.max(at_us.saturating_sub(since));
        }
    }

    pub(super) fn total(&self) -> Tally {
        self.classes.values().fold(Tally::default(), |sum, class| sum.plus(class))
    }

    /// Blocks without a fate: overdue ones have expired, the others stay open.
    fn settle(&mut self, end_us: u64) {
        for open in self.open.values() {
            let tally = self.classes.entry(open.class).or_default();
            let overdue =
                open.deadline_us.is_some_and(|deadline| open.at_us.saturating_add(deadline) < end_us);
            match (open.lost, overdue) {
                (None, true) => tally.expired_blocks += 1,
                (None, false) => tally.open_blocks += 1,
                (Some(_), _) => {}
            }
            if open.lost.is_some() || overdue {
                self.missing.record(LatencyPoint { at_us: open.at_us, latency_us: 0 });
            }
        }
        if !self.open.is_empty() {
            self.end_gap(end_us);
        }
    }

    pub(super) fn finish(mut self, info: FlowInfo, end_us: u64) -> FlowResult {
        self.settle(end_us);
        let total = self.total();
        let slots = end_us.div_ceil(SAMPLE_INTERVAL_US) as usize;
        for column in [&mut self.delivered_blocks, &mut self.delivered_bytes] {
            column.resize(slots.max(column.len()), 0);
        }
        FlowResult {
            name: info.name,
            kind: info.kind,
            direction: info.direction,
            deadline_us: info.deadline_us,
            total,
            classes: self
                .classes
                .iter()
                .map(|(&(unreliable, priority), &tally)| ClassResult {
                    reliable: !unreliable,
                    priority,
                    tally,
                })
                .collect(),
            completion_rate: total.in_time_ratio(),
            latency: self.latency.percentiles(),
            waiting: self.waiting.percentiles(),
            packet_delay: self.packet_delay.percentiles(),
            longest_gap_us: self.longest_gap_us,
            goodput_bps: rate_bps(total.delivered_bytes, end_us),
            stray_deliveries: self.stray_deliveries,
            distribution: self.latency.tail(total.offered_blocks - total.open_blocks),
            latencies: self.points.into_points(),
            missing_at_us: self.missing.into_points().iter().map(|point| point.at_us).collect(),
            delivered_blocks: self.delivered_blocks,
            delivered_bytes: self.delivered_bytes,
        }
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

fn add_at(column: &mut Vec<u64>, slot: usize, amount: u64) {
    if column.len() <= slot {
        column.resize(slot + 1, 0);
    }
    column[slot] += amount;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::Direction;

    fn offer(at_us: u64) -> Offer {
        Offer {
            at_us,
            size: 1_000,
            deadline_us: Some(100_000),
            priority: 1,
            reliable: false,
            key: false,
            channel: 0,
            ordered: false,
        }
    }

    fn finish(recorder: FlowRecorder, end_us: u64) -> FlowResult {
        let info = FlowInfo {
            name: "f".into(),
            kind: "blocks".into(),
            direction: Direction::Down,
            deadline_us: Some(100_000),
        };
        recorder.finish(info, end_us)
    }

    #[test]
    fn every_block_has_one_fate() {
        let mut recorder = FlowRecorder::new(1_000_000);
        for (block, at_us) in [(0, 0), (1, 100_000), (2, 200_000), (3, 300_000), (4, 950_000)] {
            recorder.on_offer(block, &offer(at_us));
        }
        recorder.on_sent(0, 5_000);
        recorder.on_sent(0, 9_000);
        recorder.on_delivered(0, 40_000);
        recorder.on_delivered(0, 41_000);
        recorder.on_delivered(1, 250_000);
        recorder.on_lost(1, LostReason::Expired);
        recorder.on_lost(2, LostReason::Cancelled);
        let result = finish(recorder, 1_000_000);
        let tally = result.total;
        assert_eq!((tally.offered_blocks, tally.delivered_blocks, tally.in_time_blocks), (5, 2, 1));
        assert_eq!((tally.cancelled_blocks, tally.expired_blocks, tally.open_blocks), (1, 1, 1));
        assert_eq!(result.completion_rate, 0.25);
        assert_eq!(result.stray_deliveries, 1);
        assert_eq!(result.waiting.unwrap().max_us, 5_000);
        assert_eq!(result.longest_gap_us, 750_000, "up to the end, as blocks are missing");
        assert_eq!(result.missing_at_us, [200_000, 300_000]);
        assert_eq!(result.delivered_blocks, [1, 0, 1, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(result.distribution.last().unwrap().later, 0.5);
    }

    #[test]
    fn delivery_overrules_an_earlier_loss() {
        let mut recorder = FlowRecorder::new(1_000_000);
        recorder.on_offer(7, &offer(0));
        recorder.on_lost(7, LostReason::Expired);
        recorder.on_lost(7, LostReason::Closed);
        assert_eq!(recorder.total().expired_blocks, 1);
        recorder.on_delivered(7, 90_000);
        let result = finish(recorder, 500_000);
        assert_eq!((result.total.expired_blocks, result.total.closed_blocks), (0, 0));
        assert_eq!((result.total.in_time_blocks, result.stray_deliveries), (1, 0));
        assert_eq!(result.longest_gap_us, 90_000);
    }

    #[test]
    fn an_empty_flow_is_complete() {
        let result = finish(FlowRecorder::new(1_000_000), 1_000_000);
        assert_eq!((result.completion_rate, result.longest_gap_us, result.goodput_bps), (1.0, 0, 0));
        assert_eq!(result.latency, None);
    }
}

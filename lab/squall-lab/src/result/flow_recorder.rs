//! Collects the blocks of one flow.

use std::collections::BTreeMap;

use super::class_recorder::ClassRecorder;
use super::distribution::{Missing, Thinned, Times};
use super::playback::Pictures;
use super::{FlowResult, LatencyPoint, LostReason, SAMPLE_INTERVAL_US, Tally, add_at, rate_bps, ratio};
use crate::offer::Offer;

#[derive(Debug)]
struct OpenBlock {
    at_us: u64,
    size: u64,
    deadline_us: Option<u64>,
    class: usize,
    /// The block is (part of) a picture and may depend on other blocks.
    is_picture: bool,
    /// Index among the flow's offers.
    index: u64,
    /// Bytes that arrived before the deadline.
    timely_bytes: u64,
    /// Bytes that arrived.
    arrived_bytes: u64,
    /// The application has received the bytes that arrived of a partial block.
    is_used: bool,
    lost: Option<LostReason>,
}

impl OpenBlock {
    /// Returns the reason why the block is missing at the end of the run, or `None` if it was not
    /// yet due.
    ///
    /// A block is due at its deadline. A deadline of at least the length of the run counts as none,
    /// since no block could be due. A block without a deadline is due once it is older than the
    /// highest latency of its class: so the blocks on a failed link count as missing, and the last
    /// blocks in flight on a healthy one do not.
    fn missed(&self, class: &ClassRecorder, end_us: u64) -> Option<LostReason> {
        match self.deadline_us.filter(|deadline| *deadline < end_us) {
            Some(deadline) => (self.at_us.saturating_add(deadline) < end_us).then_some(LostReason::Expired),
            None => class.is_later_than_all(end_us.saturating_sub(self.at_us)).then_some(LostReason::Closed),
        }
    }
}

#[derive(Debug)]
pub(crate) struct FlowRecorder {
    result: FlowResult,
    open: BTreeMap<u64, OpenBlock>,
    /// Class of each delivered block whose sender has not yet reported the end.
    delivered: BTreeMap<u64, usize>,
    classes: Vec<ClassRecorder>,
    offers: u64,
    /// Delays of all packets with new bytes, from the offer of their block.
    pub(super) packet_delay: Times,
    /// One-way times of the same packets.
    pub(super) transit: Times,
    points: Thinned,
    missing: Missing,
    pictures: Pictures,
    /// The pictures are played back as a film.
    is_film: bool,
    /// Time of the latest delivery, or of the first offer before there was one.
    quiet_since_us: Option<u64>,
}

impl FlowRecorder {
    pub(super) fn new(mut result: FlowResult, duration_us: u64) -> Self {
        Self {
            open: BTreeMap::new(),
            delivered: BTreeMap::new(),
            classes: std::mem::take(&mut result.classes).into_iter().map(ClassRecorder::new).collect(),
            offers: 0,
            packet_delay: Times::new(),
            transit: Times::new(),
            points: Thinned::new(duration_us),
            missing: Missing::new(duration_us),
            pictures: Pictures::new(result.picture_us.unwrap_or(0)),
            is_film: result.picture_us.take().is_some(),
            quiet_since_us: None,
            result,
        }
    }

    /// Called when the application submits a block. `block` is any number unique in the flow.
    pub(crate) fn on_offer(&mut self, block: u64, offer: &Offer) {
        let class = usize::from(offer.class);
        self.classes[class].on_offer(offer.size);
        self.quiet_since_us.get_or_insert(offer.at_us);
        if let Some(frame) = offer.frame {
            self.pictures.on_offer(self.offers, offer, frame);
        }
        self.open.insert(
            block,
            OpenBlock {
                at_us: offer.at_us,
                size: offer.size,
                deadline_us: offer.deadline_us,
                class,
                is_picture: offer.frame.is_some(),
                index: self.offers,
                timely_bytes: 0,
                arrived_bytes: 0,
                is_used: false,
                lost: None,
            },
        );
        self.offers += 1;
    }

    /// Called when the sender reports the waiting time of a block that has ended: until its last
    /// byte left for the first time.
    pub(crate) fn on_waited(&mut self, block: u64, waited_us: u64) {
        let open = self.open.get(&block).map(|open| open.class);
        if let Some(class) = open.or_else(|| self.delivered.remove(&block)) {
            self.classes[class].waiting.record(waited_us);
        }
    }

    /// Called when the sender cancels a block, which has waited until then. It is unknown if the
    /// last byte had left before.
    pub(crate) fn on_evicted(&mut self, block: u64, at_us: u64) {
        if let Some(open) = self.open.get(&block) {
            self.classes[open.class].waiting.record(at_us.saturating_sub(open.at_us));
        }
    }

    /// Called when a packet arrives over a path with `bytes` new bytes of a block or its parity,
    /// `transit_us` after it left.
    pub(crate) fn on_packet(&mut self, block: u64, at_us: u64, path: usize, bytes: u32, transit_us: u64) {
        let Some(open) = self.open.get_mut(&block) else { return };
        // Parity replaces missing bytes, but may be longer than these at the end of a block.
        let bytes = u64::from(bytes).min(open.size - open.arrived_bytes);
        let delay_us = at_us.saturating_sub(open.at_us);
        let timely = open.deadline_us.is_none_or(|deadline| delay_us <= deadline);
        open.arrived_bytes += bytes;
        open.timely_bytes += if timely { bytes } else { 0 };
        self.classes[open.class].on_packet(path, bytes, timely);
        self.packet_delay.record(delay_us);
        self.transit.record(transit_us);
    }

    /// Called when the receiver's application has the whole block. Overrides an earlier loss: the
    /// sender may have cancelled a block that arrived nevertheless.
    pub(crate) fn on_delivered(&mut self, block: u64, at_us: u64) {
        let Some(open) = self.open.remove(&block) else {
            self.result.stray_deliveries += 1;
            return;
        };
        let latency_us = at_us.saturating_sub(open.at_us);
        let timely = open.deadline_us.is_none_or(|deadline| latency_us <= deadline);
        self.delivered.insert(block, open.class);
        let class = &mut self.classes[open.class];
        if let Some(why) = open.lost {
            class.on_found(why);
        }
        class.on_delivered(open.size, latency_us, timely);
        if open.is_picture {
            self.pictures.on_delivered(open.index, at_us);
        } else if timely {
            class.on_decodable();
        }
        self.points.record(LatencyPoint { at_us: open.at_us, latency_us });
        self.end_gap(at_us);
        let slot = (at_us / SAMPLE_INTERVAL_US) as usize;
        add_at(&mut self.result.delivered_blocks, slot, 1);
        add_at(&mut self.result.delivered_bytes, slot, open.size);
    }

    /// Called when the receiver's application gets an incomplete partial block. The sender reports
    /// the loss.
    pub(crate) fn on_incomplete(&mut self, block: u64) {
        if let Some(open) = self.open.get_mut(&block) {
            open.is_used = true;
        }
    }

    /// Called when a block will not be delivered. Ignored if it was already delivered, as when its
    /// acknowledgement was late.
    pub(crate) fn on_lost(&mut self, block: u64, why: LostReason) {
        if let Some(open) = self.open.get_mut(&block)
            && open.lost.is_none()
        {
            open.lost = Some(why);
            self.classes[open.class].on_lost(why);
        }
    }

    fn end_gap(&mut self, at_us: u64) {
        if let Some(since) = self.quiet_since_us.replace(at_us) {
            self.result.longest_gap_us = self.result.longest_gap_us.max(at_us.saturating_sub(since));
        }
    }

    /// Outcomes of the blocks so far. Undecided ones count only in `offered`.
    pub(crate) fn total(&self) -> Tally {
        self.classes.iter().fold(Tally::default(), |sum, class| sum.plus(class.tally()))
    }

    /// Latencies so far, as in [`FlowResult::latencies`].
    pub(crate) fn latencies(&self) -> Vec<LatencyPoint> {
        self.points.points()
    }

    /// Settles undecided blocks: those that were due are lost, the others stay open.
    fn settle(&mut self, end_us: u64) {
        for open in self.open.values() {
            let class = &mut self.classes[open.class];
            let missed = open.lost.or_else(|| {
                let missed = open.missed(class, end_us);
                match missed {
                    Some(why) => class.on_lost(why),
                    None => class.on_open(open.size, open.timely_bytes),
                }
                missed
            });
            if let Some(why) = missed {
                if open.arrived_bytes > 0 && !open.is_used {
                    class.on_wasted();
                }
                self.missing.record(open.at_us, why);
            }
        }
        if !self.open.is_empty() {
            self.end_gap(end_us);
        }
    }

    pub(super) fn finish(mut self, end_us: u64) -> FlowResult {
        self.settle(end_us);
        let ready = self.pictures.ready();
        for class in self.pictures.decodable(&ready) {
            self.classes[class].on_decodable();
        }
        let total = self.total();
        let slots = end_us.div_ceil(SAMPLE_INTERVAL_US) as usize;
        for column in [&mut self.result.delivered_blocks, &mut self.result.delivered_bytes] {
            column.resize(slots.max(column.len()), 0);
        }
        let latency = Times::merged(self.classes.iter().map(|class| &class.latency));
        let waiting = Times::merged(self.classes.iter().map(|class| &class.waiting));
        let timely = self.classes.iter().map(ClassRecorder::timely);
        let timely = timely.fold((0, 0), |(timely, all), (t, a)| (timely + t, all + a));
        let (missing_at_us, missing_why) = self.missing.into_columns();
        FlowResult {
            total,
            in_time_bytes_ratio: ratio(timely.0, timely.1),
            playback: self.is_film.then(|| self.pictures.finish(&ready, end_us)),
            completion_rate: total.in_time_ratio(),
            latency: latency.percentiles(),
            waiting: waiting.percentiles(),
            packet_delay: self.packet_delay.percentiles(),
            transit: self.transit.percentiles(),
            goodput_bps: rate_bps(total.delivered_bytes, end_us),
            distribution: latency.tail(total.decided_blocks()),
            latencies: self.points.points(),
            missing_at_us,
            missing_why,
            classes: self.classes.into_iter().filter_map(ClassRecorder::finish).collect(),
            ..self.result
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::offer::{Class, Frame};

    fn offer(at_us: u64) -> Offer {
        Offer {
            at_us,
            size: 1_000,
            deadline_us: Some(100_000),
            priority: 1,
            reliable: false,
            class: 0,
            frame: None,
            channel: 0,
            ordered: false,
        }
    }

    fn recorder() -> FlowRecorder {
        let classes = vec![Class::new("block", false, 1).into()];
        FlowRecorder::new(FlowResult { classes, ..FlowResult::default() }, 1_000_000)
    }

    #[test]
    fn packets_in_time_count_whatever_becomes_of_their_block() {
        let mut recorder = recorder();
        for (block, at_us) in [(0, 0), (1, 200_000), (2, 950_000)] {
            recorder.on_offer(block, &offer(at_us));
        }
        recorder.on_packet(0, 50_000, 0, 600, 20_000);
        recorder.on_packet(0, 150_000, 1, 400, 20_000);
        recorder.on_delivered(0, 150_000);
        recorder.on_packet(1, 250_000, 1, 500, 20_000);
        recorder.on_lost(1, LostReason::Cancelled);
        recorder.on_packet(2, 960_000, 1, 100, 20_000);
        let result = recorder.finish(1_000_000);
        assert_eq!(result.in_time_bytes_ratio, Some(0.55), "1,100 of 2,000; the last block is undecided");
        assert_eq!((result.completion_rate, result.total.open_bytes), (Some(0.0), 1_000));
        assert_eq!(result.classes[0].path_bytes, [600, 1_000]);
        assert_eq!(result.total.wasted_blocks, 1, "the first is there, the last is undecided");
    }

    #[test]
    fn what_the_application_has_of_a_partial_block_is_not_wasted() {
        let mut recorder = recorder();
        for block in 0..2 {
            recorder.on_offer(block, &offer(0));
            recorder.on_packet(block, 50_000, 0, 600, 20_000);
            recorder.on_lost(block, LostReason::Cancelled);
        }
        recorder.on_incomplete(1);
        let result = recorder.finish(1_000_000);
        assert_eq!((result.in_time_bytes_ratio, result.completion_rate), (Some(0.6), Some(0.0)));
        assert_eq!((result.total.cancelled_blocks, result.total.wasted_blocks), (2, 1));
    }

    #[test]
    fn parity_counts_for_no_more_than_the_bytes_that_were_missing() {
        let mut recorder = recorder();
        recorder.on_offer(0, &offer(0));
        recorder.on_packet(0, 50_000, 0, 900, 20_000);
        recorder.on_packet(0, 60_000, 1, 300, 20_000);
        recorder.on_delivered(0, 60_000);
        let result = recorder.finish(1_000_000);
        assert_eq!(result.in_time_bytes_ratio, Some(1.0));
        assert_eq!(result.classes[0].path_bytes, [900, 100]);
    }

    #[test]
    fn every_block_has_one_fate() {
        let mut recorder = recorder();
        for (block, at_us) in [(0, 0), (1, 100_000), (2, 200_000), (3, 300_000), (4, 950_000)] {
            recorder.on_offer(block, &offer(at_us));
        }
        recorder.on_waited(0, 5_000);
        recorder.on_delivered(0, 40_000);
        recorder.on_delivered(0, 41_000);
        recorder.on_delivered(1, 250_000);
        recorder.on_lost(1, LostReason::Expired);
        recorder.on_evicted(2, 320_000);
        recorder.on_lost(2, LostReason::Cancelled);
        let result = recorder.finish(1_000_000);
        let tally = result.total;
        assert_eq!((tally.offered_blocks, tally.delivered_blocks, tally.in_time_blocks), (5, 2, 1));
        assert_eq!((tally.cancelled_blocks, tally.expired_blocks, tally.open_blocks), (1, 1, 1));
        assert_eq!(result.completion_rate, Some(0.25));
        assert_eq!(result.stray_deliveries, 1);
        assert_eq!(result.waiting.unwrap().max_us, 120_000, "until it was cancelled");
        assert_eq!(result.longest_gap_us, 750_000, "up to the end, as blocks are missing");
        assert_eq!(result.missing_at_us, [200_000, 300_000]);
        assert_eq!(result.missing_why, [LostReason::Cancelled, LostReason::Expired]);
        assert_eq!(result.delivered_blocks, [1, 0, 1, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(result.distribution.last().unwrap().later, 0.5);
    }

    #[test]
    fn delivery_overrules_an_earlier_loss() {
        let mut recorder = recorder();
        recorder.on_offer(7, &offer(0));
        recorder.on_lost(7, LostReason::Expired);
        recorder.on_lost(7, LostReason::Closed);
        assert_eq!(recorder.total().expired_blocks, 1);
        recorder.on_delivered(7, 90_000);
        let result = recorder.finish(500_000);
        assert_eq!((result.total.expired_blocks, result.total.closed_blocks), (0, 0));
        assert_eq!((result.total.in_time_blocks, result.stray_deliveries), (1, 0));
        assert_eq!(result.longest_gap_us, 90_000);
    }

    #[test]
    fn a_block_is_decodable_if_all_that_it_needs_is_there_by_its_deadline() {
        let mut recorder = recorder();
        // Each depends on the one before; the last is not a picture.
        for block in 0..5 {
            let frame = Some(Frame::in_sequence(block, block == 0)).filter(|_| block < 4);
            recorder.on_offer(block, &Offer { frame, ..offer(block * 50_000) });
        }
        // The second is late itself, but early enough for the third.
        for (block, at_us) in [(0, 40_000), (1, 190_000), (2, 140_000), (4, 240_000)] {
            recorder.on_delivered(block, at_us);
        }
        let result = recorder.finish(1_000_000);
        assert_eq!((result.total.in_time_blocks, result.total.decodable_blocks), (3, 3));
        assert_eq!(result.classes[0].tally.decodable_ratio(), Some(0.6));
        assert_eq!(result.playback, None);

        let mut recorder = self::recorder();
        for block in 0..3 {
            recorder
                .on_offer(block, &Offer { frame: Some(Frame::in_sequence(block, block == 0)), ..offer(0) });
        }
        [1, 2].into_iter().for_each(|block| recorder.on_delivered(block, 50_000));
        let tally = recorder.finish(1_000_000).total;
        assert_eq!((tally.in_time_blocks, tally.decodable_blocks), (2, 0), "without the first, none");
    }

    #[test]
    fn an_empty_flow_has_no_ratios() {
        let result = recorder().finish(1_000_000);
        assert_eq!((result.completion_rate, result.in_time_bytes_ratio), (None, None));
        assert_eq!((result.longest_gap_us, result.goodput_bps, result.latency), (0, 0, None));
        assert_eq!((result.total.delivered_ratio(), result.total.efficiency()), (None, None));
    }

    /// Ten blocks, offered every 100 ms. The first `delivered` of them took 40 ms.
    fn half(deadline_us: Option<u64>, delivered: u64) -> FlowResult {
        let mut recorder = recorder();
        for block in 0..10 {
            recorder.on_offer(block, &Offer { deadline_us, ..offer(block * 100_000) });
        }
        (0..delivered).for_each(|block| recorder.on_delivered(block, block * 100_000 + 40_000));
        recorder.finish(1_000_000)
    }

    #[test]
    fn without_a_deadline_a_block_is_due_when_later_than_all_that_arrived() {
        for deadline_us in [None, Some(1_000_000), Some(60_000_000)] {
            let dead = half(deadline_us, 0);
            assert_eq!((dead.completion_rate, dead.total.closed_blocks), (Some(0.0), 10), "{deadline_us:?}");
            let failed = half(deadline_us, 5);
            assert_eq!((failed.completion_rate, failed.total.delivered_ratio()), (Some(0.5), Some(0.5)));
            assert_eq!(failed.missing_why, [LostReason::Closed; 5]);
            assert_eq!(failed.distribution.last().map(|point| point.later), Some(0.5));
        }
        let mut recorder = recorder();
        for (block, at_us) in [(0, 0), (1, 970_000)] {
            recorder.on_offer(block, &Offer { deadline_us: None, ..offer(at_us) });
        }
        recorder.on_delivered(0, 40_000);
        let result = recorder.finish(1_000_000);
        assert_eq!((result.completion_rate, result.total.open_blocks), (Some(1.0), 1), "on its way");
    }

    #[test]
    fn a_deadline_after_the_end_leaves_a_block_undecided() {
        let result = half(Some(900_000), 0);
        assert_eq!((result.completion_rate, result.total.open_blocks), (Some(0.0), 9));
        let mut recorder = recorder();
        recorder.on_offer(0, &offer(950_000));
        let result = recorder.finish(1_000_000);
        assert_eq!(
            (result.completion_rate, result.in_time_bytes_ratio, result.total.open_blocks),
            (None, None, 1)
        );
    }
}

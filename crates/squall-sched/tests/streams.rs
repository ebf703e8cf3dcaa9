//! Shares of channels under weighted round robin.

use std::collections::BTreeMap;

use proptest::prelude::*;
use squall_sched::{BlockId, BlockMeta, BlockQueue, PathId, StreamScheduler, Work};
use squall_units::short::at_ms;

/// Payload of a packet.
const PACKET: u32 = 1200;

fn meta(id: u64, channel: u16, len: u32) -> BlockMeta {
    BlockMeta { channel, ..BlockMeta::new(BlockId(id), len) }
}

/// Sends the next packet; returns its channel and length.
fn send(queue: &mut BlockQueue, packet: u32) -> Option<(u16, u32)> {
    let Work { block, mut range, .. } = queue.next_fresh()?;
    range.end = range.end.min(range.start + packet);
    let channel = queue.get(block)?.meta().channel;
    queue.mark_sent(block, range.clone(), PathId(0), at_ms(0));
    Some((channel, range.end - range.start))
}

fn queue(streams: StreamScheduler, weights: &[u16]) -> BlockQueue {
    let mut queue = BlockQueue::new();
    queue.set_streams(streams);
    for (channel, weight) in (0..).zip(weights) {
        queue.set_channel_weight(channel, *weight);
    }
    queue
}

#[test]
fn two_channels_share_by_their_weights() {
    let mut queue = queue(StreamScheduler::weighted(), &[1, 3]);
    queue.insert(meta(0, 0, 1_000_000));
    queue.insert(meta(1, 1, 1_000_000));
    let channels: Vec<u16> = (0..8).filter_map(|_| send(&mut queue, PACKET)).map(|(c, _)| c).collect();
    assert_eq!(channels, [0, 1, 1, 1, 0, 1, 1, 1]);
}

#[test]
fn repairs_go_first_and_cost_no_turn() {
    let mut queue = queue(StreamScheduler::weighted(), &[1, 1]);
    queue.insert(meta(0, 0, 10_000));
    queue.insert(meta(1, 1, 10_000));
    send(&mut queue, PACKET);
    queue.mark_lost(BlockId(0), 0..PACKET, PathId(0));
    let repair = queue.next_in_line().expect("there is one");
    assert_eq!((repair.block, repair.range.clone()), (BlockId(0), 0..PACKET));
    queue.mark_sent(repair.block, repair.range, PathId(0), at_ms(0));
    assert_eq!(queue.next_in_line().map(|work| work.block), Some(BlockId(1)), "whose turn it was");
}

#[test]
fn what_is_taken_back_is_given_back() {
    let mut queue = queue(StreamScheduler::weighted(), &[2, 1]);
    queue.insert(meta(0, 0, 10_000));
    queue.insert(meta(1, 1, 10_000));
    send(&mut queue, PACKET);
    queue.mark_unsent(BlockId(0), 0..PACKET, PathId(0));
    let channels: Vec<u16> = (0..3).filter_map(|_| send(&mut queue, PACKET)).map(|(c, _)| c).collect();
    assert_eq!(channels, [0, 0, 1]);
}

proptest! {
    /// Of channels that always have data, none is further from its share than a turn and a packet.
    #[test]
    fn shares_follow_weights(
        weights in prop::collection::vec(1u16..=16, 2..6),
        quantum in prop_oneof![64u32..3000, Just(PACKET)],
        packet in 400u32..1500,
        packets in 1usize..600,
    ) {
        let mut queue = queue(StreamScheduler::WeightedRoundRobin { quantum }, &weights);
        for (id, _) in (0..).zip(&weights) {
            queue.insert(meta(id, id as u16, 2_000_000));
        }
        let mut sent = vec![0u64; weights.len()];
        for _ in 0..packets {
            let (channel, bytes) = send(&mut queue, packet).expect("more than enough");
            sent[usize::from(channel)] += u64::from(bytes);
        }
        // In units of a weight-1 turn: how often each channel has had its share.
        let turns: Vec<f64> = sent.iter().zip(&weights).map(|(b, w)| *b as f64 / f64::from(*w)).collect();
        let most = turns.iter().copied().fold(0.0, f64::max);
        let least = turns.iter().copied().fold(f64::INFINITY, f64::min);
        let bound = f64::from(quantum) + 2.0 * f64::from(PACKET.max(packet));
        prop_assert!(most - least <= bound, "{:?} for weights {:?}", sent, weights);
    }

    /// A channel that runs out of data now and then gains nothing by it over one that never does.
    #[test]
    fn a_channel_that_empties_forgets_no_debt(
        weights in prop::collection::vec(1u16..=16, 2..6),
        quantum in prop_oneof![64u32..3000, Just(PACKET)],
        messages in prop::collection::vec((1u32..2 * PACKET, any::<bool>()), 1..40),
        packets in 1usize..600,
    ) {
        let mut queue = queue(StreamScheduler::WeightedRoundRobin { quantum }, &weights);
        queue.insert(meta(0, 0, 2_000_000));
        let mut ids = 1..;
        let mut messages = messages.into_iter().cycle();
        let mut sent = vec![0u64; weights.len()];
        for _ in 0..packets {
            for channel in 1..weights.len() as u16 {
                let (len, comes) = messages.next().expect("endless");
                if comes && !queue.with_fresh().any(|block| block.meta().channel == channel) {
                    queue.insert(meta(ids.next().expect("endless"), channel, len));
                }
            }
            let (channel, bytes) = send(&mut queue, PACKET).expect("the first has more than enough");
            sent[usize::from(channel)] += u64::from(bytes);
        }
        let turns: Vec<f64> = sent.iter().zip(&weights).map(|(b, w)| *b as f64 / f64::from(*w)).collect();
        let most = turns.iter().copied().fold(0.0, f64::max);
        let bound = f64::from(quantum) + 2.0 * f64::from(PACKET);
        prop_assert!(most - turns[0] <= bound, "{:?} for weights {:?}", sent, weights);
    }

    /// Whatever comes, is sent, lost or taken back: everything gets its turn, each channel in its order.
    #[test]
    fn nothing_starves_and_channels_keep_their_order(
        blocks in prop::collection::vec((0u16..5, 1u32..5000), 1..60),
        weights in prop::collection::vec(1u16..=256, 5),
        back in prop::collection::vec(any::<bool>(), 40),
    ) {
        let mut queue = queue(StreamScheduler::weighted(), &weights);
        let mut waiting = (0..).zip(blocks);
        let mut last: BTreeMap<u16, BlockId> = BTreeMap::new();
        let mut back = back.into_iter();
        loop {
            if let Some((id, (channel, len))) = waiting.next() {
                queue.insert(meta(id, channel, len));
            }
            let Some(work) = queue.next_fresh() else { break };
            let channel = queue.get(work.block).expect("is there").meta().channel;
            prop_assert!(last.get(&channel).is_none_or(|before| *before <= work.block));
            last.insert(channel, work.block);
            queue.mark_sent(work.block, work.range.clone(), PathId(0), at_ms(0));
            if back.next() == Some(true) {
                queue.mark_unsent(work.block, work.range, PathId(0));
            }
        }
        prop_assert_eq!(queue.fresh_bytes(), 0);
    }

    /// Without a scheduler of streams the oldest is next, whatever the weights.
    #[test]
    fn first_come_first_served_is_as_it_was(blocks in prop::collection::vec((0u16..5, 1u32..5000), 1..40)) {
        let mut queue = queue(StreamScheduler::Fifo, &[256, 1, 9]);
        for (id, (channel, len)) in (0..).zip(&blocks) {
            queue.insert(meta(id, *channel, *len));
        }
        for (id, (_, len)) in (0..).zip(&blocks) {
            let work = queue.next_fresh().expect("is waiting");
            prop_assert_eq!((work.block, work.range.clone()), (BlockId(id), 0..*len));
            queue.mark_sent(work.block, work.range, PathId(0), at_ms(0));
        }
    }
}

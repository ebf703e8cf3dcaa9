//! Shares of channels under weighted round robin.

use std::collections::BTreeMap;

use proptest::prelude::*;
use squall_sched::{
    BlockId, BlockMeta, BlockQueue, Fifo, PathId, StreamScheduler, Turn, Waiting, WeightedRoundRobin, Work,
};
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

fn queue(streams: Box<dyn StreamScheduler>, weights: &[u16]) -> BlockQueue {
    let mut queue = BlockQueue::new();
    queue.set_streams(streams);
    for (channel, weight) in (0..).zip(weights) {
        queue.set_channel_weight(channel, *weight);
    }
    queue
}

#[test]
fn two_channels_share_by_their_weights() {
    let mut queue = queue(Box::<WeightedRoundRobin>::default(), &[1, 3]);
    queue.insert(meta(0, 0, 1_000_000));
    queue.insert(meta(1, 1, 1_000_000));
    let channels: Vec<u16> = (0..8).filter_map(|_| send(&mut queue, PACKET)).map(|(c, _)| c).collect();
    assert_eq!(channels, [0, 1, 1, 1, 0, 1, 1, 1]);
}

#[test]
fn repairs_go_first_and_cost_no_turn() {
    let mut queue = queue(Box::<WeightedRoundRobin>::default(), &[1, 1]);
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
    let mut queue = queue(Box::<WeightedRoundRobin>::default(), &[2, 1]);
    queue.insert(meta(0, 0, 10_000));
    queue.insert(meta(1, 1, 10_000));
    send(&mut queue, PACKET);
    queue.mark_unsent(BlockId(0), 0..PACKET, PathId(0));
    let channels: Vec<u16> = (0..3).filter_map(|_| send(&mut queue, PACKET)).map(|(c, _)| c).collect();
    assert_eq!(channels, [0, 0, 1]);
}

/// Selects the channel whose oldest block has the fewest bytes left.
struct Shortest;

impl StreamScheduler for Shortest {
    fn next(&self, waiting: &Waiting<'_>) -> Option<Turn> {
        let (channel, _) = waiting.iter().min_by_key(|(_, block)| block.unsent_bytes())?;
        Some(Turn { channel, bytes: 700 })
    }
}

#[test]
fn a_stream_scheduler_sees_the_oldest_block_of_each_channel() {
    let mut queue = queue(Box::new(Shortest), &[]);
    for (id, channel, len) in [(0, 3, 3_000), (1, 3, 100), (2, 9, 2_000), (3, 9, 500)] {
        queue.insert(meta(id, channel, len));
    }
    let sent: Vec<_> = std::iter::from_fn(|| send(&mut queue, PACKET)).collect();
    let expected =
        [(9, 700), (9, 700), (9, 600), (9, 500), (3, 700), (3, 700), (3, 700), (3, 700), (3, 200), (3, 100)];
    assert_eq!(sent, expected);
}

/// Returns the bytes of each channel among the first `most`, if whole blocks are sent in the order
/// of their deadlines.
fn by_deadline(queue: &mut BlockQueue, channels: usize, most: u64) -> Vec<u64> {
    let mut got = vec![0; channels];
    while got.iter().sum::<u64>() < most {
        let Some(block) = queue.by_deadline().next() else { break };
        let (id, meta) = (block.meta().id, *block.meta());
        got[usize::from(meta.channel)] += u64::from(meta.len);
        queue.mark_sent(id, 0..meta.len, PathId(0), at_ms(0));
    }
    got
}

proptest! {
    /// Channels that always have whole blocks without deadlines share by their weights: none is
    /// further from its share than two blocks.
    #[test]
    fn blocks_that_are_equal_share_by_weights(
        weights in prop::collection::vec(1u16..=16, 2..6),
        lens in prop::collection::vec(1u32..20_000, 300),
        most in 100_000u64..400_000,
    ) {
        let mut queue = queue(Box::<WeightedRoundRobin>::default(), &weights);
        // Each channel has more than all that is sent.
        let mut ids = 0..;
        for channel in 0..weights.len() as u16 {
            let mut left = i64::try_from(most).expect("is small") + 20_000;
            for len in lens.iter().cycle() {
                queue.insert(meta(ids.next().expect("endless"), channel, *len));
                left -= i64::from(*len);
                if left < 0 {
                    break;
                }
            }
        }
        let got = by_deadline(&mut queue, weights.len(), most);
        let turns: Vec<f64> = got.iter().zip(&weights).map(|(b, w)| *b as f64 / f64::from(*w)).collect();
        // A block too many of each of two channels (Goyal et al., theorem 1).
        let bound = |a: usize, b: usize| 20_000.0 / f64::from(weights[a]) + 20_000.0 / f64::from(weights[b]);
        for a in 0..turns.len() {
            for b in 0..turns.len() {
                prop_assert!(turns[a] - turns[b] <= bound(a, b), "{:?} for {:?}", got, weights);
            }
        }
    }

    /// A deadline, and then a priority, decides before any weight; blocks of one channel that are equal keep their order.
    #[test]
    fn weights_decide_among_equals_only(
        weights in prop::collection::vec(1u16..=256, 4),
        blocks in prop::collection::vec((0u16..4, 1u32..5_000, prop::option::of(1u64..4), 0u8..3), 1..80),
    ) {
        let mut queue = queue(Box::<WeightedRoundRobin>::default(), &weights);
        for (id, (channel, len, deadline, priority)) in (0..).zip(blocks) {
            let deadline = deadline.map(at_ms);
            queue.insert(BlockMeta { deadline, priority, ..meta(id, channel, len) });
        }
        let order: Vec<BlockMeta> = queue.by_deadline().map(|block| *block.meta()).collect();
        prop_assert_eq!(order.len(), queue.len());
        let class = |meta: &BlockMeta| (meta.deadline.is_none(), meta.deadline, meta.priority);
        prop_assert!(order.is_sorted_by_key(class));
        for pair in order.iter().enumerate().flat_map(|(at, a)| order[at..].iter().map(move |b| (a, b))) {
            let (a, b) = pair;
            prop_assert!(class(a) != class(b) || a.channel != b.channel || a.id <= b.id);
        }
    }

    /// A channel without data for a while gains nothing by it: afterwards it shares like the
    /// others.
    #[test]
    fn a_channel_that_comes_later_does_not_starve_the_others(before in 1u64..200, len in 1u32..10_000) {
        let mut queue = queue(Box::<WeightedRoundRobin>::default(), &[1, 1]);
        for id in 0..400 {
            queue.insert(meta(id, 0, len));
        }
        by_deadline(&mut queue, 2, before * u64::from(len));
        for id in 400..600 {
            queue.insert(meta(id, 1, len));
        }
        let got = by_deadline(&mut queue, 2, 100 * u64::from(len));
        prop_assert!(got[0].abs_diff(got[1]) <= 2 * u64::from(len), "{:?}", got);
    }
    /// Among channels that always have data, none is further from its share than a turn and a
    /// packet.
    #[test]
    fn shares_follow_weights(
        weights in prop::collection::vec(1u16..=16, 2..6),
        quantum in prop_oneof![64u32..3000, Just(PACKET)],
        packet in 400u32..1500,
        packets in 1usize..600,
    ) {
        let mut queue = queue(Box::new(WeightedRoundRobin::new(quantum)), &weights);
        for (id, _) in (0..).zip(&weights) {
            queue.insert(meta(id, id as u16, 2_000_000));
        }
        let mut sent = vec![0u64; weights.len()];
        for _ in 0..packets {
            let (channel, bytes) = send(&mut queue, packet).expect("more than enough");
            sent[usize::from(channel)] += u64::from(bytes);
        }
        // Number of shares that each channel has had, in units of a turn of weight 1.
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
        let mut queue = queue(Box::new(WeightedRoundRobin::new(quantum)), &weights);
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

    /// Whatever is added, sent, lost or taken back, everything gets its turn, each channel in its
    /// order.
    #[test]
    fn nothing_starves_and_channels_keep_their_order(
        blocks in prop::collection::vec((0u16..5, 1u32..5000), 1..60),
        weights in prop::collection::vec(1u16..=256, 5),
        back in prop::collection::vec(any::<bool>(), 40),
    ) {
        let mut queue = queue(Box::<WeightedRoundRobin>::default(), &weights);
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

    /// Without a stream scheduler the oldest block is next, whatever the weights.
    #[test]
    fn first_come_first_served_is_as_it_was(blocks in prop::collection::vec((0u16..5, 1u32..5000), 1..40)) {
        let mut queue = queue(Box::new(Fifo), &[256, 1, 9]);
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

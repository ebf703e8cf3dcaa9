//! Queue of the packets of a traffic class: fair between connections, and short (FQ-CoDel, RFC
//! 8290, with CoDel of RFC 8289).
//!
//! Each strand, the packets with one hash of addresses and ports, has a queue. Strands take turns,
//! in each of which one sends up to a quantum of bytes; those that begin to send come first. A
//! packet that waited too long in its strand is marked with ECN, or else dropped, so that only the
//! transfer that fills a queue waits in it. Time is an argument.

use std::collections::{HashMap, VecDeque};

use squall_units::{Span, Time};

use crate::tun;

/// Wait of packets that is not yet a standing queue: a tenth of [`INTERVAL`] (RFC 8289, section
/// 4.4).
const TARGET: Span = Span::from_millis(30);

/// Time for which a queue may stand: the round trip of most connections over mobile networks (RFC
/// 8289, section 4.3). The 100 ms of RFC 8290 end the start of a transfer before the congestion
/// control of the paths has found their rates; CUBIC then takes more than ten seconds to use them.
const INTERVAL: Span = Span::from_millis(300);

/// Maximum number of bytes that wait. Beyond it, the longest queue loses packets.
const MAX_BYTES: usize = 16 << 20;

/// Memory of a packet beside its bytes.
const OVERHEAD: usize = 128;

/// Number of packets that the longest queue loses at a time, so that not each packet of a flood has
/// to find it (RFC 8290, section 4.1.3).
const LOSS: usize = 64;

/// A packet, or a burst, as it travels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Waiting {
    pub(super) stamp: Time,
    pub(super) record: Vec<u8>,
}

impl Waiting {
    fn cost(&self) -> usize {
        self.record.len() + OVERHEAD
    }
}

/// Packets of one strand.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Turn {
    pub(super) strand: u16,
    /// The strand has just begun to send.
    pub(super) is_new: bool,
    /// At least one.
    pub(super) packets: Vec<Waiting>,
}

/// The queue of a traffic class.
#[derive(Debug, Default)]
pub(super) struct FairQueue {
    strands: HashMap<u16, Strand>,
    /// Strands that have begun to send, in the order of their turns.
    new: VecDeque<u16>,
    /// The other strands.
    old: VecDeque<u16>,
    cost: usize,
    /// Packets dropped since the last call of [`Self::take_dropped`].
    dropped: u64,
}

#[derive(Debug, Default)]
struct Strand {
    packets: VecDeque<Waiting>,
    cost: usize,
    /// Bytes that it may still send in its turn.
    deficit: i64,
    codel: Codel,
}

/// State of CoDel, as in RFC 8289, section 5.
#[derive(Debug, Default)]
struct Codel {
    first_above: Option<Time>,
    drop_next: Time,
    count: u32,
    last_count: u32,
    is_dropping: bool,
}

impl Codel {
    fn next(&self, at: Time) -> Time {
        at + Span::from_micros((INTERVAL.micros() as f64 / f64::from(self.count.max(1)).sqrt()) as u64)
    }

    /// `true` if the wait has been too long for an interval.
    fn is_standing(&mut self, now: Time, waited: Span, is_last: bool) -> bool {
        if waited < TARGET || is_last {
            self.first_above = None;
            return false;
        }
        now >= *self.first_above.get_or_insert(now + INTERVAL)
    }

    /// `true` if the sender of a packet that leaves the queue should slow down.
    fn signals(&mut self, now: Time, waited: Span, is_last: bool) -> bool {
        let is_standing = self.is_standing(now, waited, is_last);
        if !self.is_dropping {
            if is_standing {
                self.is_dropping = true;
                let delta = self.count - self.last_count;
                let is_recent = now < self.drop_next + INTERVAL * 16;
                self.count = if delta > 1 && is_recent { delta } else { 1 };
                self.drop_next = self.next(now);
                self.last_count = self.count;
            }
            return is_standing;
        }
        self.is_dropping = is_standing;
        if !is_standing || now < self.drop_next {
            return false;
        }
        self.count += 1;
        self.drop_next = self.next(self.drop_next);
        true
    }
}

impl Strand {
    fn take(&mut self) -> Option<Waiting> {
        let packet = self.packets.pop_front()?;
        self.cost -= packet.cost();
        Some(packet)
    }

    /// Takes the next packet that is not dropped.
    fn next(&mut self, now: Time, latency: Span, dropped: &mut u64) -> Option<Waiting> {
        loop {
            let mut packet = self.take()?;
            let waited = now - packet.stamp;
            let signals = self.codel.signals(now, waited, self.packets.is_empty());
            if waited < latency && (!signals || tun::mark(&mut packet.record)) {
                return Some(packet);
            }
            *dropped += tun::packets(&packet.record);
        }
    }
}

impl FairQueue {
    pub(super) fn is_empty(&self) -> bool {
        self.cost == 0
    }

    /// Takes the number of packets dropped since the last call.
    pub(super) fn take_dropped(&mut self) -> u64 {
        std::mem::take(&mut self.dropped)
    }

    /// Adds a packet of a strand. `quantum` is that of the next [`Self::pop`].
    pub(super) fn push(&mut self, strand: u16, packet: Waiting, quantum: usize) {
        let queue = self.strands.entry(strand).or_insert_with(|| {
            self.new.push_back(strand);
            Strand { deficit: quantum as i64, ..Strand::default() }
        });
        queue.cost += packet.cost();
        self.cost += packet.cost();
        queue.packets.push_back(packet);
        while self.cost > MAX_BYTES {
            self.shorten();
        }
    }

    /// Drops packets of the longest queue.
    fn shorten(&mut self) {
        let Some(longest) = self.strands.values_mut().max_by_key(|strand| strand.cost) else { return };
        let half = longest.cost / 2;
        for _ in 0..LOSS {
            let Some(packet) = longest.take() else { return };
            self.cost -= packet.cost();
            self.dropped += tun::packets(&packet.record);
            if longest.cost <= half {
                return;
            }
        }
    }

    /// Drops packets older than `latency`.
    pub(super) fn expire(&mut self, now: Time, latency: Span) {
        for strand in self.strands.values_mut() {
            while strand.packets.front().is_some_and(|packet| packet.stamp + latency <= now) {
                let Some(packet) = strand.take() else { return };
                self.cost -= packet.cost();
                self.dropped += tun::packets(&packet.record);
            }
        }
    }

    /// Takes the next packets of one strand, up to `quantum` bytes of them but at least one;
    /// with `only_new` of those that have just begun to send.
    pub(super) fn pop(&mut self, now: Time, latency: Span, quantum: usize, only_new: bool) -> Option<Turn> {
        loop {
            let is_new = !self.new.is_empty();
            if only_new && !is_new {
                return None;
            }
            let list = if is_new { &mut self.new } else { &mut self.old };
            let id = *list.front()?;
            let Some(strand) = self.strands.get_mut(&id) else {
                list.pop_front();
                continue;
            };
            if strand.deficit <= 0 {
                strand.deficit += quantum as i64;
                list.pop_front();
                self.old.push_back(id);
                continue;
            }
            let before = strand.cost;
            let (mut packets, mut bytes) = (Vec::new(), 0);
            while strand.deficit > 0
                && strand
                    .packets
                    .front()
                    .is_some_and(|next| bytes == 0 || bytes + next.record.len() <= quantum)
                && let Some(packet) = strand.next(now, latency, &mut self.dropped)
            {
                strand.deficit -= packet.record.len() as i64;
                bytes += packet.record.len();
                packets.push(packet);
            }
            self.cost -= before - strand.cost;
            if !packets.is_empty() {
                return Some(Turn { strand: id, is_new, packets });
            }
            list.pop_front();
            // A strand that sends again at once must not come before the others again.
            if is_new && !self.old.is_empty() {
                self.old.push_back(id);
            } else {
                self.strands.remove(&id);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use squall_units::short::{at_ms, at_us, ms};

    use super::*;

    const LATENCY: Span = ms(500);
    const QUANTUM: usize = 1_500;

    fn packet(stamp: Time, len: usize) -> Waiting {
        Waiting { stamp, record: vec![0; len] }
    }

    fn pop(queue: &mut FairQueue, now: Time) -> Option<(u16, bool, usize)> {
        let Turn { strand, is_new, packets } = queue.pop(now, LATENCY, QUANTUM, false)?;
        Some((strand, is_new, packets.iter().map(|packet| packet.record.len()).sum()))
    }

    #[test]
    fn a_packet_of_a_small_connection_comes_before_those_of_a_transfer() {
        let mut queue = FairQueue::default();
        (0..100).for_each(|_| queue.push(1, packet(at_ms(0), 1_000), QUANTUM));
        for _ in 0..3 {
            assert!(pop(&mut queue, at_ms(1)).is_some());
        }
        queue.push(2, packet(at_ms(1), 100), QUANTUM);
        let first = queue.pop(at_ms(1), LATENCY, QUANTUM, true).expect("a strand begins");
        assert_eq!((first.strand, first.is_new), (2, true));
        assert_eq!(queue.pop(at_ms(1), LATENCY, QUANTUM, true), None, "the transfer is not new");
        assert_eq!(pop(&mut queue, at_ms(1)), Some((1, false, 1_000)));
    }

    #[test]
    fn strands_share_by_bytes() {
        let mut queue = FairQueue::default();
        (0..600).for_each(|_| queue.push(1, packet(at_ms(0), 100), QUANTUM));
        (0..10).for_each(|_| queue.push(2, packet(at_ms(0), 60_000), QUANTUM));
        let mut sent = [0_usize; 3];
        while sent.iter().sum::<usize>() < 100_000 {
            let (strand, _, bytes) = pop(&mut queue, at_ms(1)).expect("packets wait");
            sent[usize::from(strand)] += bytes;
        }
        // Within a burst.
        assert!(sent[1].abs_diff(sent[2]) <= 61_500, "{sent:?}");
    }

    /// A transfer of 100 packets per second through a queue that serves as many.
    #[test]
    fn a_standing_queue_loses_packets_and_a_burst_does_not() {
        let run = |length: u64| {
            let mut queue = FairQueue::default();
            (0..length).for_each(|_| queue.push(1, packet(at_ms(0), 1_000), QUANTUM));
            for tick in 1..300 {
                let now = at_ms(tick * 10);
                queue.push(1, packet(now, 1_000), QUANTUM);
                pop(&mut queue, now);
            }
            queue.take_dropped()
        };
        assert_eq!(run(1), 0);
        let lost = run(10);
        assert!((8..15).contains(&lost), "{lost} packets");
    }

    #[test]
    fn packets_with_ecn_are_marked() {
        let mut queue = FairQueue::default();
        // Of IPv4 with ECT(0).
        let mut record = vec![0; 100];
        (record[2], record[3]) = (0x45, 2);
        let mut marked = 0;
        for tick in 1..300 {
            let now = at_ms(tick * 10);
            queue.push(
                1,
                Waiting { stamp: at_ms((tick * 10).saturating_sub(100)), record: record.clone() },
                QUANTUM,
            );
            queue.push(
                1,
                Waiting { stamp: at_ms((tick * 10).saturating_sub(100)), record: record.clone() },
                QUANTUM,
            );
            let turn = queue.pop(now, LATENCY, 100, false).expect("packets wait");
            marked += turn.packets.iter().filter(|packet| packet.record[3] == 3).count();
            assert_eq!(queue.take_dropped(), 0);
            queue.expire(now, ms(200));
            queue.take_dropped();
        }
        assert!(marked > 5, "{marked}");
    }

    #[test]
    fn the_longest_queue_is_bounded() {
        let mut queue = FairQueue::default();
        queue.push(2, packet(at_ms(0), 100), QUANTUM);
        (0..1_000).for_each(|_| queue.push(1, packet(at_ms(0), 60_000), QUANTUM));
        assert!(queue.cost <= MAX_BYTES);
        let lost = queue.take_dropped();
        assert!((720..800).contains(&lost), "{lost}");
        assert_eq!(queue.strands[&2].packets.len(), 1);
    }

    #[test]
    fn old_packets_are_dropped() {
        let mut queue = FairQueue::default();
        queue.push(1, packet(at_ms(0), 100), QUANTUM);
        queue.push(1, packet(at_ms(400), 100), QUANTUM);
        queue.expire(at_ms(500), LATENCY);
        assert_eq!((queue.take_dropped(), queue.is_empty()), (1, false));
        assert_eq!(pop(&mut queue, at_ms(900)), None);
        assert_eq!((queue.take_dropped(), queue.is_empty(), queue.strands.len()), (1, true, 0));
    }

    proptest! {
        /// Each packet leaves in the order of its strand, or is counted as dropped, and nothing
        /// remains.
        #[test]
        fn packets_leave_in_order_or_are_counted(
            steps in prop::collection::vec((0..5u16, 1..70_000usize, 0..50_000u64, 0..3usize), 1..200),
            quantum in 1..20_000usize,
        ) {
            let mut queue = FairQueue::default();
            let (mut now, mut number, mut left, mut dropped) = (0, 0_u32, Vec::new(), 0);
            let mut take = |queue: &mut FairQueue, now| {
                let turn = queue.pop(at_us(now), LATENCY, quantum, false);
                let packets = turn.into_iter().flat_map(|turn| {
                    let strand = turn.strand;
                    turn.packets.into_iter().map(move |packet| (strand, packet.record))
                });
                let before = left.len();
                left.extend(packets);
                left.len() > before
            };
            for (strand, len, after, pops) in &steps {
                now += after;
                let mut record = vec![0; *len + 4];
                record[*len..].copy_from_slice(&number.to_be_bytes());
                number += 1;
                queue.push(*strand, Waiting { stamp: at_us(now), record }, quantum);
                (0..*pops).for_each(|_| _ = take(&mut queue, now));
            }
            while take(&mut queue, now) {}
            dropped += queue.take_dropped();
            prop_assert!(queue.is_empty() && queue.strands.is_empty());
            prop_assert_eq!(left.len() as u64 + dropped, steps.len() as u64);
            for strand in 0..5 {
                let of = left.iter().filter(|(of, _)| *of == strand);
                let of: Vec<_> = of.map(|(_, record)| record[record.len() - 4..].to_vec()).collect();
                prop_assert!(of.is_sorted());
            }
        }
    }
}

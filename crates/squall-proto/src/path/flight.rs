//! Packets in flight on a path, and their contents.

use std::{
    collections::{BTreeMap, VecDeque},
    ops::Range,
};

use squall_sched::{BlockId, PathId, Span, Time, WorkKind};

use super::{life::Packet, rate::Mark};
use crate::wire::{Cancel, RefuseReason, Stalled};

/// Our content of a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Payload {
    /// A range of a block.
    Chunk(Chunk),
    /// Repeated until acknowledged.
    Control(Control),
    /// A probe of ours, by its id; a later one replaces it.
    Probe(u64),
    /// A newer one replaces it.
    Ephemeral,
    /// A report of losses, which a newer one replaces. Its own fate is not counted, otherwise each
    /// would cause another.
    Losses,
}

/// A range of a block in a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Chunk {
    pub(crate) block: BlockId,
    /// Range of bytes; for parity, of symbols.
    pub(crate) range: Range<u32>,
    /// Bytes of its payload, once it is written.
    pub(crate) bytes: u32,
    pub(crate) kind: WorkKind,
    /// The intended path.
    pub(crate) path: PathId,
    /// Its header contains the length of its block.
    pub(crate) has_end: bool,
    /// Expected arrival, predicted when it was assigned to its path.
    pub(crate) expected_at: Time,
    /// Time when the scheduler assigned it to its path.
    pub(crate) assigned_at: Time,
    /// Time when it was written, which its header contains: QUIC may keep it for the next packet,
    /// and then it leaves slightly later.
    pub(crate) written_at: Time,
}

impl Chunk {
    pub(crate) fn is_parity(&self) -> bool {
        self.kind.is_parity()
    }
}

/// Items that must reach the peer, beside blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Control {
    Cancel(Cancel),
    Refused(BlockId, RefuseReason),
    /// A block that was rebuilt by the parity of a run.
    Rebuilt(BlockId),
    /// Leaves with feedback.
    Stalled(Stalled),
    /// The length of a growing block whose bytes left before it was final; computed when it leaves.
    End(BlockId),
    /// Feedback because of freed memory, or of another bitrate; computed when it leaves.
    Credit,
    /// Properties of a path; computed when it leaves.
    PathInfo(PathId),
    /// A radio's report about the path of that number; sent on all paths, until one copy arrives.
    Alert {
        path: u32,
        sequence: u64,
    },
}

/// A packet whose fate is open.
#[derive(Clone, Debug)]
pub(crate) struct InFlight {
    pub(crate) sent_at: Time,
    pub(crate) bytes: u16,
    pub(crate) payload: Option<Payload>,
    /// Further datagrams in the same packet.
    pub(crate) more: Vec<Payload>,
    /// A probe for a larger MTU: its loss is no sign of the path's health.
    pub(crate) is_mtu_probe: bool,
    /// Its data was repaired when the path became silent; its loss is already handled when noq
    /// reports it.
    pub(crate) repaired: bool,
    /// State of delivery of the path when it left.
    pub(crate) mark: Option<Mark>,
}

impl InFlight {
    /// Creates the entry of a packet that leaves.
    pub(crate) fn of(sent_at: Time, bytes: u16, payload: Option<Payload>) -> Self {
        let more = Vec::new();
        Self { sent_at, bytes, payload, more, is_mtu_probe: false, repaired: false, mark: None }
    }

    /// Returns `true` if its fate counts in the path's loss: probes are sent where loss is
    /// expected.
    pub(crate) fn counts(&self) -> bool {
        self.payload.as_ref().is_some_and(|payload| !matches!(payload, Payload::Probe(_) | Payload::Losses))
    }

    /// Returns when its newest chunk was written, and the expected arrival of that, if it carried
    /// any.
    pub(crate) fn written_at(&self) -> Option<(Time, Time)> {
        let payloads = self.payload.iter().chain(&self.more);
        let chunks = payloads
            .filter_map(|payload| if let Payload::Chunk(chunk) = payload { Some(chunk) } else { None });
        chunks.map(|chunk| (chunk.written_at, chunk.expected_at)).max()
    }

    /// Returns the range of a block that it carried.
    pub(crate) fn chunk(&self) -> Option<&Chunk> {
        match &self.payload {
            Some(Payload::Chunk(chunk)) if !chunk.is_parity() => Some(chunk),
            _ => None,
        }
    }

    /// Returns the properties by which the life of its path is judged.
    pub(crate) fn packet(&self) -> Packet {
        let mut payloads = self.payload.iter().chain(&self.more);
        let has_data = payloads.any(|payload| matches!(payload, Payload::Chunk(_)));
        Packet { sent_at: self.sent_at, bytes: self.bytes, has_data }
    }
}

/// Packets in flight on a path, by packet number.
#[derive(Debug, Default)]
pub(crate) struct Flight {
    base: u64,
    packets: VecDeque<Option<InFlight>>,
    bytes: u64,
    /// Packets that were declared lost and may still arrive, until noq declares them lost too.
    lost: BTreeMap<u64, InFlight>,
}

/// Time after which a packet that was declared lost is forgotten.
const FORGOTTEN: Span = Span::from_secs(30);

/// Largest number of packet numbers that noq may skip between two packets; more would violate its
/// contract.
const MAX_GAP: u64 = 1 << 16;

impl Flight {
    pub(crate) fn insert(&mut self, packet: u64, entry: InFlight) {
        if self.packets.is_empty() {
            self.base = packet;
        }
        let Some(at) = packet.checked_sub(self.base).filter(|at| *at < self.packets.len() as u64 + MAX_GAP)
        else {
            debug_assert!(false, "packet numbers must grow, by small steps");
            return;
        };
        let at = at as usize;
        if at >= self.packets.len() {
            self.packets.resize_with(at + 1, || None);
        }
        self.bytes += u64::from(entry.bytes);
        self.packets[at] = Some(entry);
    }

    /// Adds a further datagram to a recorded packet.
    pub(crate) fn add(&mut self, packet: u64, payload: Option<Payload>) {
        let at = packet.checked_sub(self.base).map(|at| at as usize);
        if let Some(Some(entry)) = at.and_then(|at| self.packets.get_mut(at)) {
            entry.more.extend(payload);
        }
    }

    pub(crate) fn take(&mut self, packet: u64) -> Option<InFlight> {
        let at = usize::try_from(packet.checked_sub(self.base)?).ok()?;
        let entry = self.packets.get_mut(at)?.take()?;
        self.bytes -= u64::from(entry.bytes);
        while matches!(self.packets.front(), Some(None)) {
            self.packets.pop_front();
            self.base += 1;
        }
        Some(entry)
    }

    /// Removes a packet that is declared lost, and keeps it in case it arrives.
    pub(crate) fn lose(&mut self, packet: u64) -> Option<InFlight> {
        let entry = self.take(packet)?;
        while let Some(first) = self.lost.first_entry()
            && entry.sent_at - first.get().sent_at > FORGOTTEN
        {
            first.remove();
        }
        self.lost.insert(packet, entry.clone());
        Some(entry)
    }

    /// Removes a packet that was declared lost, since it has arrived, or will not.
    pub(crate) fn take_lost(&mut self, packet: u64) -> Option<InFlight> {
        self.lost.remove(&packet)
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the oldest packet whose fate is open, with its number.
    pub(crate) fn first(&self) -> Option<(u64, &InFlight)> {
        Some((self.base, self.packets.front()?.as_ref()?))
    }

    /// Returns the oldest packet whose fate is open and will be reported, with its number.
    pub(crate) fn oldest(&self) -> Option<(u64, &InFlight)> {
        let numbered = (self.base..).zip(&self.packets);
        numbered
            .filter_map(|(packet, entry)| Some((packet, entry.as_ref()?)))
            .find(|(_, entry)| !entry.is_mtu_probe)
    }

    /// Returns the time since which an acknowledgement is outstanding.
    pub(crate) fn waiting_since(&self) -> Option<Time> {
        self.oldest().map(|(_, entry)| entry.sent_at)
    }

    /// Returns the number of the next packet, or a lower bound of it.
    pub(crate) fn next_packet(&self) -> u64 {
        self.base + self.packets.len() as u64
    }

    /// Iterates over the packets whose fate is open, oldest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &InFlight> {
        self.packets.iter().flatten()
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut InFlight> {
        self.packets.iter_mut().flatten()
    }

    /// Removes all packets, with their numbers; those that were declared lost remain lost.
    pub(crate) fn drain(&mut self) -> Vec<(u64, InFlight)> {
        self.lost.clear();
        let first = self.base;
        self.bytes = 0;
        self.base += self.packets.len() as u64;
        (first..).zip(self.packets.drain(..)).filter_map(|(number, entry)| Some((number, entry?))).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn entry(bytes: u16) -> InFlight {
        InFlight::of(Time::EPOCH, bytes, None)
    }

    proptest! {
        #[test]
        fn the_flight_is_a_map_that_counts_its_bytes(ops in prop::collection::vec((1u64..4, any::<prop::sample::Index>(), 1u16..1500), 1..300)) {
            let mut flight = Flight::default();
            let mut model: BTreeMap<u64, u16> = BTreeMap::new();
            let mut next = 5;
            for (step, index, bytes) in ops {
                if bytes % 3 > 0 {
                    next += step;
                    flight.insert(next, entry(bytes));
                    model.insert(next, bytes);
                } else if !model.is_empty() {
                    let key = *model.keys().nth(index.index(model.len())).unwrap();
                    prop_assert_eq!(flight.take(key).map(|e| e.bytes), model.remove(&key));
                    prop_assert!(flight.take(key).is_none());
                }
                prop_assert_eq!(flight.bytes(), model.values().map(|b| u64::from(*b)).sum::<u64>());
                prop_assert_eq!(flight.first().map(|(n, _)| n), model.keys().next().copied());
                if let Some(last) = model.keys().last() {
                    prop_assert!(flight.next_packet() > *last);
                }
            }
            let rest: Vec<u64> = flight.drain().into_iter().map(|(n, _)| n).collect();
            prop_assert_eq!(rest, model.keys().copied().collect::<Vec<_>>());
            prop_assert_eq!(flight.bytes(), 0);
        }
    }
}

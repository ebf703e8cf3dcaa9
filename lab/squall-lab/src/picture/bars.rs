//! From the logs of a session and its links to the times at which packets occupy a link.

use std::collections::BTreeMap;

use squall_net::{DropReason, log};
use squall_proto::{
    DecisionLog, PacketFate, PacketLog,
    sched::{BlockId, Decision, WorkKind},
};
use squall_units::Micros;

use crate::world::UDP_OVERHEAD;

/// A packet with data of a block on a link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Bar {
    /// Of which block, from 0 in the order of handing over.
    pub(super) block: usize,
    /// Bytes of the block in it.
    pub(super) bytes: u32,
    /// Sent first, again after a loss, or beside a copy that is still under way.
    pub(super) kind: WorkKind,
    /// When its first bit entered the link.
    pub(super) from: Micros,
    /// When its last bit did.
    pub(super) to: Micros,
    /// Whether the link lost it.
    pub(super) lost: bool,
}

/// A path at its sender.
pub(super) struct Port<'a> {
    /// Packets of the session on this path since the link's time 0.
    pub(super) packets: Vec<&'a PacketLog>,
    /// The link's record from its time 0.
    pub(super) records: Vec<log::Record>,
    /// Time 0 of the link, by the session's clock.
    pub(super) start: Micros,
}

/// What a link did with a packet.
#[derive(Debug, Clone, Copy, Default)]
struct Passage {
    pushed: Micros,
    size: usize,
    from: Micros,
    /// `None` if the queue had no room.
    to: Option<Micros>,
    lost: bool,
}

impl Port<'_> {
    /// Every packet with data, in the order of departure. `first` is the id of the first block.
    pub(super) fn bars(&self, decisions: &[DecisionLog], first: BlockId) -> Vec<Bar> {
        let passages = passages(&self.records);
        // The session logs the packets that ask for an acknowledgement, the link all; both in order.
        let mut passages = passages.values().peekable();
        let mut bars = Vec::new();
        for packet in self.packets.iter().filter(|packet| packet.fate == PacketFate::Sent) {
            let (at, size) = (packet.at - self.start, usize::from(packet.bytes) + UDP_OVERHEAD);
            let is_other = |p: &&Passage| p.pushed < at || p.pushed == at && p.size != size;
            while passages.next_if(is_other).is_some() {}
            let Some(passage) = passages.next_if(|p| p.pushed == at) else { continue };
            let (Some((block, range, _)), Some(to)) = (&packet.chunk, passage.to) else { continue };
            bars.push(Bar {
                block: (block.0 - first.0) as usize,
                bytes: range.end - range.start,
                kind: kind(decisions, packet),
                from: passage.from,
                to,
                lost: passage.lost,
            });
        }
        bars
    }
}

fn passages(records: &[log::Record]) -> BTreeMap<u64, Passage> {
    let mut passages: BTreeMap<u64, Passage> = BTreeMap::new();
    let mut free = 0;
    for record in records {
        match record.event {
            log::Event::Push { number, size } => {
                let passage = Passage { pushed: record.at, size: size as usize, ..Passage::default() };
                passages.insert(number, passage);
            }
            log::Event::Sent { number, pushed, .. } => {
                if let Some(passage) = passages.get_mut(&number) {
                    passage.from = pushed.max(free);
                    passage.to = Some(record.at);
                }
                free = record.at;
            }
            log::Event::Drop { number, reason: DropReason::Loss | DropReason::Outage, .. } => {
                if let Some(passage) = passages.get_mut(&number) {
                    passage.lost = true;
                }
            }
            _ => {}
        }
    }
    passages
}

/// What the last decision before its departure that assigned the packet's bytes called them. A packet may leave
/// with a probe of another path than it was assigned to.
fn kind(decisions: &[DecisionLog], packet: &PacketLog) -> WorkKind {
    let Some((block, range, meant)) = &packet.chunk else { return WorkKind::Fresh };
    let given =
        decisions.iter().rev().filter(|log| log.at <= packet.at).find_map(|log| match &log.decision {
            Decision::Send(given)
                if given.block == *block && given.path == *meant && given.range.contains(&range.start) =>
            {
                Some(given.kind)
            }
            _ => None,
        });
    given.unwrap_or(WorkKind::Fresh)
}

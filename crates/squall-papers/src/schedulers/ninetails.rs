//! NineTails: lowest RTT, and full redundancy on all paths near the end of a message.
//!
//! Source: the paper of MAppLE and NineTails, §IV-B, Algorithm 1 and Eq. 1. A message is a block
//! here. The mode is decided for each packet:
//!
//! ```text
//! redundant if  remaining / rate_best < min(3/2·RTT, RTO_min + 1/2·RTT)
//! ```
//!
//! (see [`near_tail()`]) with `rate_best` the highest bandwidth, window over smoothed RTT, among
//! the paths with room, and `RTT` that of the path on which a lost packet is repaired (option
//! `rtt`).
//!
//! - Not redundant: the packet is sent on the lowest-RTT path with room, as with `minrtt`.
//! - Redundant: new data is sent on the path of highest bandwidth with room. The others repeat the
//!   oldest outstanding bytes of the tail that they have not carried; that path does the same when
//!   no new data is left.
//!
//! Points that the paper leaves open:
//!
//! - `remaining`: the bytes that count. `queue` (default): the fresh bytes of all blocks, and the
//!   lost ones of the block that is to be repaired. The paper attributes its good tail latency to
//!   this: when the throughput drops, queued data grows and ends the redundancy (§V-B). There all
//!   messages share a stream. `block`: those of the block whose packet is to be sent, as the name
//!   in Algorithm 1 suggests; under overload redundancy then continues, and so does the overload.
//! - The tail of a block begins with the first byte that was sent in redundant mode, and only bytes
//!   from there on are repeated. Earlier bytes were sent when there was time to recover them, and
//!   repeating them would use the windows needed for the bytes that determine when the block is
//!   complete. The tail stays the same when the mode changes back and forth, and when the last
//!   fresh byte has left: then nothing remains and all outstanding bytes of the tail are repeated.
//! - Blocks are sent in order of submission, lost reliable data first: in redundant mode on the
//!   path of highest bandwidth, otherwise on the lowest-RTT path. Lost bytes of the tail, once
//!   repaired, are repeated too.
//! - `rtt`: the path whose round trip is the recovery time. `open` (default): the lowest-RTT path
//!   with room, which carries the packet if there is no redundancy. `fastest`: the lowest-RTT path,
//!   with or without room. `carrier`: the path that carries the newest bytes in flight, on which
//!   one of them may be lost; without any, as `open`. `best`: the path of highest bandwidth with
//!   room, which carries new data near the end. The text allows several readings: Eq. 1 prints
//!   `highestRate` for it, and only the 100 ms of that path explain that messages of 20 kB are
//!   nearly always redundant (§V-B); the recovery without redundancy (§IV-B) is that of the
//!   lowest-RTT path, on which a packet can be sent only if there is room. On ninetails-fig6 (five
//!   runs of 60 s) the 99.9 % of 20 and 400 kB are 295 and 665 ms with `open`, 346 and 560 with
//!   `fastest`, 252 and 596 with `best`, 258 and 566 with `minrtt`: differences as large as those
//!   between seeds.
//! - `rto-min` (ms, default 200, the value of the paper's QUIC).
//! - Starts of tails are stored for up to [`MAX_TAILS`] unfinished blocks. Beyond that the oldest
//!   is removed and no longer repeated.
//! - Any number of paths: all but the best repeat, each at most once.

use std::{cmp::Reverse, collections::BTreeMap, str::FromStr};

use crate::{candidates::Candidates, near_tail};
use squall_sched::{
    Assignment, Block, BlockId, BuildError, Context, Decision, Duplicates, Entry, OptionSpec, Options,
    PathId, PathView, SchedEvent, Scheduler, Segment, Span, Work, WorkKind,
};

pub(super) const ENTRY: Entry = Entry {
    name: "ninetails",
    summary: "lowest RTT, and everything on all paths near the end of a message",
    source: "NineTails, Algorithm 1 and Eq. 1",
    options: &[
        OptionSpec {
            name: "remaining",
            default: "queue",
            help: "which bytes are to be gone soon: of the whole queue, or of the block",
        },
        OptionSpec {
            name: "rtt",
            default: "open",
            help: "whose round trip the end is measured by: open, fastest, carrier or best",
        },
        OptionSpec {
            name: "rto-min",
            default: "200",
            help: "shortest retransmission timeout in ms, up to 60000",
        },
    ],
    signal: false,
};

pub(super) fn build(options: &mut Options) -> Result<Box<dyn Scheduler>, BuildError> {
    let extent = options.take("remaining", Extent::Queue)?;
    let recovery = options.take("rtt", Recovery::Open)?;
    let rto_min = Span::from_millis(options.take_in("rto-min", 200, 0..=60_000)?);
    Ok(Box::new(NineTails {
        extent,
        recovery,
        rto_min,
        carrier: None,
        duplicates: Duplicates::default(),
        tails: Tails::default(),
    }))
}

/// Maximum number of blocks with a stored tail.
pub const MAX_TAILS: usize = 4096;

/// Lowest RTT, redundant near the end.
#[derive(Clone, Debug)]
pub struct NineTails {
    extent: Extent,
    recovery: Recovery,
    rto_min: Span,
    /// The path that was assigned the newest bytes.
    carrier: Option<PathId>,
    duplicates: Duplicates,
    tails: Tails,
}

impl Scheduler for NineTails {
    fn next(&mut self, cx: &Context<'_>) -> Decision {
        let (Some(fastest), Some(best)) = (cx.fastest_with_room(), highest_rate(cx)) else {
            return Decision::idle();
        };
        let work = cx.queue.next_in_line();
        let remaining = self.remaining(cx, work.as_ref());
        let assignment = if near_tail(remaining, best.bandwidth, self.rtt(cx, fastest, best), self.rto_min) {
            self.redundant(cx, best, work)
        } else {
            work.map(|work| {
                Assignment::new(work, fastest.id, "lowest RTT with window left").at_most(fastest.chunk)
            })
        };
        let Some(assignment) = assignment else {
            return Decision::idle();
        };
        if assignment.kind == WorkKind::Fresh {
            self.carrier = Some(assignment.path);
        }
        Decision::Send(assignment)
    }

    fn on_event(&mut self, event: &SchedEvent, cx: &Context<'_>) {
        self.duplicates.on_event(event, cx);
        match event {
            SchedEvent::Done { block, .. } => self.tails.forget(*block),
            SchedEvent::PathChanged(path) if cx.path(*path).is_none() => {
                self.carrier = self.carrier.filter(|carrier| carrier != path);
            }
            _ => {}
        }
    }
}

impl NineTails {
    /// Returns the bytes left to send.
    fn remaining(&self, cx: &Context<'_>, work: Option<&Work>) -> u64 {
        let block = work.and_then(|work| cx.queue.get(work.block));
        let (fresh, unsent) = block.map_or((0, 0), |b| (b.fresh_bytes(), b.unsent_bytes()));
        // A growing block is not near its end merely because little of it has been written.
        match self.extent {
            Extent::Queue => cx.queue.fresh_bytes() + cx.queue.expected_bytes() + u64::from(unsent - fresh),
            Extent::Block => u64::from(unsent + block.map_or(0, Block::expected_bytes)),
        }
    }

    /// Returns the round trip in which a lost packet is repaired; among the paths with room, `open`
    /// is the fastest and `best` the one of highest rate.
    fn rtt(&self, cx: &Context<'_>, open: &PathView, best: &PathView) -> Span {
        let path = match self.recovery {
            Recovery::Open => None,
            Recovery::Fastest => Candidates::of(cx).map(|paths| paths.fastest),
            Recovery::Carrier => self.carrier(cx),
            Recovery::Best => Some(best),
        };
        path.unwrap_or(open).srtt
    }

    /// Returns the path that carries the newest bytes in flight, if there are any.
    fn carrier<'a>(&self, cx: &Context<'a>) -> Option<&'a PathView> {
        cx.queue.in_flight_from(BlockId(0)).next()?;
        cx.path(self.carrier?)
    }

    /// New data leads on `best`; the other paths repeat.
    fn redundant(&mut self, cx: &Context<'_>, best: &PathView, work: Option<Work>) -> Option<Assignment> {
        let repair = work.as_ref().is_some_and(|work| work.kind == WorkKind::Repair);
        if !repair {
            let mut others = cx.paths.iter().filter(|p| p.has_room() && p.id != best.id);
            if let Some(copy) = others.find_map(|path| self.copy(cx, path)) {
                return Some(copy);
            }
        }
        let Some(work) = work else {
            return self.copy(cx, best);
        };
        if !repair {
            self.tails.begin(work.block, work.range.start);
        }
        Some(Assignment::new(work, best.id, "near the end: highest rate").at_most(best.chunk))
    }

    fn copy(&mut self, cx: &Context<'_>, path: &PathView) -> Option<Assignment> {
        let tails = &self.tails;
        let work =
            self.duplicates.next(cx.queue, path.id, |block, segment| tails.has(block.meta().id, segment))?;
        Some(Assignment::new(work, path.id, "near the end: repeated"))
    }
}

/// Returns the path with the highest bandwidth among those with room; the lower id wins a tie.
fn highest_rate<'a>(cx: &Context<'a>) -> Option<&'a PathView> {
    cx.paths.iter().filter(|p| p.has_room()).min_by_key(|p| (Reverse(p.bandwidth), p.id))
}

/// Bytes that must be sent soon for redundancy to pay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Extent {
    Queue,
    Block,
}

impl FromStr for Extent {
    type Err = &'static str;

    fn from_str(s: &str) -> Result<Self, Self::Err> {
        match s {
            "queue" => Ok(Self::Queue),
            "block" => Ok(Self::Block),
            _ => Err("must be queue or block"),
        }
    }
}

/// Path whose round trip is the recovery time of a lost packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Recovery {
    Open,
    Fastest,
    Carrier,
    Best,
}

impl FromStr for Recovery {
    type Err = &'static str;

    fn from_str(s: &str) -> Result<Self, Self::Err> {
        match s {
            "open" => Ok(Self::Open),
            "fastest" => Ok(Self::Fastest),
            "carrier" => Ok(Self::Carrier),
            "best" => Ok(Self::Best),
            _ => Err("must be open, fastest, carrier or best"),
        }
    }
}

/// Starts of the tails of unfinished blocks.
#[derive(Clone, Debug, Default)]
struct Tails {
    starts: BTreeMap<BlockId, u32>,
}

impl Tails {
    /// Records that bytes of the block from `offset` on are sent redundantly.
    fn begin(&mut self, block: BlockId, offset: u32) {
        if self.starts.len() >= MAX_TAILS && !self.starts.contains_key(&block) {
            self.starts.pop_first();
        }
        // Bytes that were taken back are sent again, before those at which the tail began.
        let start = self.starts.entry(block).or_insert(offset);
        *start = offset.min(*start);
    }

    fn has(&self, block: BlockId, segment: &Segment) -> bool {
        self.starts.get(&block).is_some_and(|start| segment.start >= *start)
    }

    fn forget(&mut self, block: BlockId) {
        self.starts.remove(&block);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use squall_sched::{PathSet, SegmentState};

    fn segment(start: u32) -> Segment {
        let state = SegmentState::Sent;
        Segment {
            start,
            end: start + 1,
            state,
            in_flight: PathId(0).into(),
            sent_on: PathId(0).into(),
            lost_on: PathSet::EMPTY,
            was_lost: false,
            sent_at: None,
        }
    }

    #[test]
    fn a_tail_begins_once_and_is_forgotten() {
        let mut tails = Tails::default();
        assert!(!tails.has(BlockId(3), &segment(100)));
        tails.begin(BlockId(3), 50);
        tails.begin(BlockId(3), 70);
        assert!(tails.has(BlockId(3), &segment(50)) && !tails.has(BlockId(3), &segment(49)));
        tails.begin(BlockId(3), 20);
        assert!(tails.has(BlockId(3), &segment(20)));
        tails.forget(BlockId(3));
        assert!(!tails.has(BlockId(3), &segment(100)));
    }

    #[test]
    fn the_number_of_tails_is_bounded() {
        let mut tails = Tails::default();
        for id in 0..MAX_TAILS as u64 + 10 {
            tails.begin(BlockId(id), 0);
            tails.begin(BlockId(id), 0);
        }
        assert_eq!(tails.starts.len(), MAX_TAILS);
        assert!(!tails.has(BlockId(9), &segment(0)) && tails.has(BlockId(10), &segment(0)));
    }
}

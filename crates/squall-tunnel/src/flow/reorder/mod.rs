//! Restores the order of datagrams within bounded time.
//!
//! The datagrams of a growing block leave as they arrive; the next block waits for its end. A gap,
//! or the rest of a block, delays later frames until its deadline, or until the session reports
//! that it will not arrive. Each strand of a flow has an order of its own, so that connections in a
//! tunnel for packets do not wait for each other. Time is an argument.

#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    mem,
};

use bytes::{Bytes, BytesMut};
use squall_units::{Span, Time};

use super::offset::ClockOffset;
use crate::{
    config::Playout,
    media::Class,
    wire::frame::{self, FrameError, FrameReader, HEADER, Header},
};

/// Maximum number of bytes held.
const MAX_BYTES: usize = 16 << 20;

/// Maximum number of blocks held.
const MAX_HELD: usize = 65_536;

/// Maximum number of reported blocks that will not arrive.
const MAX_MISSED: usize = 4096;

/// Maximum number of absences between two calls of [`ReorderBuffer::take_absences`]; further ones
/// are only counted.
const MAX_ABSENCES: usize = 16;

/// A part of a block as the session delivers it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) block_id: u64,
    /// Position in the block, in bytes.
    pub(crate) offset: u32,
    pub(crate) data: Bytes,
    /// The block ends with this part.
    pub(crate) is_last: bool,
}

/// Rule by which the frames of a flow leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rule {
    /// Time of departure.
    pub(crate) playout: Playout,
    /// Frames leave in order.
    pub(crate) ordered: bool,
    /// Latency of the flow at the other end.
    pub(crate) latency: Span,
    /// Delay from arrival at the other end to departure, with [`Playout::Steady`].
    pub(crate) delay: Span,
    /// Maximum number of frames that wait for a missing one.
    pub(crate) max_pending: usize,
}

/// Datagrams of a frame that may leave.
#[derive(Debug)]
pub(crate) struct Ready {
    pub(crate) header: Header,
    /// See [`frame::datagram`](crate::wire::frame::datagram).
    pub(crate) datagrams: Bytes,
    /// They are the first datagrams of the frame.
    pub(crate) is_first: bool,
    /// Departure of the first datagram of the frame.
    pub(crate) due: Time,
    /// They leave with the spacing of their arrival at the other end.
    pub(crate) steady: bool,
    /// Time that the frame waited for earlier ones; reported once.
    pub(crate) waited: Span,
    /// Arrival of the first datagram of the frame at the other end, in local time.
    pub(crate) came_in: Option<Time>,
}

impl Ready {
    /// Returns the bytes of the frame on the wire.
    pub(crate) fn bytes(&self) -> usize {
        self.datagrams.len() + if self.is_first { HEADER } else { 0 }
    }
}

/// Numbers of frames that did not leave.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Count {
    /// Frames that arrived after later ones had left.
    pub(crate) late: u64,
    /// Frames that did not arrive in time, or not completely.
    pub(crate) missing: u64,
}

/// Consecutive frames that did not leave, for their story.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Absence {
    /// Number of the first frame.
    pub(crate) number: u64,
    /// Number of frames.
    pub(crate) count: u64,
    /// Class of the first frame, if its header arrived.
    pub(crate) class: Option<Class>,
    pub(crate) why: Absent,
}

/// Reason why frames did not leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Absent {
    /// These bytes arrived after later frames had left. The frame entered at the other end at the
    /// local time `came_in`.
    Late { bytes: usize, came_in: Option<Time> },
    /// The session reported that the frames will not arrive.
    Reported,
    /// The frames did not arrive before their deadline.
    TimedOut,
}

/// Reorders the frames of one flow in one session.
#[derive(Debug)]
pub(crate) struct ReorderBuffer {
    rule: Rule,
    offset: ClockOffset,
    /// Unfinished blocks, by id. The reassembly limit of the session bounds them.
    open: HashMap<u64, Open>,
    /// Strands that had frames. The bits of their number bound them.
    strands: BTreeMap<u16, Strand>,
    /// Strands with held frames.
    holding: BTreeSet<u16>,
    /// Number of held frames.
    held: usize,
    /// Bytes of held frames.
    bytes: usize,
    /// Blocks that will not arrive, later than the last one that left, while there is one strand:
    /// the strand of such a block is unknown.
    missed: BTreeSet<u64>,
    count: Count,
    absences: Vec<Absence>,
    /// The session has ended: held frames no longer wait for earlier ones.
    closed: bool,
}

/// Order of the frames of a strand.
#[derive(Debug, Default)]
struct Strand {
    /// Frames with datagrams that have not left, by number.
    held: BTreeMap<u64, Held>,
    /// Number of the next frame, if the order is kept.
    next: u64,
    /// Stamp of the frame `next`, if it has begun to leave and has not ended.
    begun: Option<Time>,
    /// Highest number that left, plus one.
    beyond: u64,
    /// Block and stamp of the last frame that left.
    last: Option<(u64, Time)>,
}

impl Strand {
    /// `true` if later frames still wait for a frame, or for the rest of it.
    fn is_awaited(&self, number: u64, stage: Stage, ordered: bool) -> bool {
        let goes_on = stage == Stage::Begun || !ordered || self.begun.is_some();
        number > self.next || number == self.next && goes_on
    }

    /// `true` if an earlier frame is missing.
    fn is_blocked(&self, number: u64) -> bool {
        // Usually the frame is the newest, which needs no count.
        let is_newest = self.held.last_key_value().is_none_or(|(last, _)| *last < number);
        let present = if is_newest { self.held.len() } else { self.held.range(..number).count() } as u64;
        number - self.next > present
    }

    /// Ends a frame whose datagrams have all left. Returns `true` if later frames waited for that.
    fn end(&mut self, number: u64) -> bool {
        let waited = number == self.next && self.begun.take().is_some();
        self.next += u64::from(waited);
        waited
    }

    /// Ends a frame that has begun and whose rest will not arrive. Returns `true` if later frames
    /// waited for it, or would have.
    fn break_off(&mut self, number: u64, ordered: bool) -> bool {
        match self.held.get_mut(&number) {
            Some(held) => {
                held.ends = true;
                ordered
            }
            None => self.end(number),
        }
    }
}

/// A block that has not ended.
#[derive(Debug, Default)]
struct Open {
    reader: FrameReader,
    stage: Stage,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    /// No datagram of it is complete.
    #[default]
    Begun,
    /// Its datagrams are held, or have left.
    Taken,
    /// Later frames have left.
    Late,
}

#[derive(Debug)]
struct Held {
    header: Header,
    block_id: u64,
    datagrams: BytesMut,
    is_first: bool,
    /// The frame ends with these datagrams.
    ends: bool,
    arrived: Time,
    /// An earlier frame was missing at the arrival.
    blocked: bool,
}

impl ReorderBuffer {
    pub(crate) fn new(rule: Rule) -> Self {
        Self {
            rule,
            offset: ClockOffset::default(),
            open: HashMap::new(),
            strands: BTreeMap::new(),
            holding: BTreeSet::new(),
            held: 0,
            bytes: 0,
            missed: BTreeSet::new(),
            count: Count::default(),
            absences: Vec::new(),
            closed: false,
        }
    }

    /// Changes the rule, also for frames that are held.
    pub(crate) fn set_rule(&mut self, rule: Rule) {
        for strand in self.strands.values_mut() {
            if rule.ordered && !self.rule.ordered {
                // Frames that left out of order are not missing.
                strand.next = strand.next.max(strand.beyond);
            }
            strand.begun = strand.begun.filter(|_| rule.ordered);
        }
        self.rule = rule;
    }

    /// Sets the smallest one-way delay.
    pub(crate) fn set_one_way(&mut self, one_way: Span) {
        self.offset.set_one_way(one_way);
    }

    /// Takes the numbers of frames that did not leave since the last call.
    pub(crate) fn take_count(&mut self) -> Count {
        mem::take(&mut self.count)
    }

    /// Takes the absences since the last call, for the stories of these frames.
    pub(crate) fn take_absences(&mut self) -> Vec<Absence> {
        mem::take(&mut self.absences)
    }

    fn absent(&mut self, number: u64, count: u64, class: Option<Class>, why: Absent) {
        if self.absences.len() < MAX_ABSENCES {
            self.absences.push(Absence { number, count, class, why });
        }
    }

    /// Adds the next part of a block.
    ///
    /// # Errors
    /// If it is malformed. The other end breaks the protocol then.
    pub(crate) fn receive(&mut self, now: Time, part: Part) -> Result<(), FrameError> {
        let Part { block_id, offset, data, is_last } = part;
        let mut open = match self.open.remove(&block_id) {
            Some(open) => open,
            None if offset == 0 => Open::default(),
            // The block began when the channel belonged to another flow.
            None => return Ok(()),
        };
        let had_header = open.reader.header().is_some();
        let datagrams = open.reader.read(data, is_last)?;
        if let Some(header) = open.reader.header() {
            if !had_header {
                self.offset.observe(now, header.stamp + header.held);
            }
            open.stage = self.take(now, block_id, header, datagrams, is_last, open.stage);
        }
        if !is_last {
            self.open.insert(block_id, open);
        }
        Ok(())
    }

    /// Adds datagrams of a frame. Returns its next stage.
    fn take(
        &mut self,
        now: Time,
        block_id: u64,
        header: Header,
        datagrams: Bytes,
        ends: bool,
        stage: Stage,
    ) -> Stage {
        if stage == Stage::Late || datagrams.is_empty() && !ends {
            return stage;
        }
        let (id, number) = frame::strand(header.number);
        let strand = self.strands.entry(id).or_default();
        let ordered = self.rule.ordered;
        let is_awaited = strand.is_awaited(number, stage, ordered);
        match strand.held.get_mut(&number) {
            Some(held) if held.block_id == block_id => {
                self.bytes += datagrams.len();
                held.datagrams.extend_from_slice(&datagrams);
                held.ends = ends;
            }
            None if stage == Stage::Taken && datagrams.is_empty() => _ = strand.end(number),
            None if is_awaited => {
                let (is_first, blocked) = (stage == Stage::Begun, ordered && strand.is_blocked(number));
                self.bytes += datagrams.len();
                self.held += 1;
                let datagrams = BytesMut::from(datagrams);
                let held = Held { header, block_id, datagrams, is_first, ends, arrived: now, blocked };
                strand.held.insert(number, held);
                self.holding.insert(id);
            }
            _ => {
                self.count.late += 1;
                let why = Absent::Late { bytes: datagrams.len(), came_in: self.offset.local(header.stamp) };
                self.absent(header.number, 1, Some(header.class), why);
                return Stage::Late;
            }
        }
        Stage::Taken
    }

    /// Notes that a block will not arrive, or not completely.
    pub(crate) fn missed(&mut self, block_id: u64) {
        let open = self.open.remove(&block_id);
        match open.map_or((Stage::Begun, None), |open| (open.stage, open.reader.header())) {
            (Stage::Taken, Some(header)) => self.rest_missed(header),
            (Stage::Late, _) => {}
            _ if self.missed.len() < MAX_MISSED && self.may_be_awaited(block_id) => {
                self.missed.insert(block_id);
            }
            _ => {}
        }
    }

    /// `true` if the only strand still waits for a block whose number is unknown.
    fn may_be_awaited(&self, block_id: u64) -> bool {
        let last = self.strands.values().next().and_then(|strand| strand.last);
        self.strands.len() <= 1 && last.is_none_or(|(last, _)| block_id > last)
    }

    fn rest_missed(&mut self, header: Header) {
        let (id, number) = frame::strand(header.number);
        let Some(strand) = self.strands.get_mut(&id) else { return };
        if strand.break_off(number, self.rule.ordered) {
            self.count.missing += 1;
            self.absent(header.number, 1, Some(header.class), Absent::Reported);
        }
    }

    /// Ends the session. Held frames leave at their own time.
    pub(crate) fn close(&mut self) {
        self.closed = true;
        self.open.clear();
    }

    /// Returns the time at which [`Self::poll`] is due; `None` if nothing is held.
    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        self.first().map(|(due, _)| due)
    }

    /// Returns the strand whose first held frame may leave next, and when.
    fn first(&self) -> Option<(Time, u16)> {
        let due = |id: &u16| {
            let strand = self.strands.get(id)?;
            let (number, held) = strand.held.first_key_value()?;
            Some((self.due(strand, *number, held), *id))
        };
        self.holding.iter().filter_map(due).min()
    }

    /// Returns the next frame that may leave.
    pub(crate) fn poll(&mut self, now: Time) -> Option<Ready> {
        let (due, id) = self.first().filter(|(due, _)| *due <= now)?;
        let strand = self.strands.get_mut(&id)?;
        let (number, held) = strand.held.pop_first()?;
        let absent = number.saturating_sub(strand.next);
        let (next, ordered) = (strand.next, self.rule.ordered);
        let Held { header, block_id, datagrams, is_first, ends, arrived, blocked } = held;
        strand.beyond = strand.beyond.max(number + 1);
        if ordered {
            strand.next = if ends { number + 1 } else { number };
            strand.begun = (!ends).then_some(header.stamp);
        }
        strand.last = Some((block_id, header.stamp));
        if strand.held.is_empty() {
            self.holding.remove(&id);
        }
        if ordered && absent > 0 {
            self.count.missing += absent;
            let is_reported = self.are_known_missed(absent, block_id);
            let why = if is_reported { Absent::Reported } else { Absent::TimedOut };
            self.absent(header.number - number + next, absent, None, why);
        }
        self.held -= 1;
        self.bytes -= datagrams.len();
        self.missed = self.missed.split_off(&block_id);
        Some(Ready {
            header,
            datagrams: datagrams.freeze(),
            is_first,
            due,
            steady: self.rule.playout == Playout::Steady,
            waited: if blocked && is_first { now - arrived } else { Span::ZERO },
            came_in: self.offset.local(header.stamp),
        })
    }

    /// Returns the time at which the first held frame of a strand may leave: its own, or the
    /// deadline of an earlier, missing frame.
    fn due(&self, strand: &Strand, number: u64, held: &Held) -> Time {
        if self.bytes > MAX_BYTES || self.held > MAX_HELD {
            return Time::EPOCH;
        }
        let own = match self.rule.playout {
            Playout::Soon => held.arrived,
            Playout::Steady => self.entered(held, held.header.stamp) + self.rule.delay,
        };
        own.max(self.waits_until(strand, number, held))
    }

    /// Returns the time until which a held frame waits for earlier, missing ones.
    fn waits_until(&self, strand: &Strand, number: u64, held: &Held) -> Time {
        let missing = number.saturating_sub(strand.next);
        let full = self.held > self.rule.max_pending;
        let is_known = || self.are_known_missed(missing, held.block_id);
        if missing == 0 || !self.rule.ordered || self.closed || full || is_known() {
            return Time::EPOCH;
        }
        // Arrival of the last missing frame at the other end; that of the first is interpolated.
        let last_missing = held.header.stamp - held.header.before;
        let first_missing = match (strand.begun, strand.last) {
            (Some(begun), _) => begun,
            (None, Some((_, before))) if missing > 1 => before + (last_missing - before) / missing,
            _ => last_missing,
        };
        self.entered(held, first_missing) + self.rule.latency
    }

    /// `true` if the session has reported that none of the missing frames will arrive.
    fn are_known_missed(&self, missing: u64, block_id: u64) -> bool {
        self.strands.len() <= 1 && self.missed.range(..block_id).count() as u64 >= missing
    }

    /// Returns the local time at which this frame, or one before it, entered at the other end.
    /// Limited to the arrival here, whatever stamp the peer sends; the estimate of the offset may
    /// also have changed since then.
    fn entered(&self, held: &Held, stamp: Time) -> Time {
        self.offset.local(stamp).unwrap_or_default().min(held.arrived)
    }
}

//! Restores the order of datagrams, in bounded time.
//!
//! The datagrams of a growing block leave as they arrive; the next block waits for its end. A gap, and the rest of a block,
//! is waited for until the deadline of what is missing, or until the session reports that it will not arrive. Time is an
//! argument.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use bytes::{Bytes, BytesMut};
use squall_units::{Span, Time};

use super::offset::ClockOffset;
use crate::{
    config::Playout,
    media::Class,
    wire::frame::{FrameError, FrameReader, HEADER, Header},
};

/// Most bytes that are held.
const MAX_BYTES: usize = 16 << 20;

/// Most blocks that are held.
const MAX_HELD: usize = 65_536;

/// Most blocks that are known not to arrive.
const MAX_MISSED: usize = 4096;

/// Most absences between two calls of [`ReorderBuffer::take_absences`]; further ones are only counted.
const MAX_ABSENCES: usize = 16;

/// A part of a block, as the session delivers it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) block_id: u64,
    /// Its position in the block.
    pub(crate) offset: u32,
    pub(crate) data: Bytes,
    /// Whether the block ends with it.
    pub(crate) is_last: bool,
}

/// How the frames of a flow leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rule {
    /// When they leave.
    pub(crate) playout: Playout,
    /// Whether they leave in order.
    pub(crate) ordered: bool,
    /// Latency of the flow at the other end.
    pub(crate) latency: Span,
    /// From arrival at the other end to departure, with [`Playout::Steady`].
    pub(crate) delay: Span,
    /// Most frames that wait for a missing one.
    pub(crate) max_pending: usize,
}

/// Datagrams of a frame that may leave.
#[derive(Debug)]
pub(crate) struct Ready {
    pub(crate) header: Header,
    /// See [`frame::datagram`](crate::wire::frame::datagram).
    pub(crate) datagrams: Bytes,
    /// Whether they are the first of the frame.
    pub(crate) is_first: bool,
    /// Departure of the first datagram of the frame.
    pub(crate) due: Time,
    /// Whether they keep the distances of their arrival at the other end.
    pub(crate) steady: bool,
    /// How long the frame waited for earlier ones; reported once.
    pub(crate) waited: Span,
    /// Arrival of the first datagram of the frame at the other end, in local time.
    pub(crate) came_in: Option<Time>,
}

impl Ready {
    /// Bytes of the frame on the wire.
    pub(crate) fn bytes(&self) -> usize {
        self.datagrams.len() + if self.is_first { HEADER } else { 0 }
    }
}

/// Frames that did not leave.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Count {
    /// Arrived when later ones had left.
    pub(crate) late: u64,
    /// Did not arrive in time, or not to their end.
    pub(crate) missing: u64,
}

/// Frames that did not leave, for their story.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Absence {
    /// Number of the first one, and how many there are.
    pub(crate) number: u64,
    pub(crate) count: u64,
    /// Its class, if its header arrived.
    pub(crate) class: Option<Class>,
    pub(crate) why: Absent,
}

/// Why frames did not leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Absent {
    /// These bytes arrived when later frames had left. The frame entered at the other end at this local time.
    Late { bytes: usize, came_in: Option<Time> },
    /// The session reported that it will not arrive.
    Reported,
    /// It did not arrive before its deadline.
    TimedOut,
}

/// Frames of one flow in one session.
#[derive(Debug)]
pub(crate) struct ReorderBuffer {
    rule: Rule,
    offset: ClockOffset,
    /// Blocks that have not ended, by id. The reassembly limit of the session bounds them.
    open: HashMap<u64, Open>,
    /// Frames with datagrams that have not left, by number.
    held: BTreeMap<u64, Held>,
    bytes: usize,
    /// Number of the next frame, if the order is kept.
    next: u64,
    /// Stamp of that frame, if it has begun to leave and has not ended.
    begun: Option<Time>,
    /// One more than the highest number that left.
    beyond: u64,
    /// Block and stamp of the last frame that left.
    last: Option<(u64, Time)>,
    /// Later blocks that will not arrive.
    missed: BTreeSet<u64>,
    count: Count,
    absences: Vec<Absence>,
    /// The session is over: nothing is waited for.
    closed: bool,
}

/// A block that has not ended.
#[derive(Debug, Default)]
struct Open {
    reader: FrameReader,
    stage: Stage,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    /// None of its datagrams is complete.
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
    /// Whether the frame ends with them.
    ends: bool,
    arrived: Time,
    /// Whether an earlier frame was missing then.
    blocked: bool,
}

impl ReorderBuffer {
    pub(crate) fn new(rule: Rule) -> Self {
        Self {
            rule,
            offset: ClockOffset::default(),
            open: HashMap::new(),
            held: BTreeMap::new(),
            bytes: 0,
            next: 0,
            begun: None,
            beyond: 0,
            last: None,
            missed: BTreeSet::new(),
            count: Count::default(),
            absences: Vec::new(),
            closed: false,
        }
    }

    /// Changes how frames leave, those included that are held.
    pub(crate) fn set_rule(&mut self, rule: Rule) {
        if rule.ordered && !self.rule.ordered {
            // Frames that left out of order are not missing.
            self.next = self.next.max(self.beyond);
        }
        self.begun = self.begun.filter(|_| rule.ordered);
        self.rule = rule;
    }

    /// Sets the smallest one-way delay.
    pub(crate) fn set_one_way(&mut self, one_way: Span) {
        self.offset.set_one_way(one_way);
    }

    /// Frames that did not leave, since the last call.
    pub(crate) fn take_count(&mut self) -> Count {
        std::mem::take(&mut self.count)
    }

    /// The stories of these frames, since the last call.
    pub(crate) fn take_absences(&mut self) -> Vec<Absence> {
        std::mem::take(&mut self.absences)
    }

    fn absent(&mut self, number: u64, count: u64, class: Option<Class>, why: Absent) {
        if self.absences.len() < MAX_ABSENCES {
            self.absences.push(Absence { number, count, class, why });
        }
    }

    /// The next part of a block arrived.
    ///
    /// # Errors
    /// If it is malformed. The other end breaks the protocol then.
    pub(crate) fn receive(&mut self, now: Time, part: Part) -> Result<(), FrameError> {
        let Part { block_id, offset, data, is_last } = part;
        let mut open = match self.open.remove(&block_id) {
            Some(open) => open,
            None if offset == 0 => Open::default(),
            // It began when the channel belonged to another flow.
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
        let is_awaited = self.is_awaited(header.number, stage);
        self.bytes += datagrams.len();
        match self.held.get_mut(&header.number) {
            Some(held) if held.block_id == block_id => {
                held.datagrams.extend_from_slice(&datagrams);
                held.ends = ends;
            }
            None if stage == Stage::Taken && datagrams.is_empty() => _ = self.end(header.number),
            None if is_awaited => {
                let (is_first, blocked) = (stage == Stage::Begun, self.is_blocked(header.number));
                let datagrams = BytesMut::from(datagrams);
                let held = Held { header, block_id, datagrams, is_first, ends, arrived: now, blocked };
                self.held.insert(header.number, held);
            }
            _ => {
                self.bytes -= datagrams.len();
                self.count.late += 1;
                let why = Absent::Late { bytes: datagrams.len(), came_in: self.offset.local(header.stamp) };
                self.absent(header.number, 1, Some(header.class), why);
                return Stage::Late;
            }
        }
        Stage::Taken
    }

    /// Whether later frames still wait for a frame, or for the rest of it.
    fn is_awaited(&self, number: u64, stage: Stage) -> bool {
        let goes_on = stage == Stage::Begun || !self.rule.ordered || self.begun.is_some();
        number > self.next || number == self.next && goes_on
    }

    /// Whether an earlier frame is missing.
    fn is_blocked(&self, number: u64) -> bool {
        // It is usually the newest, and then need not count.
        let is_newest = self.held.last_key_value().is_none_or(|(last, _)| *last < number);
        let present = if is_newest { self.held.len() } else { self.held.range(..number).count() } as u64;
        self.rule.ordered && number - self.next > present
    }

    /// A frame has ended, and all its datagrams have left. Whether later frames waited for that.
    fn end(&mut self, number: u64) -> bool {
        let waited = number == self.next && self.begun.take().is_some();
        self.next += u64::from(waited);
        waited
    }

    /// A block will not arrive, or not to its end.
    pub(crate) fn missed(&mut self, block_id: u64) {
        let open = self.open.remove(&block_id);
        match open.map_or((Stage::Begun, None), |open| (open.stage, open.reader.header())) {
            (Stage::Taken, Some(header)) => self.rest_missed(header),
            (Stage::Late, _) => {}
            _ if self.missed.len() < MAX_MISSED && self.last.is_none_or(|(last, _)| block_id > last) => {
                self.missed.insert(block_id);
            }
            _ => {}
        }
    }

    fn rest_missed(&mut self, header: Header) {
        if self.break_off(header.number) {
            self.count.missing += 1;
            self.absent(header.number, 1, Some(header.class), Absent::Reported);
        }
    }

    /// The rest of a frame that has begun will not arrive. Whether later frames waited for it, or would have.
    fn break_off(&mut self, number: u64) -> bool {
        match self.held.get_mut(&number) {
            Some(held) => {
                held.ends = true;
                self.rule.ordered
            }
            None => self.end(number),
        }
    }

    /// The session is over. Held frames leave at their time.
    pub(crate) fn close(&mut self) {
        self.closed = true;
        self.open.clear();
    }

    /// When [`Self::poll`] is due; `None` if nothing is held.
    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        let (_, held) = self.held.first_key_value()?;
        Some(self.due(held))
    }

    /// The next frame that may leave.
    pub(crate) fn poll(&mut self, now: Time) -> Option<Ready> {
        if self.poll_timeout()? > now {
            return None;
        }
        let (number, held) = self.held.pop_first()?;
        let due = self.due(&held);
        let absent = number.saturating_sub(self.next);
        if self.rule.ordered && absent > 0 {
            self.count.missing += absent;
            let is_reported = self.are_known_missed(absent, &held);
            let why = if is_reported { Absent::Reported } else { Absent::TimedOut };
            self.absent(self.next, absent, None, why);
        }
        let Held { header, block_id, datagrams, is_first, ends, arrived, blocked } = held;
        self.bytes -= datagrams.len();
        self.beyond = self.beyond.max(number + 1);
        if self.rule.ordered {
            self.next = if ends { number + 1 } else { number };
            self.begun = (!ends).then_some(header.stamp);
        }
        self.last = Some((block_id, header.stamp));
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

    /// When the first held frame may leave: its own time, or the deadline of an earlier, missing one.
    fn due(&self, held: &Held) -> Time {
        if self.bytes > MAX_BYTES || self.held.len() > MAX_HELD {
            return Time::EPOCH;
        }
        let own = match self.rule.playout {
            Playout::Soon => held.arrived,
            Playout::Steady => self.entered(held, held.header.stamp) + self.rule.delay,
        };
        own.max(self.waits_until(held))
    }

    /// Until when it waits for earlier, missing frames.
    fn waits_until(&self, held: &Held) -> Time {
        let missing = held.header.number.saturating_sub(self.next);
        let full = self.held.len() > self.rule.max_pending;
        if missing == 0 || !self.rule.ordered || self.closed || full || self.are_known_missed(missing, held) {
            return Time::EPOCH;
        }
        // Arrival of the last missing frame at the other end; that of the first one is interpolated.
        let last_missing = held.header.stamp - held.header.before;
        let first_missing = match (self.begun, self.last) {
            (Some(begun), _) => begun,
            (None, Some((_, before))) if missing > 1 => before + (last_missing - before) / missing,
            _ => last_missing,
        };
        self.entered(held, first_missing) + self.rule.latency
    }

    /// Whether the session has reported that none of the missing frames will arrive.
    fn are_known_missed(&self, missing: u64, held: &Held) -> bool {
        self.missed.range(..held.block_id).count() as u64 >= missing
    }

    /// When this frame, or one before it, entered at the other end, in local time: before it arrived here, whatever the
    /// peer writes. The estimate of the offset may have changed since then.
    fn entered(&self, held: &Held, stamp: Time) -> Time {
        self.offset.local(stamp).unwrap_or_default().min(held.arrived)
    }
}

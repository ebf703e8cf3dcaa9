//! Datagrams that arrived leave in the order in which they came in, and none waits for what will not come any more.
//!
//! Of a block that grows, what is there leaves, and what follows it waits for its end. A gap, and the rest of a block, is
//! waited for until the deadline of what is missing, and no longer once the session has told that it will not arrive.
//! Knows no clock: `now` is an argument.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use bytes::{Bytes, BytesMut};
use squall_units::Micros;

use crate::{
    config::Playout,
    delay::Delay,
    parcel::{HEAD, Head, ParcelError, Reader},
};

/// Most bytes that wait.
const MAX_BYTES: usize = 16 << 20;

/// Most blocks that wait, for whatever.
const MAX_HELD: usize = 65_536;

/// Most blocks of which it is remembered that they will not come.
const MAX_GONE: usize = 4096;

/// A part of a block, as the session hands it over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) block_id: u64,
    /// Where in the block it begins.
    pub(crate) offset: u32,
    pub(crate) data: Bytes,
    /// Whether the block ends with it.
    pub(crate) is_last: bool,
}

/// How parcels of a flow are let out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rule {
    /// When they leave.
    pub(crate) playout: Playout,
    /// Whether in order.
    pub(crate) ordered: bool,
    /// From coming in to being of no use, at the other end.
    pub(crate) latency: Micros,
    /// From coming in to leaving, with [`Playout::Steady`].
    pub(crate) delay: Micros,
    /// Most parcels that wait for what is missing.
    pub(crate) max_pending: usize,
}

/// Datagrams of a parcel whose turn has come.
#[derive(Debug)]
pub(crate) struct Ready {
    pub(crate) head: Head,
    /// See [`parcel::datagram`](crate::parcel::datagram).
    pub(crate) datagrams: Bytes,
    /// Whether none of the parcel left before.
    pub(crate) is_first: bool,
    /// When the first datagram of the parcel leaves.
    pub(crate) due: Micros,
    /// Whether they leave as far apart as they came in.
    pub(crate) steady: bool,
    /// How long the parcel waited for others that were before it, once.
    pub(crate) waited: Micros,
    /// When the first datagram of the parcel came in, by the clock here, as far as the clocks tell.
    pub(crate) came_in: Option<Micros>,
}

impl Ready {
    /// Bytes of the parcel that are here.
    pub(crate) fn bytes(&self) -> usize {
        self.datagrams.len() + if self.is_first { HEAD } else { 0 }
    }
}

/// What became of parcels, beside those that left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Count {
    /// Came when the ones after had left.
    pub(crate) late: u64,
    /// Were waited for in vain, or their end was.
    pub(crate) missing: u64,
}

/// Parcels of one flow in one session.
#[derive(Debug)]
pub(crate) struct Order {
    rule: Rule,
    delay: Delay,
    /// Blocks that have not ended, by id. What they take is bounded by what the session puts together at a time.
    open: HashMap<u64, Open>,
    /// Parcels with datagrams that have not left, by number.
    held: BTreeMap<u64, Held>,
    bytes: usize,
    /// The number that is next, where there is an order.
    next: u64,
    /// When the parcel of that number was stamped, if it has begun to leave and has not ended.
    begun: Option<Micros>,
    /// The one after the highest that left.
    beyond: u64,
    /// Block and stamp of the last that left.
    last: Option<(u64, Micros)>,
    /// Blocks after that one that will not come.
    gone: BTreeSet<u64>,
    count: Count,
    /// No more will come: nothing is waited for.
    closed: bool,
}

/// A block that has not ended.
#[derive(Debug, Default)]
struct Open {
    reader: Reader,
    stage: Stage,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    /// No datagram of it is whole.
    #[default]
    Begun,
    /// Its datagrams are held, or have left.
    Taken,
    /// The ones after it have left.
    Late,
}

#[derive(Debug)]
struct Held {
    head: Head,
    block_id: u64,
    datagrams: BytesMut,
    is_first: bool,
    /// Whether no more of it comes.
    ends: bool,
    arrived: Micros,
    /// Whether something was missing before it then.
    blocked: bool,
}

impl Order {
    pub(crate) fn new(rule: Rule) -> Self {
        Self {
            rule,
            delay: Delay::default(),
            open: HashMap::new(),
            held: BTreeMap::new(),
            bytes: 0,
            next: 0,
            begun: None,
            beyond: 0,
            last: None,
            gone: BTreeSet::new(),
            count: Count::default(),
            closed: false,
        }
    }

    /// Changes how parcels leave, those that wait included.
    pub(crate) fn set_rule(&mut self, rule: Rule) {
        if rule.ordered && !self.rule.ordered {
            // What left out of order is neither missing nor waited for.
            self.next = self.next.max(self.beyond);
        }
        self.begun = self.begun.filter(|_| rule.ordered);
        self.rule = rule;
    }

    /// What the quickest way takes.
    pub(crate) fn set_way(&mut self, way: Micros) {
        self.delay.set_way(way);
    }

    /// What became of parcels since last time.
    pub(crate) fn take_count(&mut self) -> Count {
        std::mem::take(&mut self.count)
    }

    /// More of a block arrived, the `block_id`th of the session: all that follows what arrived before.
    ///
    /// # Errors
    /// If it is no parcel. The other end is not to be trusted any more then.
    pub(crate) fn arrived(&mut self, now: Micros, part: Part) -> Result<(), ParcelError> {
        let Part { block_id, offset, data, is_last } = part;
        let mut open = match self.open.remove(&block_id) {
            Some(open) => open,
            None if offset == 0 => Open::default(),
            // It began when the channel was another flow's.
            None => return Ok(()),
        };
        let had_head = open.reader.head().is_some();
        let datagrams = open.reader.read(data, is_last)?;
        if let Some(head) = open.reader.head() {
            if !had_head {
                self.delay.observe(now, head.stamp.saturating_add(head.held));
            }
            open.stage = self.take(now, block_id, head, datagrams, is_last, open.stage);
        }
        if !is_last {
            self.open.insert(block_id, open);
        }
        Ok(())
    }

    /// Takes datagrams of a parcel in. What it is then.
    fn take(
        &mut self,
        now: Micros,
        block_id: u64,
        head: Head,
        datagrams: Bytes,
        ends: bool,
        stage: Stage,
    ) -> Stage {
        if stage == Stage::Late || datagrams.is_empty() && !ends {
            return stage;
        }
        let is_awaited = self.is_awaited(head.number, stage);
        self.bytes += datagrams.len();
        match self.held.get_mut(&head.number) {
            Some(held) if held.block_id == block_id => {
                held.datagrams.extend_from_slice(&datagrams);
                held.ends = ends;
            }
            None if stage == Stage::Taken && datagrams.is_empty() => _ = self.end(head.number),
            None if is_awaited => {
                let (is_first, blocked) = (stage == Stage::Begun, self.is_blocked(head.number));
                let datagrams = BytesMut::from(datagrams);
                let held = Held { head, block_id, datagrams, is_first, ends, arrived: now, blocked };
                self.held.insert(head.number, held);
            }
            _ => {
                self.bytes -= datagrams.len();
                self.count.late += 1;
                return Stage::Late;
            }
        }
        Stage::Taken
    }

    /// Whether the others still wait for a parcel, or for more of it.
    fn is_awaited(&self, number: u64, stage: Stage) -> bool {
        let goes_on = stage == Stage::Begun || !self.rule.ordered || self.begun.is_some();
        number > self.next || number == self.next && goes_on
    }

    /// Whether something is missing before a parcel.
    fn is_blocked(&self, number: u64) -> bool {
        // Mostly it is the newest, and counting all that are held would be work for nothing.
        let is_newest = self.held.last_key_value().is_none_or(|(last, _)| *last < number);
        let present = if is_newest { self.held.len() } else { self.held.range(..number).count() } as u64;
        self.rule.ordered && number - self.next > present
    }

    /// A parcel has ended of which everything that came has left. Whether the others waited for that.
    fn end(&mut self, number: u64) -> bool {
        let waited = number == self.next && self.begun.take().is_some();
        self.next += u64::from(waited);
        waited
    }

    /// A block of the flow will not arrive, or not to its end.
    pub(crate) fn gone(&mut self, block_id: u64) {
        let open = self.open.remove(&block_id);
        match open.map_or((Stage::Begun, None), |open| (open.stage, open.reader.head())) {
            (Stage::Taken, Some(head)) => self.count.missing += u64::from(self.break_off(head.number)),
            (Stage::Late, _) => {}
            _ if self.gone.len() < MAX_GONE && self.last.is_none_or(|(last, _)| block_id > last) => {
                self.gone.insert(block_id);
            }
            _ => {}
        }
    }

    /// No more comes of a parcel that has begun. Whether the others waited for more, or would have.
    fn break_off(&mut self, number: u64) -> bool {
        match self.held.get_mut(&number) {
            Some(held) => {
                held.ends = true;
                self.rule.ordered
            }
            None => self.end(number),
        }
    }

    /// No more will come: what waits leaves when its time has come.
    pub(crate) fn close(&mut self) {
        self.closed = true;
        self.open.clear();
    }

    /// When [`Self::poll`] will have something; `None` for never, as things are.
    pub(crate) fn poll_timeout(&self) -> Option<Micros> {
        let (_, held) = self.held.first_key_value()?;
        Some(self.due(held))
    }

    /// The next parcel whose turn has come.
    pub(crate) fn poll(&mut self, now: Micros) -> Option<Ready> {
        if self.poll_timeout()? > now {
            return None;
        }
        let (number, held) = self.held.pop_first()?;
        let due = self.due(&held);
        let Held { head, block_id, datagrams, is_first, ends, arrived, blocked } = held;
        self.bytes -= datagrams.len();
        self.beyond = self.beyond.max(number + 1);
        if self.rule.ordered {
            self.count.missing += number.saturating_sub(self.next);
            self.next = if ends { number + 1 } else { number };
            self.begun = (!ends).then_some(head.stamp);
        }
        self.last = Some((block_id, head.stamp));
        self.gone = self.gone.split_off(&block_id);
        Some(Ready {
            head,
            datagrams: datagrams.freeze(),
            is_first,
            due,
            steady: self.rule.playout == Playout::Steady,
            waited: if blocked && is_first { now.saturating_sub(arrived) } else { 0 },
            came_in: self.delay.local(head.stamp),
        })
    }

    /// When the first that is held may leave: its own time, or that of what is missing before it.
    fn due(&self, held: &Held) -> Micros {
        if self.bytes > MAX_BYTES || self.held.len() > MAX_HELD {
            return 0;
        }
        let own = match self.rule.playout {
            Playout::Soon => held.arrived,
            Playout::Steady => self.local(held.head.stamp).saturating_add(self.rule.delay),
        };
        own.max(self.waits_until(held))
    }

    /// How long it waits for what is missing before it.
    fn waits_until(&self, held: &Held) -> Micros {
        let missing = held.head.number.saturating_sub(self.next);
        let full = self.held.len() > self.rule.max_pending;
        if missing == 0 || !self.rule.ordered || self.closed || full || self.is_known_gone(missing, held) {
            return 0;
        }
        // The last that is missing came in at this time; the first, of several, somewhere before.
        let last_missing = held.head.stamp.saturating_sub(held.head.before);
        let first_missing = match (self.begun, self.last) {
            (Some(begun), _) => begun,
            (None, Some((_, before))) if missing > 1 => {
                before + last_missing.saturating_sub(before) / missing
            }
            _ => last_missing,
        };
        self.local(first_missing).saturating_add(self.rule.latency)
    }

    /// Whether the session has told of all that is missing that it will not come.
    fn is_known_gone(&self, missing: u64, held: &Held) -> bool {
        self.gone.range(..held.block_id).count() as u64 >= missing
    }

    fn local(&self, stamp: Micros) -> Micros {
        self.delay.local(stamp).unwrap_or(0)
    }
}

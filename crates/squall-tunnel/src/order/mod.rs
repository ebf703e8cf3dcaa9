//! Parcels that arrived leave in the order in which they came in, and none waits for what will not come any more.
//!
//! A gap is waited for until the deadline of what is missing, and no longer once the session has told that it will
//! not arrive. Knows no clock: `now` is an argument.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use squall_net::Micros;

use crate::{
    config::Playout,
    delay::Delay,
    parcel::{self, Head, ParcelError},
};

/// Most bytes that wait.
const MAX_BYTES: usize = 16 << 20;

/// Most blocks that wait, for whatever.
const MAX_HELD: usize = 65_536;

/// Most blocks of which it is remembered that they will not come.
const MAX_GONE: usize = 4096;

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

/// A parcel whose turn has come.
#[derive(Debug)]
pub(crate) struct Ready {
    pub(crate) head: Head,
    /// The whole block; see [`parcel::datagram`].
    pub(crate) block: Bytes,
    /// When its first datagram leaves.
    pub(crate) due: Micros,
    /// Whether its datagrams leave as far apart as they came in.
    pub(crate) steady: bool,
    /// How long it waited for others that were before it.
    pub(crate) waited: Micros,
    /// How long it was under way in all, as far as the clocks tell.
    pub(crate) latency: Micros,
}

/// What became of parcels, beside those that left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Count {
    /// Came when the ones after had left.
    pub(crate) late: u64,
    /// Were waited for in vain.
    pub(crate) missing: u64,
}

/// Parcels of one flow in one session.
#[derive(Debug)]
pub(crate) struct Order {
    rule: Rule,
    delay: Delay,
    held: BTreeMap<u64, Held>,
    bytes: usize,
    /// The number that is next, where there is an order.
    next: u64,
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

#[derive(Debug)]
struct Held {
    head: Head,
    block_id: u64,
    block: Bytes,
    arrived: Micros,
    /// Whether something was missing before it then.
    blocked: bool,
}

impl Order {
    pub(crate) fn new(rule: Rule) -> Self {
        Self {
            rule,
            delay: Delay::default(),
            held: BTreeMap::new(),
            bytes: 0,
            next: 0,
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

    /// A block arrived: the `block_id`th of the session.
    ///
    /// # Errors
    /// If it is no parcel. The other end is not to be trusted any more then.
    pub(crate) fn arrived(&mut self, now: Micros, block_id: u64, block: Bytes) -> Result<(), ParcelError> {
        let head = parcel::open(&block)?;
        self.delay.observe(now, head.stamp.saturating_add(head.held));
        if head.number < self.next || self.held.contains_key(&head.number) {
            self.count.late += 1;
            return Ok(());
        }
        // Mostly it is the newest, and counting all that are held would be work for nothing.
        let is_newest = self.held.last_key_value().is_none_or(|(last, _)| *last < head.number);
        let present = if is_newest { self.held.len() } else { self.held.range(..head.number).count() } as u64;
        let blocked = self.rule.ordered && head.number - self.next > present;
        self.bytes += block.len();
        self.held.insert(head.number, Held { head, block_id, block, arrived: now, blocked });
        Ok(())
    }

    /// A block of the flow will not arrive.
    pub(crate) fn gone(&mut self, block_id: u64) {
        if self.gone.len() < MAX_GONE && self.last.is_none_or(|(last, _)| block_id > last) {
            self.gone.insert(block_id);
        }
    }

    /// No more will come: what waits leaves when its time has come.
    pub(crate) fn close(&mut self) {
        self.closed = true;
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
        self.bytes -= held.block.len();
        self.beyond = self.beyond.max(number + 1);
        if self.rule.ordered {
            self.count.missing += number.saturating_sub(self.next);
            self.next = number + 1;
        }
        self.last = Some((held.block_id, held.head.stamp));
        self.gone = self.gone.split_off(&held.block_id);
        let since = |earlier: Micros| now.saturating_sub(earlier);
        Some(Ready {
            head: held.head,
            due,
            steady: self.rule.playout == Playout::Steady,
            waited: if held.blocked { since(held.arrived) } else { 0 },
            latency: self.delay.local(held.head.stamp).map_or(0, since),
            block: held.block,
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
        let first_missing = match self.last {
            Some((_, before)) if missing > 1 => before + last_missing.saturating_sub(before) / missing,
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

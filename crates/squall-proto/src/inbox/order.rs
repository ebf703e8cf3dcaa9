//! The order of ordered channels: what waits for what.
//!
//! Each block of an ordered channel names the one before it. It is reported when that one has been,
//! or will never be and everything before it is out of the way. Ids belong to the session, so one map
//! serves all channels.

use std::collections::{HashMap, VecDeque, hash_map::Entry};

use super::event::{Arrived, InboxEvent};

/// What follows a block that is not out of the way.
#[derive(Debug)]
enum Follower {
    /// Begun, not whole.
    Open(u64),
    Whole(Box<Arrived>),
    /// Will never come, but its place is known.
    Hole(u64),
}

/// What waits, by what it waits for.
///
/// A run of holes takes one entry, however long: nothing else can follow a hole that has a follower.
/// So there are no more holes than blocks that have not ended, and one.
#[derive(Debug, Default)]
pub(super) struct Order {
    /// By the block that the follower waits for.
    after: HashMap<u64, Follower>,
    /// For whole blocks and ends of runs of holes: their key in `after`.
    behind: HashMap<u64, u64>,
    whole: usize,
}

/// Another block has the same place.
#[derive(Debug)]
pub(super) struct Taken;

impl Order {
    /// Whether the block is whole or a hole, but not out of the way.
    pub(super) fn is_waiting(&self, id: u64) -> bool {
        self.behind.contains_key(&id)
    }

    /// Whole blocks that wait.
    pub(super) fn whole(&self) -> usize {
        self.whole
    }

    /// Places that are taken.
    pub(super) fn len(&self) -> usize {
        self.after.len()
    }

    /// A block begins that follows `before`, which is not out of the way.
    pub(super) fn open(&mut self, before: u64, id: u64) -> Result<(), Taken> {
        match self.after.entry(before) {
            Entry::Occupied(_) => Err(Taken),
            Entry::Vacant(place) => {
                place.insert(Follower::Open(id));
                Ok(())
            }
        }
    }

    /// Whether a block that was begun waits for the one before it.
    pub(super) fn holds(&self, before: Option<u64>, id: u64) -> bool {
        before.is_some_and(|before| self.has_place(before, id))
    }

    /// A block is whole. It and what waited for it is reported, now or later. Returns the incomplete block whose turn
    /// has come by it, if there is one.
    pub(super) fn arrive(
        &mut self,
        before: Option<u64>,
        arrived: Box<Arrived>,
        events: &mut VecDeque<InboxEvent>,
    ) -> Option<u64> {
        let id = arrived.id.0;
        match before.filter(|before| self.has_place(*before, id)) {
            Some(before) => {
                self.whole += 1;
                self.wait(before, id, Follower::Whole(arrived));
                None
            }
            None => {
                events.push_back(InboxEvent::Arrived(arrived));
                self.settle(id, events)
            }
        }
    }

    /// A block that was begun will never be whole. Returns as [`Self::arrive`] does.
    pub(super) fn skip(
        &mut self,
        before: Option<u64>,
        id: u64,
        events: &mut VecDeque<InboxEvent>,
    ) -> Option<u64> {
        match before.filter(|before| self.has_place(*before, id)) {
            Some(before) => {
                self.wait(before, id, Follower::Hole(id));
                None
            }
            None => self.settle(id, events),
        }
    }

    fn has_place(&self, before: u64, id: u64) -> bool {
        matches!(self.after.get(&before), Some(Follower::Open(open)) if *open == id)
    }

    /// The block with a place after `before` stays there, until its turn comes.
    fn wait(&mut self, before: u64, id: u64, follower: Follower) {
        let is_hole = matches!(follower, Follower::Hole(_));
        let start = self.leap(before);
        self.after.insert(start, follower);
        self.behind.insert(id, start);
        // Who waits for a hole waits for what is before it.
        if is_hole && matches!(self.after.get(&id), Some(Follower::Whole(_) | Follower::Hole(_))) {
            self.behind.remove(&id);
            let Some(next) = self.after.remove(&id) else { return };
            if let Ok(id) = next.waiting() {
                self.behind.insert(id, start);
            }
            self.after.insert(start, next);
        }
    }

    /// Takes away a run of holes that ends with `before`, and its only follower's place; returns what
    /// comes before the run.
    fn leap(&mut self, before: u64) -> u64 {
        let Some(start) = self.behind.get(&before).copied() else { return before };
        if !matches!(self.after.get(&start), Some(Follower::Hole(_))) {
            return before;
        }
        self.behind.remove(&before);
        self.after.remove(&before);
        start
    }

    /// The block `id`, and all before it, is out of the way: those that waited for it follow. Returns the incomplete
    /// one that is next, if there is one.
    fn settle(&mut self, mut id: u64, events: &mut VecDeque<InboxEvent>) -> Option<u64> {
        while let Some(follower) = self.after.remove(&id) {
            let next = match follower.waiting() {
                Ok(next) => next,
                Err(open) => return Some(open),
            };
            self.behind.remove(&next);
            if let Follower::Whole(arrived) = follower {
                self.whole -= 1;
                events.push_back(InboxEvent::Arrived(arrived));
            }
            id = next;
        }
        None
    }

    /// Takes out every whole block.
    pub(super) fn end_all(&mut self) -> Vec<Arrived> {
        self.behind.clear();
        self.whole = 0;
        let followers = self.after.drain().map(|(_, follower)| follower);
        let whole = followers.filter_map(|follower| match follower {
            Follower::Whole(arrived) => Some(*arrived),
            Follower::Open(_) | Follower::Hole(_) => None,
        });
        whole.collect()
    }
}

impl Follower {
    /// Its id; as an error if it is open.
    fn waiting(&self) -> Result<u64, u64> {
        match self {
            Self::Open(id) => Err(*id),
            Self::Whole(arrived) => Ok(arrived.id.0),
            Self::Hole(id) => Ok(*id),
        }
    }
}

//! The order of ordered channels: dependencies between their blocks.
//!
//! Each block of an ordered channel names the one before it. It is reported when that one has been,
//! or will never be and everything before it is settled. Ids belong to the session, so one map
//! serves all channels.

use std::collections::{HashMap, VecDeque, hash_map::Entry};

use super::event::{Arrived, InboxEvent};

/// The block after one that is not settled.
#[derive(Debug)]
enum Follower {
    /// Begun, not whole.
    Open(u64),
    Whole(Box<Arrived>),
    /// A block that will never arrive, but has a place.
    Hole(u64),
}

/// Waiting blocks, by the block that each waits for.
///
/// A run of holes uses one entry, however long: nothing else can follow a hole that has a follower.
/// Thus the number of holes is at most the number of blocks that have not ended, plus one.
#[derive(Debug, Default)]
pub(super) struct Order {
    /// Followers by the block that they wait for.
    after: HashMap<u64, Follower>,
    /// Keys in `after` of whole blocks and of ends of runs of holes.
    behind: HashMap<u64, u64>,
    whole: usize,
}

/// Another block has the same place.
#[derive(Debug)]
pub(super) struct Taken;

impl Order {
    /// Returns `true` if the block is whole or a hole, but not settled.
    pub(super) fn is_waiting(&self, id: u64) -> bool {
        self.behind.contains_key(&id)
    }

    /// Returns the number of whole blocks that wait.
    pub(super) fn whole(&self) -> usize {
        self.whole
    }

    /// Returns the number of places that are taken.
    pub(super) fn len(&self) -> usize {
        self.after.len()
    }

    /// Begins a block that follows `before`, which is not settled.
    pub(super) fn open(&mut self, before: u64, id: u64) -> Result<(), Taken> {
        match self.after.entry(before) {
            Entry::Occupied(_) => Err(Taken),
            Entry::Vacant(place) => {
                place.insert(Follower::Open(id));
                Ok(())
            }
        }
    }

    /// Returns `true` if a block that was begun waits for the one before it.
    pub(super) fn holds(&self, before: Option<u64>, id: u64) -> bool {
        before.is_some_and(|before| self.has_place(before, id))
    }

    /// Handles a whole block. It and those that waited for it are reported, now or later. Returns
    /// the incomplete block whose turn has come, if there is one.
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

    /// Handles a begun block that will never be whole. Returns as [`Self::arrive`] does.
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

    /// Keeps the block with a place after `before` there, until its turn comes.
    fn wait(&mut self, before: u64, id: u64, follower: Follower) {
        let is_hole = matches!(follower, Follower::Hole(_));
        let start = self.leap(before);
        self.after.insert(start, follower);
        self.behind.insert(id, start);
        // A block that waits for a hole waits for the block before the hole.
        if is_hole && matches!(self.after.get(&id), Some(Follower::Whole(_) | Follower::Hole(_))) {
            self.behind.remove(&id);
            let Some(next) = self.after.remove(&id) else { return };
            if let Ok(id) = next.waiting() {
                self.behind.insert(id, start);
            }
            self.after.insert(start, next);
        }
    }

    /// Removes a run of holes that ends with `before`, and its only follower's place; returns the
    /// block before the run.
    fn leap(&mut self, before: u64) -> u64 {
        let Some(start) = self.behind.get(&before).copied() else { return before };
        if !matches!(self.after.get(&start), Some(Follower::Hole(_))) {
            return before;
        }
        self.behind.remove(&before);
        self.after.remove(&before);
        start
    }

    /// Settles the block `id`, and all before it: those that waited for it follow. Returns the
    /// incomplete one that is next, if there is one.
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

    /// Removes all whole blocks.
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
    /// Returns its id; as an error if it is open.
    fn waiting(&self) -> Result<u64, u64> {
        match self {
            Self::Open(id) => Err(*id),
            Self::Whole(arrived) => Ok(arrived.id.0),
            Self::Hole(id) => Ok(*id),
        }
    }
}

//! Maximum number of bytes in time, by one sweep over the time of the run.
//!
//! A slot of a serialiser can carry a block if the block has been released and the slot is within
//! the serialiser's reach for the block's deadline. For two released blocks, any later slot of any
//! serialiser that can carry the one with the earlier deadline can also carry the other. So each
//! slot, in order of time, can be given to the block with the earliest deadline among those it can
//! carry: if another plan gave it to a later one, the two could be exchanged, and if another plan
//! left it idle, a later transmission could be moved here. No plan carries more bytes.

use std::collections::BTreeMap;

use squall_net::capacity::Volume;
use squall_trace::Micros;

use super::{
    serialiser::{PER_BYTE, Serialiser, is_over},
    supply::Supply,
};

/// Releases and deadlines of blocks against a supply.
pub(super) struct Sweep<'a> {
    serialisers: Vec<Reached<'a>>,
    jobs: Vec<Job>,
}

/// A serialiser with the end of its reach for each deadline, i.e. the first time that is too late.
struct Reached<'a> {
    serialiser: &'a Serialiser,
    ends: Vec<Micros>,
}

#[derive(Debug, Clone, Copy)]
struct Job {
    release: Micros,
    /// Index of the deadline, in ascending order.
    due: usize,
}

/// Bytes left to carry, by deadline.
#[derive(Default)]
struct Left {
    amounts: BTreeMap<usize, u64>,
    carried: u128,
}

/// Position of a serialiser in the sweep.
#[derive(Clone, Copy, Default)]
struct Place {
    stretch: usize,
    /// First deadline that is still within reach.
    due: usize,
}

impl<'a> Sweep<'a> {
    /// Creates a sweep for blocks given by release and deadline, in order of the releases.
    pub(super) fn new(supply: &'a Supply, blocks: impl Iterator<Item = (Micros, Micros)>) -> Self {
        let blocks: Vec<_> = blocks.collect();
        let mut dues: Vec<Micros> = blocks.iter().map(|(_, due)| *due).collect();
        dues.sort_unstable();
        dues.dedup();
        let job = |&(release, due): &(Micros, Micros)| Job {
            release,
            due: dues.partition_point(|other| *other < due),
        };
        let reached = |serialiser: &'a Serialiser| {
            let end = |due: &Micros| serialiser.latest(*due).map_or(0, |latest| latest + 1);
            Reached { serialiser, ends: dues.iter().map(end).collect() }
        };
        Self {
            jobs: blocks.iter().map(job).collect(),
            serialisers: supply.serialisers().iter().map(reached).collect(),
        }
    }

    /// Returns the maximum number of bytes of these blocks that can arrive before their deadlines.
    /// `members` are ascending; `size` is in bytes.
    pub(super) fn most_bytes(&self, members: &[usize], size: impl Fn(usize) -> u64) -> u64 {
        let carried = self.carried(members, size);
        u64::try_from(carried / u128::from(PER_BYTE)).unwrap_or(u64::MAX)
    }

    /// Like [`Self::most_bytes`], in millionths of bytes.
    ///
    /// Capped serialisers give a second bound: their cap plus the amount that the others carry
    /// without them. The lower of the two bounds is the minimum cut of the flow if one serialiser
    /// is capped. Several count as if they shared the sum of their caps.
    pub(super) fn carried(&self, members: &[usize], size: impl Fn(usize) -> u64) -> u128 {
        let all = self.swept(members, &size, false);
        let caps = self.serialisers.iter().filter_map(|reached| reached.serialiser.cap).map(u128::from);
        match caps.reduce(|sum, cap| sum + cap) {
            Some(cap) if all > cap => all.min(cap + self.swept(members, size, true)),
            _ => all,
        }
    }

    /// Returns the amount that all serialisers carry or, with `only_free`, those without a cap.
    fn swept(&self, members: &[usize], size: impl Fn(usize) -> u64, only_free: bool) -> u128 {
        let mut left = Left::default();
        let mut places = vec![Place::default(); self.serialisers.len()];
        let mut members = members.iter().copied().peekable();
        while let Some(&first) = members.peek() {
            let now = self.jobs[first].release;
            while let Some(index) = members.next_if(|index| self.jobs[*index].release == now) {
                left.add(self.jobs[index].due, size(index));
            }
            let next = members.peek().map_or(Micros::MAX, |index| self.jobs[*index].release);
            for (serialiser, place) in self.serialisers.iter().zip(&mut places) {
                if only_free && serialiser.serialiser.cap.is_some() {
                    place.due = usize::MAX;
                    continue;
                }
                if left.amounts.is_empty() {
                    break;
                }
                serialiser.carry(place, now, next, &mut left);
            }
            // Drop amounts that no serialiser can reach any more.
            let due = places.iter().map(|place| place.due).min().unwrap_or(0);
            left.amounts = left.amounts.split_off(&due);
        }
        left.carried
    }
}

impl Reached<'_> {
    /// Carries as much as possible between `now` and `next`.
    fn carry(&self, place: &mut Place, now: Micros, next: Micros, left: &mut Left) {
        let stretches = self.serialiser.stretches();
        let over = |place: &Place| stretches.get(place.stretch).is_some_and(|stretch| is_over(stretch, now));
        while over(place) {
            place.stretch += 1;
        }
        for stretch in stretches[place.stretch..].iter().take_while(|stretch| stretch.from < next) {
            let is_moment = stretch.from == stretch.to || stretch.volume == Volume::Unlimited;
            let (mut at, end) = (stretch.from.max(now), stretch.to.min(next));
            while is_moment || at < end {
                // A piece that lasts until a later time is usable only if that time is within
                // reach.
                let least = if is_moment { at } else { at + 1 };
                while self.ends.get(place.due).is_some_and(|end| *end <= least) {
                    place.due += 1;
                }
                if !left.has(place.due) {
                    return;
                }
                let until = if is_moment { stretch.to } else { end.min(self.ends[place.due] - 1) };
                left.take(place.due, self.serialiser.share(stretch, at, until));
                at = until;
                if is_moment {
                    break;
                }
            }
        }
    }
}

impl Left {
    fn add(&mut self, due: usize, bytes: u64) {
        let amount = self.amounts.entry(due).or_default();
        *amount = amount.saturating_add(bytes.saturating_mul(PER_BYTE));
    }

    /// `true` if an amount with this or a later deadline is left.
    fn has(&self, due: usize) -> bool {
        self.amounts.last_key_value().is_some_and(|(last, _)| *last >= due)
    }

    /// Carries at most this amount with this or a later deadline, the earliest first. `None`:
    /// everything.
    fn take(&mut self, due: usize, amount: Option<u64>) {
        let mut room = amount.unwrap_or(u64::MAX);
        while room > 0 {
            let Some((&first, first_amount)) = self.amounts.range_mut(due..).next() else { return };
            let taken = if amount.is_none() { *first_amount } else { room.min(*first_amount) };
            *first_amount -= taken;
            self.carried += u128::from(taken);
            if amount.is_some() {
                room -= taken;
            }
            if *first_amount == 0 {
                self.amounts.remove(&first);
            }
        }
    }
}

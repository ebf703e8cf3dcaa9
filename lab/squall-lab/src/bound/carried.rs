//! The most bytes in time: one sweep over the time of the run.
//!
//! A moment of a serialiser can carry a block if the block was handed over by then and the moment is not beyond the
//! serialiser's reach for the block's deadline. Of two blocks that are both there, whatever moment from then on, on
//! whatever serialiser, can carry the one with the earlier deadline, can carry the other one too. So each moment, in
//! order of time, may go to the block with the earliest deadline of those it can carry: had another plan given
//! it to a later one, the two could change places, and had it left it idle, something later could be carried
//! now. No plan carries more bytes than this one.

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

/// A serialiser with the end of its reach for each deadline: the first moment that is too late.
struct Reached<'a> {
    serialiser: &'a Serialiser,
    ends: Vec<Micros>,
}

#[derive(Debug, Clone, Copy)]
struct Job {
    release: Micros,
    /// Which of the deadlines, in order.
    due: usize,
}

/// What is left to carry, by deadline.
#[derive(Default)]
struct Left {
    amounts: BTreeMap<usize, u64>,
    carried: u128,
}

/// Where a serialiser is in its course.
#[derive(Clone, Copy, Default)]
struct Place {
    stretch: usize,
    /// The first deadline that is still within reach.
    due: usize,
}

impl<'a> Sweep<'a> {
    /// Blocks by release and deadline, in order of the releases.
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

    /// The most bytes of these blocks that can arrive before their deadlines. `members` ascend; `size` is in
    /// bytes.
    pub(super) fn most_bytes(&self, members: &[usize], size: impl Fn(usize) -> u64) -> u64 {
        let carried = self.carried(members, size);
        u64::try_from(carried / u128::from(PER_BYTE)).unwrap_or(u64::MAX)
    }

    /// The same in millionths of bytes.
    ///
    /// What capped serialisers may carry bounds it as well: their cap, and what the others carry without them. Of these
    /// two bounds the lower one is the least cut of the flow with one capped serialiser. Several count as if they shared
    /// the sum of their caps.
    pub(super) fn carried(&self, members: &[usize], size: impl Fn(usize) -> u64) -> u128 {
        let all = self.swept(members, &size, false);
        let caps = self.serialisers.iter().filter_map(|reached| reached.serialiser.cap).map(u128::from);
        match caps.reduce(|sum, cap| sum + cap) {
            Some(cap) if all > cap => all.min(cap + self.swept(members, size, true)),
            _ => all,
        }
    }

    /// The bytes that the serialisers carry, or those of them that have no cap.
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
            // What no serialiser reaches any more only stands in the way.
            let due = places.iter().map(|place| place.due).min().unwrap_or(0);
            left.amounts = left.amounts.split_off(&due);
        }
        left.carried
    }
}

impl Reached<'_> {
    /// Carries from `now` on, up to `next`, what it can.
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
                // To carry something until a later time, that time must be within reach.
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

    /// Whether there is something with this deadline or a later one.
    fn has(&self, due: usize) -> bool {
        self.amounts.last_key_value().is_some_and(|(last, _)| *last >= due)
    }

    /// Carries so much, at most, of what has this deadline or a later one, the earliest first. `None`: all.
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

//! Selection and order of the blocks that are sent, and of those that wait.

use std::{cmp::Reverse, collections::BinaryHeap};

use super::arrivals::Arrivals;
use crate::{Block, BlockId, Context, SchedEvent, Span, Time};

/// Largest number of blocks that take part in an order. The others follow when these have left.
const FRONT: usize = 64;

/// Largest age of an order.
const MAX_AGE: Span = Span::from_millis(10);

/// Margin before its deadline within which a block that has not begun to leave must arrive: with 0
/// a steady overload costs 2 % of all frames, with 20 ms key frames that need most of their time
/// are dropped too.
const MARGIN: Span = Span::from_millis(10);

/// Time for which blocks are expected to wait again after some had to: between two large frames all
/// fit.
const SCARCE: Span = Span::from_millis(1_000);

/// The blocks at the front of the queue.
#[derive(Clone, Debug, Default)]
pub(super) struct Order {
    /// Blocks that are sent, by deadline.
    kept: Vec<BlockId>,
    /// Blocks that cannot be in time, the nearest to it first, then those that need one of them,
    /// then the useless ones.
    filler: Vec<BlockId>,
    opportunity_cost: f64,
    scarce_until: Time,
    made: Time,
    is_valid: bool,
    /// The fields below are buffers that are reused.
    front: Vec<Front>,
    /// Blocks that leave, by [`Front::density`], the least on top.
    least: BinaryHeap<Reverse<(u128, usize)>>,
}

/// A block at the front, with its cost and value.
#[derive(Clone, Copy, Debug)]
struct Front {
    id: BlockId,
    /// Bytes that are to be sent, or expected.
    unsent: u64,
    /// Its value, plus that of the blocks at the front that need it.
    value: u64,
    needs: [Option<BlockId>; 2],
    /// Bytes that can arrive before its deadline.
    possible: u64,
    /// A block that it needs is missing.
    is_orphan: bool,
    waits: bool,
    /// It waits because a block that it needs waits.
    is_held: bool,
}

impl Front {
    /// Returns `worth` for each byte that is still to be sent, in units of 2^-32.
    fn density(&self, worth: u64) -> u128 {
        (u128::from(worth) << 32) / u128::from(self.unsent.max(1))
    }
}

impl Order {
    pub(super) fn on_event(&mut self, event: &SchedEvent) {
        let changes_nothing = matches!(
            event,
            SchedEvent::Acked { .. }
                | SchedEvent::Parity { .. }
                | SchedEvent::Done { delivered: true, .. }
                | SchedEvent::Stalled(_)
        );
        self.is_valid &= changes_nothing;
    }

    pub(super) fn is_obsolete(&self, cx: &Context<'_>) -> bool {
        !self.is_valid || cx.now >= self.made + MAX_AGE
    }

    /// Returns the time of the next decision while a block waits.
    pub(super) fn review_at(&self, cx: &Context<'_>) -> Option<Time> {
        cx.queue.by_deadline().next().map(|_| (self.made + MAX_AGE).max(cx.now + Span::TICK))
    }

    /// Iterates over the blocks that are sent, in order.
    pub(super) fn kept<'a>(&'a self, cx: &Context<'a>) -> impl Iterator<Item = &'a Block> {
        self.kept.iter().filter_map(|id| cx.queue.get(*id)).filter(|block| block.unsent_bytes() > 0)
    }

    /// Returns the value that a byte would have had in the blocks that others displaced, in units
    /// of [`crate::BlockMeta::value`]; 0 where blocks need others, because the value that a
    /// reference saves is unknown before all blocks that need it have been handed over.
    pub(super) fn opportunity_cost(&self) -> f64 {
        self.opportunity_cost
    }

    /// Iterates over the blocks that are not kept, the most promising first.
    pub(super) fn filler<'a>(&'a self, cx: &Context<'a>) -> impl Iterator<Item = &'a Block> {
        self.filler.iter().filter_map(|id| cx.queue.get(*id)).filter(|block| block.unsent_bytes() > 0)
    }

    /// Makes a new order. `needs` and `value` enable these rules.
    pub(super) fn make(&mut self, cx: &Context<'_>, arrivals: &Arrivals, needs: bool, value: bool) {
        self.list(cx, arrivals, needs, value);
        let cost = self.select();
        self.note_cost(cx.now, cost);
        self.try_a_beginning(cx, arrivals);
        let is_useful = |block: &Front| !block.waits && !block.is_orphan;
        self.kept.clear();
        self.kept.extend(self.front.iter().filter(|block| is_useful(block)).map(|block| block.id));
        let nearness = |block: &Front| Reverse(block.density(block.possible));
        self.front.sort_by_key(|block| (block.is_orphan, block.is_held, nearness(block)));
        self.filler.clear();
        self.filler.extend(self.front.iter().filter(|block| !is_useful(block)).map(|block| block.id));
        self.made = cx.now;
        self.is_valid = true;
    }

    /// Selects the blocks by deadline. As soon as one exceeds the bytes that the paths can still
    /// deliver, the block with the least value for each byte among those so far waits, until the
    /// rest fits. Returns the largest value per byte of those that would have fitted alone, in
    /// units of 2^-32.
    fn select(&mut self) -> u128 {
        self.least.clear();
        let (mut used, mut cost) = (0, 0);
        for index in 0..self.front.len() {
            let block = self.front[index];
            if block.is_orphan {
                continue;
            }
            let is_held = self.lacks(index);
            if block.unsent > block.possible || is_held {
                (self.front[index].waits, self.front[index].is_held) = (true, is_held);
                continue;
            }
            used += block.unsent;
            self.least.push(Reverse((block.density(block.value), index)));
            while used > block.possible {
                let Some(Reverse((density, least))) = self.least.pop() else { break };
                cost = cost.max(density);
                used -= self.hold_back(least, index);
            }
        }
        cost
    }

    /// Updates [`Self::opportunity_cost`].
    fn note_cost(&mut self, now: Time, cost: u128) {
        let is_known = self.front.iter().all(|block| block.needs == [None; 2]);
        let cost = if is_known { cost as f64 / 2f64.powi(32) } else { 0.0 };
        if cost > 0.0 {
            self.scarce_until = now + SCARCE;
        }
        if cost > 0.0 || now >= self.scarce_until {
            self.opportunity_cost = cost;
        }
    }

    /// If nothing else is sent, tries a block that needs no other without the margin too: all
    /// blocks that need it would be lost with it. A block that needs others is not tried, as it
    /// would only delay the next one that needs none.
    fn try_a_beginning(&mut self, cx: &Context<'_>, arrivals: &Arrivals) {
        if self.front.iter().any(|block| !block.waits && !block.is_orphan) {
            return;
        }
        let begins = |block: &&mut Front| !block.is_orphan && block.needs == [None; 2];
        let nearest = self.front.iter_mut().filter(begins).max_by_key(|block| block.density(block.possible));
        if let Some(block) = nearest
            && let Some(deadline) = cx.queue.get(block.id).and_then(|block| block.meta().deadline)
        {
            block.waits = block.unsent > arrivals.within(deadline - cx.now);
        }
    }

    /// Returns `true` if a block needs one that waits.
    fn lacks(&self, index: usize) -> bool {
        let needs = self.front[index].needs;
        needs != [None; 2] && self.front.iter().any(|block| block.waits && needs.contains(&Some(block.id)))
    }

    /// Makes a block wait, and with it those up to `last` that would be useless without it. Returns
    /// the number of bytes that this saves.
    fn hold_back(&mut self, index: usize, last: usize) -> u64 {
        if std::mem::replace(&mut self.front[index].waits, true) {
            return 0;
        }
        let mut spared = self.front[index].unsent;
        for index in 0..=last {
            if !self.front[index].waits && !self.front[index].is_orphan && self.lacks(index) {
                (self.front[index].waits, self.front[index].is_held) = (true, true);
                spared += self.front[index].unsent;
            }
        }
        spared
    }

    /// Collects the blocks at the front, by deadline.
    fn list(&mut self, cx: &Context<'_>, arrivals: &Arrivals, needs: bool, value: bool) {
        self.front.clear();
        self.front.extend(cx.queue.by_deadline().take(FRONT).map(|block| {
            let meta = block.meta();
            // A block that has begun to leave is not dropped for a guess.
            let margin = if block.unsent_bytes() < meta.len { Span::ZERO } else { MARGIN };
            let left = meta.deadline.map(|deadline| deadline - (cx.now + margin));
            Front {
                id: meta.id,
                unsent: u64::from(block.unsent_bytes()) + u64::from(block.expected_bytes()),
                value: u64::from(meta.value),
                needs: if needs { meta.needs } else { [None; 2] },
                possible: left.filter(|_| value).map_or(u64::MAX, |left| arrivals.within(left)),
                is_orphan: needs && cx.queue.is_orphan(meta.id),
                waits: false,
                is_held: false,
            }
        }));
        if self.front.iter().any(|block| block.needs != [None; 2]) {
            self.add_needing();
        }
    }

    /// Adds to the value of each block that of the blocks that need it, each of them once.
    fn add_needing(&mut self) {
        let own: [u64; FRONT] =
            std::array::from_fn(|index| self.front.get(index).map_or(0, |block| block.value));
        let mut needing = [0_u64; FRONT];
        let mut newest_first: [u8; FRONT] = std::array::from_fn(|index| index as u8);
        let newest_first = &mut newest_first[..self.front.len()];
        newest_first.sort_unstable_by_key(|index| Reverse(self.front[usize::from(*index)].id));
        // Newer blocks need older ones, so the blocks that need one are complete when it is
        // visited.
        for index in newest_first.iter().map(|index| usize::from(*index)) {
            let needs_it = |other: &usize| needing[index] & 1 << other != 0;
            self.front[index].value += (0..FRONT).filter(needs_it).map(|other| own[other]).sum::<u64>();
            for older in self.front[index].needs.into_iter().flatten() {
                if let Some(older) = self.front.iter().position(|block| block.id == older) {
                    needing[older] |= needing[index] | 1 << index;
                }
            }
        }
    }
}

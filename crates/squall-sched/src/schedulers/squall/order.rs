//! Which blocks are sent, in which order, and which wait.

use std::{cmp::Reverse, collections::BinaryHeap};

use super::arrivals::Arrivals;
use crate::{
    Block, BlockId, Context, Micros, SchedEvent,
    plan::{FRONT, MAX_AGE},
};

/// What has not begun to leave has to arrive this much before its deadline, in microseconds: with 0 a steady overload costs 2 %
/// of all frames, with 20 ms key frames that need most of their time are dropped too.
const MARGIN: Micros = 10_000;

/// The blocks at the front of the queue.
#[derive(Clone, Debug, Default)]
pub(super) struct Order {
    /// By deadline.
    kept: Vec<BlockId>,
    made: Micros,
    is_valid: bool,
    /// What follows is memory that is used again.
    front: Vec<Front>,
    least: BinaryHeap<Reverse<(Density, usize)>>,
}

/// A block at the front, and what it would take and bring.
#[derive(Clone, Copy, Debug)]
struct Front {
    id: BlockId,
    /// Bytes that are to be sent, or expected.
    unsent: u64,
    /// Its value, and that of the blocks at the front that need it.
    value: u64,
    /// Bytes that can arrive before its deadline.
    possible: u64,
    /// A block that it needs is missing.
    is_orphan: bool,
    waits: bool,
}

/// Value for each byte that is still to be sent.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Density(f64);

impl Eq for Density {}

impl PartialOrd for Density {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Density {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
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

    /// When to decide again while something waits.
    pub(super) fn review_at(&self, cx: &Context<'_>) -> Option<Micros> {
        cx.queue.by_deadline().next().map(|_| (self.made + MAX_AGE).max(cx.now + 1))
    }

    /// The blocks that are sent, in order.
    pub(super) fn kept<'a>(&'a self, cx: &Context<'a>) -> impl Iterator<Item = &'a Block> {
        self.kept.iter().filter_map(|id| cx.queue.get(*id)).filter(|block| block.unsent_bytes() > 0)
    }

    /// Goes through the blocks by deadline. As soon as one does not fit into what the paths can still bring, the block with
    /// the least value for each byte among those so far waits, until the rest fits.
    pub(super) fn make(&mut self, cx: &Context<'_>, arrivals: &Arrivals, needs: bool, value: bool) {
        self.list(cx, arrivals, needs, value);
        self.least.clear();
        let mut used = 0;
        for index in 0..self.front.len() {
            let block = self.front[index];
            if block.is_orphan {
                continue;
            }
            if block.unsent > block.possible {
                self.front[index].waits = true;
                continue;
            }
            used += block.unsent;
            self.least.push(Reverse((Density(block.value as f64 / block.unsent.max(1) as f64), index)));
            while used > block.possible {
                let Some(Reverse((_, least))) = self.least.pop() else { break };
                self.front[least].waits = true;
                used -= self.front[least].unsent;
            }
        }
        if self.front.iter().all(|block| block.waits) {
            // A path that is given nothing is never measured again.
            let fits = |block: &Front| Density(block.possible as f64 / block.unsent.max(1) as f64);
            if let Some(best) = self.front.iter_mut().max_by_key(|block| fits(block)) {
                best.waits = false;
            }
        }
        self.kept.clear();
        let kept = |is_orphan: bool| self.front.iter().filter(move |b| !b.waits && b.is_orphan == is_orphan);
        self.kept.extend(kept(false).chain(kept(true)).map(|block| block.id));
        self.made = cx.now;
        self.is_valid = true;
    }

    /// Notes the blocks at the front, by deadline.
    fn list(&mut self, cx: &Context<'_>, arrivals: &Arrivals, needs: bool, value: bool) {
        self.front.clear();
        self.front.extend(cx.queue.by_deadline().take(FRONT).map(|block| {
            let meta = block.meta();
            // What has begun to leave is not dropped for a guess.
            let margin = if block.unsent_bytes() < meta.len { 0 } else { MARGIN };
            let left = meta.deadline.map(|deadline| deadline.saturating_sub(cx.now + margin));
            Front {
                id: meta.id,
                unsent: u64::from(block.unsent_bytes()) + u64::from(block.expected_bytes()),
                value: u64::from(meta.value),
                possible: left.filter(|_| value).map_or(u64::MAX, |left| arrivals.within(left)),
                is_orphan: needs && cx.queue.is_orphan(meta.id),
                waits: false,
            }
        }));
        // What a block brings to those that need it. Newer blocks need older ones, so their values are complete first.
        let mut newest_first: [u8; FRONT] = std::array::from_fn(|index| index as u8);
        let newest_first = &mut newest_first[..self.front.len()];
        newest_first.sort_unstable_by_key(|index| Reverse(self.front[usize::from(*index)].id));
        for index in newest_first {
            let Front { id, value, .. } = self.front[usize::from(*index)];
            let needs = cx.queue.get(id).map_or([None; 2], |block| block.meta().needs);
            for need in needs.into_iter().flatten() {
                if let Some(needed) = self.front.iter_mut().find(|block| block.id == need) {
                    needed.value += value;
                }
            }
        }
    }
}

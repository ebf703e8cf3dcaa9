//! Selection of blocks that are sent first and of those that are delayed (§III-B).

use std::{cmp::Reverse, collections::BinaryHeap};

use squall_sched::{Block, BlockId, BlockQueue, Context, PRIORITIES, PathView, Span, capacity};

use crate::plan::FRONT;

/// Value of a block that arrives in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Credit {
    /// 8 for priority 0, down to 1 for priority 7.
    Linear,
    /// 128 for priority 0, half as much for each step down.
    Exponential,
    /// 10⁷ for priority 0, a tenth for each step down.
    Steep,
}

impl Credit {
    fn of(self, priority: u8) -> u32 {
        let steps = u32::from(PRIORITIES - 1 - priority.min(PRIORITIES - 1));
        match self {
            Self::Linear => steps + 1,
            Self::Exponential => 1 << steps,
            Self::Steep => 10_u32.pow(steps),
        }
    }
}

impl std::str::FromStr for Credit {
    type Err = &'static str;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        match name {
            "linear" => Ok(Self::Linear),
            "exponential" => Ok(Self::Exponential),
            "steep" => Ok(Self::Steep),
            _ => Err("must be linear, exponential or steep"),
        }
    }
}

/// Kept and delayed blocks at the front of the queue.
#[derive(Clone, Debug, Default)]
pub(super) struct Arrangement {
    /// By deadline.
    kept: Vec<Kept>,
    /// By deadline.
    delayed: Vec<BlockId>,
    /// Kept blocks by normalised credit, the smallest on top.
    candidates: BinaryHeap<Reverse<(Worth, usize)>>,
}

#[derive(Clone, Copy, Debug)]
struct Kept {
    block: BlockId,
    unsent: u64,
    is_delayed: bool,
}

/// Normalised credit: credit per unsent byte.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Worth(f64);

impl Eq for Worth {}

impl PartialOrd for Worth {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Worth {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

/// Returns the blocks with unsent bytes by deadline: all, or the reliable ones.
pub(super) fn by_deadline(queue: &BlockQueue, all: bool) -> impl Iterator<Item = &Block> {
    let every = all.then(|| queue.by_deadline());
    let reliable = (!all).then(|| queue.reliable_by_deadline());
    every.into_iter().flatten().chain(reliable.into_iter().flatten())
}

impl Arrangement {
    /// Selective preservation (§III-B) among `blocks`, which are sorted by deadline; `delay` is the
    /// delay of a path in addition to sending.
    pub(super) fn make<'a>(
        &mut self,
        cx: &Context<'_>,
        blocks: impl Iterator<Item = &'a Block>,
        credit: Credit,
        delay: impl Fn(&PathView) -> Span,
    ) {
        self.kept.clear();
        self.delayed.clear();
        self.candidates.clear();
        let mut used = 0;
        for block in blocks.take(FRONT) {
            let meta = block.meta();
            let unsent = u64::from(block.unsent_bytes());
            let capacity = capacity::before_with(meta.deadline, cx.now, cx.paths, &delay);
            let alone_too_large = unsent > capacity;
            self.kept.push(Kept { block: meta.id, unsent, is_delayed: alone_too_large });
            if alone_too_large {
                continue;
            }
            let worth = Worth(f64::from(credit.of(meta.priority)) / unsent as f64);
            self.candidates.push(Reverse((worth, self.kept.len() - 1)));
            used += unsent;
            while used > capacity {
                let Some(Reverse((_, least))) = self.candidates.pop() else { break };
                self.kept[least].is_delayed = true;
                used -= self.kept[least].unsent;
            }
        }
        self.delayed.extend(self.kept.iter().filter(|k| k.is_delayed).map(|k| k.block));
    }

    pub(super) fn order(&self) -> impl Iterator<Item = BlockId> {
        let kept = self.kept.iter().filter(|k| !k.is_delayed).map(|k| k.block);
        kept.chain(self.delayed.iter().copied())
    }

    /// `true` if any block is delayed until the others are sent.
    pub(super) fn delays_any(&self) -> bool {
        !self.delayed.is_empty()
    }

    /// `true` if a block is delayed until the others are sent.
    pub(super) fn delays(&self, block: BlockId) -> bool {
        self.delayed.contains(&block)
    }
}

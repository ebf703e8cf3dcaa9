//! DAMS, DAMS-C and DAMS-Robust: the deadline-aware multipath scheduler and its variants.
//!
//! Source: Zuo et al., "Deadline-aware Multipath Transmission for Streaming Blocks" (INFOCOM 2022).
//!
//! **Order** (§III-B). Blocks stand by deadline. The paths can bring, before the deadline `D` of a block,
//!
//! ```text
//! C = Σ max(0, D − now − OWD_j) · BW_j                                                         (Eq. 1)
//! ```
//!
//! bytes, of which the blocks ahead use up theirs. Going through the blocks by deadline, as soon as one does
//! not fit into what is left for it, the block with the smallest normalised credit
//!
//! ```text
//! d = c / (s · r)      c: credit, s: size, r: share of it not sent yet
//! ```
//!
//! among those so far is put behind all others, until the rest fits. Blocks that fit are never delayed. A
//! block that nothing can bring in time any more is cancelled.
//!
//! **Placement** (§III-C). The paths finish *sending* a block together, so that what comes in between
//! preempts one block and not several. What would arrive after the deadline on a path moves to the others,
//! the one with the lowest delay first. DAMS-C keeps the order and places as DEMS does: the paths' parts
//! *arrive* together.
//!
//! **Robust** (§III-D). Deadlines are moved earlier by a share of the RTT's deviation:
//!
//! ```text
//! D' = D − α · std(RTT) / 2                                                                    (Eq. 2)
//! ```
//!
//! | option | unit | default | source |
//! | --- | --- | --- | --- |
//! | `alpha` (dams-robust) | factor | 1 | §V-C2 |
//! | `credit` | `linear` or `exponential` | `linear` | not in the paper |
//!
//! Where the paper is silent:
//!
//! - Credit grows with importance. Linear: 8 for priority 0 to 1 for priority 7. Exponential: each
//!   priority is worth twice the next.
//! - A block that would not fit even if it were alone is delayed itself, whatever its credit: delaying
//!   others cannot help it.
//! - Delayed blocks use what the others leave, in order of deadline. Blocks without a deadline come last
//!   and always fit.
//! - A block is cancelled when its deadline is closer than the shortest one-way delay and bytes of it are
//!   still to be sent. The paper cancels past the deadline; what leaves in between would arrive too late.
//! - `OWD` is measured by the peer's receive times where the paper halves the RTT. `BW` is window over
//!   smoothed RTT, as in the paper. The standard deviation is 1.25 times the mean deviation that QUIC keeps
//!   (the ratio of the normal distribution), of the path where it is largest.
//! - Lost bytes of reliable blocks are part of their block (§IV); those of unreliable ones are gone.
//! - The order is made for the 64 blocks at the front when a block arrives or ends, bytes are lost, a path
//!   changes by a tenth, or 10 ms have passed (§IV, "triggering the scheduler"; §III-C bounds it likewise).
//!
//! Any number of paths (§VI, "Path extension").

use std::{cmp::Reverse, collections::BinaryHeap};

use super::dems::equal_arrival;
use crate::{
    Block, BlockId, BuildError, Context, Decision, Entry, Micros, OptionSpec, Options, PRIORITIES, PathView,
    SchedEvent, Scheduler,
    allocation::Shares,
    capacity,
    plan::{FRONT, Plan},
};

const CREDIT: OptionSpec = OptionSpec {
    name: "credit",
    default: "linear",
    help: "how credit falls with priority: linear (8 to 1) or exponential (halves)",
};

pub(super) const DAMS: Entry = Entry {
    name: "dams",
    summary: "by deadline, keeping what fits; paths finish sending a block together",
    source: "Zuo et al., INFOCOM 2022",
    options: &[CREDIT],
    signal: false,
};

pub(super) const DAMS_C: Entry = Entry {
    name: "dams-c",
    summary: "the order of DAMS with the placement of DEMS",
    source: "Zuo et al., INFOCOM 2022, §V",
    options: &[CREDIT],
    signal: false,
};

pub(super) const DAMS_ROBUST: Entry = Entry {
    name: "dams-robust",
    summary: "DAMS with deadlines moved earlier by the deviation of the RTT",
    source: "Zuo et al., INFOCOM 2022, §III-D",
    options: &[
        OptionSpec { name: "alpha", default: "1", help: "share of half the RTT's deviation, 0 to 100" },
        CREDIT,
    ],
    signal: false,
};

pub(super) fn build(options: &mut Options) -> Result<Box<dyn Scheduler>, BuildError> {
    Ok(Box::new(Dams::new(Placement::EqualSendingEnd, options.take("credit", Credit::Linear)?, 0.0)))
}

pub(super) fn build_c(options: &mut Options) -> Result<Box<dyn Scheduler>, BuildError> {
    Ok(Box::new(Dams::new(Placement::EqualArrival, options.take("credit", Credit::Linear)?, 0.0)))
}

pub(super) fn build_robust(options: &mut Options) -> Result<Box<dyn Scheduler>, BuildError> {
    let alpha = options.take_in("alpha", 1.0, 0.0..=100.0)?;
    Ok(Box::new(Dams::new(Placement::EqualSendingEnd, options.take("credit", Credit::Linear)?, alpha)))
}

/// How a block is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// The paths finish sending together: DAMS.
    EqualSendingEnd,
    /// Its parts arrive together: DEMS, and so DAMS-C.
    EqualArrival,
}

/// What a block is worth if it arrives in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Credit {
    /// 8 for priority 0, down to 1 for priority 7.
    Linear,
    /// 128 for priority 0, half as much for each step down.
    Exponential,
}

impl Credit {
    fn of(self, priority: u8) -> u32 {
        let steps = u32::from(PRIORITIES - 1 - priority.min(PRIORITIES - 1));
        match self {
            Self::Linear => steps + 1,
            Self::Exponential => 1 << steps,
        }
    }
}

impl std::str::FromStr for Credit {
    type Err = &'static str;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        match name {
            "linear" => Ok(Self::Linear),
            "exponential" => Ok(Self::Exponential),
            _ => Err("must be linear or exponential"),
        }
    }
}

/// DAMS, with the placement of the paper or of DEMS.
#[derive(Clone, Debug)]
pub struct Dams {
    placement: Placement,
    credit: Credit,
    /// Share of half the RTT's standard deviation by which deadlines are moved.
    alpha: f64,
    plan: Plan,
    arrangement: Arrangement,
}

impl Dams {
    /// DAMS for `alpha` 0, DAMS-Robust above, DAMS-C with equal arrival.
    pub fn new(placement: Placement, credit: Credit, alpha: f64) -> Self {
        Self { placement, credit, alpha, plan: Plan::default(), arrangement: Arrangement::default() }
    }
}

impl Scheduler for Dams {
    fn next(&mut self, cx: &Context<'_>) -> Decision {
        let margin = margin(self.alpha, cx.paths);
        if self.plan.is_obsolete(cx) {
            if let Some(block) = capacity::hopeless(cx) {
                return Decision::Cancel { block, reason: "cannot arrive in time any more" };
            }
            self.arrangement.make(cx, self.credit, margin);
            self.plan.begin(cx, self.arrangement.order());
        }
        let (placement, delayed) = (self.placement, &self.arrangement.delayed);
        let place = |plan: &mut Plan, block: &Block| match placement {
            Placement::EqualArrival => equal_arrival(plan, cx, block),
            Placement::EqualSendingEnd => {
                let fits = !delayed.contains(&block.meta().id);
                let deadline = block.meta().deadline.filter(|_| fits);
                equal_sending_end(plan, cx, block, deadline.map(|d| d.saturating_sub(margin)));
            }
        };
        match self.plan.next(cx, |_| "by deadline", place) {
            Some(assignment) => Decision::Send(assignment),
            None => Decision::Idle { wake: self.plan.review_at(cx) },
        }
    }

    fn on_event(&mut self, event: &SchedEvent, _: &Context<'_>) {
        self.plan.on_event(event);
    }

    fn follows_queue(&self) -> bool {
        false
    }
}

/// By how much deadlines are moved earlier (Eq. 2).
fn margin(alpha: f64, paths: &[PathView]) -> Micros {
    let deviation = paths.iter().filter(|p| p.usable).map(|p| p.rtt_dev).max().unwrap_or(0);
    (alpha * 1.25 * deviation as f64 / 2.0) as Micros
}

/// Which blocks at the front go first, and which wait until those are sent.
#[derive(Clone, Debug, Default)]
struct Arrangement {
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

/// Normalised credit: credit for each byte that is still to be sent.
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

impl Arrangement {
    /// Selective preservation (§III-B).
    fn make(&mut self, cx: &Context<'_>, credit: Credit, margin: Micros) {
        self.kept.clear();
        self.delayed.clear();
        self.candidates.clear();
        let mut used = 0;
        for block in cx.queue.by_deadline().take(FRONT) {
            let meta = block.meta();
            let unsent = u64::from(block.unsent_bytes());
            let deadline = meta.deadline.map(|d| d.saturating_sub(margin));
            let capacity = capacity::before(deadline, cx.now, cx.paths);
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

    fn order(&self) -> impl Iterator<Item = BlockId> {
        let kept = self.kept.iter().filter(|k| !k.is_delayed).map(|k| k.block);
        kept.chain(self.delayed.iter().copied())
    }
}

/// Divides a block so that the paths finish sending it together (§III-C); of a block with a deadline that it
/// is expected to meet, what would be late on a path goes on others.
fn equal_sending_end(plan: &mut Plan, cx: &Context<'_>, block: &Block, deadline: Option<Micros>) {
    let pipes = plan.pipes(cx, |_| 0);
    let mut shares = Plan::divide(block, cx.paths, &pipes);
    if let Some(deadline) = deadline {
        let affordable = |path: &PathView| plan.affordable(path);
        let in_time = |path: &PathView| {
            let time = deadline.saturating_sub(cx.now + path.owd).saturating_sub(plan.busy(path));
            capacity::on_path(path, time).min(affordable(path))
        };
        move_late(&mut shares, cx.paths, in_time);
    }
    plan.place(block.meta().id, cx.paths, &shares);
}

/// Moves what a path could not bring in time to the others, the lowest delay first; what none can stays
/// where it was.
fn move_late(shares: &mut Shares, paths: &[PathView], in_time: impl Fn(&PathView) -> u64) {
    let room = |path: &PathView, bytes: u32| {
        let room = in_time(path).saturating_sub(u64::from(bytes));
        u32::try_from(room).unwrap_or(u32::MAX)
    };
    for late in 0..paths.len() {
        let excess = u64::from(shares.bytes[late]).saturating_sub(in_time(&paths[late]));
        let mut excess = excess as u32;
        while excess > 0 {
            let with_room = (0..paths.len())
                .filter(|&i| i != late && paths[i].is_open() && room(&paths[i], shares.bytes[i]) > 0);
            let Some(to) = with_room.min_by_key(|&i| paths[i].owd) else { break };
            let moved = excess.min(room(&paths[to], shares.bytes[to]));
            shares.bytes[to] += moved;
            shares.bytes[late] -= moved;
            excess -= moved;
        }
    }
}

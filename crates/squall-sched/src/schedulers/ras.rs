//! RAS: reliability-aware scheduling. With the signal watermarks it is STORM, without them STORM-U.
//!
//! Source: Hu and Li, "STORM: a Multipath QUIC Scheduler for Quick Streaming Media Transport under Unstable
//! Mobile Networks" (USENIX ATC 2025), §3.3.
//!
//! **Two queues.** Reliable blocks and unreliable data wait apart, each by deadline ([`crate::BlockQueue`] keeps both).
//!
//! **Reliable blocks** are divided so that their parts arrive together, weighted by what the radio says:
//!
//! ```text
//! size_i / (bw_i · F_i) + OWD_i = T,   Σ size_i = size                                         (Eq. 4)
//! ```
//!
//! The block with the lowest weight goes first:
//!
//! ```text
//! Trsd_i = deadline − now − OWD_i                                                              (Eq. 5)
//! Gbw    = min_i (bw_i − size_i / Trsd_i)                                                      (Eq. 6)
//! weight = α · Gbw / bw_agg · R + (1 − α) · priority / P_max                                   (Eq. 7)
//! ```
//!
//! with `R` the share of the block that is still to be sent, `bw_agg` the bandwidth of all paths and `P_max` the
//! largest priority number waiting. A block with a negative gap cannot make it as things are, and goes behind
//! the others; one that has run out of residual time on every path is cancelled.
//!
//! **Unreliable data** fills time holes: a path with a longer delay has to be done with its part of a reliable
//! block earlier by the difference of the delays, and is idle until the faster path is done too. An injection is
//! bounded by the hole and overruns it by less than a packet.
//!
//! **Outage.** A deactivated path takes no part. With one path left everything goes there, unreliable data only
//! while no reliable bytes wait. After the scheduling round, reliable bytes in flight on dead paths are sent once
//! more on a live one if they can meet their deadline there; unreliable ones are not.
//!
//! | option | unit | default | source |
//! | --- | --- | --- | --- |
//! | `alpha` | weight of the bandwidth gap against the priority, 0 to 1 | 0.5 | Table 2 |
//!
//! Where the paper is silent or cannot be meant:
//!
//! - Eq. 4 as printed multiplies one side's sizes by `bw_agg`, which is there to keep numbers away from zero and
//!   mixes units. Meant are equal arrival times; solved by water-filling, for any number of paths, and a path whose
//!   delay alone exceeds the common arrival takes nothing.
//! - The division starts from what each path still has to send, so a block begins on the slow path while the
//!   one before it ends on the fast path, if no unreliable data wants the hole.
//! - Any number of paths: the fast path is the one with the shortest delay, every other one can have holes,
//!   each against the path that is busy longest.
//! - Between reliable blocks, when none waits, a slow path takes as much unreliable data ahead as the difference
//!   of the delays lasts, or a packet if that is more: the hole that the next block will leave. The fast path takes unreliable data only if no
//!   reliable bytes wait and no other path can bring it in time.
//! - Blocks without a deadline have the whole bandwidth as their gap.
//! - Weights are taken for the 64 blocks with the earliest deadlines, when a block arrives or ends, bytes are
//!   lost, a path changes by a tenth, or 10 ms have passed.

use std::collections::VecDeque;

use crate::{
    Assignment, Block, BlockId, BuildError, Context, Decision, Duplicates, Entry, MAX_PATHS, Micros,
    OptionSpec, Options, PathView, SchedEvent, Scheduler,
    allocation::{Pipe, fill},
    capacity,
    plan::{FRONT, Plan},
};

pub(super) const ENTRY: Entry = Entry {
    name: "ras",
    summary: "reliable blocks by urgency and priority, arriving together; unreliable data in the slow path's holes",
    source: "Hu and Li, USENIX ATC 2025 (STORM), §3.3; STORM-U",
    options: &[OptionSpec {
        name: "alpha",
        default: "0.5",
        help: "weight of the bandwidth gap against the priority, 0 to 1",
    }],
    signal: false,
};

/// RAS with the signal watermarks, which are not the scheduler's affair: sessions and comparisons see to them.
pub(super) const STORM: Entry = Entry {
    name: "storm",
    summary: "ras, going by radio signals: less on a path whose signal fades, nothing new on one that is out",
    source: "Hu and Li, USENIX ATC 2025 (STORM), §3",
    signal: true,
    ..ENTRY
};

pub(super) fn build(options: &mut Options) -> Result<Box<dyn Scheduler>, BuildError> {
    Ok(Box::new(Ras::new(options.take_in("alpha", 0.5, 0.0..=1.0)?)))
}

/// Reliability-aware scheduling.
#[derive(Clone, Debug)]
pub struct Ras {
    alpha: f64,
    plan: Plan,
    round: Vec<Ranked>,
    /// Unreliable blocks at the front that wait for a hole, with bytes that no path was given yet.
    unreliable: VecDeque<(BlockId, u32)>,
    /// Since a path died: where the search for bytes in flight on dead paths alone goes on.
    stranded: Option<Duplicates>,
}

/// A reliable block with its weight.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Ranked {
    block: BlockId,
    /// Cannot make its deadline as things are.
    postponed: bool,
    weight: f64,
}

impl Ras {
    /// `alpha`: weight of the bandwidth gap against the priority, 0 to 1.
    pub fn new(alpha: f64) -> Self {
        let (plan, round, unreliable) = (Plan::default(), Vec::new(), VecDeque::new());
        Self { alpha, plan, round, unreliable, stranded: None }
    }
}

impl Scheduler for Ras {
    fn next(&mut self, cx: &Context<'_>) -> Decision {
        if self.plan.is_obsolete(cx) {
            if let Some(block) = expired(cx) {
                return Decision::Cancel { block, reason: "no residual time on any path" };
            }
            self.begin_round(cx);
        }
        let assignment = self.planned(cx).or_else(|| {
            let idle = |path: &PathView| path.has_room();
            fill_holes(&mut self.plan, cx, &mut self.unreliable, idle);
            self.planned(cx)
        });
        match assignment.or_else(|| self.reinject(cx)) {
            Some(assignment) => Decision::Send(assignment),
            None => Decision::Idle { wake: self.wake(cx) },
        }
    }

    fn on_event(&mut self, event: &SchedEvent, cx: &Context<'_>) {
        self.plan.on_event(event);
        match event {
            SchedEvent::PathChanged(id) if !cx.path(*id).is_some_and(|path| path.usable) => {
                self.stranded = Some(Duplicates::default());
            }
            _ => {
                if let Some(stranded) = &mut self.stranded {
                    stranded.on_event(event, cx);
                }
            }
        }
    }
}

impl Ras {
    /// Ranks the reliable blocks at the front, and lines up the unreliable ones.
    fn begin_round(&mut self, cx: &Context<'_>) {
        let front = || cx.queue.reliable_by_deadline().take(FRONT);
        let largest = front().map(|b| b.meta().priority).max().unwrap_or(0).max(1);
        let total: u64 = cx.paths.iter().filter(|p| p.is_open()).map(|p| p.bandwidth).sum();
        self.round.clear();
        for block in front() {
            let gap = gap(cx, block);
            let meta = block.meta();
            let rest = f64::from(block.unsent_bytes()) / f64::from(meta.len.max(1));
            let priority = f64::from(meta.priority) / f64::from(largest);
            let weight = weight(self.alpha, gap / total.max(1) as f64, rest, priority);
            self.round.push(Ranked { block: meta.id, postponed: gap < 0.0, weight });
        }
        self.round.sort_by(|a, b| a.postponed.cmp(&b.postponed).then(a.weight.total_cmp(&b.weight)));
        self.plan.begin(cx, self.round.iter().map(|r| r.block));
        self.unreliable.clear();
        let waiting = cx.queue.unreliable_by_deadline().take(FRONT);
        self.unreliable.extend(waiting.map(|b| (b.meta().id, b.unsent_bytes())));
    }

    /// The next part of the plan.
    fn planned(&mut self, cx: &Context<'_>) -> Option<Assignment> {
        let unreliable = &mut self.unreliable;
        let place = |plan: &mut Plan, block: &Block| {
            fill_holes(plan, cx, unreliable, PathView::is_open);
            let shares = fill(block.unsent_bytes(), &arrival_pipes(plan, cx));
            plan.place(block.meta().id, cx.paths, &shares);
        };
        let reason = |block: &Block| match block.meta().reliable {
            true => "lowest weight, arrives with the rest of its block",
            false => "unreliable, in a time hole",
        };
        self.plan.next(cx, reason, place)
    }

    /// Deadline-aware reinjection, after everything else: reliable bytes in flight on dead paths alone, on the
    /// shortest path with room that brings them in time.
    fn reinject(&mut self, cx: &Context<'_>) -> Option<Assignment> {
        let stranded = self.stranded.as_mut()?;
        let live = cx.paths.iter().filter(|p| p.usable).fold(0, |live, path| live | path.id.bit());
        let mut shortest_first: Vec<&PathView> = cx.paths.iter().filter(|p| p.has_room()).collect();
        shortest_first.sort_by_key(|p| p.owd);
        for path in shortest_first {
            let arrival = cx.now + self.plan.busy(path) + path.owd;
            let in_time = |block: &Block| {
                block.meta().reliable && block.meta().deadline.is_none_or(|deadline| arrival <= deadline)
            };
            if let Some(work) = stranded.reinjection(cx.queue, live, path.id, in_time) {
                return Some(Assignment::new(work, path.id, "was in flight on a dead path"));
            }
        }
        // Every path that could carry something has been asked.
        if cx.paths.iter().all(|p| !p.is_open() || p.has_room()) {
            self.stranded = None;
        }
        None
    }

    /// When a hole may open, or the plan is due for a review.
    fn wake(&self, cx: &Context<'_>) -> Option<Micros> {
        let review = self.plan.review_at(cx);
        if self.unreliable.is_empty() {
            return review;
        }
        let with_room = cx.paths.iter().filter(|p| p.has_room());
        let opening = with_room.map(|p| capacity::time_for(p, u64::from(p.chunk)).clamp(500, 10_000)).min();
        let opening = opening.map(|pause| cx.now + pause);
        review.into_iter().chain(opening).min()
    }
}

/// The first block, reliable or not, that could not arrive in time even if it left now (Eq. 5).
fn expired(cx: &Context<'_>) -> Option<BlockId> {
    let soonest = cx.now + capacity::shortest_delay(cx.paths)?;
    let first = cx.queue.by_deadline().next()?.meta();
    first.deadline.is_some_and(|deadline| deadline <= soonest).then_some(first.id)
}

/// The paths that take part, with their delays: their parts of a block are to arrive together.
fn arrival_pipes(plan: &Plan, cx: &Context<'_>) -> crate::plan::Pipes {
    let mut pipes = plan.pipes(cx, |path| path.owd);
    for (pipe, path) in pipes.iter_mut().zip(cx.paths) {
        pipe.rate = (pipe.rate as f64 * path.factor.clamp(0.01, 1.0)) as u64;
    }
    pipes
}

/// Bandwidth left over when the block is sent just in time, on the path where it is scarcest (Eq. 6), in bits
/// per second; the least there is if no budget pays for all of it.
fn gap(cx: &Context<'_>, block: &Block) -> f64 {
    let closed = Pipe { start: 0, rate: 0, limit: 0 };
    let mut pipes = [closed; MAX_PATHS];
    for (pipe, path) in pipes.iter_mut().zip(cx.paths).filter(|(_, path)| path.usable) {
        let rate = (capacity::goodput(path) as f64 * path.factor.clamp(0.01, 1.0)) as u64;
        *pipe = Pipe { start: path.owd, rate, limit: path.affordable() };
    }
    let shares = fill(block.unsent_bytes(), &pipes[..cx.paths.len().min(MAX_PATHS)]);
    if shares.left > 0 {
        return f64::MIN;
    }
    let taking_part = cx.paths.iter().zip(shares.bytes).filter(|(_, bytes)| *bytes > 0);
    let gaps = taking_part.map(|(path, bytes)| {
        let Some(deadline) = block.meta().deadline else { return path.bandwidth as f64 };
        let residual = deadline.saturating_sub(cx.now + path.owd).max(1);
        path.bandwidth as f64 - f64::from(bytes) * 8e6 / residual as f64
    });
    gaps.fold(f64::INFINITY, f64::min).min(f64::MAX)
}

/// Eq. 7; the lowest goes first.
fn weight(alpha: f64, gap: f64, rest: f64, priority: f64) -> f64 {
    alpha * gap * rest + (1.0 - alpha) * priority
}

/// Gives unreliable data to those of the paths that will be done before the busiest one.
fn fill_holes(
    plan: &mut Plan,
    cx: &Context<'_>,
    waiting: &mut VecDeque<(BlockId, u32)>,
    paths: impl Fn(&PathView) -> bool,
) {
    if waiting.is_empty() {
        return;
    }
    let openings = Openings::new(plan, cx);
    for path in cx.paths.iter().filter(|p| paths(p)) {
        while let Some(bytes) = openings.bytes(plan, cx, path) {
            let fits = |deadline| openings.admits(plan, cx, path, deadline);
            let Some((block, bytes)) = take_waiting(waiting, cx, bytes, fits) else { break };
            plan.give(block, path, bytes);
        }
    }
}

/// Where unreliable data may go.
struct Openings {
    /// Until when, from now, the busiest path is busy.
    busiest: Micros,
    /// The shortest delay of an open path, and how many there are.
    shortest: Micros,
    live: usize,
    /// Whether reliable bytes are still to be sent.
    reliable_waits: bool,
}

impl Openings {
    fn new(plan: &Plan, cx: &Context<'_>) -> Self {
        let open = || cx.paths.iter().filter(|p| p.is_open());
        Self {
            busiest: open().map(|p| plan.busy(p)).max().unwrap_or(0),
            shortest: open().map(|p| p.owd).min().unwrap_or(0),
            live: open().count(),
            reliable_waits: cx.queue.reliable_by_deadline().next().is_some(),
        }
    }

    /// Bytes that fit into the hole of a path now, rounded up to whole packets; `None` if it has none.
    fn bytes(&self, plan: &Plan, cx: &Context<'_>, path: &PathView) -> Option<u32> {
        let busy = plan.busy(path);
        let packet = capacity::time_for(path, u64::from(path.chunk));
        let end = if self.live == 1 || self.is_fast(cx, path) {
            // No hole here: only what is left when nothing reliable waits.
            if self.reliable_waits { 0 } else { busy + packet }
        } else if self.reliable_waits {
            self.busiest
        } else {
            self.busiest.max(path.owd - self.shortest).max(packet)
        };
        let hole = capacity::on_path(path, end.checked_sub(busy).filter(|hole| *hole > 0)?);
        let chunk = u64::from(path.chunk.max(1));
        u32::try_from(hole.div_ceil(chunk).max(1) * chunk).ok()
    }

    /// Whether data with this deadline may go on this path.
    fn admits(&self, plan: &Plan, cx: &Context<'_>, path: &PathView, deadline: Option<Micros>) -> bool {
        let in_time =
            |path: &PathView| deadline.is_none_or(|deadline| cx.now + plan.busy(path) + path.owd <= deadline);
        let elsewhere = || cx.paths.iter().any(|p| p.is_open() && !self.is_fast(cx, p) && in_time(p));
        in_time(path) && (self.live == 1 || !self.is_fast(cx, path) || !elsewhere())
    }

    /// Whether a path is the fast one; of several, the one that comes first.
    fn is_fast(&self, cx: &Context<'_>, path: &PathView) -> bool {
        cx.paths.iter().find(|p| p.is_open() && p.owd == self.shortest).is_some_and(|p| p.id == path.id)
    }
}

/// Takes up to `bytes` of the first waiting block whose deadline `fits`.
fn take_waiting(
    waiting: &mut VecDeque<(BlockId, u32)>,
    cx: &Context<'_>,
    bytes: u32,
    fits: impl Fn(Option<Micros>) -> bool,
) -> Option<(BlockId, u32)> {
    let has_fresh = |block| cx.queue.get(block).is_some_and(|b| b.fresh_bytes() > 0);
    waiting.retain(|(block, left)| *left > 0 && has_fresh(*block));
    let deadline = |block| cx.queue.get(block).and_then(|b| b.meta().deadline);
    let (block, left) = waiting.iter_mut().find(|(block, _)| fits(deadline(*block)))?;
    let taken = bytes.min(*left);
    *left -= taken;
    Some((*block, taken))
}

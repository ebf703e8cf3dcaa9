//! RAS: reliability-aware scheduling. With the signal watermarks it is STORM, without them STORM-U.
//!
//! Source: Hu and Li, "STORM: a Multipath QUIC Scheduler for Quick Streaming Media Transport under Unstable
//! Mobile Networks" (USENIX ATC 2025), §3.3.
//!
//! **Two queues.** Reliable blocks and unreliable data wait separately, each by deadline
//! ([`squall_sched::BlockQueue`] keeps both).
//!
//! **Reliable blocks** are divided so that their parts arrive together, weighted by the radio's quality:
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
//! with `R` the unsent share of the block, `bw_agg` the bandwidth of all paths and `P_max` the
//! largest waiting priority number. A block with a negative gap cannot be in time at present, and
//! is moved behind the others; one without residual time on any path is cancelled.
//!
//! **Unreliable data** fills time holes: a path with a longer delay must finish its part of a
//! reliable block earlier by the difference of the delays, and is idle until the faster path has
//! finished too. An injection is bounded by the hole and overruns it by less than a packet.
//!
//! **Outage.** A deactivated path takes no part. With one path left everything is sent there,
//! unreliable data only while no reliable bytes wait. After the scheduling round, and before
//! unreliable data without a hole, reliable bytes that are in flight on dead paths only are sent
//! once more on a live one, if the live paths can still deliver all missing bytes of their block in
//! time; unreliable ones are not. A block that can no longer be complete is not repaired further,
//! and is cancelled once bytes of it are lost.
//!
//! | option | unit | default | source |
//! | --- | --- | --- | --- |
//! | `alpha` | weight of the bandwidth gap against the priority, 0 to 1 | 0.5 | Table 2 |
//! | `spill` | whether the fast path takes unreliable data early, `true` or `false` | `false` | ours |
//!
//! Choices where the paper is silent or contradictory:
//!
//! - Eq. 4 as printed multiplies the sizes of both sides by `bw_agg`, which avoids values near zero
//!   and mixes units. It is read as equal arrival times, solved by water-filling for any number of
//!   paths; a path whose delay alone exceeds the common arrival takes nothing.
//! - The division starts from the unsent data of each path, so a block begins on the slow path
//!   while the previous one ends on the fast path, if no unreliable data uses the hole.
//! - Any number of paths: the fast path is the one with the shortest delay; every other one can
//!   have holes, each relative to the path that is busy longest.
//! - Between reliable blocks, when none waits, a slow path takes as much unreliable data in advance
//!   as the difference of the delays lasts, or a packet if that is more: the hole that the next
//!   block will leave. The fast path takes unreliable data only if no reliable bytes wait and no
//!   other path can deliver it in time. With `spill` it also does if, including the data waiting
//!   before it, the rest of its block arrives there sooner.
//! - The paper sends unreliable data as a stream, which loses only the lost bytes: here blocks that
//!   are [partial](squall_sched::BlockMeta::partial). Others end with their first lost chunk.
//! - Blocks without a deadline have the whole bandwidth as their gap. Of blocks with a negative gap
//!   the one that lacks least goes first.
//! - Weights are computed for the 64 blocks with the earliest deadlines, when a block arrives or
//!   ends, bytes are lost, a path changes by a tenth, or 10 ms have passed.

use std::collections::{BTreeSet, VecDeque};

use squall_sched::{
    Assignment, Block, BlockId, BuildError, Context, Decision, Duplicates, Entry, MAX_PATHS, OptionSpec,
    Options, PathSet, PathView, SchedEvent, Scheduler, Segment, SegmentState, Span, Time,
    allocation::{Pipe, fill},
    capacity,
};

use crate::plan::{FRONT, Pipes, Plan};

pub(super) const ENTRY: Entry = Entry {
    name: "ras",
    summary: "reliable blocks by urgency and priority, arriving together; unreliable data in the slow path's holes",
    source: "Hu and Li, USENIX ATC 2025 (STORM), §3.3; STORM-U",
    options: &[
        OptionSpec {
            name: "alpha",
            default: "0.5",
            help: "weight of the bandwidth gap against the priority, 0 to 1",
        },
        OptionSpec {
            name: "spill",
            default: "false",
            help: "whether unreliable data takes the idle fast path when it is there sooner, true or false",
        },
    ],
    signal: false,
};

/// RAS with the signal watermarks, which sessions and comparisons apply outside the scheduler.
pub(super) const STORM: Entry = Entry {
    name: "storm",
    summary: "ras, following radio signals: less on a path whose signal fades, nothing new on one that is out",
    source: "Hu and Li, USENIX ATC 2025 (STORM), §3",
    signal: true,
    ..ENTRY
};

pub(super) fn build(options: &mut Options) -> Result<Box<dyn Scheduler>, BuildError> {
    let alpha = options.take_in("alpha", 0.5, 0.0..=1.0)?;
    Ok(Box::new(Ras { spill: options.take("spill", false)?, ..Ras::new(alpha) }))
}

/// Reliability-aware scheduling.
#[derive(Clone, Debug)]
pub struct Ras {
    alpha: f64,
    spill: bool,
    plan: Plan,
    round: Vec<Ranked>,
    /// Unreliable blocks at the front that wait for a hole, with their unassigned bytes.
    unreliable: VecDeque<(BlockId, u32)>,
    /// Position of the search for bytes in flight on dead paths only; set while such a search is
    /// needed after a path died.
    stranded: Option<Duplicates>,
    /// Blocks with bytes on dead paths that the live ones cannot deliver in time.
    refused: BTreeSet<BlockId>,
}

/// Minimum time until the next search for a hole.
const SOONEST: Span = Span::from_micros(500);
/// Maximum time until the next search for a hole.
const LATEST: Span = Span::from_millis(10);

/// A reliable block with its weight.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Ranked {
    block: BlockId,
    /// It cannot meet its deadline at present.
    postponed: bool,
    /// The lowest goes first.
    rank: f64,
}

impl Ras {
    /// `alpha`: weight of the bandwidth gap against the priority, 0 to 1.
    pub fn new(alpha: f64) -> Self {
        Self {
            alpha,
            spill: false,
            plan: Plan::default(),
            round: Vec::new(),
            unreliable: VecDeque::new(),
            stranded: None,
            refused: BTreeSet::new(),
        }
    }
}

impl Scheduler for Ras {
    fn next(&mut self, cx: &Context<'_>) -> Decision {
        if self.plan.is_obsolete(cx) {
            if let Some(block) = hopeless(cx) {
                return Decision::Cancel { block, reason: "no residual time on any path" };
            }
            if let Some(block) = self.beyond_repair(cx) {
                return Decision::Cancel { block, reason: "lost on a dead path, too much to repair in time" };
            }
            self.begin_round(cx);
        }
        let assignment = self.planned(cx).or_else(|| self.reinject(cx)).or_else(|| {
            let idle = |path: &PathView| path.has_room();
            fill_holes(&mut self.plan, cx, &mut self.unreliable, self.spill, idle);
            self.planned(cx)
        });
        match assignment {
            Some(assignment) => Decision::Send(assignment),
            None => Decision::Idle { wake: self.wake(cx) },
        }
    }

    fn on_event(&mut self, event: &SchedEvent, cx: &Context<'_>) {
        self.plan.on_event(event);
        if let SchedEvent::Done { block, .. } = event {
            self.refused.remove(block);
        }
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
    /// Ranks the reliable blocks at the front, and queues the unreliable ones.
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
            let postponed = gap < 0.0;
            // By Eq. 7 the block with the largest deficit would go first.
            let rank = if postponed { -gap } else { weight };
            self.round.push(Ranked { block: meta.id, postponed, rank });
        }
        self.round.sort_by(|a, b| a.postponed.cmp(&b.postponed).then(a.rank.total_cmp(&b.rank)));
        self.plan.begin(cx, self.round.iter().map(|r| r.block));
        self.unreliable.clear();
        let waiting = cx.queue.unreliable_by_deadline().take(FRONT);
        self.unreliable.extend(waiting.map(|b| (b.meta().id, b.unsent_bytes())));
    }

    /// Returns the next part of the plan.
    fn planned(&mut self, cx: &Context<'_>) -> Option<Assignment> {
        let (unreliable, spill) = (&mut self.unreliable, self.spill);
        let place = |plan: &mut Plan, block: &Block| {
            fill_holes(plan, cx, unreliable, spill, PathView::is_open);
            let shares = Plan::divide(block, cx.paths, &arrival_pipes(plan, cx));
            plan.place(block.meta().id, cx.paths, &shares);
        };
        let reason = |block: &Block| match block.meta().reliable {
            true => "lowest weight, arrives with the rest of its block",
            false => "unreliable, in a time hole",
        };
        self.plan.next(cx, reason, place)
    }

    /// Deadline-aware reinjection, after the round: returns reliable bytes that are in flight on
    /// dead paths only, on the shortest path with room that delivers them in time, if their block
    /// can be complete in time.
    fn reinject(&mut self, cx: &Context<'_>) -> Option<Assignment> {
        let stranded = self.stranded.as_mut()?;
        let live = live(cx);
        let mut shortest_first: Vec<&PathView> = cx.paths.iter().filter(|p| p.has_room()).collect();
        shortest_first.sort_by_key(|p| p.owd);
        // The bytes of a block are visited one after the other.
        let mut known: Option<(BlockId, bool)> = None;
        let mut can_be_whole = |block: &Block| {
            let id = block.meta().id;
            let whole =
                known.filter(|(of, _)| *of == id).map_or_else(|| can_be_whole(cx, block, live), |(_, is)| is);
            known = Some((id, whole));
            whole
        };
        for path in shortest_first {
            let arrival = cx.now + self.plan.busy(path) + path.owd;
            let in_time = |block: &Block| block.meta().deadline.is_none_or(|deadline| arrival <= deadline);
            let refused = &mut self.refused;
            let wanted = |block: &Block| {
                let whole = block.meta().reliable && can_be_whole(block);
                if block.meta().reliable && !whole {
                    refused.insert(block.meta().id);
                }
                whole && in_time(block)
            };
            if let Some(work) = stranded.reinjection(cx.queue, live, path.id, wanted) {
                return Some(Assignment::new(work, path.id, "was in flight on a dead path"));
            }
        }
        // Every path that could carry data was considered.
        if cx.paths.iter().all(|p| !p.is_open() || p.has_room()) {
            self.stranded = None;
        }
        None
    }

    /// Returns a block that was not worth a reinjection and has lost bytes: repairing them would
    /// take capacity from blocks that can be in time.
    fn beyond_repair(&self, cx: &Context<'_>) -> Option<BlockId> {
        let live = live(cx);
        let is_lost = |block: &&Block| block.lost_bytes() > 0 && !can_be_whole(cx, block, live);
        let blocks = self.refused.iter().filter_map(|id| cx.queue.get(*id));
        blocks.filter(is_lost).map(|block| block.meta().id).next()
    }

    /// Returns the time at which a hole may open, or the plan is due for a review.
    fn wake(&self, cx: &Context<'_>) -> Option<Time> {
        let review = self.plan.review_at(cx);
        if self.unreliable.is_empty() {
            return review;
        }
        let with_room = cx.paths.iter().filter(|p| p.has_room());
        let opening =
            with_room.map(|p| capacity::time_for(p, u64::from(p.chunk)).clamp(SOONEST, LATEST)).min();
        let opening = opening.map(|pause| cx.now + pause);
        review.into_iter().chain(opening).min()
    }
}

/// The usable paths.
fn live(cx: &Context<'_>) -> PathSet {
    cx.paths.iter().filter(|p| p.usable).map(|p| p.id).collect()
}

/// `true` if the `live` paths can deliver in time the unsent bytes of a block, and those in flight
/// on dead paths only.
fn can_be_whole(cx: &Context<'_>, block: &Block, live: PathSet) -> bool {
    let held = |s: &&Segment| s.state == SegmentState::Sent && s.in_flight.is_disjoint(live);
    let stranded: u64 = block.segments().iter().filter(held).map(|s| u64::from(s.end - s.start)).sum();
    u64::from(block.unsent_bytes()) + stranded <= capacity::before(block.meta().deadline, cx.now, cx.paths)
}

/// Returns the first block with unsent bytes, reliable or not, that could not arrive in time even
/// if they left now (Eq. 5 of STORM, USENIX ATC 2025).
fn hopeless(cx: &Context<'_>) -> Option<BlockId> {
    let shortest_delay = cx.paths.iter().filter(|p| p.is_open()).map(|p| p.owd).min()?;
    let first = cx.queue.by_deadline().next()?.meta();
    first.deadline.is_some_and(|deadline| deadline <= cx.now + shortest_delay).then_some(first.id)
}

/// Returns the participating paths with their delays, for parts of a block that arrive together.
fn arrival_pipes(plan: &Plan, cx: &Context<'_>) -> Pipes {
    let mut pipes = plan.pipes(cx, |path| path.owd);
    for (pipe, path) in pipes.iter_mut().zip(cx.paths) {
        pipe.rate = (pipe.rate as f64 * path.factor.clamp(0.01, 1.0)) as u64;
    }
    pipes
}

/// Returns the bandwidth left when the block is sent just in time, on the path where it is scarcest
/// (Eq. 6), in bits per second; `f64::MIN` if the paths cannot carry all of it.
fn gap(cx: &Context<'_>, block: &Block) -> f64 {
    let closed = Pipe { start: Span::ZERO, rate: 0, limit: 0 };
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
        let residual = (deadline - (cx.now + path.owd)).max(Span::TICK);
        path.bandwidth as f64 - f64::from(bytes) * 8e6 / residual.micros() as f64
    });
    gaps.fold(f64::INFINITY, f64::min).min(f64::MAX)
}

/// Eq. 7; the lowest goes first.
fn weight(alpha: f64, gap: f64, rest: f64, priority: f64) -> f64 {
    alpha * gap * rest + (1.0 - alpha) * priority
}

/// Assigns unreliable data to those of the paths that finish before the busiest one.
fn fill_holes(
    plan: &mut Plan,
    cx: &Context<'_>,
    waiting: &mut VecDeque<(BlockId, u32)>,
    spill: bool,
    paths: impl Fn(&PathView) -> bool,
) {
    if waiting.is_empty() {
        return;
    }
    let openings = Openings::new(plan, cx, spill);
    for path in cx.paths.iter().filter(|p| paths(p)) {
        while let Some(bytes) = openings.bytes(plan, cx, path) {
            let fits = |deadline, ahead| openings.admits(plan, cx, path, deadline, ahead);
            let Some((block, bytes)) = take_waiting(waiting, cx, bytes, fits) else { break };
            plan.give(block, path, bytes);
        }
    }
}

/// Limits for unreliable data on the paths.
struct Openings {
    /// Time from now for which the busiest path is busy.
    busiest: Span,
    /// Shortest delay of an open path.
    shortest: Span,
    /// Number of open paths.
    live: usize,
    /// Reliable bytes are unsent.
    reliable_waits: bool,
    /// The fast path takes data that arrives sooner on it.
    spill: bool,
}

impl Openings {
    fn new(plan: &Plan, cx: &Context<'_>, spill: bool) -> Self {
        let open = || cx.paths.iter().filter(|p| p.is_open());
        Self {
            busiest: open().map(|p| plan.busy(p)).max().unwrap_or(Span::ZERO),
            shortest: open().map(|p| p.owd).min().unwrap_or(Span::ZERO),
            live: open().count(),
            reliable_waits: cx.queue.reliable_by_deadline().next().is_some(),
            spill,
        }
    }

    /// Returns the bytes that fit into the hole of a path now, rounded up to whole packets; `None`
    /// if it has none.
    fn bytes(&self, plan: &Plan, cx: &Context<'_>, path: &PathView) -> Option<u32> {
        let busy = plan.busy(path);
        let packet = capacity::time_for(path, u64::from(path.chunk));
        let end = if self.live == 1 || self.is_fast(cx, path) {
            // No hole here: unreliable data is sent only when no reliable data waits.
            if self.reliable_waits { Span::ZERO } else { busy + packet }
        } else if self.reliable_waits {
            self.busiest
        } else {
            self.busiest.max(path.owd - self.shortest).max(packet)
        };
        let hole = capacity::on_path(path, Some(end - busy).filter(|hole| !hole.is_zero())?);
        let chunk = u64::from(path.chunk.max(1));
        u32::try_from(hole.div_ceil(chunk).max(1) * chunk).ok()
    }

    /// `true` if data with this deadline may be sent on this path; `ahead` is the data waiting up
    /// to its end.
    fn admits(
        &self,
        plan: &Plan,
        cx: &Context<'_>,
        path: &PathView,
        deadline: Option<Time>,
        ahead: Ahead,
    ) -> bool {
        let arrival =
            |path: &PathView, bytes| cx.now + plan.busy(path) + capacity::time_for(path, bytes) + path.owd;
        let in_time = |path: &PathView| deadline.is_none_or(|deadline| arrival(path, 0) <= deadline);
        let slower = || cx.paths.iter().filter(|p| p.is_open() && !self.is_fast(cx, p));
        let sooner_here = || {
            let elsewhere = slower().map(|p| arrival(p, ahead.bytes)).min();
            elsewhere.is_none_or(|elsewhere| arrival(path, ahead.own) < elsewhere)
        };
        in_time(path)
            && (self.live == 1
                || !self.is_fast(cx, path)
                || !slower().any(in_time)
                || self.spill && !self.reliable_waits && sooner_here())
    }

    /// `true` if a path is the fast one; of several, the first.
    fn is_fast(&self, cx: &Context<'_>, path: &PathView) -> bool {
        cx.paths.iter().find(|p| p.is_open() && p.owd == self.shortest).is_some_and(|p| p.id == path.id)
    }
}

/// Data waiting up to the end of a block, in bytes.
#[derive(Clone, Copy)]
struct Ahead {
    /// Bytes of the block itself.
    own: u64,
    /// Including those of the blocks before it.
    bytes: u64,
}

/// Takes up to `bytes` of the first waiting block that `fits` by its deadline and the data ahead.
fn take_waiting(
    waiting: &mut VecDeque<(BlockId, u32)>,
    cx: &Context<'_>,
    bytes: u32,
    fits: impl Fn(Option<Time>, Ahead) -> bool,
) -> Option<(BlockId, u32)> {
    let has_fresh = |block| cx.queue.get(block).is_some_and(|b| b.fresh_bytes() > 0);
    waiting.retain(|(block, left)| *left > 0 && has_fresh(*block));
    let deadline = |block| cx.queue.get(block).and_then(|b| b.meta().deadline);
    let mut ahead = 0;
    let (block, left) = waiting.iter_mut().find(|(block, left)| {
        ahead += u64::from(*left);
        fits(deadline(*block), Ahead { own: u64::from(*left), bytes: ahead })
    })?;
    let taken = bytes.min(*left);
    *left -= taken;
    Some((*block, taken))
}

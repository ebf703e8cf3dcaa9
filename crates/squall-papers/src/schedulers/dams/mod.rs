//! DAMS, DAMS-C and DAMS-Robust: the deadline-aware multipath scheduler and its variants.
//!
//! Source: Zuo et al., "Deadline-aware Multipath Transmission for Streaming Blocks" (INFOCOM 2022).
//!
//! **Order** (§III-B). Blocks are sorted by deadline. Before the deadline `D` of a block, the paths
//! can deliver
//!
//! ```text
//! C = Σ max(0, D − now − OWD_j) · BW_j                                                         (Eq. 1)
//! ```
//!
//! bytes, of which the blocks ahead use their part. The blocks are visited by deadline; as soon as
//! one does not fit into the bytes left for it, the block with the smallest normalised credit
//!
//! ```text
//! d = c / (s · r)      c: credit, s: size, r: share of it not sent yet
//! ```
//!
//! among those so far is moved behind all others, until the rest fits. Blocks that fit are never
//! delayed. A block that can no longer be delivered in time is cancelled.
//!
//! **Placement** (§III-C). The paths finish *sending* a block together, so that a block that
//! arrives in between preempts one block and not several. Bytes that would arrive after the
//! deadline on a path move to the others, the one with the lowest delay first. DAMS-C keeps the
//! order and places as DEMS does: the paths' parts *arrive* together.
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
//! | `window` (dams-robust) | seconds over which the deviation is taken, 1 to 60 | 2 | not in the paper |
//! | `credit` | `linear`, `exponential` or `steep` | `linear` | not in the paper |
//! | `delay` | `measured` or `in-flight` | `measured` | ours |
//! | `hold` | ms, 0 to 60000, or `none` | `none` | ours |
//! | `unreliable` | `plan` or `minrtt` | `plan` | `minrtt`: STORM, §5.2.1 |
//! | `cancel` | `true` or `false` | `true` | `false`: inferred from STORM, §A.2 |
//!
//! **As compared with in STORM** (Hu and Li, USENIX ATC 2025, §5.2.1, Table 3):
//! `dams(unreliable=minrtt,cancel=false)`, over a session that keeps late blocks. "DAMS, however,
//! utilizes both paths for reliable data and defaults to MPQUIC's approach for unreliable data."
//! Only reliable blocks are planned. Unreliable ones leave in order of arrival, each packet on the
//! path with the lowest RTT among those with window left, before planned data, and are not
//! cancelled. With the older of both first, 54 % of the unreliable data took the fast path at ⟨15,
//! 20⟩; before planned data 83 %, and I blocks waited a quarter longer. The paper has 89.1 %, and
//! critical data that waits longer once other data is unreliable (§2.3.2). Packet delays of up to
//! 6.60 s (§A.2) suggest that nothing was cancelled at its deadline, which the paper does not
//! state: without `cancel` a block that cannot be in time is delayed, for as long as others fit.
//! Its waiting times of 11 s (§5.2.1) prove little, since STORM, which cancels, waits 45.3 % as
//! long as DAMS.
//!
//! **Against the queue that DAMS itself builds.** If bandwidth is short, blocks that cannot be in
//! time are still sent when windows have room, CUBIC keeps the queues full, and the smoothed
//! one-way delay shows that late: of the blocks that were kept in the setting of Fig. 5, 63 %
//! arrived. Two options, off by default:
//!
//! - `hold`: a delayed block uses a path only while the path's queue, its one-way delay above the
//!   minimum so far, is at most this long. Blocks that cannot be in time then do not make others
//!   late.
//! - `delay=in-flight`: `OWD` is the minimum one-way delay of the path, plus the time that its
//!   bytes in flight take beyond its minimum round trip.
//!
//! Choices where the paper is silent:
//!
//! - Credit grows with importance. Linear: 8 for priority 0 to 1 for priority 7. Exponential: each
//!   priority has twice the credit of the next; steep: ten times.
//! - A block that would not fit even if it were alone is delayed itself, whatever its credit:
//!   delaying others cannot help it.
//! - Delayed blocks use the capacity that the others leave, in order of deadline. Blocks without a
//!   deadline come last and always fit.
//! - A block is cancelled when its deadline is closer than the shortest one-way delay and it has
//!   unsent bytes. The paper cancels past the deadline; bytes sent in between would arrive too
//!   late.
//! - `OWD` is measured by the peer's receive times where the paper halves the RTT. `BW` is window over
//!   smoothed RTT, as in the paper.
//! - The standard deviation of the RTT, "collected in the past period of time", is that of each path over two seconds, one cycle
//!   of the bandwidths of §V-C2, and moves the deadlines for that path.
//! - Lost bytes of reliable blocks are part of their block (§IV); those of unreliable ones are gone.
//! - The order is made for the 64 blocks at the front when a block arrives or ends, bytes are lost, a path
//!   changes by a tenth, or 10 ms have passed (§IV, "triggering the scheduler"; §III-C bounds it likewise).
//!
//! - Beside a path of 20 to 500 kbps, up to a fifth of the frames are late that would be in time
//!   without it: parts whose *sending* ends together (§III-C) do not arrive together, because of
//!   the queue of the thin path. DAMS-C, which differs in nothing else, loses none
//!   (`docs/schedulers.md`, links that are thin at first).
//!
//! Any number of paths (§VI, "Path extension").

mod arrivals;
mod delays;
mod deviation;
mod order;
mod placement;

use self::{arrivals::Arrivals, delays::Delays, order::Arrangement, placement::equal_sending_end};
pub use self::{
    delays::{Delay, Hold},
    order::Credit,
};
use squall_sched::{
    Assignment, Block, BlockId, BuildError, Context, Decision, Entry, OptionSpec, Options, PathView,
    SchedEvent, Scheduler, Span, Time,
};

use super::dems::equal_arrival_over;
use crate::plan::{MAX_AGE, Plan};

const CREDIT: OptionSpec = OptionSpec {
    name: "credit",
    default: "linear",
    help: "how credit falls with priority: linear (8 to 1), exponential (halves) or steep (a tenth)",
};
const UNRELIABLE: OptionSpec = OptionSpec {
    name: "unreliable",
    default: "plan",
    help: "unreliable blocks: plan (as reliable ones) or minrtt (in order of arrival, lowest RTT with window left)",
};
const CANCEL: OptionSpec = OptionSpec {
    name: "cancel",
    default: "true",
    help: "true or false; false: what cannot arrive in time is not cancelled",
};
const DELAY: OptionSpec = OptionSpec {
    name: "delay",
    default: "measured",
    help: "one-way delay of a path: measured, or in-flight (the least, and what its bytes in flight add)",
};
const HOLD: OptionSpec = OptionSpec {
    name: "hold",
    default: "none",
    help: "ms, 0 to 60000, or none; a delayed block uses a path only while its queue is at most this long",
};

pub(super) const DAMS: Entry = Entry {
    name: "dams",
    summary: "by deadline, keeping what fits; paths finish sending a block together",
    source: "Zuo et al., INFOCOM 2022",
    options: &[CREDIT, DELAY, HOLD, UNRELIABLE, CANCEL],
    signal: false,
};

pub(super) const DAMS_C: Entry = Entry {
    name: "dams-c",
    summary: "the order of DAMS with the placement of DEMS",
    source: "Zuo et al., INFOCOM 2022, §V",
    options: &[CREDIT, DELAY, HOLD, UNRELIABLE, CANCEL],
    signal: false,
};

pub(super) const DAMS_ROBUST: Entry = Entry {
    name: "dams-robust",
    summary: "DAMS with deadlines moved earlier by the deviation of the RTT",
    source: "Zuo et al., INFOCOM 2022, §III-D",
    options: &[
        OptionSpec { name: "alpha", default: "1", help: "share of half the RTT's deviation, 0 to 100" },
        OptionSpec { name: "window", default: "2", help: "s, 1 to 60; over which the deviation is taken" },
        CREDIT,
        DELAY,
        HOLD,
        UNRELIABLE,
        CANCEL,
    ],
    signal: false,
};

pub(super) fn build(options: &mut Options) -> Result<Box<dyn Scheduler>, BuildError> {
    with(options, Settings::default())
}

pub(super) fn build_c(options: &mut Options) -> Result<Box<dyn Scheduler>, BuildError> {
    with(options, Settings { placement: Placement::EqualArrival, ..Settings::default() })
}

pub(super) fn build_robust(options: &mut Options) -> Result<Box<dyn Scheduler>, BuildError> {
    let alpha = options.take_in("alpha", 1.0, 0.0..=100.0)?;
    let window = Span::from_secs(options.take_in("window", 2, 1..=60)?);
    with(options, Settings { alpha, window, ..Settings::default() })
}

fn with(options: &mut Options, settings: Settings) -> Result<Box<dyn Scheduler>, BuildError> {
    let credit = options.take("credit", settings.credit)?;
    let delay = options.take("delay", settings.delay)?;
    let hold = options.take("hold", settings.hold)?;
    let unreliable = options.take("unreliable", settings.unreliable)?;
    let cancel = options.take("cancel", settings.cancel)?;
    Ok(Box::new(Dams::new(Settings { credit, delay, hold, unreliable, cancel, ..settings })))
}

/// Division of a block over the paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// The paths finish sending together: DAMS.
    EqualSendingEnd,
    /// The parts arrive together: DEMS, and therefore DAMS-C.
    EqualArrival,
}

/// Treatment of unreliable blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreliable {
    /// Planned like reliable ones.
    Plan,
    /// Sent in order of arrival, each packet on the path with the lowest RTT that has window left.
    MinRtt,
}

impl std::str::FromStr for Unreliable {
    type Err = &'static str;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        match name {
            "plan" => Ok(Self::Plan),
            "minrtt" => Ok(Self::MinRtt),
            _ => Err("must be plan or minrtt"),
        }
    }
}

/// Settings that distinguish DAMS and its variants. The default is DAMS.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Division of a block over the paths.
    pub placement: Placement,
    /// Value of a block.
    pub credit: Credit,
    /// Share of half the RTT's standard deviation by which deadlines are moved. Default: 0.
    pub alpha: f64,
    /// Time over which the standard deviation is taken. Default: 2 s.
    pub window: Span,
    /// Treatment of unreliable blocks. Default: they are planned.
    pub unreliable: Unreliable,
    /// Measure of a path's delay in addition to sending. Default: as measured.
    pub delay: Delay,
    /// Longest queue of a path that delayed blocks may use. Default: no limit.
    pub hold: Hold,
    /// A block that cannot arrive in time is cancelled. Default: yes.
    pub cancel: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            placement: Placement::EqualSendingEnd,
            credit: Credit::Linear,
            alpha: 0.0,
            window: Span::from_secs(2),
            unreliable: Unreliable::Plan,
            delay: Delay::Measured,
            hold: Hold(None),
            cancel: true,
        }
    }
}

/// DAMS, with the placement of the paper or of DEMS.
#[derive(Clone, Debug)]
pub struct Dams {
    settings: Settings,
    plan: Plan,
    arrangement: Arrangement,
    delays: Delays,
    arrivals: Arrivals,
}

impl Dams {
    /// Creates DAMS; DAMS-Robust with `alpha` above 0; DAMS-C with equal arrival.
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            plan: Plan::default(),
            arrangement: Arrangement::default(),
            delays: Delays::new(&settings),
            arrivals: Arrivals::default(),
        }
    }

    fn plans_all(&self) -> bool {
        self.settings.unreliable == Unreliable::Plan
    }

    /// Returns the first planned block with unsent bytes that could not arrive in time even if they
    /// left now.
    fn hopeless(&self, cx: &Context<'_>) -> Option<BlockId> {
        let shortest = cx.paths.iter().filter(|p| p.is_open()).map(|p| p.owd).min()?;
        let first = order::by_deadline(cx.queue, self.plans_all()).next()?.meta();
        let is_late = first.deadline.is_some_and(|deadline| deadline <= cx.now + shortest);
        (self.settings.cancel && is_late).then_some(first.id)
    }

    /// Rebuilds the order.
    fn begin(&mut self, cx: &Context<'_>) {
        self.delays.observe(cx);
        let blocks = order::by_deadline(cx.queue, self.plans_all());
        self.arrangement.make(cx, blocks, self.settings.credit, |path| self.delays.of(path));
        self.plan.begin(cx, self.arrangement.order());
    }

    /// Returns the next part of the plan.
    fn planned(&mut self, cx: &Context<'_>) -> Option<Assignment> {
        let place = |plan: &mut Plan, block: &Block| {
            let is_delayed = self.arrangement.delays(block.meta().id);
            let is_closed = |path: &PathView| is_delayed && self.delays.holds(path);
            match self.settings.placement {
                Placement::EqualArrival => equal_arrival_over(plan, cx, block, is_closed),
                Placement::EqualSendingEnd => {
                    let deadline = block.meta().deadline.filter(|_| !is_delayed);
                    equal_sending_end(plan, cx, block, deadline, |path| self.delays.of(path), is_closed);
                }
            }
        };
        self.plan.next(cx, |_| "by deadline", place)
    }

    /// Returns the time of the next decision: the plan is due for a review, or a queue may have
    /// become shorter.
    fn wake(&self, cx: &Context<'_>) -> Option<Time> {
        let holds = cx.paths.iter().any(|path| path.has_room() && self.delays.holds(path));
        let held = holds && self.arrangement.delays_any();
        self.plan.review_at(cx).or_else(|| held.then_some(cx.now + MAX_AGE))
    }

    /// Returns the next packets of the oldest unreliable block, if those do not follow the plan.
    fn arrived(&mut self, cx: &Context<'_>) -> Option<Assignment> {
        if self.plans_all() {
            return None;
        }
        let path = cx.fastest_with_room()?;
        let work = self.arrivals.next(cx.queue)?;
        Some(Assignment::new(work, path.id, "unreliable, lowest RTT with window left"))
    }
}

impl Scheduler for Dams {
    fn next(&mut self, cx: &Context<'_>) -> Decision {
        if self.plan.is_obsolete(cx) {
            if let Some(block) = self.hopeless(cx) {
                return Decision::Cancel { block, reason: "cannot arrive in time any more" };
            }
            self.begin(cx);
        }
        let next = self.arrived(cx).or_else(|| self.planned(cx));
        match next {
            Some(assignment) => Decision::Send(assignment),
            None => Decision::Idle { wake: self.wake(cx) },
        }
    }

    fn on_event(&mut self, event: &SchedEvent, cx: &Context<'_>) {
        self.plan.on_event(event);
        self.delays.on_event(event, cx);
        if !self.plans_all() {
            self.arrivals.on_event(event, cx.queue);
        }
    }
}

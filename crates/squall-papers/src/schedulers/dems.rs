//! DEMS: one block after the other, each arriving over all paths at the same time.
//!
//! Source: Guo et al., "Accelerating Multipath Transport Through Balanced Subflow Completion"
//! (MobiCom 2017), as described and compared with in DAMS (INFOCOM 2022, §II and §V). A block is
//! divided so that the time to send its part plus the one-way delay is the same on every path that
//! takes part:
//!
//! ```text
//! waiting_i + size_i / BW_i + OWD_i = T,   Σ size_i = size
//! ```
//!
//! which is the earliest time at which the block can be complete. A path whose one-way delay alone
//! is longer takes nothing. The subflows are decoupled: a path that has sent its part begins with
//! the next block while the others still send this one, so with paths of unequal delay different
//! blocks are in flight at the same time. Blocks are sent in order of submission; deadlines and
//! priorities are not used.
//!
//! - `BW_i` is window over smoothed RTT and `OWD_i` the one-way delay from the peer's receive times. The paper
//!   halves the RTT.
//! - `waiting_i` is the assigned and unsent data of the path, over `BW_i`.
//! - Lost bytes belong to their block and are divided again with its rest.
//! - The paper's optional reinjection of a block's last bytes on the other subflow is left out:
//!   DAMS compares with the division, and DAMS-C and STORM adopt the division.
//!
//! Any number of paths: the paper's two are the sum above with two terms.
//!
//! `serial` (default `false`): a block begins when the one before it has been sent on *all* paths,
//! not on one of them. DAMS describes the DEMS that it measured in this way (§V-C1), and explains
//! its low completion by it.

use squall_sched::{
    Assignment, Block, BuildError, Context, Decision, Entry, OptionSpec, Options, PathView, SchedEvent,
    Scheduler,
};

use crate::plan::{FRONT, Plan};

pub(super) const ENTRY: Entry = Entry {
    name: "dems",
    summary: "one block after the other, each arriving over all paths at the same time",
    source: "Guo et al., MobiCom 2017; baseline of DAMS",
    options: &[OptionSpec {
        name: "serial",
        default: "false",
        help: "true: a block begins when the one before it was sent on all paths; false: on one",
    }],
    signal: false,
};

pub(super) fn build(options: &mut Options) -> Result<Box<dyn Scheduler>, BuildError> {
    Ok(Box::new(Dems { serial: options.take("serial", false)?, plan: Plan::default() }))
}

/// First come, first served, with simultaneous subflow completion.
#[derive(Clone, Debug)]
pub struct Dems {
    serial: bool,
    plan: Plan,
}

impl Scheduler for Dems {
    fn next(&mut self, cx: &Context<'_>) -> Decision {
        if self.plan.is_obsolete(cx) {
            self.begin(cx);
        }
        let mut next = self.assign(cx);
        if next.is_none() && self.serial && self.plan.is_used_up() {
            self.begin(cx);
            next = self.assign(cx);
        }
        match next {
            Some(assignment) => Decision::Send(assignment),
            None => Decision::Idle { wake: self.plan.review_at(cx) },
        }
    }

    fn on_event(&mut self, event: &SchedEvent, _: &Context<'_>) {
        self.plan.on_event(event);
    }
}

impl Dems {
    fn begin(&mut self, cx: &Context<'_>) {
        let with_lost = cx.queue.with_lost();
        let without = cx.queue.with_fresh().filter(|b| !b.meta().reliable || b.lost_bytes() == 0);
        let front = if self.serial { 1 } else { FRONT };
        self.plan.begin(cx, with_lost.chain(without).map(|b| b.meta().id).take(front));
    }

    fn assign(&mut self, cx: &Context<'_>) -> Option<Assignment> {
        let place = |plan: &mut Plan, block: &Block| equal_arrival(plan, cx, block);
        self.plan.next(cx, |_| "arrives with the rest of its block", place)
    }
}

/// Divides a block so that its parts arrive at the same time.
pub(super) fn equal_arrival(plan: &mut Plan, cx: &Context<'_>, block: &Block) {
    equal_arrival_over(plan, cx, block, |_| false);
}

/// As [`equal_arrival`], without the paths that are closed to the block.
pub(super) fn equal_arrival_over(
    plan: &mut Plan,
    cx: &Context<'_>,
    block: &Block,
    is_closed: impl Fn(&PathView) -> bool,
) {
    let mut pipes = plan.pipes(cx, |path| path.owd);
    pipes.close(cx.paths, is_closed);
    let shares = Plan::divide(block, cx.paths, &pipes);
    plan.place(block.meta().id, cx.paths, &shares);
}

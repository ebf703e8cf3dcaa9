//! What goes before: the same windows and estimates for every scheduler, and for each a past of its own.

use std::{
    ops::Range,
    sync::{Arc, OnceLock},
};

use squall_proto::sched::{
    Context, Decision, SchedEvent, Scheduler, Sharing, schedulers::round_robin::RoundRobin,
};
use squall_units::Micros;

/// A scheduler that another one stands in for during a time in which all paths are to be filled.
///
/// Without that, one that never used a path would come to the comparison with the first window and no
/// measurement there. What happens meanwhile is no experience of the scheduler's.
pub(super) struct Rehearsed {
    pub(super) scheduler: Box<dyn Scheduler>,
    pub(super) stand_in: RoundRobin,
    /// In microseconds since the endpoint's epoch.
    pub(super) filling: Range<Micros>,
    /// Bytes that a metered path has carried before the picture, once that has begun.
    pub(super) spent: Arc<OnceLock<u64>>,
}

impl Scheduler for Rehearsed {
    fn next(&mut self, cx: &Context<'_>) -> Decision {
        if self.filling.contains(&cx.now) { self.stand_in.next(cx) } else { self.scheduler.next(cx) }
    }

    fn on_event(&mut self, event: &SchedEvent, cx: &Context<'_>) {
        if !self.filling.contains(&cx.now) {
            self.scheduler.on_event(event, cx);
        }
    }

    fn may_hedge(&self) -> bool {
        self.scheduler.may_hedge()
    }

    fn follows_queue(&self) -> bool {
        self.scheduler.follows_queue()
    }

    fn sharing(&self) -> Sharing {
        self.scheduler.sharing()
    }

    /// The cap is for what is seen in the picture.
    fn metered_cap(&self) -> Option<u64> {
        Some(self.scheduler.metered_cap()?.saturating_add(*self.spent.get()?))
    }
}

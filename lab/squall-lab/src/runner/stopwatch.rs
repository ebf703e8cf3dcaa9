//! Measures the processor time of schedulers.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};
use std::time::Instant;

use squall_proto::{
    SchedulerFactory,
    sched::{Context, Decision, Profile, SchedEvent, Scheduler},
};

/// Real time that the schedulers of a run in virtual time have taken.
#[derive(Debug, Clone, Default)]
pub(super) struct Stopwatch(Arc<AtomicU64>);

impl Stopwatch {
    /// Wraps a factory so that the time of its schedulers is added up.
    pub(super) fn time(&self, factory: SchedulerFactory) -> SchedulerFactory {
        let spent = self.0.clone();
        Arc::new(move || Box::new(Timed { inner: factory(), spent: spent.clone() }))
    }

    /// Total in nanoseconds.
    pub(super) fn nanos(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

struct Timed {
    inner: Box<dyn Scheduler>,
    spent: Arc<AtomicU64>,
}

impl Timed {
    fn add(&self, since: Instant) {
        self.spent.fetch_add(since.elapsed().as_nanos() as u64, Ordering::Relaxed);
    }
}

impl Scheduler for Timed {
    fn next(&mut self, cx: &Context<'_>) -> Decision {
        let since = Instant::now();
        let decision = self.inner.next(cx);
        self.add(since);
        decision
    }

    fn on_event(&mut self, event: &SchedEvent, cx: &Context<'_>) {
        let since = Instant::now();
        self.inner.on_event(event, cx);
        self.add(since);
    }

    fn profile(&self) -> Profile {
        self.inner.profile()
    }
}

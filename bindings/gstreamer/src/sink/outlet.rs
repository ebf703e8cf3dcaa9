//! Current session of a sink, and waits that a change of state interrupts.

use std::{
    future::Future,
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use squall::Session;
use squall_bindings::{OfProcess, runtime};

/// The session of a sink.
#[derive(Default)]
pub(crate) struct Outlet {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    session: Option<OfProcess<Session>>,
    /// Number of sessions so far.
    count: u64,
    /// Waits must end: the pipeline flushes or stops, or no session is possible.
    interrupted: bool,
    failed: bool,
    /// Number of the last finished wait.
    done: Option<u64>,
    waits: u64,
}

impl State {
    fn current(&self) -> Option<Session> {
        self.session.as_ref()?.get("element").ok().cloned()
    }
}

impl Outlet {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.lock());
        self.changed.notify_all();
    }

    pub(crate) fn reset(&self) {
        self.change(|state| *state = State { waits: state.waits, ..State::default() });
    }

    pub(crate) fn open(&self, session: Session) {
        self.change(|state| {
            state.session = Some(OfProcess::new(session));
            state.count += 1;
        });
    }

    pub(crate) fn shut(&self) {
        self.change(|state| state.session = None);
    }

    pub(crate) fn fail(&self) {
        self.change(|state| state.failed = true);
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.lock().failed
    }

    pub(crate) fn interrupt(&self, on: bool) {
        self.change(|state| state.interrupted = on);
    }

    pub(crate) fn is_interrupted(&self) -> bool {
        self.lock().interrupted
    }

    pub(crate) fn session(&self) -> Option<Session> {
        self.lock().current()
    }

    /// Returns the session and its number. Waits for the first one until the timeout; does not wait
    /// in a later gap.
    pub(crate) fn session_within(&self, time: Duration) -> Option<(Session, u64)> {
        let end = Instant::now() + time;
        let mut state = self.lock();
        loop {
            if let Some(session) = state.current() {
                return Some((session, state.count));
            }
            let left = end.saturating_duration_since(Instant::now());
            if state.count > 0 || state.interrupted || state.failed || left.is_zero() {
                return None;
            }
            state = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Waits for an event of the session, until the timeout or an interruption.
    pub(crate) fn wait(
        self: &std::sync::Arc<Self>,
        time: Duration,
        event: impl Future<Output = ()> + Send + 'static,
    ) {
        let Ok(runtime) = runtime() else { return };
        let number = {
            let mut state = self.lock();
            state.waits += 1;
            state.waits
        };
        let outlet = self.clone();
        let task = runtime.spawn(async move {
            event.await;
            outlet.change(|state| state.done = Some(number));
        });
        let is_open = |state: &mut State| state.done != Some(number) && !state.interrupted;
        drop(self.changed.wait_timeout_while(self.lock(), time, is_open));
        task.abort();
    }
}

//! Sessions with new events, for one Java thread that serves all of them.

use std::{
    collections::BTreeSet,
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

static READY: Ready = Ready { sessions: Mutex::new(BTreeSet::new()), changed: Condvar::new() };

/// Contains each session at most once, so it needs no other bound.
struct Ready {
    sessions: Mutex<BTreeSet<i64>>,
    changed: Condvar,
}

/// Reports that a session has new events.
pub(crate) fn report(session: i64) {
    READY.report(session);
}

/// Waits for a session with new events; `None` after the timeout.
pub(crate) fn next(timeout: Duration) -> Option<i64> {
    READY.next(timeout)
}

impl Ready {
    fn report(&self, session: i64) {
        if self.lock().insert(session) {
            self.changed.notify_one();
        }
    }

    fn next(&self, timeout: Duration) -> Option<i64> {
        let sessions = self.lock();
        let waited = self.changed.wait_timeout_while(sessions, timeout, |sessions| sessions.is_empty());
        waited.unwrap_or_else(PoisonError::into_inner).0.pop_first()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeSet<i64>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_reported_once_until_it_is_taken() {
        let ready = Ready { sessions: Mutex::default(), changed: Condvar::new() };
        for session in [7, 8, 7] {
            ready.report(session);
        }
        assert_eq!([ready.next(Duration::ZERO), ready.next(Duration::ZERO)], [Some(7), Some(8)]);
        assert_eq!(ready.next(Duration::from_millis(1)), None);
        ready.report(7);
        assert_eq!(ready.next(Duration::MAX), Some(7));
    }

    #[test]
    fn a_report_wakes_the_thread_that_waits() {
        let ready = Ready { sessions: Mutex::default(), changed: Condvar::new() };
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| ready.next(Duration::MAX));
            ready.report(3);
            assert_eq!(waits.join().expect("returns"), Some(3));
        });
    }
}

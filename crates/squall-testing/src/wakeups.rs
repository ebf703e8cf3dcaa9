//! How promptly the machine wakes a thread that comes before all others.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

/// Between two wake-ups: often enough for a share of hundredths in a test of a second, and 1 % of a processor at most.
const PAUSE: Duration = Duration::from_millis(2);

/// A thread that sleeps and measures how late it is woken.
///
/// It comes before all programs, also before emulated links, so that only the machine can make it late: the host of a
/// virtual one runs something else, or sees late that a clock is due. Where the system does not grant that priority the
/// code under test could make it late too, so nothing is measured.
pub(crate) struct Wakeups {
    over: Arc<AtomicBool>,
    thread: JoinHandle<Option<Vec<Duration>>>,
}

impl Wakeups {
    /// Measures from now on.
    pub(crate) fn watch() -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let until = Arc::clone(&over);
        let thread = thread::spawn(move || {
            if !comes_first() {
                return None;
            }
            let mut late = Vec::new();
            while !until.load(Ordering::Relaxed) {
                let asleep = Instant::now();
                thread::sleep(PAUSE);
                late.push(asleep.elapsed().saturating_sub(PAUSE));
            }
            Some(late)
        });
        Self { over, thread }
    }

    /// Ends; one of `many` wake-ups was at least this late. `None` if nothing could be measured.
    pub(crate) fn one_of(self, many: usize) -> Option<Duration> {
        self.over.store(true, Ordering::Relaxed);
        let mut late = self.thread.join().expect("it only sleeps")?;
        late.sort_unstable_by(|a, b| b.cmp(a));
        late.get(late.len() / many).copied()
    }
}

/// Has this thread woken before all others, and to the microsecond; whether the system grants it.
#[cfg(target_os = "linux")]
fn comes_first() -> bool {
    use thread_priority::{
        RealtimeThreadSchedulePolicy::Fifo, ThreadPriority, ThreadSchedulePolicy,
        set_thread_priority_and_policy, thread_native_id,
    };
    /// Above the 10 of emulated links.
    const FIRST: u8 = 20;
    let _ = rustix::thread::set_current_timer_slack(std::num::NonZero::new(1));
    let policy = ThreadSchedulePolicy::Realtime(Fifo);
    let priority = ThreadPriority::try_from(FIRST);
    priority.is_ok_and(|it| set_thread_priority_and_policy(thread_native_id(), it, policy).is_ok())
}

#[cfg(not(target_os = "linux"))]
fn comes_first() -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(late: Option<Vec<Duration>>) -> Wakeups {
        Wakeups { over: Arc::default(), thread: thread::spawn(|| late) }
    }

    #[test]
    fn one_of_is_the_lateness_that_one_in_that_many_exceeds() {
        let late = (1..=1_000).map(Duration::from_micros).collect();
        assert_eq!(measured(Some(late)).one_of(100), Some(Duration::from_micros(990)));
    }

    #[test]
    fn without_the_priority_nothing_is_measured() {
        assert_eq!(measured(None).one_of(100), None);
    }

    #[test]
    fn a_thread_that_sleeps_is_woken_until_it_is_over() {
        let wakeups = Wakeups::watch();
        thread::sleep(PAUSE * 10);
        wakeups.over.store(true, Ordering::Relaxed);
        let late = wakeups.thread.join().expect("it only sleeps");
        assert!(late.is_none_or(|late| !late.is_empty()));
    }
}

//! How promptly the machine wakes a program that has asked for that.

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

/// A thread that sleeps and looks how late it was woken.
///
/// Where the system allows that it comes before all programs, also before emulated links, so that only the machine can
/// make it late: the host of a virtual one runs something else, or sees late that a clock is due. Elsewhere it stands in
/// line with all others, so that a test which keeps all processors busy by itself makes it late too.
pub(crate) struct Wakeups {
    over: Arc<AtomicBool>,
    thread: JoinHandle<Vec<Duration>>,
}

impl Wakeups {
    /// Looks from now on.
    pub(crate) fn watch() -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&over);
        let thread = thread::spawn(move || {
            come_first();
            let mut late = Vec::new();
            while !told.load(Ordering::Relaxed) {
                let asleep = Instant::now();
                thread::sleep(PAUSE);
                late.push(asleep.elapsed().saturating_sub(PAUSE));
            }
            late
        });
        Self { over, thread }
    }

    /// Looks no longer: one of so many wake-ups was as late as this, the latest if there were fewer.
    pub(crate) fn one_of(self, many: usize) -> Duration {
        self.over.store(true, Ordering::Relaxed);
        let mut late = self.thread.join().expect("it only sleeps");
        late.sort_unstable_by(|a, b| b.cmp(a));
        late.get(late.len() / many).copied().unwrap_or_default()
    }
}

/// Has this thread woken before all others, and to the microsecond, as far as that is allowed.
fn come_first() {
    #[cfg(target_os = "linux")]
    {
        use thread_priority::{
            RealtimeThreadSchedulePolicy::Fifo, ThreadPriority, ThreadSchedulePolicy,
            set_thread_priority_and_policy, thread_native_id,
        };
        /// Above the 10 of emulated links.
        const FIRST: u8 = 20;
        let _ = rustix::thread::set_current_timer_slack(std::num::NonZero::new(1));
        let _ = ThreadPriority::try_from(FIRST).map(|priority| {
            set_thread_priority_and_policy(thread_native_id(), priority, ThreadSchedulePolicy::Realtime(Fifo))
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lateness_is_that_of_one_of_so_many() {
        let thread = thread::spawn(|| (1..=1_000).map(Duration::from_micros).collect());
        let wakeups = Wakeups { over: Arc::default(), thread };
        assert_eq!(wakeups.one_of(100), Duration::from_micros(990));
        let never = Wakeups { over: Arc::default(), thread: thread::spawn(Vec::new) };
        assert_eq!(never.one_of(100), Duration::ZERO);
    }

    #[test]
    fn a_thread_that_sleeps_is_woken_until_it_is_over() {
        let wakeups = Wakeups::watch();
        thread::sleep(PAUSE * 10);
        wakeups.over.store(true, Ordering::Relaxed);
        let late = wakeups.thread.join().expect("it only sleeps");
        assert!(!late.is_empty());
    }
}

//! Probe of the machine's timing: wake-up latency of a thread with priority over all others, and
//! variation of a computation's time.

use std::{
    hint::black_box,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

/// Time between two wake-ups: short enough to detect shares of 1 % in a test of a second.
const PAUSE: Duration = Duration::from_millis(2);

/// Steps of the computation after each wake-up, which takes about 30 µs: less than 2 % of a
/// processor in all.
const STEPS: u32 = 20_000;

/// Thread that sleeps and measures how late it wakes up, and the time that a constant computation
/// takes then.
///
/// It has priority over all programs, also over emulated links, so that only the machine can make
/// it late: the host of a virtual machine runs something else, or handles a timer late. A host may
/// also slow a processor down without counting that as steal time; the computation uses no memory,
/// so that the code under test cannot slow it down to a third. If the system does not grant that
/// priority, the code under test could delay the probe too, so nothing is measured.
pub(crate) struct Probe {
    over: Arc<AtomicBool>,
    thread: JoinHandle<Option<Vec<Sample>>>,
}

/// Measurement at one wake-up.
#[derive(Clone, Copy, Debug)]
struct Sample {
    late: Duration,
    computation: Duration,
}

/// Result of a probe.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Found {
    /// Lateness that one of [`Self::SAMPLES`] wake-ups reached.
    pub late: Duration,
    /// Time that one of [`Self::SAMPLES`] computations reached, as a multiple of the median.
    pub slow: f64,
}

impl Found {
    /// Four times the number of packets of which one may be late, as late wake-ups and late packets
    /// do not coincide.
    pub(crate) const SAMPLES: usize = 400;

    /// Returns `None` without samples.
    fn of(samples: &[Sample]) -> Option<Self> {
        let in_order = |of: fn(&Sample) -> Duration| {
            let mut all: Vec<Duration> = samples.iter().map(of).collect();
            all.sort_unstable_by(|a, b| b.cmp(a));
            all
        };
        let late = in_order(|sample| sample.late);
        let computations = in_order(|sample| sample.computation);
        let one_of = |all: &[Duration], many| all.get(all.len() / many).copied();
        let (slow, median) = (one_of(&computations, Self::SAMPLES)?, one_of(&computations, 2)?);
        Some(Self { late: one_of(&late, Self::SAMPLES)?, slow: slow.div_duration_f64(median) })
    }
}

impl Probe {
    /// Starts measuring.
    pub(crate) fn begin() -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let until = Arc::clone(&over);
        let thread = thread::spawn(move || {
            if !comes_first() {
                return None;
            }
            let mut samples = Vec::new();
            while !until.load(Ordering::Relaxed) {
                let asleep = Instant::now();
                thread::sleep(PAUSE);
                let awake = Instant::now();
                compute();
                let late = (awake - asleep).saturating_sub(PAUSE);
                samples.push(Sample { late, computation: awake.elapsed() });
            }
            Some(samples)
        });
        Self { over, thread }
    }

    /// Stops measuring. Returns `None` if nothing could be measured.
    pub(crate) fn end(self) -> Option<Found> {
        self.over.store(true, Ordering::Relaxed);
        Found::of(&self.thread.join().expect("it only sleeps and computes")?)
    }
}

/// Keeps the processor busy without using memory: the steps of a random number generator.
fn compute() {
    let step = |x: u64, _| black_box(x.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1));
    black_box((0..STEPS).fold(1, step));
}

/// Gives this thread priority over all others, and wake-ups exact to the microsecond. Returns
/// `true` if the system grants the priority.
#[cfg(target_os = "linux")]
fn comes_first() -> bool {
    use thread_priority::{
        RealtimeThreadSchedulePolicy::Fifo, ThreadPriority, ThreadSchedulePolicy,
        set_thread_priority_and_policy, thread_native_id,
    };
    /// Priority above the 10 of emulated links.
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

    fn samples(late: impl Fn(u64) -> u64, computation: impl Fn(u64) -> u64) -> Vec<Sample> {
        let micros = Duration::from_micros;
        let sample = |n| Sample { late: micros(late(n)), computation: micros(computation(n)) };
        (1..=1_000).map(sample).collect()
    }

    #[test]
    fn the_sample_that_one_in_a_number_exceeds_is_found() {
        let found = Found::of(&samples(|n| n, |n| if n <= 2 { 400 } else { 50 + n % 3 }));
        assert_eq!(found, Some(Found { late: Duration::from_micros(998), slow: 52.0 / 51.0 }));
        let found = Found::of(&samples(|_| 0, |n| if n <= 3 { 408 } else { 50 + n % 3 }));
        assert_eq!(found, Some(Found { late: Duration::ZERO, slow: 8.0 }));
    }

    #[test]
    fn without_a_sample_nothing_is_found() {
        assert_eq!(Found::of(&[]), None);
    }

    #[test]
    fn without_the_priority_nothing_is_measured() {
        let probe = Probe { over: Arc::default(), thread: thread::spawn(|| None) };
        assert_eq!(probe.end(), None);
    }

    #[test]
    fn a_probe_measures_until_it_ends() {
        let probe = Probe::begin();
        thread::sleep(PAUSE * 10);
        assert!(probe.end().is_none_or(|found| found.slow >= 1.0));
    }
}

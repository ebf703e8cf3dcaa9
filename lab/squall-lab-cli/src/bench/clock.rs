//! Clocks that the standard library lacks.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Processor time of this thread.
pub(super) fn thread_time() -> Duration {
    read(ClockId::ThreadCPUTime)
}

/// Processor time of this process, including system time.
pub(super) fn process_time() -> Duration {
    read(ClockId::ProcessCPUTime)
}

/// Time since the start of the system: the same for all processes.
pub(super) fn since_start() -> Duration {
    read(ClockId::Monotonic)
}

fn read(clock: ClockId) -> Duration {
    let time = clock_gettime(clock);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

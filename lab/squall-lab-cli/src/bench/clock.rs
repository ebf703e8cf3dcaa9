//! Processor time.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Processor time of this thread.
pub(super) fn thread_time() -> Duration {
    processor_time(ClockId::ThreadCPUTime)
}

/// Processor time of this process, including system time.
pub(super) fn process_time() -> Duration {
    processor_time(ClockId::ProcessCPUTime)
}

fn processor_time(clock: ClockId) -> Duration {
    let time = clock_gettime(clock);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

//! The clock that both sides share.

use nix::time::{ClockId, clock_gettime};

/// Microseconds since the machine was started.
pub(crate) fn now_us() -> u64 {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC).expect("every Linux has this clock");
    // Neither is ever negative.
    now.tv_sec().unsigned_abs() * 1_000_000 + now.tv_nsec().unsigned_abs() / 1_000
}

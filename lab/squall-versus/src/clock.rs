//! Clock that both sides share.

use nix::time::{ClockId, clock_gettime};

/// Returns microseconds since system start.
pub(crate) fn now_us() -> u64 {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC).expect("every Linux has this clock");
    // Both parts are never negative.
    now.tv_sec().unsigned_abs() * 1_000_000 + now.tv_nsec().unsigned_abs() / 1_000
}

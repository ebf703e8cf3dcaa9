//! The link's inner clock: nanoseconds, so that serialisation at megabits a second stays exact.

use squall_trace::Micros;

pub(crate) type Nanos = u64;

pub(crate) const NEVER: Nanos = u64::MAX;
pub(crate) const NANOS_PER_MILLI: Nanos = 1_000_000;
const NANOS_PER_MICRO: Nanos = 1_000;

pub(crate) fn nanos(micros: Micros) -> Nanos {
    micros.saturating_mul(NANOS_PER_MICRO)
}

/// Returns the first whole microsecond that is not before `at`.
pub(crate) fn micros_after(at: Nanos) -> Micros {
    at.div_ceil(NANOS_PER_MICRO)
}

/// Returns the last whole microsecond that is not after `at`.
pub(crate) fn micros_before(at: Nanos) -> Micros {
    at / NANOS_PER_MICRO
}

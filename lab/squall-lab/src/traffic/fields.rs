//! Defaults and bounds shared by several kinds of traffic.

use std::fmt::Display;
use std::ops::RangeInclusive;

use squall_units::{Ratio, Span};

/// Largest block of a session in bytes.
pub(super) const MAX_BLOCK: u64 = 16 << 20;

/// Shortest interval between blocks in microseconds.
pub(super) const MIN_INTERVAL_US: u64 = 100;

/// A field that is out of bounds, with the reason.
#[derive(Debug)]
pub struct Invalid {
    /// Name of the field in the scenario file.
    pub field: &'static str,
    /// Description of the problem.
    pub words: String,
}

/// Result of checking the bounds of fields.
pub type Checked = Result<(), Invalid>;

/// Requires a condition on a field.
pub(super) fn require(holds: bool, field: &'static str, words: impl Display) -> Checked {
    if holds { Ok(()) } else { Err(Invalid { field, words: format!("{field}: {words}") }) }
}

/// Requires a value between two bounds, inclusive.
pub(super) fn within<T: PartialOrd + Display + Copy>(
    field: &'static str,
    value: T,
    bounds: RangeInclusive<T>,
) -> Checked {
    let (least, most) = (bounds.start(), bounds.end());
    require(bounds.contains(&value), field, format_args!("{value} is not within {least} and {most}"))
}

/// Requires a valid size of a block or a backlog, in bytes.
pub(super) fn bytes_within(field: &'static str, bytes: u64, most: u64) -> Checked {
    let words = format_args!("{bytes} is not within 1 and {most} bytes");
    require((1..=most).contains(&bytes), field, words)
}

/// Requires that the largest block that follows from a field does not exceed the limit of a
/// session.
pub(super) fn largest(field: &'static str, what: &str, bytes: u64) -> Checked {
    let words = format_args!("its largest {what} of {bytes} bytes is above {MAX_BLOCK} bytes");
    require(bytes <= MAX_BLOCK, field, words)
}

/// Requires an interval between blocks that is not too short.
pub(super) fn interval(interval: Span) -> Checked {
    let words = format_args!("it must be at least {MIN_INTERVAL_US}us");
    require(interval.micros() >= MIN_INTERVAL_US, "interval", words)
}

/// Requires a priority within the range of sessions.
pub(super) fn priority(field: &'static str, priority: u8) -> Checked {
    within(field, priority, 0..=squall_sched::PRIORITIES - 1)
}

/// Number of frames in this time, rounded, at least 1.
pub(super) fn frames_within(time: Span, fps: u32) -> u64 {
    let frames = (u128::from(time.micros()) * u128::from(fps) + 500_000) / 1_000_000;
    frames.clamp(1, u128::from(u32::MAX)) as u64
}

/// A default in milliseconds.
pub(super) fn millis<const MS: u64>() -> Span {
    Span::from_millis(MS)
}

/// A default that is a number.
pub(super) fn number<const N: u8, T: From<u8>>() -> T {
    N.into()
}

/// A default in hundredths.
pub(super) fn percent<const N: u32>() -> Ratio {
    Ratio::from_billionths(N * 10_000_000)
}

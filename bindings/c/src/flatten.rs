//! Conversion of events to the struct of the header.

use std::{
    ffi::CString,
    ptr,
    time::{Duration, Instant},
};

use bytes::Bytes;
use squall_bindings::Event;

use crate::{
    error::one_line,
    types::{self, Cause, EventKind},
};

/// Memory that the pointers of an event refer to.
pub(crate) struct Owner {
    data: Bytes,
    text: CString,
    missing: Vec<types::Range>,
}

/// Returns the struct for an event. Its `owner` is a leaked [`Owner`].
pub(crate) fn flatten(event: Event) -> types::Event {
    let missing = event.missing.iter().map(|range| types::Range { start: range.start, end: range.end });
    let owner = Box::new(Owner { data: event.data, text: one_line(&event.text), missing: missing.collect() });
    types::Event {
        kind: event.kind as u32,
        path: event.path.map_or(0, |path| path.0.into()),
        block: event.block.map_or(0, |block| block.0),
        // These pointers refer to separate allocations, which do not move with the box.
        data: if owner.data.is_empty() { ptr::null() } else { owner.data.as_ptr() },
        len: owner.data.len(),
        text: owner.text.as_ptr(),
        channel: event.channel.into(),
        priority: event.priority.into(),
        bytes: event.bytes.into(),
        elapsed_us: micros(event.elapsed),
        remaining_us: event.deadline.map_or(i64::MAX, remaining),
        code: event.code,
        cause: event.cause as u32,
        missing: if owner.missing.is_empty() { ptr::null() } else { owner.missing.as_ptr() },
        missing_count: owner.missing.len(),
        owner: Box::into_raw(owner).cast(),
        ..empty()
    }
}

/// Returns an event without content.
pub(crate) fn empty() -> types::Event {
    types::Event {
        size: size_of::<types::Event>(),
        kind: EventKind::None as u32,
        path: 0,
        block: 0,
        data: ptr::null(),
        len: 0,
        text: c"".as_ptr(),
        channel: 0,
        priority: 0,
        bytes: 0,
        elapsed_us: 0,
        remaining_us: i64::MAX,
        code: 0,
        cause: Cause::None as u32,
        reserved: 0,
        owner: ptr::null_mut(),
        missing: ptr::null(),
        missing_count: 0,
    }
}

/// Converts a duration to microseconds.
pub(crate) fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

/// Returns the time until a deadline; negative after it.
fn remaining(deadline: Instant) -> i64 {
    let now = Instant::now();
    let signed = |duration| i64::try_from(micros(duration)).unwrap_or(i64::MAX);
    deadline.checked_duration_since(now).map_or_else(|| -signed(now.duration_since(deadline)), signed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deadlines_that_have_passed_are_negative() {
        let now = Instant::now();
        assert!(remaining(now + Duration::from_secs(9)) > 8_000_000);
        assert!(remaining(now) <= 0);
    }
}

//! Bytes that can still arrive before a deadline.
//!
//! Eq. 1 of DAMS (INFOCOM 2022, §III-B): the paths together can deliver
//!
//! ```text
//! C = Σ max(0, deadline − now − OWD_j) · BW_j
//! ```
//!
//! bytes to the peer in time, less the bytes that wait on them already; a path with a budget
//! delivers no more than that pays for. Comparing this with the bytes of a block and of those
//! before it shows whether the block can arrive in time, whatever paths they take.

use crate::{PathView, Span, Time};

/// Returns the bytes that the usable paths can deliver to the peer by `deadline`; `u64::MAX`
/// without one.
///
/// ```
/// use squall_sched::{PathView, Span, Time, capacity};
///
/// // 12 kB a 10 ms round trip = 1.2 kB/ms, 5 ms away; and 24 kB a 40 ms = 0.6 kB/ms, 20 ms away.
/// let (near, far) = (Span::from_millis(10), Span::from_millis(40));
/// let paths = [PathView::example(0, near, 12_000), PathView::example(1, far, 24_000)];
/// let now = Time::from_micros(7_000);
/// let due_in = |ms| Some(now + Span::from_millis(ms));
/// // 100 ms ahead: 95 · 1.2 + 80 · 0.6 kB.
/// assert_eq!(capacity::before(due_in(100), now, &paths), 114_000 + 48_000);
/// // 15 ms ahead the second path is too far away.
/// assert_eq!(capacity::before(due_in(15), now, &paths), 12_000);
/// assert_eq!(capacity::before(Some(Time::EPOCH), now, &paths), 0);
/// ```
pub fn before(deadline: Option<Time>, now: Time, paths: &[PathView]) -> u64 {
    before_with(deadline, now, paths, |path| path.owd)
}

/// Like [`before`], with `delay` as the time that a path takes beyond sending.
pub fn before_with(
    deadline: Option<Time>,
    now: Time,
    paths: &[PathView],
    delay: impl Fn(&PathView) -> Span,
) -> u64 {
    let Some(deadline) = deadline else { return u64::MAX };
    let on_each = paths.iter().filter(|p| p.usable).map(|path| {
        let time = deadline - now - delay(path) - time_for(path, path.waiting);
        on_path(path, time).min(path.affordable())
    });
    on_each.fold(0, u64::saturating_add)
}

/// Returns the bytes of blocks that leave on a path within `time`.
pub fn on_path(path: &PathView, time: Span) -> u64 {
    (u128::from(goodput(path)) * u128::from(time.micros()) / 8_000_000) as u64
}

/// Returns the part of a path's bandwidth that is left for blocks, in bits per second.
pub fn goodput(path: &PathView) -> u64 {
    payload(path, path.bandwidth)
}

/// Returns the part of `rate` that is left for blocks, without the headers of packets.
pub fn payload(path: &PathView, rate: u64) -> u64 {
    let chunk = u64::from(path.chunk.max(1));
    (u128::from(rate) * u128::from(chunk) / u128::from(chunk + u64::from(path.overhead))) as u64
}

/// Returns the time that a path takes to send `bytes` of blocks; a very long one without bandwidth.
pub fn time_for(path: &PathView, bytes: u64) -> Span {
    let time = (u128::from(bytes) * 8_000_000).checked_div(u128::from(goodput(path)));
    let forever = Span::MAX / 4;
    time.map_or(forever, |time| Span::from_micros(u64::try_from(time).unwrap_or(u64::MAX)).min(forever))
}

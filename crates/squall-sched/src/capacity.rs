//! What can still arrive before a deadline.
//!
//! Eq. 1 of DAMS (INFOCOM 2022, §III-B): the paths together can bring
//!
//! ```text
//! C = Σ max(0, deadline − now − OWD_j) · BW_j
//! ```
//!
//! bytes to the peer in time, less what waits on them already; a path with a budget brings no more than that
//! pays for. Whether a block can arrive in time follows from comparing this with its own bytes and those of the blocks
//! before it, whatever paths they take.

use crate::{Micros, PathView};

/// Bytes that the usable paths can bring to the peer by `deadline`; unlimited without one.
///
/// ```
/// use squall_sched::{PathView, capacity};
///
/// // 12 kB a 10 ms round trip = 1.2 kB/ms, 5 ms away; and 24 kB a 40 ms = 0.6 kB/ms, 20 ms away.
/// let paths = [PathView::example(0, 10_000, 12_000), PathView::example(1, 40_000, 24_000)];
/// // 100 ms ahead: 95 · 1.2 + 80 · 0.6 kB.
/// assert_eq!(capacity::before(Some(107_000), 7_000, &paths), 114_000 + 48_000);
/// // 15 ms ahead the second path is too far away.
/// assert_eq!(capacity::before(Some(22_000), 7_000, &paths), 12_000);
/// assert_eq!(capacity::before(Some(5_000), 7_000, &paths), 0);
/// ```
pub fn before(deadline: Option<Micros>, now: Micros, paths: &[PathView]) -> u64 {
    before_with(deadline, now, paths, |path| path.owd)
}

/// The same where a path takes `delay` beyond sending.
pub fn before_with(
    deadline: Option<Micros>,
    now: Micros,
    paths: &[PathView],
    delay: impl Fn(&PathView) -> Micros,
) -> u64 {
    let Some(deadline) = deadline else { return u64::MAX };
    let on_each = paths.iter().filter(|p| p.usable).map(|path| {
        let time = deadline.saturating_sub(now + delay(path)).saturating_sub(time_for(path, path.waiting));
        on_path(path, time).min(path.affordable())
    });
    on_each.fold(0, u64::saturating_add)
}

/// Bytes of blocks that leave on a path within `time`.
pub fn on_path(path: &PathView, time: Micros) -> u64 {
    (u128::from(goodput(path)) * u128::from(time) / 8_000_000) as u64
}

/// The share of a path's bandwidth that is left for blocks, in bits per second.
pub fn goodput(path: &PathView) -> u64 {
    payload(path, path.bandwidth)
}

/// The share of `rate` that is left for blocks: packets have headers.
pub fn payload(path: &PathView, rate: u64) -> u64 {
    let chunk = u64::from(path.chunk.max(1));
    (u128::from(rate) * u128::from(chunk) / u128::from(chunk + u64::from(path.overhead))) as u64
}

/// How long a path takes to send `bytes` of blocks; for ever without bandwidth.
pub fn time_for(path: &PathView, bytes: u64) -> Micros {
    let time = (u128::from(bytes) * 8_000_000).checked_div(u128::from(goodput(path)));
    time.map_or(Micros::MAX / 4, |time| time.min(u128::from(Micros::MAX / 4)) as Micros)
}

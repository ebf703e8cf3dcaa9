//! Predicted arrivals of data that leaves now, path by path.

use crate::{
    Context, MAX_PATHS, PathSet, PathView, Span,
    allocation::{Pipe, Shares, fill},
    capacity,
};

/// Excess of overdue proof of delivery, beyond twice the deviation of the round trip, above which a
/// path is silent. A receiver may wait 10 ms before it reports.
const SILENT_AFTER: Span = Span::from_millis(15);

/// Queue in flight, beyond a round trip, above which useless or late blocks add nothing: with 5 ms
/// recorded networks lose a point of frames in time, without a limit a key frame waits for 40 ms.
const FILLED: Span = Span::from_millis(20);

/// The prediction for a path.
#[derive(Clone, Copy, Debug, Default)]
struct Arrival {
    /// Time from now until the next packet arrives.
    at: Span,
    /// The 95th percentile of the excess over that prediction.
    late: Span,
    /// Time until the queue of the path is empty.
    idle_in: Span,
    /// Payload of blocks, in bits per second.
    rate: u64,
    is_open: bool,
    has_room: bool,
    is_silent: bool,
    is_dear: bool,
    is_calm: bool,
    grows: bool,
}

/// The predictions for all paths, in the order of the context.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrivals {
    paths: [Arrival; MAX_PATHS],
    count: usize,
}

impl Arrivals {
    /// Predicts from the context. Silence is ignored unless `counts_silence`.
    pub(super) fn of(cx: &Context<'_>, counts_silence: bool) -> Self {
        let silent = if counts_silence { silent(cx.paths) } else { PathSet::EMPTY };
        let mut paths = [Arrival::default(); MAX_PATHS];
        for (arrival, path) in paths.iter_mut().zip(cx.paths) {
            let is_silent = silent.contains(path.id);
            // Assume that an outage lasts as long again as it has so far: outages have no typical
            // length.
            let silence = if is_silent { path.overdue } else { Span::ZERO };
            *arrival = Arrival {
                at: path.arrives_in(0) + silence,
                late: path.late,
                idle_in: path.idle_in(),
                rate: capacity::payload(path, path.rate),
                is_open: path.is_open(),
                has_room: path.has_room(),
                is_silent,
                is_dear: path.metered && !path.is_unmeasured,
                is_calm: is_calm(path),
                // On unmetered paths, blocks held back would fill queues until the controller has
                // found the rate.
                grows: path.rate_grows && path.metered,
            };
        }
        Self { paths, count: cx.paths.len().min(MAX_PATHS) }
    }

    fn all(&self) -> &[Arrival] {
        &self.paths[..self.count]
    }

    /// Iterates over the paths that can send now, the earliest arrival first.
    pub(super) fn ready(&self) -> impl Iterator<Item = usize> {
        let mut ready = [0; MAX_PATHS];
        let mut count = 0;
        for index in (0..self.count).filter(|index| self.paths[*index].has_room) {
            ready[count] = index;
            count += 1;
        }
        ready[..count].sort_by_key(|index| self.paths[*index].at);
        ready.into_iter().take(count)
    }

    /// Returns the time until the next packet on a path arrives.
    pub(super) fn at(&self, index: usize) -> Span {
        self.paths[index].at
    }

    /// Returns the time until the next `bytes` on a path have arrived.
    pub(super) fn after(&self, index: usize, bytes: u64) -> Span {
        let Arrival { at, rate, .. } = self.paths[index];
        at + Span::from_micros((8_000_000 * bytes).checked_div(rate).unwrap_or(0))
    }

    /// Like [`Self::after`], with the 95th percentile of the excess added.
    pub(super) fn surely_after(&self, index: usize, bytes: u64) -> Span {
        self.after(index, bytes) + self.paths[index].late
    }

    /// Returns the largest 95th percentile of the excess over predictions, among the open paths
    /// that cost nothing.
    pub(super) fn late_for_free(&self) -> Span {
        let free = self.all().iter().filter(|path| path.is_open && !path.is_dear);
        free.map(|path| path.late).max().unwrap_or(Span::ZERO)
    }

    pub(super) fn is_silent(&self, index: usize) -> bool {
        self.paths[index].is_silent
    }

    /// Returns `true` if no queue of our own packets stands on the path.
    pub(super) fn is_calm(&self, index: usize) -> bool {
        self.paths[index].is_calm
    }

    /// Returns `true` if the path accepts data and is not silent.
    pub(super) fn delivers(&self, index: usize) -> bool {
        self.paths[index].is_open && !self.paths[index].is_silent
    }

    /// Returns `true` if bytes on the path cost money and its rate was measured. The bytes that
    /// measure a metered path are worth their price: without a measurement it would seem to deliver
    /// nothing in time.
    pub(super) fn is_dear(&self, index: usize) -> bool {
        self.paths[index].is_dear
    }

    /// Returns the shortest time in which something can arrive.
    pub(super) fn shortest(&self) -> Option<Span> {
        self.all().iter().filter(|path| path.is_open).map(|path| path.at).min()
    }

    /// Returns the bytes that can arrive within this time; `u64::MAX` while the rate of a path is
    /// unknown.
    pub(super) fn within(&self, time: Span) -> u64 {
        let open = || self.all().iter().filter(|path| path.is_open);
        if open().any(|path| path.grows && path.at < time) {
            return u64::MAX;
        }
        open().map(|path| path.rate.saturating_mul((time - path.at).micros()) / 8_000_000).sum()
    }

    /// Returns the bytes of a growing block that a path takes before those that share in it and have
    /// room: none if another one is idle earlier. Whatever exists of the block would otherwise go to
    /// the path with the earliest arrival, until its share is used up, and the others would start
    /// too late to arrive with it.
    pub(super) fn turn(&self, index: usize, shares: &Shares, packet: u32) -> u32 {
        let takes_part = |other: &usize| {
            *other != index && self.paths[*other].has_room && shares.bytes[*other] + packet / 2 >= packet
        };
        let Arrival { idle_in, rate, .. } = self.paths[index];
        let others = (0..self.count).filter(takes_part).map(|other| self.paths[other].idle_in);
        match others.min() {
            None => u32::MAX,
            Some(other) if other < idle_in => 0,
            Some(other) => {
                let until = rate.saturating_mul((other - idle_in).micros()) / 8_000_000;
                u32::try_from(until).unwrap_or(u32::MAX).saturating_add(packet)
            }
        }
    }

    /// Divides `bytes` over the paths that `takes` accepts so that all parts arrive together.
    pub(super) fn divide(&self, bytes: u32, takes: impl Fn(usize) -> bool) -> Shares {
        let mut pipes = [Pipe { start: Span::ZERO, rate: 0, limit: u64::MAX }; MAX_PATHS];
        for (index, (pipe, path)) in pipes.iter_mut().zip(self.all()).enumerate() {
            pipe.start = path.at;
            pipe.rate = if path.is_open && takes(index) { path.rate } else { 0 };
        }
        fill(bytes, &pipes[..self.count])
    }
}

/// Returns `true` if the bytes in flight are within a round trip and [`FILLED`], or if no queue
/// stands. If the estimated rate is too low, only a flight beyond it can show that.
fn is_calm(path: &PathView) -> bool {
    let is_far_from_full = path.queue.is_some() && 5 * path.in_flight <= 4 * path.window;
    if path.queue == Some(Span::ZERO) || is_far_from_full {
        return true;
    }
    let bits = path.rate.saturating_mul((path.back * 2 + FILLED).micros());
    path.in_flight.saturating_mul(8_000_000) <= bits
}

/// Returns the silent paths. Acknowledgements usually arrive over the path with the shortest round
/// trip. If every path is silent, only that one counts: its silence explains the others and is no
/// sign that they failed.
fn silent(paths: &[PathView]) -> PathSet {
    let is_silent = |path: &&PathView| path.overdue > SILENT_AFTER + path.rtt_dev * 2;
    let open = || paths.iter().filter(|path| path.is_open());
    if open().count() < 2 {
        return PathSet::EMPTY;
    }
    if open().all(|path| is_silent(&path)) {
        return open().min_by_key(|path| path.srtt).map(|path| path.id).into_iter().collect();
    }
    open().filter(is_silent).map(|path| path.id).collect()
}

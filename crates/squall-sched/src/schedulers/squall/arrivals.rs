//! When data arrives that leaves now, path by path.

use crate::{
    Context, MAX_PATHS, PathSet, PathView, Span,
    allocation::{Pipe, Shares, fill},
    capacity,
};

/// Proof of delivery that is overdue by this long, beyond twice the deviation of the round trip, makes a path silent. A
/// receiver may wait 10 ms before it reports.
const SILENT_AFTER: Span = Span::from_millis(15);

/// What is of little use keeps no more than a round trip and this much of a queue in flight: with 5 ms
/// recorded networks lose a point of frames in time, without a bound a key frame waits for 40 ms.
const FILLED: Span = Span::from_millis(20);

/// A path from now on.
#[derive(Clone, Copy, Debug, Default)]
struct Arrival {
    /// When the next packet arrives, from now on.
    at: Span,
    /// How much later than that it arrives at most, in 95 of 100 cases.
    late: Span,
    /// Bits of blocks per second.
    rate: u64,
    is_open: bool,
    has_room: bool,
    is_silent: bool,
    is_dear: bool,
    is_calm: bool,
    grows: bool,
}

/// All paths, in the order of the context.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrivals {
    paths: [Arrival; MAX_PATHS],
    count: usize,
}

impl Arrivals {
    /// `counts_silence`: whether silence counts.
    pub(super) fn of(cx: &Context<'_>, counts_silence: bool) -> Self {
        let silent = if counts_silence { silent(cx.paths) } else { PathSet::EMPTY };
        let mut paths = [Arrival::default(); MAX_PATHS];
        for (arrival, path) in paths.iter_mut().zip(cx.paths) {
            let is_silent = silent.contains(path.id);
            // What has been silent for a time stays so for as long again: outages have no typical length.
            let silence = if is_silent { path.overdue } else { Span::ZERO };
            *arrival = Arrival {
                at: path.arrives_in(0) + silence,
                late: path.late,
                rate: capacity::payload(path, path.rate),
                is_open: path.is_open(),
                has_room: path.has_room(),
                is_silent,
                is_dear: path.metered && !path.is_unmeasured,
                is_calm: is_calm(path),
                // Elsewhere what is held back would fill queues until the controller has found the rate.
                grows: path.rate_grows && path.metered,
            };
        }
        Self { paths, count: cx.paths.len().min(MAX_PATHS) }
    }

    fn all(&self) -> &[Arrival] {
        &self.paths[..self.count]
    }

    /// The paths that can send now, the one that delivers first in front.
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

    /// When the next packet on a path arrives, from now on.
    pub(super) fn at(&self, index: usize) -> Span {
        self.paths[index].at
    }

    /// When the next `bytes` on a path have arrived, from now on.
    pub(super) fn after(&self, index: usize, bytes: u64) -> Span {
        let Arrival { at, rate, .. } = self.paths[index];
        at + Span::from_micros((8_000_000 * bytes).checked_div(rate).unwrap_or(0))
    }

    /// The same, even if the path is late.
    pub(super) fn surely_after(&self, index: usize, bytes: u64) -> Span {
        self.after(index, bytes) + self.paths[index].late
    }

    /// How much later than expected data arrives at most on the open paths that cost nothing, in 95 of 100 cases.
    pub(super) fn late_for_free(&self) -> Span {
        let free = self.all().iter().filter(|path| path.is_open && !path.is_dear);
        free.map(|path| path.late).max().unwrap_or(Span::ZERO)
    }

    pub(super) fn is_silent(&self, index: usize) -> bool {
        self.paths[index].is_silent
    }

    /// Whether no queue of ours stands in it.
    pub(super) fn is_calm(&self, index: usize) -> bool {
        self.paths[index].is_calm
    }

    /// Whether it takes data and is not silent.
    pub(super) fn delivers(&self, index: usize) -> bool {
        self.paths[index].is_open && !self.paths[index].is_silent
    }

    /// Whether its bytes cost money. Those that show what a metered path carries are worth it: until something has, it would
    /// seem to bring nothing in time.
    pub(super) fn is_dear(&self, index: usize) -> bool {
        self.paths[index].is_dear
    }

    /// The shortest time in which something can arrive.
    pub(super) fn shortest(&self) -> Option<Span> {
        self.all().iter().filter(|path| path.is_open).map(|path| path.at).min()
    }

    /// Bytes that can arrive within this time; no bound while that of a path is not known.
    pub(super) fn within(&self, time: Span) -> u64 {
        let open = || self.all().iter().filter(|path| path.is_open);
        if open().any(|path| path.grows && path.at < time) {
            return u64::MAX;
        }
        open().map(|path| path.rate.saturating_mul((time - path.at).micros()) / 8_000_000).sum()
    }

    /// `bytes` divided over the paths so that all parts arrive together.
    pub(super) fn divide(&self, bytes: u32, takes: impl Fn(usize) -> bool) -> Shares {
        let mut pipes = [Pipe { start: Span::ZERO, rate: 0, limit: u64::MAX }; MAX_PATHS];
        for (index, (pipe, path)) in pipes.iter_mut().zip(self.all()).enumerate() {
            pipe.start = path.at;
            pipe.rate = if path.is_open && takes(index) { path.rate } else { 0 };
        }
        fill(bytes, &pipes[..self.count])
    }
}

/// Whether no more is in flight than a round trip and [`FILLED`] bring, or no queue stands: if the rate is taken for too
/// little, only a flight beyond it can show that.
fn is_calm(path: &PathView) -> bool {
    let is_far_from_full = path.queue.is_some() && 5 * path.in_flight <= 4 * path.window;
    if path.queue == Some(Span::ZERO) || is_far_from_full {
        return true;
    }
    let bits = path.rate.saturating_mul((path.back * 2 + FILLED).micros());
    path.in_flight.saturating_mul(8_000_000) <= bits
}

/// The silent paths. Acknowledgements usually come over the path with the shortest round trip, so its
/// silence makes all others silent too, and is no sign that these have failed.
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

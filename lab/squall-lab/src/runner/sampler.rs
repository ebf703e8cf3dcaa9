//! Samples the paths of both sessions. Counters continue when a path is closed and reopened.

use std::collections::HashMap;
use std::ops::{Add, Sub};

use squall_proto::{
    PathChange, PathStats, PredictionStats,
    sched::{self, PathId},
    signal::AlertKind,
};

use super::ends::Ends;
use crate::flow::Direction;
use crate::result::{PathSample, PathState, PathTotals, Recorder, thousandths};
use crate::world::Side;

const SIDES: [Side; 2] = [Side::Client, Side::Server];

pub(super) struct Sampler {
    /// The sampled direction: the samples show the view of its sender.
    direction: Direction,
    /// The client's and the server's end of each path.
    paths: Vec<[End; 2]>,
    /// Index of the path by each session's path id.
    ids: [HashMap<PathId, usize>; 2],
}

/// One end of a path.
#[derive(Default)]
struct End {
    /// The path is open at this end.
    up: bool,
    /// Latest path number on the wire.
    number: Option<u32>,
    /// Counters since the path was last opened.
    current: Counters,
    /// Counters of the times that it was open before.
    earlier: Counters,
    /// Counters when the flows began.
    before: Counters,
}

impl End {
    fn total(&self) -> Counters {
        self.earlier + self.current - self.before
    }

    fn read(&mut self, stats: &PathStats) {
        if self.number != Some(stats.number) {
            self.earlier = self.earlier + self.current;
            self.number = Some(stats.number);
        }
        self.current = Counters::from(stats);
    }
}

impl Sampler {
    pub(super) fn new(paths: usize, direction: Direction) -> Self {
        Self {
            direction,
            paths: (0..paths).map(|_| <[End; 2]>::default()).collect(),
            ids: [HashMap::new(), HashMap::new()],
        }
    }

    /// Returns the first path that is not up at both ends.
    pub(super) fn missing_path(&self) -> Option<usize> {
        self.paths.iter().position(|ends| !ends.iter().all(|end| end.up))
    }

    /// Starts counting.
    pub(super) fn begin(&mut self, world: &mut impl Ends, recorder: &mut Recorder) {
        self.sample(world, 0, recorder);
        for end in self.paths.iter_mut().flatten() {
            end.before = end.total();
        }
        for path in 0..self.paths.len() {
            recorder.paths[path].result.totals = self.totals(path);
        }
    }

    /// Handles a change of a path. Returns the path and its new state if it is to be recorded.
    pub(super) fn on_change(
        &mut self,
        world: &impl Ends,
        side: Side,
        id: PathId,
        change: &PathChange,
    ) -> Option<(usize, PathState)> {
        if let PathChange::Up(net) | PathChange::Rebound(net) = change {
            self.ids[side as usize].insert(id, world.path_of(side, *net)?);
        }
        let path = *self.ids[side as usize].get(&id)?;
        let end = &mut self.paths[path][side as usize];
        let state = match change {
            PathChange::Up(_) => PathState::Active,
            PathChange::Suspected { .. } => PathState::Suspect,
            PathChange::Readmitted { .. } => PathState::Recovering,
            PathChange::Down => PathState::Down,
            PathChange::Signal { kind: AlertKind::Outage, .. } => PathState::Deactivated,
            // The next sample shows whether the transport uses it again, too.
            PathChange::Signal { kind: AlertKind::Recovery, .. } => PathState::Active,
            _ => return None,
        };
        end.up = state != PathState::Down;
        (side == self.sender()).then_some((path, state))
    }

    /// Returns the path with this id if `side` is the sender of the sampled direction.
    pub(super) fn sending_path(&self, side: Side, id: PathId) -> Option<usize> {
        self.path(side, id).filter(|_| side == self.sender())
    }

    /// Returns the path with this id of a side.
    pub(super) fn path(&self, side: Side, id: PathId) -> Option<usize> {
        self.ids[side as usize].get(&id).copied()
    }

    /// Records the current state of every path.
    pub(super) fn sample(&mut self, world: &mut impl Ends, at_us: u64, recorder: &mut Recorder) {
        let mut views = vec![PathStats::default(); self.paths.len()];
        let mut open = vec![false; self.paths.len()];
        let mut quality = vec![None; self.paths.len()];
        for side in SIDES {
            for (path, stats) in world.paths(side) {
                self.paths[path][side as usize].read(&stats);
                if side == Side::Client {
                    quality[path] = stats.signal_quality.map(thousandths);
                }
                if side == self.sender() {
                    views[path] = stats;
                    open[path] = true;
                }
            }
        }
        for (path, view) in views.iter().enumerate() {
            let recorder = &mut recorder.paths[path];
            let link = world.link(path, self.direction);
            let signal_bias = world.signal_bias(path);
            let [client, server] = &self.paths[path];
            let state = self.state(path, open[path], view.state);
            if open[path] && state == PathState::Active {
                recorder.on_rtt(view.srtt.as_micros() as u64);
            }
            let sample = PathSample {
                delivered_down: client.total().new_data(),
                delivered_up: server.total().new_data(),
                srtt_us: view.srtt.as_micros() as u64,
                in_flight: view.in_flight,
                window: view.window,
                queue: link.queue_bytes,
                link_bps: if link.outage { Some(0) } else { link.rate },
                state,
                quality: quality[path],
                // A path that is not open has no factor.
                factor: if open[path] { thousandths(view.signal_factor) } else { 1_000 },
                signal_bias,
            };
            recorder.on_sample(at_us, &sample);
            recorder.result.totals = self.totals(path);
        }
    }

    fn state(&self, path: usize, open: bool, state: sched::PathState) -> PathState {
        let end = &self.paths[path][self.sender() as usize];
        match state {
            _ if !open && end.number.is_some() => PathState::Down,
            _ if !end.up => PathState::Opening,
            sched::PathState::Suspect => PathState::Suspect,
            sched::PathState::Deactivated => PathState::Deactivated,
            sched::PathState::Active => PathState::Active,
            sched::PathState::Opening => PathState::Opening,
        }
    }

    fn totals(&self, path: usize) -> PathTotals {
        let [client, server] = [0, 1].map(|end: usize| self.paths[path][end].total());
        let both = client + server;
        PathTotals {
            wire_bytes_down: server.sent_bytes,
            wire_bytes_up: client.sent_bytes,
            packets: both.sent_packets,
            lost_packets: both.lost_packets,
            retransmitted_bytes: both.repair_bytes,
            reinjected_bytes: both.copy_bytes,
            parity_bytes: both.parity_bytes,
            duplicate_bytes: both.duplicate_bytes,
            predictions: both.predictions,
        }
    }

    fn sender(&self) -> Side {
        match self.direction {
            Direction::Down => Side::Server,
            Direction::Up => Side::Client,
        }
    }
}

/// Monotonic counters of a path.
#[derive(Clone, Copy, Default)]
struct Counters {
    sent_bytes: u64,
    sent_packets: u64,
    lost_packets: u64,
    repair_bytes: u64,
    copy_bytes: u64,
    parity_bytes: u64,
    data_bytes: u64,
    duplicate_bytes: u64,
    predictions: PredictionStats,
}

impl Counters {
    fn new_data(self) -> u64 {
        self.data_bytes - self.duplicate_bytes
    }

    fn zip(self, other: Self, join: impl Fn(u64, u64) -> u64) -> Self {
        Self {
            sent_bytes: join(self.sent_bytes, other.sent_bytes),
            sent_packets: join(self.sent_packets, other.sent_packets),
            lost_packets: join(self.lost_packets, other.lost_packets),
            repair_bytes: join(self.repair_bytes, other.repair_bytes),
            copy_bytes: join(self.copy_bytes, other.copy_bytes),
            parity_bytes: join(self.parity_bytes, other.parity_bytes),
            data_bytes: join(self.data_bytes, other.data_bytes),
            duplicate_bytes: join(self.duplicate_bytes, other.duplicate_bytes),
            predictions: PredictionStats {
                bounded: join(self.predictions.bounded, other.predictions.bounded),
                within: join(self.predictions.within, other.predictions.within),
                errors: std::array::from_fn(|at| {
                    join(self.predictions.errors[at], other.predictions.errors[at])
                }),
            },
        }
    }
}

impl From<&PathStats> for Counters {
    fn from(stats: &PathStats) -> Self {
        Self {
            sent_bytes: stats.sent_bytes,
            sent_packets: stats.sent_packets,
            lost_packets: stats.lost_packets,
            repair_bytes: stats.repair_bytes,
            copy_bytes: stats.copy_bytes,
            parity_bytes: stats.parity_bytes,
            data_bytes: stats.data_received,
            duplicate_bytes: stats.duplicate_bytes,
            predictions: stats.predictions,
        }
    }
}

impl Add for Counters {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        self.zip(other, |a, b| a + b)
    }
}

impl Sub for Counters {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        self.zip(other, |a, b| a - b)
    }
}

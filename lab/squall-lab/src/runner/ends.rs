//! Interface of a run to both ends of a session and the links between them, in virtual time or in
//! real time.

use std::time::{Duration, Instant};

use bytes::Bytes;
use squall_net::{Direction, LinkState};
use squall_proto::{
    ArrivalLog, Block, BlockOptions, Capacity, Channel, NetPath, OpenError, PacketLog, PathStats, SendError,
    Session, WriteError, sched::BlockId,
};
use squall_trace::Micros;

use crate::traffic::{Allowed, Follow};
use crate::world::{Side, World};

/// Probability with which a frame must arrive in time: the one that the safe rate has.
const SURE: f64 = 0.9;

/// Both ends of a session, and the links between them.
pub(super) trait Ends {
    /// Microseconds since a fixed time before the run.
    fn now(&self) -> Micros;

    /// Converts an instant to microseconds since the same time.
    fn micros(&self, at: Instant) -> Micros;

    /// Submits a block at one end.
    fn send(&mut self, side: Side, block: Block) -> Result<BlockId, SendError>;

    /// Opens a block that grows.
    fn open(&mut self, side: Side, options: &BlockOptions) -> Result<BlockId, OpenError>;

    /// Appends bytes to a growing block. Cancels the block if there is no room for all of them.
    fn append(&mut self, side: Side, block: BlockId, data: Bytes, is_last: bool);

    /// Sets the weight of a channel, which was checked when the scenario was read.
    fn set_channel_weight(&mut self, side: Side, channel: Channel, weight: u16);

    /// Returns the rate and frame size that the session allows an encoder at this end.
    fn allowed(&mut self, side: Side, follow: Follow) -> Allowed;

    /// Returns the chunks that arrived at this end since the last call, if they are recorded.
    fn take_arrivals(&mut self, side: Side) -> Vec<ArrivalLog>;

    /// Returns the events of this end's packets since the last call, if they are recorded.
    fn take_packets(&mut self, side: Side) -> Vec<PacketLog>;

    /// Returns the path of the scenario that a session's pair of addresses belongs to.
    fn path_of(&self, side: Side, net: NetPath) -> Option<usize>;

    /// Returns the open paths of this end, with their index in the scenario.
    fn paths(&mut self, side: Side) -> Vec<(usize, PathStats)>;

    /// Returns the current state of one direction of a path.
    fn link(&mut self, path: usize, direction: Direction) -> LinkState;

    /// Returns the deviation of the reported level of a path's radio from the true one, as a
    /// fraction of the true one.
    fn signal_bias(&mut self, path: usize) -> Option<f64>;
}

/// Computes the rate and frame size that a session of this capacity allows. `deliverable` returns
/// the bytes that arrive within a time with a probability.
pub(super) fn allowed(
    follow: Follow,
    capacity: &Capacity,
    deliverable: impl FnOnce(Duration, f64) -> u64,
) -> Allowed {
    match follow {
        Follow::Link => Allowed { bps: capacity.link, frame: u64::MAX },
        Follow::Safe { within_us } => {
            Allowed { bps: capacity.safe, frame: deliverable(Duration::from_micros(within_us), SURE) }
        }
    }
}

impl Ends for World {
    fn now(&self) -> Micros {
        World::now(self)
    }

    fn micros(&self, at: Instant) -> Micros {
        World::micros(self, at)
    }

    fn send(&mut self, side: Side, block: Block) -> Result<BlockId, SendError> {
        let now = self.instant();
        self.session(side).map_or(Err(SendError::Closed(squall_proto::CloseReason::Local)), |session| {
            session.send(now, block)
        })
    }

    fn open(&mut self, side: Side, options: &BlockOptions) -> Result<BlockId, OpenError> {
        let now = self.instant();
        self.session(side).map_or(Err(OpenError::Closed(squall_proto::CloseReason::Local)), |session| {
            session.open(now, options)
        })
    }

    fn append(&mut self, side: Side, block: BlockId, data: Bytes, is_last: bool) {
        let now = self.instant();
        let Some(session) = self.session(side) else { return };
        match session.append(block, data) {
            Ok(()) if is_last => _ = session.finish(now, block),
            Ok(()) | Err(WriteError::Ended) => {}
            Err(_) => session.cancel(now, block),
        }
    }

    fn set_channel_weight(&mut self, side: Side, channel: Channel, weight: u16) {
        if let Some(session) = self.session(side) {
            session.set_channel_weight(channel, weight).expect("channels and weights were checked");
        }
    }

    fn allowed(&mut self, side: Side, follow: Follow) -> Allowed {
        let now: Instant = self.instant();
        let Some(session) = self.look_at(side) else { return Allowed::default() };
        let capacity = session.capacity(now);
        allowed(follow, &capacity, |within, probability| session.deliverable(now, within, probability))
    }

    fn take_arrivals(&mut self, side: Side) -> Vec<ArrivalLog> {
        self.look_at(side).map(Session::take_arrivals).unwrap_or_default()
    }

    fn take_packets(&mut self, side: Side) -> Vec<PacketLog> {
        self.look_at(side).map(Session::take_packets).unwrap_or_default()
    }

    fn path_of(&self, side: Side, net: NetPath) -> Option<usize> {
        World::path_of(self, side, net)
    }

    fn paths(&mut self, side: Side) -> Vec<(usize, PathStats)> {
        let all = self.session(side).map(Session::path_stats).unwrap_or_default();
        all.into_iter()
            .filter_map(|(_, net, stats)| Some((World::path_of(self, side, net)?, stats)))
            .collect()
    }

    fn link(&mut self, path: usize, direction: Direction) -> LinkState {
        World::link(self, path, direction)
    }

    fn signal_bias(&mut self, path: usize) -> Option<f64> {
        World::signal_bias(self, path)
    }
}

//! What a session hands its application beside counters: blocks, their absence, and news of paths.

use squall_proto::{
    Channel, Event, Missed, Part, PathChange, Priority, Received,
    sched::{BlockId, PathId},
};

/// A block of the peer's: it arrived, or grew, or it will not arrive whole.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Arrival {
    /// It arrived whole.
    Block(Received),
    /// More of it arrived, on a channel whose blocks are taken in parts; see
    /// [`Session::set_in_parts`](crate::Session::set_in_parts).
    Part(Part),
    /// It will not arrive whole.
    Missed(MissedBlock),
}

/// A block of the peer's that will not arrive whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MissedBlock {
    /// The sender's id for it.
    pub id: BlockId,
    /// Its channel.
    pub channel: Channel,
    /// Its priority.
    pub priority: Priority,
    /// Why.
    pub why: Missed,
}

/// A change of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PathEvent {
    /// Which path, as in [`Session::path_stats`](crate::Session::path_stats).
    pub path: PathId,
    /// What changed.
    pub change: PathChange,
}

impl Arrival {
    /// `None` for an event of another kind.
    pub(crate) fn of(event: Event) -> Option<Self> {
        match event {
            Event::Received(block) => Some(Self::Block(block)),
            Event::Part(part) => Some(Self::Part(part)),
            Event::Missed { id, channel, priority, why } => {
                Some(Self::Missed(MissedBlock { id, channel, priority, why }))
            }
            _ => None,
        }
    }
}

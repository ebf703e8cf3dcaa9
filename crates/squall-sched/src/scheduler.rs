//! The interface that every scheduler implements.

use std::ops::Range;

use crate::{BlockId, BlockQueue, ParityFate, PathId, PathView, Sharing, Time, Work, WorkKind};

/// Decides which bytes go on which path.
///
/// The session calls [`next`](Self::next) until it returns [`Decision::Idle`], each time that
/// something changed: a block was handed over, an acknowledgement arrived, a path changed, a
/// wake-up is due.
pub trait Scheduler: Send {
    /// Returns the next action.
    ///
    /// Assign only to paths that [have room](PathView::has_room). The range of an assignment may be
    /// longer than one packet: the session sends the part that the window admits and calls again,
    /// so a long range is cheaper than many short ones.
    fn next(&mut self, cx: &Context<'_>) -> Decision;

    /// Handles an event. Most schedulers do not need this: the [`Context`] has the state.
    fn on_event(&mut self, event: &SchedEvent, cx: &Context<'_>) {
        let _ = (event, cx);
    }

    /// Returns the scheduler's properties and its requests to the session, read when the session
    /// begins and at each forecast. A scheduler that wraps another one returns that one's profile.
    fn profile(&self) -> Profile {
        Profile::default()
    }
}

/// Properties of a [`Scheduler`], and its requests to the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Profile {
    /// The session may copy data to another path if the path that the scheduler chose shows no
    /// proof of delivery. Default: true.
    pub may_hedge: bool,
    /// New data leaves in the order of the queue, in which channels share by their weights: in the
    /// order of [`BlockQueue::next_fresh`], or, for schedulers of whole blocks, in that of
    /// [`BlockQueue::with_fresh`] or [`BlockQueue::by_deadline`] among blocks that are equal to the
    /// scheduler. Default: true.
    pub follows_queue: bool,
    /// Blocks have parity ([`Block::parity`](crate::Block::parity)) if the peer accepts it. Their
    /// data then leaves in chunks of a symbol, which are slightly shorter than the largest payload.
    /// Default: false.
    pub wants_parity: bool,
    /// The peer is asked to report stalls, as [`SchedEvent::Stalled`]. Default: false.
    pub wants_stalls: bool,
    /// The peer may report packets together that arrive within 2 ms, which saves packets and
    /// processor time at both ends. The scheduler then sees less often what has arrived. Default:
    /// false.
    pub takes_joint_reports: bool,
    /// Decisions depend on observations of other sessions in the process, so that a run in virtual
    /// time is not repeatable. Default: false.
    pub learns_from_others: bool,
    /// The scheduler decides which blocks can still be in time. Otherwise the session ends blocks
    /// that the paths cannot deliver before their deadline. Default: false.
    pub judges_deadlines: bool,
    /// Bytes that each metered path may carry in a session; `None` for no limit. The session counts
    /// every packet that it sends and reports the rest as [`PathView::budget`]. Default: `None`.
    pub metered_cap: Option<u64>,
    /// Rule by which the rates of the paths add up to that of the session, for forecasts. Default:
    /// [`Sharing::Sum`].
    pub sharing: Sharing,
}

impl Profile {
    /// Returns `true` if metered paths carry less than unmetered ones would.
    pub fn spares_metered(&self) -> bool {
        self.metered_cap.is_some() || matches!(self.sharing, Sharing::Free | Sharing::Primary(_))
    }
}

impl Default for Profile {
    fn default() -> Self {
        Self {
            may_hedge: true,
            follows_queue: true,
            wants_parity: false,
            wants_stalls: false,
            takes_joint_reports: false,
            learns_from_others: false,
            judges_deadlines: false,
            metered_cap: None,
            sharing: Sharing::Sum,
        }
    }
}

/// The state that a scheduler decides from.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// Current time.
    pub now: Time,
    /// All unfinished blocks.
    pub queue: &'a BlockQueue,
    /// All open paths, by ascending id.
    pub paths: &'a [PathView],
}

impl<'a> Context<'a> {
    /// Returns the path with that id.
    pub fn path(&self, id: PathId) -> Option<&'a PathView> {
        self.paths.iter().find(|p| p.id == id)
    }

    /// Returns the path with room that has the lowest smoothed RTT; the lower id wins a tie.
    pub fn fastest_with_room(&self) -> Option<&'a PathView> {
        self.paths.iter().filter(|p| p.has_room()).min_by_key(|p| (p.srtt, p.id))
    }
}

/// The answer of a scheduler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Send this range.
    Send(Assignment),
    /// Cancel a block: the peer is notified, and nothing more of the block is sent.
    Cancel {
        /// The block to cancel.
        block: BlockId,
        /// Reason, for the event log.
        reason: &'static str,
    },
    /// Measure the round trip of a path that carries nothing: the session sends a probe of a few
    /// bytes on it, and calls again.
    Probe(PathId),
    /// Nothing to send now.
    Idle {
        /// Time of the next call, if nothing happens before; `None` to wait for an event.
        wake: Option<Time>,
    },
}

impl Decision {
    /// Returns the decision to send nothing until something happens.
    pub const fn idle() -> Self {
        Self::Idle { wake: None }
    }
}

/// A range of a block, assigned to a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignment {
    /// The block.
    pub block: BlockId,
    /// Range of bytes; for [parity](WorkKind::is_parity), range of symbols.
    pub range: Range<u32>,
    /// New data, a repair, a copy or parity.
    pub kind: WorkKind,
    /// The path that carries it.
    pub path: PathId,
    /// Reason, for the event log.
    pub reason: &'static str,
    /// Predicted times behind the reason, from schedulers that predict arrivals.
    pub forecast: Option<Forecast>,
}

/// The scheduler's expectation of an assignment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forecast {
    /// Expected arrival of the last byte of the range.
    pub arrives: Time,
    /// Time at which the block should be complete.
    pub due: Time,
}

impl Assignment {
    /// Assigns `work` to `path`.
    pub fn new(work: Work, path: PathId, reason: &'static str) -> Self {
        Self { block: work.block, range: work.range, kind: work.kind, path, reason, forecast: None }
    }

    /// Adds the predicted times behind the reason.
    pub fn expected(mut self, arrives: Time, due: Time) -> Self {
        self.forecast = Some(Forecast { arrives, due });
        self
    }

    /// Shortens the range to at most `len` bytes, or symbols of parity.
    pub fn at_most(mut self, len: u32) -> Self {
        self.range.end = self.range.end.min(self.range.start.saturating_add(len));
        self
    }
}

/// An event since the last decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SchedEvent {
    /// The application handed over a block.
    Queued(BlockId),
    /// A growing block got more bytes at its end, or its final length.
    Grew {
        /// The block.
        block: BlockId,
        /// The added bytes; empty if the length became final.
        range: Range<u32>,
    },
    /// A block ended and is no longer in the queue.
    Done {
        /// The block.
        block: BlockId,
        /// The peer has all of it; otherwise it expired, or was cancelled, lost or refused.
        delivered: bool,
    },
    /// The peer acknowledged bytes of a block on a path.
    Acked {
        /// The block.
        block: BlockId,
        /// The acknowledged bytes.
        range: Range<u32>,
        /// The path that carried them.
        path: PathId,
    },
    /// Bytes of a block were lost on a path.
    Lost {
        /// The block.
        block: BlockId,
        /// The lost bytes.
        range: Range<u32>,
        /// The path that carried them.
        path: PathId,
    },
    /// Bytes of a block were assigned to a path, never left and were taken back.
    Unsent {
        /// The block.
        block: BlockId,
        /// The returned bytes.
        range: Range<u32>,
        /// The path that they were assigned to.
        path: PathId,
    },
    /// Parity of a block was acknowledged, lost or taken back. Lost parity is not repaired.
    Parity {
        /// The block.
        block: BlockId,
        /// The symbols.
        symbols: Range<u32>,
        /// The path that they were assigned to.
        path: PathId,
        /// Their fate.
        fate: ParityFate,
    },
    /// The peer reports that a block arrived later than its reader expected: after a gap in its
    /// channel that is no pause of the sender. Only for schedulers that [request
    /// it](Profile::wants_stalls). The report may arrive before or after [`Self::Done`], or never.
    Stalled(BlockId),
    /// A path appeared, changed its state, or was closed.
    PathChanged(PathId),
}

impl SchedEvent {
    /// Returns the block of the event; `None` if it is about a path.
    pub fn block(&self) -> Option<BlockId> {
        match self {
            Self::Queued(block)
            | Self::Grew { block, .. }
            | Self::Done { block, .. }
            | Self::Acked { block, .. }
            | Self::Lost { block, .. }
            | Self::Unsent { block, .. }
            | Self::Parity { block, .. }
            | Self::Stalled(block) => Some(*block),
            Self::PathChanged(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {

    use squall_units::short::us;

    use super::*;

    #[test]
    fn at_most_shortens_and_never_lengthens() {
        let work = Work { block: BlockId(0), range: 10..50, kind: WorkKind::Fresh };
        let assignment = Assignment::new(work, PathId(0), "test");
        assert_eq!(assignment.clone().at_most(15).range, 10..25);
        assert_eq!(assignment.clone().at_most(u32::MAX).range, 10..50);
    }

    #[test]
    fn paths_are_found_by_id_and_by_rtt() {
        let paths = [PathView::example(2, us(30), 10_000), PathView::example(5, us(20), 10_000)];
        let queue = BlockQueue::new();
        let cx = Context { now: Time::EPOCH, queue: &queue, paths: &paths };
        assert_eq!(cx.path(PathId(5)).map(|p| p.srtt), Some(us(20)));
        assert!(cx.path(PathId(0)).is_none());
        assert_eq!(cx.fastest_with_room().map(|p| p.id), Some(PathId(5)));
    }
}

//! The interface every scheduler implements.

use std::ops::Range;

use crate::{BlockId, BlockQueue, ParityFate, PathId, PathView, Sharing, Time, Work, WorkKind};

/// Decides which bytes go on which path.
///
/// The session calls [`next`](Self::next) until it returns [`Decision::Idle`], whenever something
/// changed: a block was handed over, an acknowledgement came, a path changed, a wake-up is due.
pub trait Scheduler: Send {
    /// The next thing to do.
    ///
    /// Assign only to paths that [have room](PathView::has_room). The range of an assignment may be
    /// longer than one packet: the session sends as much of it as the window admits and calls again, so a
    /// long range is cheaper than many short ones.
    fn next(&mut self, cx: &Context<'_>) -> Decision;

    /// Something happened. Most schedulers do not need this: the [`Context`] has the state.
    fn on_event(&mut self, event: &SchedEvent, cx: &Context<'_>) {
        let _ = (event, cx);
    }

    /// What it is and what it wants of the session, read when the session begins and at each forecast. A scheduler around another one
    /// returns the profile of that.
    fn profile(&self) -> Profile {
        Profile::default()
    }
}

/// What a [`Scheduler`] is, and what it wants of the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Profile {
    /// The session may copy to another path what the scheduler gives to a path of which nothing proves that it still delivers. Default:
    /// true.
    pub may_hedge: bool,
    /// New data leaves in the order of the queue, in which channels share by their weights: that of [`BlockQueue::next_fresh`], or,
    /// of whole blocks, where the scheduler has no preference, that of [`BlockQueue::with_fresh`] or
    /// [`BlockQueue::by_deadline`]. Default: true.
    pub follows_queue: bool,
    /// Blocks have parity ([`Block::parity`](crate::Block::parity)) where the peer takes it. Their data then leaves in chunks of a
    /// symbol, which are a little shorter than packets could be. Default: false.
    pub wants_parity: bool,
    /// The peer is asked to report stalls, as [`SchedEvent::Stalled`]. Default: false.
    pub wants_stalls: bool,
    /// Decisions depend on what other sessions of the process saw, so that a run in virtual time could not be repeated. Default: false.
    pub learns_from_others: bool,
    /// The scheduler decides which blocks can still be in time. Otherwise the session ends those that the paths cannot bring
    /// before their deadline. Default: false.
    pub judges_deadlines: bool,
    /// Bytes that each metered path may carry in a session; `None` for no limit. The session counts every packet that it sends and
    /// gives the rest as [`PathView::budget`]. Default: `None`.
    pub metered_cap: Option<u64>,
    /// How the rates of paths add up to that of the session, for forecasts. Default: [`Sharing::Sum`].
    pub sharing: Sharing,
}

impl Profile {
    /// Whether metered paths carry less than others would.
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
            learns_from_others: false,
            judges_deadlines: false,
            metered_cap: None,
            sharing: Sharing::Sum,
        }
    }
}

/// What a scheduler decides from.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// The time.
    pub now: Time,
    /// Every unfinished block.
    pub queue: &'a BlockQueue,
    /// Every open path, by ascending id.
    pub paths: &'a [PathView],
}

impl<'a> Context<'a> {
    /// The path of that id.
    pub fn path(&self, id: PathId) -> Option<&'a PathView> {
        self.paths.iter().find(|p| p.id == id)
    }

    /// Among the paths with room, the one with the lowest smoothed RTT; the lower id wins a tie.
    pub fn fastest_with_room(&self) -> Option<&'a PathView> {
        self.paths.iter().filter(|p| p.has_room()).min_by_key(|p| (p.srtt, p.id))
    }
}

/// A scheduler's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Send this.
    Send(Assignment),
    /// Cancel a block: the peer is notified, and nothing more of it is sent.
    Cancel {
        /// Which block.
        block: BlockId,
        /// Why, for the event log.
        reason: &'static str,
    },
    /// Measure the round trip of a path that carries nothing: the session sends a probe of a few bytes on
    /// it, and calls again.
    Probe(PathId),
    /// Nothing to send now.
    Idle {
        /// Call again at this time, if nothing happens before.
        wake: Option<Time>,
    },
}

impl Decision {
    /// Nothing to send until something happens.
    pub const fn idle() -> Self {
        Self::Idle { wake: None }
    }
}

/// A range of a block, given to a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignment {
    /// Of which block.
    pub block: BlockId,
    /// Which bytes; which symbols, of [parity](WorkKind::is_parity).
    pub range: Range<u32>,
    /// Whether it is new, a repair, a copy or parity.
    pub kind: WorkKind,
    /// On which path.
    pub path: PathId,
    /// Why, for the event log.
    pub reason: &'static str,
    /// The numbers behind the reason, of schedulers that predict arrivals.
    pub forecast: Option<Forecast>,
}

/// What a scheduler expects of an assignment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forecast {
    /// When the last byte of the range arrives.
    pub arrives: Time,
    /// When the block should be complete.
    pub due: Time,
}

impl Assignment {
    /// Gives `work` to `path`.
    pub fn new(work: Work, path: PathId, reason: &'static str) -> Self {
        Self { block: work.block, range: work.range, kind: work.kind, path, reason, forecast: None }
    }

    /// The same, with the numbers behind the reason.
    pub fn expected(mut self, arrives: Time, due: Time) -> Self {
        self.forecast = Some(Forecast { arrives, due });
        self
    }

    /// The same, with at most `len` bytes, or symbols of parity.
    pub fn at_most(mut self, len: u32) -> Self {
        self.range.end = self.range.end.min(self.range.start.saturating_add(len));
        self
    }
}

/// An event since the last decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SchedEvent {
    /// A block was handed over.
    Queued(BlockId),
    /// Bytes came to the end of a block that grows, or its length became final.
    Grew {
        /// Which block.
        block: BlockId,
        /// Which bytes came; none when its length became final.
        range: Range<u32>,
    },
    /// A block ended and is no longer in the queue.
    Done {
        /// Which block.
        block: BlockId,
        /// Whether the peer has all of it; else it expired, was cancelled, lost or refused.
        delivered: bool,
    },
    /// Bytes of a block were acknowledged on a path.
    Acked {
        /// Of which block.
        block: BlockId,
        /// Which bytes.
        range: Range<u32>,
        /// On which path.
        path: PathId,
    },
    /// Bytes of a block were lost on a path.
    Lost {
        /// Of which block.
        block: BlockId,
        /// Which bytes.
        range: Range<u32>,
        /// On which path.
        path: PathId,
    },
    /// Bytes of a block that were given to a path never left and were taken back.
    Unsent {
        /// Of which block.
        block: BlockId,
        /// Which bytes.
        range: Range<u32>,
        /// On which path.
        path: PathId,
    },
    /// The fate of parity of a block. Lost parity is not repaired.
    Parity {
        /// Of which block.
        block: BlockId,
        /// Which symbols.
        symbols: Range<u32>,
        /// On which path.
        path: PathId,
        /// What became of them.
        fate: ParityFate,
    },
    /// The peer reports that a block came later than its reader expected it: after a gap in its channel that is no pause of
    /// the sender. Only for schedulers that [want it](Profile::wants_stalls). The report may come before or after
    /// [`Self::Done`], or never.
    Stalled(BlockId),
    /// A path appeared, changed its state, or is gone.
    PathChanged(PathId),
}

impl SchedEvent {
    /// The block that the event is about; `None` if it is about a path.
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

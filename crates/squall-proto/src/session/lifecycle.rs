//! The life of a session:
//!
//! ```text
//!   Handshake ──► Open ──► Closed ──► (dropped)
//!       └───────────────────►┘
//! ```
//!
//! The application gets [`Event::Connected`] once, when both sides are up: that may be during the
//! handshake, because the peer's hello can overtake its confirmation. It gets [`Event::Closed`]
//! once, and can still take all events of earlier arrivals.

use std::collections::VecDeque;

use squall_sched::{PathId, Time};

use crate::{CloseReason, Event, NetPath, PathStats, tally::SessionPlace};

/// Result of [`Session::path_stats`](super::Session::path_stats).
type Paths = Vec<(PathId, NetPath, PathStats)>;

#[derive(Debug)]
pub(crate) struct Lifecycle {
    stage: Stage,
    /// [`Event::Connected`] was reported.
    announced: bool,
    /// Place of the session in the counts of all workers.
    place: SessionPlace,
}

#[derive(Debug)]
enum Stage {
    Handshake,
    Open {
        /// Time since which no path is up.
        without_path_since: Option<Time>,
    },
    Closed(Closed),
}

#[derive(Debug)]
struct Closed {
    reason: CloseReason,
    /// [`Event::Closed`] was not taken yet.
    is_end_due: bool,
    arrivals: VecDeque<Event>,
    /// Its paths at the end. They are left one by one, so that each close may take the next.
    paths: Paths,
    /// Deadline for dropping the session, if QUIC has not finished draining.
    drop_at: Time,
    is_dropped: bool,
}

impl Lifecycle {
    pub(super) fn new(place: SessionPlace) -> Self {
        Self { stage: Stage::Handshake, announced: false, place }
    }

    pub(super) fn in_handshake(&self) -> bool {
        matches!(self.stage, Stage::Handshake)
    }

    pub(super) fn is_open(&self) -> bool {
        matches!(self.stage, Stage::Open { .. })
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed().is_some()
    }

    /// Returns `true` if the application takes part in the session.
    pub(super) fn is_live(&self) -> bool {
        self.announced && !self.is_closed()
    }

    /// Returns `true` if the session was reported to the application, or will be. Before that a
    /// racing session is not the session of the attempt.
    pub(crate) fn is_announced(&self) -> bool {
        self.announced && !self.in_handshake()
    }

    fn closed(&self) -> Option<&Closed> {
        if let Stage::Closed(closed) = &self.stage { Some(closed) } else { None }
    }

    fn closed_mut(&mut self) -> Option<&mut Closed> {
        if let Stage::Closed(closed) = &mut self.stage { Some(closed) } else { None }
    }

    /// Confirms the handshake. Returns `true` if it was not confirmed before.
    pub(super) fn confirm(&mut self) -> bool {
        let is_new = self.in_handshake();
        if is_new {
            self.stage = Stage::Open { without_path_since: None };
        }
        is_new
    }

    /// Records that both sides are up. Returns `true` the first time.
    pub(super) fn announce(&mut self) -> bool {
        !std::mem::replace(&mut self.announced, true)
    }

    /// Closes the session. `arrivals` are the events of the inbox that the application has not
    /// taken.
    pub(super) fn close(
        &mut self,
        reason: CloseReason,
        drop_at: Time,
        arrivals: VecDeque<Event>,
        paths: Paths,
    ) {
        let (is_end_due, is_dropped) = (true, false);
        self.stage = Stage::Closed(Closed { reason, is_end_due, arrivals, paths, drop_at, is_dropped });
    }

    pub(super) fn take_arrival(&mut self, is_wanted: impl Fn(&Event) -> bool) -> Option<Event> {
        let arrivals = &mut self.closed_mut()?.arrivals;
        arrivals.remove(arrivals.iter().position(is_wanted)?)
    }

    /// Returns the paths of a session that is over.
    pub(super) fn last_paths(&self) -> Option<&Paths> {
        self.closed().map(|closed| &closed.paths)
    }

    /// Takes [`Event::Closed`], once.
    pub(super) fn take_end(&mut self) -> Option<Event> {
        let closed = self.closed_mut()?;
        std::mem::take(&mut closed.is_end_due).then(|| Event::Closed(closed.reason.clone()))
    }

    pub(super) fn has_events(&self) -> bool {
        self.closed().is_some_and(|closed| closed.is_end_due || !closed.arrivals.is_empty())
    }

    pub(super) fn reason(&self) -> Option<&CloseReason> {
        self.closed().map(|closed| &closed.reason)
    }

    /// Discards a session that lost the race: the application gets none of its events.
    pub(super) fn discard(&mut self) {
        self.announced = false;
        if let Some(closed) = self.closed_mut() {
            closed.arrivals.clear();
            closed.is_end_due = false;
        }
    }

    pub(super) fn on_path_up(&mut self) {
        if let Stage::Open { without_path_since } = &mut self.stage {
            *without_path_since = None;
        }
    }

    /// Records that the last path that was up is closed.
    pub(super) fn on_last_path_gone(&mut self, at: Time) {
        if let Stage::Open { without_path_since } = &mut self.stage {
            without_path_since.get_or_insert(at);
        }
    }

    /// Returns the time since which an open session has no path.
    pub(super) fn without_path_since(&self) -> Option<Time> {
        if let Stage::Open { without_path_since } = self.stage { without_path_since } else { None }
    }

    /// Returns the deadline for dropping a closed session.
    pub(super) fn drop_at(&self) -> Option<Time> {
        Some(self.closed()?.drop_at)
    }

    /// Drops the session from the endpoint.
    pub(crate) fn let_go(&mut self) {
        if let Some(closed) = self.closed_mut() {
            closed.is_dropped = true;
        }
    }

    pub(super) fn is_let_go(&self) -> bool {
        self.closed().is_some_and(|closed| closed.is_dropped)
    }

    /// Updates the place of the session in the counts of all workers.
    pub(crate) fn update_place(&mut self) {
        self.place.update(self.is_live(), self.in_handshake());
    }
}

#[cfg(test)]
mod tests {
    use squall_units::short::at_us;

    use super::*;

    fn new() -> Lifecycle {
        Lifecycle::new(SessionPlace::new(&Default::default(), false))
    }

    #[test]
    fn the_application_takes_part_between_the_announcement_and_the_end() {
        let mut life = new();
        assert!(life.announce() && !life.announce());
        assert!(life.is_live() && !life.is_announced(), "the hello came before the confirmation");
        assert!(life.confirm() && !life.confirm());
        assert!(life.is_open() && life.is_announced());
        life.close(CloseReason::Local, at_us(7), VecDeque::new(), Vec::new());
        assert!(!life.is_live() && life.is_announced() && !life.confirm());
    }

    #[test]
    fn what_had_arrived_is_taken_after_the_end_and_the_end_once() {
        let mut life = new();
        assert_eq!((life.take_arrival(|_| true), life.take_end(), life.has_events()), (None, None, false));
        life.close(CloseReason::TimedOut, at_us(7), [Event::Writable].into(), Vec::new());
        assert_eq!(life.take_end(), Some(Event::Closed(CloseReason::TimedOut)));
        assert_eq!((life.take_end(), life.has_events()), (None, true));
        assert_eq!(life.take_arrival(|_| false), None, "it is of another channel");
        assert_eq!((life.take_arrival(|_| true), life.take_arrival(|_| true)), (Some(Event::Writable), None));
        assert_eq!((life.reason(), life.drop_at()), (Some(&CloseReason::TimedOut), Some(at_us(7))));
        life.let_go();
        assert!(life.is_let_go());
    }

    #[test]
    fn a_session_that_lost_its_race_has_no_events() {
        let mut life = new();
        life.announce();
        life.close(CloseReason::Local, at_us(7), [Event::Writable].into(), Vec::new());
        life.discard();
        assert!(!life.is_announced() && !life.has_events());
        assert_eq!((life.take_arrival(|_| true), life.take_end()), (None, None));
        assert!(!life.is_let_go());
    }

    #[test]
    fn the_time_without_a_path_counts_from_the_first_one_that_left_none() {
        let mut life = new();
        life.on_last_path_gone(at_us(1));
        assert_eq!(life.without_path_since(), None, "no path was up");
        life.confirm();
        life.on_last_path_gone(at_us(2));
        life.on_last_path_gone(at_us(3));
        assert_eq!(life.without_path_since(), Some(at_us(2)));
        life.on_path_up();
        assert_eq!(life.without_path_since(), None);
    }
}

//! State of the path at the end of a round, and the step that a phase takes then.

use squall_units::{Span, Time};

use super::super::{
    loss_bound::LossBound,
    units::{ByteRate, Delay},
};

/// Time without an empty queue that calls for a dip.
const OVERDUE: Span = Span::from_secs(8);
/// Upper bound of that time beside others, where it is half of the time since they are present:
/// each dip loses some of the share.
const OVERDUE_BESIDE: Span = Span::from_secs(16);
/// That time in round trips, at least, so that dips stay rare on long paths.
const OVERDUE_ROUND_TRIPS: f64 = 50.0;
/// Smallest excess of a queue over the target that calls for a dip; half of the target if that is
/// more.
const NOTABLE: Delay = Delay::new(10e3);
/// Share of the growth that more bytes in flight explain above which the queue has grown for them
/// alone. Beside one other flow it is a half.
const OWN: f64 = 0.8;

/// Latest delay beyond the smallest, and its expected parts.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct QueueDelay {
    pub(crate) latest: Delay,
    /// `J`, the delay of the path itself.
    pub(crate) own: Delay,
    /// `T`.
    pub(crate) target: Delay,
}

impl QueueDelay {
    pub(crate) fn is_empty(self) -> bool {
        self.latest - self.own < self.target / 3.0
    }

    pub(crate) fn is_within_target(self) -> bool {
        self.latest <= self.target + self.own
    }

    pub(crate) fn is_notable(self) -> bool {
        self.latest > self.target + self.own + NOTABLE.max(self.target / 2.0)
    }
}

/// State of a path at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Sample {
    /// Delay beyond the smallest.
    pub(crate) queue: Delay,
    /// Bytes in flight.
    pub(crate) flight: u64,
    pub(crate) rate: ByteRate,
}

/// State of a path at the end of a round.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Round {
    pub(crate) now: Time,
    pub(crate) queue: QueueDelay,
    /// `R + J`.
    pub(crate) round_trip: Delay,
    /// `r`; zero before it is measured.
    pub(crate) rate: ByteRate,
    pub(crate) in_flight: u64,
    pub(crate) window: u64,
    /// Largest recent flight that left the queue within the target.
    pub(crate) calm: u64,
    /// Time when the queue was last empty.
    pub(crate) emptied: Time,
    /// The path, not the application, limits the rate.
    pub(crate) is_limited: bool,
    /// Enough was delivered to judge the path by.
    pub(crate) is_known: bool,
    /// Other paths of the session share the bottleneck.
    pub(crate) is_shared: bool,
}

impl Round {
    pub(crate) fn sample(&self) -> Sample {
        Sample { queue: self.queue.latest, flight: self.in_flight, rate: self.rate }
    }

    /// Returns the sample for comparison from a dip or a lift on, which changes the window.
    pub(crate) fn sample_of_window(&self) -> Sample {
        Sample { flight: self.window, ..self.sample() }
    }

    /// Returns `true` if no queue was seen to be empty for too long: longer where others have been
    /// present for some time.
    pub(crate) fn is_overdue(&self, others_for: Span) -> bool {
        let least = (self.round_trip * OVERDUE_ROUND_TRIPS).span();
        self.now > self.emptied + OVERDUE.max((others_for / 2).min(OVERDUE_BESIDE)).max(least)
    }

    /// Returns the growth of the queue above which it is ours, with more in flight than before.
    pub(crate) fn own_growth(&self, before: &Sample) -> Delay {
        let more = ByteRate::ONE.time_for(self.in_flight.saturating_sub(before.flight) as f64);
        more * OWN / (self.rate.max(ByteRate::ONE) / ByteRate::ONE)
    }

    /// Returns `true` if the queue has grown by as much as the growth of the flight explains.
    pub(crate) fn is_own(&self, before: &Sample) -> bool {
        self.queue.latest - before.queue > self.own_growth(before)
    }
}

/// The phase that follows, with its initial state.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Next {
    Alone,
    Dip { before: Sample, others_since: Option<Time> },
    Restore { before: Sample, bottom: Sample },
    Lift { before: Sample, again: bool },
    Beside { since: Time, start: Sample },
}

/// Result of a test of the latest delay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Finding {
    /// The delay is the path's own.
    Own,
    /// The delay is a queue, and so was the one taken for the path's own.
    Queue,
}

/// The end of a phase.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    pub(crate) next: Next,
    /// The reason, for the log.
    pub(crate) why: &'static str,
    pub(crate) finding: Option<Finding>,
    /// The loss bound from now on, where it changes.
    pub(crate) loss_bound: Option<LossBound>,
}

impl Step {
    pub(crate) fn new(next: Next, why: &'static str) -> Self {
        Self { next, why, finding: None, loss_bound: None }
    }
}

/// Counts a round down. Returns `true` if it was the last one.
pub(crate) fn count_down(rounds: &mut u8) -> bool {
    *rounds = rounds.saturating_sub(1);
    *rounds == 0
}

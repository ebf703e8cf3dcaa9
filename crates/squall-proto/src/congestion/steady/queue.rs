//! Times for which the queue has been empty, or standing.

use squall_units::{Span, Time};

use super::{
    own_delay::MEMORY,
    phase::{Phase, QueueDelay},
    units::Delay,
};
use crate::congestion::minimum::Maximum;

/// Time after which a standing queue is not a burst's; from then on the target falls to a half
/// within a second.
const BURST: Span = Span::from_millis(500);
/// Share of the target that is left to a standing queue.
const STANDING_SHARE: f64 = 0.5;
/// First room beyond the round trip while no queue is seen, as a share of it; it doubles with each
/// round.
const FIRST_ROOM: f64 = 0.05;
/// Largest room as a share of the round trip: CUBIC's factor of 1.5.
const MOST_ROOM: f64 = 0.5;
/// Number of doublings from the first room to the largest.
const DOUBLINGS: i32 = 4;
/// Time after a dip in which the queue is no sign of the one that stood before.
const AFTER_DIP: Span = Span::from_millis(500);

/// Past states of the queue, by rounds.
#[derive(Debug, Default)]
pub(super) struct QueueHistory {
    /// Consecutive rounds without a queue, up to [`DOUBLINGS`].
    empty_rounds: i32,
    /// Time when the queue was last empty, for the search for others.
    emptied: Time,
    /// Time since when the queue has been standing, for the target.
    stands_since: Time,
    /// Time for which it has been standing beyond [`BURST`].
    overdue: Span,
    /// End of the last dip.
    dipped: Time,
    /// Largest flight in ten seconds while the queue was within the target, in bytes.
    calm: Maximum,
}

impl QueueHistory {
    /// Records the end of a round with this queue and this many bytes in flight.
    pub(super) fn end_round(
        &mut self,
        now: Time,
        queue: QueueDelay,
        in_flight: u64,
        is_limited: bool,
        phase: &Phase,
    ) {
        let is_empty = queue.is_empty();
        // Beside others it is measured from the bottom of CUBIC's cycle, as soon as a dip is ten
        // seconds ago.
        if !is_limited || is_empty && !phase.is_beside() {
            self.emptied = now;
        }
        let is_dipped = !phase.is_alone() || now < self.dipped + AFTER_DIP;
        if !is_limited || is_empty && !is_dipped {
            self.stands_since = now;
        }
        self.overdue = now - self.stands_since - BURST;
        if queue.is_within_target() {
            self.calm.add(now, in_flight as i64, MEMORY);
        }
        let rounds = (self.empty_rounds + 1).min(DOUBLINGS);
        self.empty_rounds = if is_limited && is_empty { rounds } else { 0 };
    }

    /// Records that a dip was judged.
    pub(super) fn on_dip(&mut self, now: Time) {
        self.dipped = now;
    }

    /// Restarts the search for others, as if the queue were empty.
    pub(super) fn restart(&mut self, now: Time) {
        self.emptied = now;
    }

    pub(super) fn emptied(&self) -> Time {
        self.emptied
    }

    /// Returns the largest recent flight that left the queue within the target, in bytes.
    pub(super) fn calm(&self) -> u64 {
        self.calm.get().unwrap_or(0) as u64
    }

    /// Returns the share of the target that is left.
    pub(super) fn share(&self) -> f64 {
        1.0 - (1.0 - STANDING_SHARE) * self.overdue.as_secs_f64().min(1.0)
    }

    /// Returns the room beyond a round trip in which no queue is seen.
    pub(super) fn room(&self, round_trip: Delay) -> Delay {
        round_trip * (FIRST_ROOM * 2f64.powi(self.empty_rounds)).min(MOST_ROOM)
    }
}
#[cfg(test)]
mod tests {
    use super::{super::phase::Next, *};

    /// Ends a round of 50 ms with such a queue in milliseconds beyond a target of 30.
    fn round(history: &mut QueueHistory, now: u64, queue: f64, is_limited: bool, phase: Next) {
        let queue =
            QueueDelay { latest: Delay::new(1e3 * queue), own: Delay::ZERO, target: Delay::new(30e3) };
        history.end_round(Time::from_micros(1_000 * now), queue, now, is_limited, &phase.into());
    }

    /// Returns the share of the target at a time in milliseconds, after a queue of 20 ms up to
    /// then.
    fn share_at(history: &mut QueueHistory, now: u64) -> f64 {
        round(history, now, 20.0, true, Next::Alone);
        history.share()
    }

    #[test]
    fn a_queue_that_stands_for_longer_than_a_burst_leaves_half_of_the_target() {
        let mut history = QueueHistory::default();
        round(&mut history, 1_000, 0.0, true, Next::Alone);
        let shares = [1_500, 2_000, 2_500, 9_000].map(|now| share_at(&mut history, now));
        assert_eq!(shares, [1.0, 0.75, 0.5, 0.5]);
        round(&mut history, 9_050, 0.0, true, Next::Alone);
        assert_eq!(history.share(), 1.0);
        history.on_dip(Time::from_micros(9_700_000));
        assert_eq!(share_at(&mut history, 10_050), 0.75);
        round(&mut history, 10_100, 0.0, true, Next::Alone);
        assert!(history.share() < 0.75, "a dip has emptied it");
        round(&mut history, 10_150, 20.0, false, Next::Alone);
        assert_eq!(history.share(), 1.0, "the application is the limit");
    }

    #[test]
    fn room_doubles_with_each_round_without_a_queue() {
        let (mut history, round_trip) = (QueueHistory::default(), Delay::new(100e3));
        let mut room_after = |queue| {
            round(&mut history, 1_000, queue, true, Next::Alone);
            history.room(round_trip).micros() / 1e3
        };
        let rooms = [20.0, 0.0, 0.0, 0.0, 0.0, 0.0, 20.0].map(&mut room_after);
        assert_eq!(rooms, [5.0, 10.0, 20.0, 40.0, 50.0, 50.0, 5.0]);
    }

    #[test]
    fn the_calm_flight_is_the_largest_with_a_queue_within_the_target() {
        let mut history = QueueHistory::default();
        round(&mut history, 2_000, 30.0, true, Next::Alone);
        round(&mut history, 3_000, 31.0, true, Next::Alone);
        round(&mut history, 1_000, 30.0, true, Next::Alone);
        assert_eq!(history.calm(), 2_000);
    }

    #[test]
    fn beside_others_a_queue_is_never_taken_for_empty() {
        let mut history = QueueHistory::default();
        let (since, start) = (Time::EPOCH, Default::default());
        round(&mut history, 1_000, 0.0, true, Next::Beside { since, start });
        assert_eq!(history.emptied(), Time::EPOCH);
        round(&mut history, 2_000, 0.0, true, Next::Alone);
        assert_eq!(history.emptied(), Time::from_micros(2_000_000));
    }
}

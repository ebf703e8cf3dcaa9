//! What becomes of the packets on a path, in both directions: the loss that the radios at its ends are judged by
//! (STORM Eq. 2).

use squall_sched::{Span, Time};

/// Time between two reports of a path to the peer at least.
const INTERVAL: Span = Span::from_millis(250);

/// Packets by their fate, since some beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Fates {
    pub(crate) acked: u64,
    pub(crate) lost: u64,
}

impl Fates {
    /// Packets whose fate is known.
    pub(crate) fn known(self) -> u64 {
        self.acked.saturating_add(self.lost)
    }

    pub(crate) fn and(self, other: Self) -> Self {
        let (acked, lost) = (self.acked.saturating_add(other.acked), self.lost.saturating_add(other.lost));
        Self { acked, lost }
    }

    /// Those since an earlier count.
    pub(crate) fn since(self, earlier: Self) -> Self {
        let (acked, lost) =
            (self.acked.saturating_sub(earlier.acked), self.lost.saturating_sub(earlier.lost));
        Self { acked, lost }
    }
}

/// Fates of the packets on a path.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Losses {
    /// Of packets that this side sent.
    sent: Fates,
    /// The peer has a radio there, and wants them reported.
    pub(crate) wanted: bool,
    /// What was reported to it last, and when.
    reported: Option<(Time, Fates)>,
    /// Of packets that the peer sent: its first report and the greatest counts of all. What was before the first is no
    /// news.
    received: Option<(Fates, Fates)>,
}

impl Losses {
    /// The fate of a packet of this side's is known.
    pub(crate) fn on_fate(&mut self, acked: bool) {
        let count = if acked { &mut self.sent.acked } else { &mut self.sent.lost };
        *count += 1;
    }

    /// A packet of this side's that was lost has arrived.
    pub(crate) fn revoke(&mut self) {
        self.sent.lost = self.sent.lost.saturating_sub(1);
        self.sent.acked += 1;
    }

    /// The peer's report of its packets. Counts only grow, so one that arrives late changes nothing.
    pub(crate) fn on_report(&mut self, fates: Fates) {
        let (_, latest) = self.received.get_or_insert((fates, fates));
        *latest = Fates { acked: latest.acked.max(fates.acked), lost: latest.lost.max(fates.lost) };
    }

    /// Packets of both sides by their fate.
    pub(crate) fn total(&self) -> Fates {
        self.received.map_or(self.sent, |(first, latest)| self.sent.and(latest.since(first)))
    }

    /// When the peer is to learn of this side's packets; `None` if there is nothing new.
    pub(crate) fn due_at(&self) -> Option<Time> {
        let (at, before) =
            self.reported.map_or((Time::EPOCH, Fates::default()), |(at, fates)| (at + INTERVAL, fates));
        (self.wanted && self.sent != before).then_some(at)
    }

    /// What to report to the peer now.
    pub(crate) fn report(&mut self, now: Time) -> Fates {
        self.reported = Some((now, self.sent));
        self.sent
    }
}

#[cfg(test)]
mod tests {
    use squall_units::short::{at_ms, at_us};

    use super::*;

    fn fates(acked: u64, lost: u64) -> Fates {
        Fates { acked, lost }
    }

    #[test]
    fn reports_are_due_when_something_is_new_and_not_too_often() {
        let mut losses = Losses::default();
        losses.on_fate(true);
        assert_eq!(losses.due_at(), None, "no peer wants them");
        losses.wanted = true;
        assert_eq!(losses.due_at(), Some(at_us(0)));
        assert_eq!((losses.report(at_ms(1)), losses.due_at()), (fates(1, 0), None));
        losses.on_fate(false);
        assert_eq!((losses.due_at(), losses.report(at_ms(300))), (Some(at_ms(251)), fates(1, 1)));
    }

    #[test]
    fn both_directions_count_from_the_first_report_on() {
        let mut losses = Losses::default();
        losses.on_fate(true);
        losses.on_report(fates(1_000, 900));
        assert_eq!(losses.total(), fates(1, 0));
        losses.on_report(fates(1_100, 910));
        losses.on_fate(false);
        assert_eq!(losses.total(), fates(101, 11));
        losses.on_report(fates(1_050, 905));
        assert_eq!(losses.total(), fates(101, 11), "an older report arrives late");
    }

    #[test]
    fn counts_of_a_peer_that_lies_saturate() {
        let mut losses = Losses::default();
        losses.on_report(fates(0, 0));
        losses.on_report(fates(u64::MAX, u64::MAX));
        losses.on_fate(true);
        assert_eq!(losses.total().and(losses.total()).known(), u64::MAX);
    }
}

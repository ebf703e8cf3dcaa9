//! Fates of the packets on a path, in both directions: the loss by which the radios at its ends are
//! judged (STORM Eq. 2).

use squall_sched::{Span, Time};

/// Shortest time between two reports of a path to the peer.
const INTERVAL: Span = Span::from_millis(250);

/// Packets by their fate, since some beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Fates {
    pub(crate) acked: u64,
    pub(crate) lost: u64,
}

impl Fates {
    /// Returns the number of packets with a fate.
    pub(crate) fn known(self) -> u64 {
        self.acked.saturating_add(self.lost)
    }

    pub(crate) fn and(self, other: Self) -> Self {
        let (acked, lost) = (self.acked.saturating_add(other.acked), self.lost.saturating_add(other.lost));
        Self { acked, lost }
    }

    /// Returns the packets since an earlier count.
    pub(crate) fn since(self, earlier: Self) -> Self {
        let (acked, lost) =
            (self.acked.saturating_sub(earlier.acked), self.lost.saturating_sub(earlier.lost));
        Self { acked, lost }
    }
}

/// Fates of the packets on a path.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Losses {
    /// Fates of packets that this side sent.
    sent: Fates,
    /// The peer has a radio there, and requests reports.
    pub(crate) wanted: bool,
    /// Time and content of the last report.
    reported: Option<(Time, Fates)>,
    /// Fates of packets that the peer sent: its first report, and the largest counts so far.
    /// Packets before the first report are ignored.
    received: Option<(Fates, Fates)>,
}

impl Losses {
    /// Records the fate of a packet of this side.
    pub(crate) fn on_fate(&mut self, acked: bool) {
        let count = if acked { &mut self.sent.acked } else { &mut self.sent.lost };
        *count += 1;
    }

    /// Records the arrival of a lost packet of this side.
    pub(crate) fn revoke(&mut self) {
        self.sent.lost = self.sent.lost.saturating_sub(1);
        self.sent.acked += 1;
    }

    /// Processes the peer's report about its packets. Counts only grow, so a late report changes
    /// nothing.
    pub(crate) fn on_report(&mut self, fates: Fates) {
        let (_, latest) = self.received.get_or_insert((fates, fates));
        *latest = Fates { acked: latest.acked.max(fates.acked), lost: latest.lost.max(fates.lost) };
    }

    /// Returns the packets of both sides by their fate.
    pub(crate) fn total(&self) -> Fates {
        self.received.map_or(self.sent, |(first, latest)| self.sent.and(latest.since(first)))
    }

    /// Returns when a report on this side's packets is due; `None` if nothing changed.
    pub(crate) fn due_at(&self) -> Option<Time> {
        let (at, before) =
            self.reported.map_or((Time::EPOCH, Fates::default()), |(at, fates)| (at + INTERVAL, fates));
        (self.wanted && self.sent != before).then_some(at)
    }

    /// Returns the report for the peer.
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

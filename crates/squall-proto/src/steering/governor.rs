//! The controller of a path between noq's callbacks and the session's verdicts, and the verdicts
//! that may be revoked.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use noq_proto::{RttEstimator, congestion::Controller};

use super::tolerant::Tolerance;

/// The real controller of a path.
#[derive(Debug)]
pub(super) struct Governor {
    pub(super) inner: Box<dyn Controller>,
    /// Keeps losses of the medium from a controller that would respond to them.
    pub(super) tolerance: Option<Tolerance>,
}

impl Governor {
    pub(super) fn on_ack(
        &mut self,
        now: Instant,
        sent: Instant,
        bytes: u64,
        packet: u64,
        app_limited: bool,
        rtt: &RttEstimator,
    ) {
        if let Some(tolerance) = &mut self.tolerance {
            tolerance.on_ack(now, sent);
        }
        self.inner.on_ack(now, sent, bytes, packet, app_limited, rtt);
    }

    pub(super) fn on_packet_lost(&mut self, bytes: u16, packet: u64, now: Instant) {
        if let Some(tolerance) = &mut self.tolerance {
            tolerance.on_packet_lost();
        }
        self.inner.on_packet_lost(bytes, packet, now);
    }

    pub(super) fn on_congestion_event(
        &mut self,
        now: Instant,
        sent: Instant,
        persistent: bool,
        is_ecn: bool,
        lost_bytes: u64,
        largest_lost: u64,
    ) {
        if self.tolerance.as_mut().is_none_or(|tolerance| tolerance.passes_on(persistent, is_ecn)) {
            self.inner.on_congestion_event(now, sent, persistent, is_ecn, lost_bytes, largest_lost);
        }
    }

    /// Revokes the latest losses that were responded to.
    pub(super) fn on_spurious_loss(&mut self) {
        if self.tolerance.as_ref().is_none_or(Tolerance::passes_on_revocation) {
            self.inner.on_spurious_congestion_event();
        }
    }
}

/// A packet that the session declares lost. noq still tracks it, so that its acknowledgement is
/// reported if it arrives.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lost {
    pub(crate) packet: u64,
    pub(crate) bytes: u16,
    /// Time of departure.
    pub(crate) sent: Instant,
}

/// Packets that the session has declared lost and whose fate noq has not reported.
///
/// A controller responds to the losses of a round trip once (RFC 9002 §7.3.1). Its response is
/// undone if all of them arrive, as in TCP on duplicate SACKs (RFC 9438 §4.9.2).
#[derive(Debug, Default)]
pub(super) struct Declared {
    /// Departure of each, and the response that it belongs to.
    packets: BTreeMap<u64, (Instant, u64)>,
    /// Responses so far.
    answers: u64,
    /// Number of the first packet that left after the last response.
    answered: u64,
    /// Packets of the last response that may still arrive.
    open: usize,
    /// One of them was lost indeed.
    is_real: bool,
}

/// Age after which a packet is forgotten: noq reports the fate of every packet that it tracks
/// within a few round trips.
const FORGOTTEN: Duration = Duration::from_secs(30);

impl Declared {
    /// Records a packet that is declared lost; the next one on its path will have the number
    /// `next`.
    pub(super) fn insert(&mut self, lost: Lost, next: u64) {
        if lost.packet >= self.answered {
            (self.answers, self.answered) = (self.answers + 1, next);
            (self.open, self.is_real) = (0, false);
        }
        self.open += 1;
        self.packets.insert(lost.packet, (lost.sent, self.answers));
        while let Some(first) = self.packets.first_entry()
            && lost.sent.saturating_duration_since(first.get().0) > FORGOTTEN
        {
            let packet = *first.key();
            self.confirm(packet);
        }
    }

    /// Records the acknowledgement of a packet. Returns `None` if it was not declared lost, else
    /// `true` if the last response was unjustified.
    pub(super) fn arrives(&mut self, packet: u64) -> Option<bool> {
        let (_, answer) = self.packets.remove(&packet)?;
        if answer != self.answers {
            return Some(false);
        }
        self.open -= 1;
        Some(self.open == 0 && !self.is_real)
    }

    /// Records that noq has declared a packet lost, too.
    pub(super) fn confirm(&mut self, packet: u64) {
        if let Some((_, answer)) = self.packets.remove(&packet)
            && answer == self.answers
        {
            self.open -= 1;
            self.is_real = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn declared(packets: impl IntoIterator<Item = u64>, next: u64) -> Declared {
        let mut declared = Declared::default();
        let sent = Instant::now();
        packets.into_iter().for_each(|packet| declared.insert(Lost { packet, bytes: 1_200, sent }, next));
        declared
    }

    #[test]
    fn an_answer_is_to_nothing_if_all_of_its_packets_arrive() {
        let mut all = declared([3, 5, 9], 20);
        assert_eq!(
            [5, 3, 4, 9].map(|packet| all.arrives(packet)),
            [Some(false), Some(false), None, Some(true)]
        );
        let mut some = declared([3, 5, 9], 20);
        some.confirm(5);
        some.confirm(6);
        assert_eq!([3, 9].map(|packet| some.arrives(packet)), [Some(false); 2], "one was lost");
    }

    #[test]
    fn a_loss_after_the_answer_begins_another_one() {
        let mut lost = declared([3, 19], 20);
        let sent = Instant::now();
        lost.insert(Lost { packet: 20, bytes: 1_200, sent }, 40);
        assert_eq!(
            [3, 19].map(|packet| lost.arrives(packet)),
            [Some(false); 2],
            "the controller has answered again"
        );
        assert_eq!(lost.arrives(20), Some(true));
    }

    #[test]
    fn packets_without_a_fate_are_forgotten() {
        let mut lost = Declared::default();
        let start = Instant::now();
        for i in 0..1_000 {
            let sent = start + Duration::from_secs(i);
            lost.insert(Lost { packet: i, bytes: 1_200, sent }, 2 * i);
        }
        assert_eq!(lost.packets.len(), 31);
    }
}

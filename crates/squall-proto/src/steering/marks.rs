//! Explicit congestion notification (ECN, RFC 3168) on one path: whether packets leave marked as
//! ECT, and whether the CE marks that the peer reports count.
//!
//! noq marks the packets of a path until an ACK shows that counts do not match (RFC 9000 §13.4.2).
//! Two kinds of faulty networks remain:
//!
//! - Marked packets are dropped. No ACK arrives, and nothing ends the marking. Therefore packets
//!   leave unmarked once marked ones have been unanswered for [`UNANSWERED`], as at the end of the
//!   testing period of RFC 9000 A.4. A side whose own marks are unproven also stops when an
//!   unmarked packet arrives: its peer may have detected the fault already, or cannot report marks.
//! - All packets are marked as CE. Marks carry no information then ([`IMPLAUSIBLE`]): packets leave
//!   unmarked, and marks are ignored. Those from before the first packet that was not marked are
//!   withheld from the controller.
//!
//! Marking ends permanently on a path: the ACK of the first unmarked packet has a count too small,
//! whereupon noq stops marking, too. A path that is opened again is tested again.

use std::time::{Duration, Instant};

/// Time after which marked packets without an answer are assumed lost because of their marks:
/// slightly less than the probe timeout before there is a sample of the round trip, 333 ms and four
/// times the half of it (RFC 9002 §6.2.2), so that the first retransmission of a handshake is
/// unmarked.
const UNANSWERED: Duration = Duration::from_millis(900);

/// Number of acknowledged packets, all in acknowledgements that report marks, after which the marks
/// are implausible, if [`ROUNDS`] have passed.
const IMPLAUSIBLE: u64 = 100;
/// Round trips after which marks are implausible: the time in which a response to marks shortens
/// the queue that caused them.
const ROUNDS: u32 = 4;
/// Excess over the smallest round trip, or an eighth of it, within which a round trip is without a
/// queue.
const NO_QUEUE: Duration = Duration::from_millis(5);
/// Marks that continue when the window is one in this many of its size do not depend on the sent
/// packets.
const FALLEN: u64 = 4;
/// Window in bytes, six packets, at which marks that have kept it there since the transfer began do
/// not depend on the sent packets.
const SMALL: u64 = 9_000;

/// ECN of one path.
#[derive(Clone, Debug, Default)]
pub(crate) struct Marks {
    /// Packets leave unmarked from now on.
    is_off: bool,
    /// Reason for the end, until it is reported. Networks that clear the field are common and
    /// harmless: they are not reported.
    news: Option<&'static str>,
    /// A marked packet was acknowledged.
    proven: bool,
    /// Departure of the oldest marked packet since the last acknowledgement.
    unanswered: Option<Instant>,
    /// A packet was acknowledged that no router had marked.
    passed: bool,
    rtt: Duration,
    min_rtt: Duration,
    batch: Batch,
    run: Option<Run>,
}

/// Packets that one ACK frame acknowledges.
#[derive(Clone, Copy, Debug, Default)]
struct Batch {
    packets: u64,
    is_marked: bool,
    is_complete: bool,
}

/// Consecutive batches that report marks.
#[derive(Clone, Copy, Debug)]
struct Run {
    since: Instant,
    packets: u64,
    /// Window of the controller at its beginning.
    window: u64,
}

impl Marks {
    /// Returns `true` if packets that leave now may be marked.
    pub(super) fn may_mark(&mut self, now: Instant) -> bool {
        let patience = UNANSWERED.max(2 * self.rtt);
        if self.unanswered.is_some_and(|since| now.saturating_duration_since(since) >= patience) {
            self.stop("marked packets have no answer");
        }
        !self.is_off
    }

    /// Takes the reason for the end of marking, once.
    pub(crate) fn take_news(&mut self) -> Option<&'static str> {
        self.news.take()
    }

    /// Records the departure of a packet that elicits an acknowledgement.
    pub(super) fn on_sent(&mut self, now: Instant) {
        self.unanswered.get_or_insert(now);
    }

    /// Records the arrival of an unmarked packet of the peer on the path.
    pub(super) fn on_unmarked(&mut self) {
        self.is_off |= !self.proven;
    }

    /// Records an acknowledgement; `window` is the controller's. Returns `true` if marks with an
    /// earlier response were no congestion.
    pub(super) fn on_ack(&mut self, now: Instant, rtt: Duration, min_rtt: Duration, window: u64) -> bool {
        (self.rtt, self.min_rtt) = (rtt, min_rtt);
        self.unanswered = None;
        self.proven = true;
        let batch = std::mem::take(&mut self.batch);
        if !batch.is_complete {
            self.batch = Batch { packets: batch.packets + 1, ..batch };
            return false;
        }
        self.batch.packets = 1;
        self.on_batch(now, batch, window)
    }

    /// Ends the batch: all its packets have been acknowledged.
    pub(super) fn on_end_acks(&mut self) {
        self.batch.is_complete = true;
    }

    /// Records that the batch reports marks. Returns `true` if they count.
    pub(super) fn on_mark(&mut self) -> bool {
        self.batch.is_marked = true;
        self.passed && !self.is_off
    }

    fn on_batch(&mut self, now: Instant, batch: Batch, window: u64) -> bool {
        if self.is_off {
            return false;
        }
        if !batch.is_marked {
            self.passed = true;
            self.run = None;
            return false;
        }
        let run = self.run.get_or_insert(Run { since: now, packets: 0, window });
        run.packets += batch.packets;
        let run = *run;
        let is_long = now.saturating_duration_since(run.since) >= ROUNDS * self.rtt;
        let has_no_queue = self.rtt <= self.min_rtt + NO_QUEUE.max(self.min_rtt / 8);
        let has_fallen = window <= (run.window / FALLEN).max(SMALL);
        if run.packets < IMPLAUSIBLE || !is_long || !(has_no_queue || has_fallen || !self.passed) {
            return false;
        }
        self.stop("all packets are reported as marked by congestion, whatever is sent");
        self.passed
    }

    fn stop(&mut self, why: &'static str) {
        if !std::mem::replace(&mut self.is_off, true) {
            self.news = Some(why);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_millis(40);

    /// Acknowledges batches of ten packets, one each quarter of a round trip; `marked` selects
    /// those that report marks. Returns the number of packets after which marking ended, if it did,
    /// and the number of batches whose marks counted.
    fn run(queue: Duration, batches: usize, marked: impl Fn(usize) -> bool) -> (Option<usize>, usize) {
        let (mut marks, mut now, mut counted) = (Marks::default(), Instant::now(), 0);
        for batch in 0..batches {
            for _ in 0..10 {
                marks.on_ack(now, RTT + queue, RTT, 100_000);
            }
            marks.on_end_acks();
            if marked(batch) {
                counted += usize::from(marks.on_mark());
            }
            if marks.is_off {
                return (Some(10 * batch), counted);
            }
            now += RTT / 4;
        }
        (None, counted)
    }

    #[test]
    fn marks_on_all_packets_from_the_start_never_count() {
        assert_eq!(run(Duration::ZERO, 1_000, |_| true), (Some(170), 0));
        assert_eq!(run(RTT, 1_000, |_| true), (Some(330), 0), "with a queue, too");
    }

    #[test]
    fn marks_with_a_queue_count() {
        assert_eq!(run(RTT, 1_000, |batch| batch > 0), (None, 999));
        assert_eq!(
            run(Duration::ZERO, 1_000, |batch| batch % 10 > 0),
            (None, 900),
            "some packets pass unmarked"
        );
    }

    #[test]
    fn marks_on_all_packets_end_the_marking_where_no_queue_is() {
        let (after, counted) = run(Duration::ZERO, 1_000, |batch| batch > 50);
        assert!(after.is_some_and(|packets| (610..700).contains(&packets)), "{after:?}");
        assert!(counted < 20, "{counted}");
    }

    #[test]
    fn marks_that_do_not_follow_the_window_end_the_marking() {
        let (mut marks, mut now, mut window) = (Marks::default(), Instant::now(), 100_000);
        let mut revoked = false;
        for batch in 0..100 {
            revoked |= (0..10).any(|_| marks.on_ack(now, 2 * RTT, RTT, window));
            marks.on_end_acks();
            if batch > 0 && marks.on_mark() {
                window = window * 9 / 10;
            }
            now += RTT / 4;
        }
        assert!(revoked && marks.take_news().is_some() && window > 1_000, "{window}");
        assert_eq!(marks.take_news(), None, "it is reported once");
    }

    #[test]
    fn unanswered_packets_leave_without_marks() {
        let start = Instant::now();
        let mut marks = Marks::default();
        marks.on_sent(start);
        assert!(marks.may_mark(start + Duration::from_millis(899)));
        assert!(!marks.may_mark(start + Duration::from_millis(999)));
        marks.on_ack(start + Duration::from_secs(1), RTT, RTT, 1);
        assert!(!marks.may_mark(start + Duration::from_secs(1)), "it ends for good");
        let mut marks = Marks::default();
        marks.on_sent(start);
        marks.on_ack(start + RTT, RTT, RTT, 1);
        assert!(marks.may_mark(start + Duration::from_secs(9)), "an idle path is not a silent one");
        marks.on_unmarked();
        assert!(marks.may_mark(start + Duration::from_secs(9)), "its own marks are known to arrive");
        let mut marks = Marks::default();
        marks.on_unmarked();
        assert_eq!((marks.may_mark(start), marks.take_news()), (false, None));
    }
}

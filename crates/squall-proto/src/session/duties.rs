//! Pending work of a session; `transmit` does it, in the order that is stated there.

use squall_sched::{PathId, Time};

use crate::feedback::MAX_DELAY;

/// Content of a received packet, by which its acknowledgement may wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Content {
    /// Feedback alone.
    Feedback,
    Other,
    /// Data, after which feedback is due, too.
    Data,
}

/// Pending work. Deadlines, probes of paths and items have queues of their own.
#[derive(Debug)]
pub(super) struct Duties {
    /// noq's timer has expired. Running it may produce packets, so feedback is first.
    quic_timer: bool,
    /// noq may have tail-loss probes to send.
    tail_probes: bool,
    /// The path that noq has probed just now, without data of ours.
    probed: Option<PathId>,
    /// Something changed since the scheduler last had nothing to do.
    schedule: bool,
    /// Time at which the scheduler requested to run, whatever happens until then.
    schedule_at: Option<Time>,
    /// noq may have control frames or acknowledgements to send.
    flush: bool,
    /// Time at which `flush` is set because of feedback.
    flush_at: Option<Time>,
    /// Acknowledgements may share the next data packet, which leaves room for them.
    acks: bool,
}

impl Duties {
    /// Creates the work of a new session: noq has a handshake to send.
    pub(super) fn new() -> Self {
        Self {
            quic_timer: false,
            tail_probes: false,
            probed: None,
            schedule: false,
            schedule_at: None,
            flush: true,
            flush_at: None,
            acks: false,
        }
    }

    /// Records that noq's timer has expired.
    pub(super) fn on_quic_timer(&mut self) {
        self.quic_timer = true;
    }

    /// Called for each received packet. Acknowledgements of media wait for feedback, which carries
    /// them along when it is due. Those of feedback wait for data, though not for long: otherwise a
    /// sender answers every second report with a packet, and every one that arrives out of order.
    pub(super) fn on_packet(&mut self, content: Content, at: Time) {
        match content {
            Content::Data => self.flush = false,
            Content::Feedback => {
                self.acks = true;
                self.flush_at.get_or_insert(at + MAX_DELAY);
            }
            Content::Other => (self.flush, self.acks) = (true, true),
        }
    }

    /// Returns the time at which [`Self::expire`] is due.
    pub(super) fn flush_at(&self) -> Option<Time> {
        self.flush_at
    }

    /// Called before anything is sent.
    pub(super) fn expire(&mut self, at: Time) {
        self.flush |= self.flush_at.take_if(|due| *due <= at).is_some();
    }

    /// Requests a run of the scheduler.
    pub(super) fn schedule(&mut self) {
        self.schedule = true;
    }

    /// Sets the next run of the scheduler to `wake`, unless something changes before.
    pub(super) fn schedule_at(&mut self, wake: Option<Time>) {
        self.schedule_at = wake;
    }

    /// Requests a poll of noq for packets that no datagram of ours carries along.
    pub(super) fn flush(&mut self) {
        self.flush = true;
    }

    /// Returns `true` if noq is about to send, and would carry the acknowledgements along.
    pub(super) fn precede_feedback(&self) -> bool {
        self.quic_timer || self.flush
    }

    /// Returns the time at which the scheduler requested to run.
    pub(super) fn wake(&self) -> Option<Time> {
        self.schedule_at
    }

    /// Returns `true` once if noq's timer is to run now.
    pub(super) fn take_quic_timer(&mut self) -> bool {
        std::mem::take(&mut self.quic_timer)
    }

    /// Called after noq's timer was run.
    pub(super) fn after_quic_timer(&mut self) {
        self.tail_probes = true;
        self.flush = true;
    }

    pub(super) fn has_tail_probes(&self) -> bool {
        self.tail_probes
    }

    /// Called after noq was polled for tail-loss probes. `sent` if it had one; `probed` is the path
    /// of a PING.
    pub(super) fn after_tail_probe(&mut self, sent: bool, probed: Option<PathId>) {
        self.tail_probes = sent;
        self.probed = probed;
    }

    /// Takes the path of the last tail-loss probe, if that was a PING. noq has another one for it.
    pub(super) fn take_probed(&mut self) -> Option<PathId> {
        self.probed.take()
    }

    /// Returns `true` once if the scheduler is to run now.
    pub(super) fn take_schedule(&mut self, now: Time) -> bool {
        let due = self.schedule || self.schedule_at.is_some_and(|wake| wake <= now);
        if due {
            self.schedule = false;
            self.schedule_at = None;
        }
        due
    }

    /// Called when the scheduler has made the most decisions in a row, or has nothing left to
    /// decide.
    pub(super) fn after_decisions(&mut self, assigned: bool) {
        self.schedule = assigned;
    }

    /// Called when data has left, and acknowledgements with it.
    pub(super) fn after_data(&mut self) {
        self.acks = false;
        self.flush_at = None;
        self.schedule = true;
    }

    pub(super) fn owes_acks(&self) -> bool {
        self.acks
    }

    pub(super) fn has_flush(&self) -> bool {
        self.flush
    }

    /// Returns `true` once if noq is to be polled for all pending packets.
    pub(super) fn take_flush(&mut self) -> bool {
        std::mem::take(&mut self.flush)
    }

    /// Called after noq was polled for all pending packets. `sent` if it had one.
    pub(super) fn after_flush(&mut self, sent: bool) {
        self.flush = sent;
        self.flush_at = None;
        self.acks &= !sent;
    }
}

#[cfg(test)]
mod tests {
    use squall_units::short::at_ms;

    use super::*;

    #[test]
    fn acknowledgements_of_feedback_wait_for_data_but_not_for_long() {
        let mut duties = Duties::new();
        duties.after_flush(false);
        duties.on_packet(Content::Feedback, at_ms(5));
        duties.on_packet(Content::Feedback, at_ms(9));
        duties.expire(at_ms(14));
        assert_eq!(
            (duties.has_flush(), duties.owes_acks(), duties.flush_at()),
            (false, true, Some(at_ms(15)))
        );
        duties.after_data();
        assert_eq!((duties.flush_at(), duties.owes_acks()), (None, false));
        duties.on_packet(Content::Feedback, at_ms(20));
        duties.expire(at_ms(30));
        assert!(duties.has_flush() && duties.flush_at().is_none());
        duties.on_packet(Content::Other, at_ms(31));
        assert!(duties.has_flush(), "it may need an answer");
    }
}

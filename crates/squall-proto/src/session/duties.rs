//! Work that is open before a session may rest; `transmit` does it, in the order that is stated there.

use squall_sched::{PathId, Time};

/// Open work. Deadlines, probes of paths and items have queues of their own.
#[derive(Debug)]
pub(super) struct Duties {
    /// noq's timer has expired. Running it may produce packets, so feedback goes first.
    quic_timer: bool,
    /// noq may have tail-loss probes to send.
    tail_probes: bool,
    /// The path that noq has probed just now, without data of ours.
    probed: Option<PathId>,
    /// Something changed since the scheduler last had nothing to do.
    schedule: bool,
    /// When the scheduler asked to be run, whatever happens until then.
    schedule_at: Option<Time>,
    /// noq may have control frames or acknowledgements to send.
    flush: bool,
    /// Acknowledgements may ride on the next data packet, which leaves room for them.
    acks: bool,
}

impl Duties {
    /// Those of a new session: noq has a handshake to send.
    pub(super) fn new() -> Self {
        Self {
            quic_timer: false,
            tail_probes: false,
            probed: None,
            schedule: false,
            schedule_at: None,
            flush: true,
            acks: false,
        }
    }

    /// noq's timer has expired.
    pub(super) fn on_quic_timer(&mut self) {
        self.quic_timer = true;
    }

    /// A packet has arrived, with media or without. Feedback, when it is due, takes the acknowledgements of media along.
    pub(super) fn on_packet(&mut self, media: bool) {
        self.flush = !media;
        self.acks |= !media;
    }

    /// The scheduler is to be asked again.
    pub(super) fn schedule(&mut self) {
        self.schedule = true;
    }

    /// The scheduler has nothing to do until `wake`, unless something changes.
    pub(super) fn schedule_at(&mut self, wake: Option<Time>) {
        self.schedule_at = wake;
    }

    /// noq has something to send that no datagram of ours takes along.
    pub(super) fn flush(&mut self) {
        self.flush = true;
    }

    /// Whether noq is about to send, and would take the acknowledgements along.
    pub(super) fn precede_feedback(&self) -> bool {
        self.quic_timer || self.flush
    }

    /// When the scheduler asked to be run.
    pub(super) fn wake(&self) -> Option<Time> {
        self.schedule_at
    }

    /// Whether noq's timer is to be run now.
    pub(super) fn take_quic_timer(&mut self) -> bool {
        std::mem::take(&mut self.quic_timer)
    }

    /// noq's timer was run.
    pub(super) fn after_quic_timer(&mut self) {
        self.tail_probes = true;
        self.flush = true;
    }

    pub(super) fn has_tail_probes(&self) -> bool {
        self.tail_probes
    }

    /// noq was polled for tail-loss probes, and had one or none; a PING on the path `probed`.
    pub(super) fn after_tail_probe(&mut self, sent: bool, probed: Option<PathId>) {
        self.tail_probes = sent;
        self.probed = probed;
    }

    /// The path of the last tail-loss probe, if that was a PING. noq has another one for it.
    pub(super) fn take_probed(&mut self) -> Option<PathId> {
        self.probed.take()
    }

    /// Whether the scheduler is to be asked now.
    pub(super) fn take_schedule(&mut self, now: Time) -> bool {
        let due = self.schedule || self.schedule_at.is_some_and(|wake| wake <= now);
        if due {
            self.schedule = false;
            self.schedule_at = None;
        }
        due
    }

    /// The scheduler made as many decisions as it may in a row, or there is nothing left to decide.
    pub(super) fn after_decisions(&mut self, assigned: bool) {
        self.schedule = assigned;
    }

    /// Data has left, and acknowledgements with it.
    pub(super) fn after_data(&mut self) {
        self.acks = false;
        self.schedule = true;
    }

    pub(super) fn owes_acks(&self) -> bool {
        self.acks
    }

    pub(super) fn has_flush(&self) -> bool {
        self.flush
    }

    /// Whether noq is to be polled for whatever it has, once.
    pub(super) fn take_flush(&mut self) -> bool {
        std::mem::take(&mut self.flush)
    }

    /// noq was polled for whatever it has, and had something or not.
    pub(super) fn after_flush(&mut self, sent: bool) {
        self.flush = sent;
        self.acks &= !sent;
    }
}

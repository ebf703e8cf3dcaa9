//! Deadlines, silent paths and probes, by time.

use std::time::Instant;

use bytes::Bytes;
use squall_sched::{Span, Time};

use super::Session;
use crate::{CloseReason, outbox::Ending, path::Path};

/// Interval of checks of a path that should be closed, and cannot be.
const IDLE_STEP: Span = Span::from_secs(1);

impl Session {
    /// Handles everything that is due. `poll_transmit` takes packets that follow.
    pub(crate) fn on_time(&mut self, now: Instant) {
        let _span = self.conn.span().clone().entered();
        let at = self.time(now);
        // Runs only after acknowledgements have left, which `poll_transmit` decides.
        if self.conn.timeout().is_some_and(|due| due <= now) {
            self.duties.on_quic_timer();
        }
        while let Some(id) = self.outbox.overdue(at) {
            self.end_block(at, id, Ending::Expired);
        }
        if self.outbox.queue.impatient_at().is_some_and(|due| due <= at) {
            self.watch_hints(at);
        }
        if self.lasts_without_path_until().is_some_and(|until| until <= at) && self.is_open() {
            self.conn.close(now, 0, Bytes::from_static(b"no path"));
            self.end(now, CloseReason::TimedOut);
            return;
        }
        self.inbox.on_time(at);
        self.inbox.watch(at);
        self.watch_losses(at);
        self.watch_paths(at);
        self.send_alerts(at);
        self.open_paths(at);
        // A path may be free again, or a scheduler's wake-up due.
        self.schedule();
    }

    /// Returns the time at which a session without paths ends. The peer may continue to send over a
    /// path that this side has closed, which would keep both sides from timing out.
    fn lasts_without_path_until(&self) -> Option<Time> {
        self.life.without_path_since().map(|since| since + self.clock.timeouts.idle)
    }

    /// Returns the time at which [`Self::on_time`] or `poll_transmit` has work next.
    pub(crate) fn timeout(&mut self, now: Instant) -> Option<Instant> {
        let now = self.time(now);
        let quic = self.conn.timeout();
        if !self.is_open() {
            let last = self.life.drop_at().map(|at| self.instant(at));
            return quic.into_iter().chain(last).min();
        }
        let packet = self.packet_size();
        // Packets that noq could not send precede all others, and noq decides when to try again.
        let held_up = self.conn.has_queued() || !self.conn.paths.iter().any(|path| path.life.is_up());
        // `Time::MAX` is later than any due time: this runs for every packet, and a plain minimum
        // is quickest.
        let mut next = Time::MAX;
        let mut consider = |at: Option<Time>| next = next.min(at.unwrap_or(Time::MAX));
        consider(self.outbox.next_deadline());
        consider(self.inbox.timeout());
        consider(self.radios.timeout());
        consider(self.open_at());
        consider(self.lasts_without_path_until());
        consider(self.outbox.queue.impatient_at());
        consider(self.next_loss());
        if !held_up {
            consider(self.reporter.due_at());
            consider(self.duties.wake());
            consider(self.duties.flush_at());
            consider(self.losses_due());
        }
        let idle = self.clock.timeouts.path_idle;
        for path in self.conn.paths.iter() {
            // In steps, because the last path is kept however long it is silent.
            consider(self.idle_since(path).map(|since| (since + idle).max(now + IDLE_STEP)));
        }
        for path in self.conn.paths.iter().filter(|path| path.life.is_up()) {
            consider(path.judged_at(self.clock.timeouts.silence));
            consider(path.life.probe_at());
            consider(self.idle_probe_at(path));
            consider(path.life.full_probe_at());
            consider(Some(path.life.blocked_until).filter(|at| *at > now));
            if !path.committed.is_empty() && !held_up {
                let limit = path.limiter.map_or(Time::EPOCH, |limiter| limiter.ready_at(packet));
                consider(Some(path.pacer.ready_at(packet).max(limit)));
            }
        }
        let own = (next != Time::MAX).then(|| self.instant(next));
        quic.into_iter().chain(own).min()
    }

    fn watch_paths(&mut self, at: Time) {
        self.close_idle(at);
        self.probe_paths(at);
        for id in self.conn.paths.ids() {
            let path = &self.conn.paths[id];
            if path.life.is_up() && path.suspect_at(self.clock.timeouts.silence).is_some_and(|due| due <= at)
            {
                self.suspect(at, id);
            }
        }
    }

    /// Returns the time since which a path delivers nothing and may be closed. A path that a client
    /// opens is tried until it is up: each time it was abandoned and opened again, it would use
    /// another number, of which the peer allows few, and the peer would not detect that the
    /// previous one is free.
    fn idle_since(&self, path: &Path) -> Option<Time> {
        // Without liveness only a packet without an answer shows silence.
        let unanswered = || path.flight.waiting_since().filter(|_| !path.life.is_watched());
        path.life.idle_since().or_else(unanswered).filter(|_| !self.side.is_client() || path.life.is_up())
    }

    /// Closes a path that has delivered nothing for too long; a client opens it again later.
    fn close_idle(&mut self, at: Time) {
        let idle = self.clock.timeouts.path_idle;
        let now = self.instant(at);
        for id in self.conn.paths.ids().rev() {
            let is_idle = self.idle_since(&self.conn.paths[id]).is_some_and(|since| at >= since + idle);
            // Fails on the last path, which ends with the session.
            if is_idle && self.conn.close_path(id, now, 0).is_ok() {
                self.pump(at);
                self.flush();
                return;
            }
        }
    }
}

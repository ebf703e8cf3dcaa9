//! Minding the time: deadlines, silent paths, probes.

use std::{
    net::{IpAddr, SocketAddr},
    time::{Duration, Instant},
};

use squall_sched::{Micros, PathId, SchedEvent};

use super::{Session, Stage};
use crate::{
    NetPath, PathChange,
    liveness::Recovery,
    outbox::Ending,
    path::{Chunk, Payload},
};

/// How often a path that ought to be closed, and cannot be, is looked at.
const IDLE_STEP: Micros = 1_000_000;

impl Session {
    /// Does what the time has come for. Packets that follow are taken by `poll_transmit`.
    pub(crate) fn on_time(&mut self, now: Instant) {
        let _span = self.span.clone().entered();
        let at = self.micros(now);
        // Run only when acknowledgements are out of the way, which is up to `poll_transmit`.
        if self.conn.timeout().is_some_and(|due| due <= now) {
            self.duties.on_quic_timer();
        }
        while let Some(id) = self.outbox.overdue(at) {
            self.end_block(at, id, Ending::Expired);
        }
        self.inbox.on_time(at);
        self.watch_paths(at);
        self.mind_radios(at);
        self.open_paths(at);
        // A path may have come free, a scheduler's wake-up be due.
        self.duties.schedule();
    }

    /// When [`Self::on_time`] or `poll_transmit` has something to do next.
    pub(crate) fn timeout(&mut self, now: Instant) -> Option<Instant> {
        let now = self.micros(now);
        let quic = self.conn.timeout();
        if self.stage != Stage::Open {
            return quic;
        }
        let silence = self.config.silence.as_micros() as Micros;
        let packet = self.packet_size();
        let multipath = self.conn.is_multipath();
        // What noq could not send goes before anything else of ours, and noq knows when to try again.
        let held_up = self.conn.has_queued() || !self.paths.iter().any(|path| path.up);
        let mut next = [
            self.outbox.next_deadline(),
            self.inbox.timeout(),
            self.reporter.due_at().filter(|_| !held_up),
            self.duties.wake().filter(|_| !held_up),
            self.radios.timeout(),
            self.to_open.iter().filter(|_| multipath).map(|(due, _)| *due).min(),
        ]
        .into_iter()
        .flatten()
        .min();
        let mut consider = |at: Option<Micros>| next = [next, at].into_iter().flatten().min();
        let idle = self.config.path_idle_timeout.as_micros() as Micros;
        let keep_alive = self.config.keep_alive.as_micros() as Micros;
        for path in &self.paths {
            // In steps, because the last path is kept however long it is silent.
            consider(path.idle_since().map(|since| (since + idle).max(now + IDLE_STEP)));
        }
        for path in self.paths.iter().filter(|p| p.up) {
            consider(path.challenge_at(silence));
            consider(path.suspect_at(silence));
            consider(path.probe_at());
            consider(path.idle_probe_at(keep_alive));
            consider(path.full_probe_at());
            consider(Some(path.blocked_until).filter(|at| *at > now));
            if !path.committed.is_empty() && !held_up {
                consider(Some(path.pacer.ready_at(packet)));
            }
        }
        [quic, next.map(|at| self.instant(at))].into_iter().flatten().min()
    }

    fn watch_paths(&mut self, at: Micros) {
        let silence = self.config.silence.as_micros() as Micros;
        self.close_idle(at);
        self.probe_paths(at);
        for position in 0..self.paths.len() {
            let path = &self.paths[position];
            if path.up && path.suspect_at(silence).is_some_and(|due| due <= at) {
                self.suspect(at, position);
            }
        }
    }

    /// Closes paths that have been of no use for too long; a client opens them anew later.
    fn close_idle(&mut self, at: Micros) {
        let idle = self.config.path_idle_timeout.as_micros() as Micros;
        let now = self.instant(at);
        for position in (0..self.paths.len()).rev() {
            let path = &self.paths[position];
            if path.idle_since().is_some_and(|since| at >= since + idle)
                && let Some(index) = self.conn.index_of(path.number)
            {
                // Fails on the last path, which ends with the session.
                if self.conn.close_path(index, now, 0).is_ok() {
                    self.pump(at);
                    self.duties.flush();
                    return;
                }
            }
        }
    }

    /// The system cannot send from `local`, to `remote` or to anybody: suspects the paths there. Returns whether there
    /// were any that were not suspected before.
    pub(crate) fn on_unreachable(&mut self, now: Instant, local: IpAddr, remote: Option<SocketAddr>) -> bool {
        let (_span, at) = (self.span.clone().entered(), self.micros(now));
        let meant = |net: NetPath| net.local == local && remote.is_none_or(|remote| net.remote == remote);
        let mut found = false;
        for position in 0..self.paths.len() {
            let path = &self.paths[position];
            let net = self.conn.index_of(path.number).map(|index| self.conn.paths[index].net);
            if self.stage == Stage::Open && path.up && !Self::is_suspect(path) && net.is_some_and(meant) {
                self.suspect(at, position);
                found = true;
            }
        }
        found
    }

    /// Takes a silent path out of use, and repairs on others what was in flight on it.
    fn suspect(&mut self, at: Micros, position: usize) {
        let path = &mut self.paths[position];
        let silent = path.liveness.silent_for(at, path.flight.waiting_since());
        path.liveness.suspect(at, path.window);
        path.stats.suspicions += 1;
        let (id, number) = (path.id, path.number);
        // Marked as backup, the path lets no datagram through: a probe would leave on another.
        self.probes.retain(|probe| probe.path != number);
        self.settle_trust(position);
        self.uncommit(position);
        self.presume_lost(at, position);
        self.path_event(id, PathChange::Suspected { silent: Duration::from_micros(silent) });
    }

    /// Reliable data in flight is given up for lost at once. Unreliable data is not sent again in
    /// either case, so its fate is left to QUIC.
    fn presume_lost(&mut self, at: Micros, position: usize) {
        let id = self.paths[position].id;
        let mut chunks = Vec::new();
        let mut controls = Vec::new();
        for entry in self.paths[position].flight.iter_mut().filter(|e| !e.presumed_lost) {
            entry.presumed_lost = true;
            for payload in entry.payload.iter().chain(&entry.more) {
                match payload {
                    Payload::Chunk(chunk) => chunks.push(chunk.clone()),
                    Payload::Control(control) => controls.push(*control),
                    Payload::Probe(_) | Payload::Fleeting => {}
                }
            }
        }
        for control in controls {
            self.repeat_control(at, control);
        }
        chunks.retain(|chunk: &Chunk| self.is_reliable(chunk.block));
        for Chunk { block, range, .. } in chunks {
            self.sched_events.push(SchedEvent::Lost { block, range: range.clone(), path: id });
            if let Some(ended) = self.outbox.on_lost(block, range, id) {
                self.on_ended(at, &ended);
            }
        }
    }

    /// Takes back what was assigned to a path and has not left.
    pub(super) fn uncommit(&mut self, position: usize) {
        let path = &mut self.paths[position];
        path.committed_bytes = 0;
        let id = path.id;
        for chunk in std::mem::take(&mut path.committed) {
            self.take_back(chunk, id);
        }
        self.duties.schedule();
    }

    /// A range assigned to a path did not leave.
    pub(super) fn take_back(&mut self, chunk: Chunk, path: PathId) {
        let Chunk { block, range, .. } = chunk;
        self.outbox.on_unsent(block, range.clone(), path);
        self.sched_events.push(SchedEvent::Unsent { block, range, path });
        self.duties.schedule();
    }

    /// Lets follow what proof of delivery changes about a path that was out of use.
    pub(super) fn on_recovery(&mut self, position: usize, recovery: Option<Recovery>) {
        let Some(recovery) = recovery else { return };
        self.settle_trust(position);
        if let Recovery::Readmitted(after) = recovery {
            let id = self.paths[position].id;
            self.path_event(id, PathChange::Readmitted { after: Duration::from_micros(after) });
        }
    }
}

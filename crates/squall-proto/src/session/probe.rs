//! Probes: their times, and the proofs in their answers.

use std::time::Instant;

use squall_sched::{PathId, Span, Time};

use super::Session;
use crate::{
    PathChange,
    path::{Packet, Path, Sample, one_way_delays},
};

/// Interval of probes on a path that gets no data while data waits for others: a path that is good
/// again is detected within a second and a round trip. Costs 1 kbit/s.
const WANTED_INTERVAL: Span = Span::from_millis(500);

impl Session {
    /// Sends a small probe on a path; the answer, which returns on the same path, updates its
    /// round-trip time.
    pub fn probe(&mut self, now: Instant, path: PathId) {
        self.queue_probe(self.time(now), path, 0);
    }

    pub(super) fn queue_probe(&mut self, now: Time, path: PathId, size: u16) {
        let usable = |path: &Path| path.life.is_up() && !path.life.is_spent();
        if self.conn.paths.get(path).is_some_and(usable) {
            self.probes.send(now, path, size);
        }
    }

    /// Processes the peer's answer to a probe, which takes the path of the probe unless the peer
    /// suspects that one. An answer to a probe that was not sent proves nothing.
    pub(super) fn on_probe_reply(&mut self, at: Time, over: Option<PathId>, id: u64) {
        let Some(sent) = self.probes.take(id) else { return };
        let is_stale = self.conn.paths[sent.path].life.is_stale(at, sent.at);
        if over == Some(sent.path) && !self.clock.was_suspended_after(sent.at) && !is_stale {
            self.sample_rtt(at, sent.path, (at - sent.at).max(Span::TICK), Sample::Probe);
        }
        let path = &mut self.conn.paths[sent.path];
        let packet = Packet::without_data(sent.at, sent.size);
        let change = path.life.on_proof(at, packet, path.rtt.steady);
        self.carry_out(at, sent.path, change);
        self.schedule();
    }

    /// Records a round trip that was measured on a path.
    ///
    /// Only data measures one-way delays, so the delay of an unused path would stay unchanged. But
    /// no packet takes longer one way than another one took both ways, so a probe of such a path
    /// can shorten the delay, unless data once was as quick. It updates the smoothed round trip
    /// only after the interval of keep-alives: that includes the queue that data forms on a thin
    /// path, because of which schedulers avoid it. Otherwise ECF gave the empty path of 300 kbps a
    /// large part of each block.
    pub(super) fn sample_rtt(&mut self, at: Time, id: PathId, rtt: Span, with: Sample) {
        let path = &self.conn.paths[id];
        let sampled_at = path.rtt.sampled_at.unwrap_or_default();
        let is_spared = at >= path.departed_at.max(sampled_at) + WANTED_INTERVAL;
        let is_unused = with == Sample::Probe && is_spared && !path.life.is_suspect();
        if is_unused && path.rtt.is_new_to_data(rtt) {
            let paths = self.conn.paths.iter();
            let delay = paths.clone().zip(one_way_delays(paths, at)).find(|(path, _)| path.id == id);
            let excess = delay.map_or(Span::ZERO, |(_, delay)| delay - rtt);
            self.conn.paths[id].shorten_delay(at, excess);
        }
        if !is_unused || at >= sampled_at + self.clock.timeouts.keep_alive {
            self.conn.paths[id].rtt.sample(at, rtt, with);
        }
    }

    /// Returns `true` if data waits that the path may carry: an avoided path must not stay
    /// unmeasured.
    fn is_wanted(&self, path: &Path) -> bool {
        self.outbox.queue.has_work() && path.role <= self.role_in_life()
    }

    /// Returns the time of the next probe of a path for lack of samples.
    pub(super) fn idle_probe_at(&self, path: &Path) -> Option<Time> {
        let wanted = self.is_wanted(path).then_some(WANTED_INTERVAL);
        path.idle_probe_at(self.clock.timeouts.keep_alive, wanted)
    }

    /// Probes the paths whose proof of delivery is overdue, and those that were idle for long.
    pub(super) fn probe_paths(&mut self, at: Time) {
        let silence = self.clock.timeouts.silence;
        let is_due = |due: Option<Time>| due.is_some_and(|due| due <= at);
        for id in self.conn.paths.ids() {
            let idle_probe_at = self.idle_probe_at(&self.conn.paths[id]);
            let path = &mut self.conn.paths[id];
            if !path.life.is_up() {
                continue;
            }
            if is_due(path.life.full_probe_at())
                && let Some((size, unanswered)) = path.life.on_full_probe(at)
            {
                self.queue_probe(at, id, size);
                self.flush();
                if unanswered {
                    self.path_event(id, PathChange::Narrow);
                }
            } else if is_due(path.challenge_at(silence)) {
                let expected = path.expectation(silence);
                path.life.on_challenge(at, &expected);
                self.challenge(at, id);
            } else if is_due(idle_probe_at) {
                path.probed_at = at;
                self.challenge(at, id);
            }
        }
    }

    /// Challenges a path. A path that is marked as backup, because of its radio, lets a PING
    /// through and no datagram.
    fn challenge(&mut self, at: Time, id: PathId) {
        if self.conn.paths[id].life.is_out() {
            self.conn.ping(id);
        } else {
            self.queue_probe(at, id, 0);
        }
        self.flush();
    }
}

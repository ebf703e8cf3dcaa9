//! Probes: when a path is asked whether it delivers, and what the answer proves.

use std::{collections::VecDeque, time::Instant};

use squall_sched::{Micros, PathId};

use super::Session;
use crate::{
    PathChange,
    path::{Packet, Path, Sample, one_way_delays},
    wire::{Item, Stamp},
};

/// Probes of this side and of the peer.
#[derive(Debug, Default)]
pub(super) struct Probes {
    latest: u64,
    /// Ours that were not answered yet, oldest first.
    unanswered: VecDeque<Sent>,
    /// Ours, and answers to the peer's, that wait to leave.
    waiting: VecDeque<Waiting>,
}

/// A probe of ours.
#[derive(Clone, Copy, Debug)]
struct Sent {
    id: u64,
    /// The path it is meant for.
    path: PathId,
    at: Micros,
    size: u16,
}

/// A probe of ours, or the answer to one of the peer's, that waits to leave.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) path: PathId,
    pub(super) item: Item<'static>,
    /// The size to which its packet is padded: that of a full one, or less; 0 for none.
    pub(super) size: u16,
}

/// Unanswered probes that are remembered.
const MAX_UNANSWERED: usize = 64;

/// Probes and answers that wait to leave at most: a peer that probes faster gets no more answers.
const MAX_WAITING: usize = 16;

/// Interval of probes on a path that gets nothing while data waits for others, in microseconds: with a round trip it is seen within
/// a second that the path is good. Costs 1 kbit/s.
const WANTED_INTERVAL: Micros = 500_000;

impl Probes {
    fn send(&mut self, at: Micros, path: PathId, size: u16) {
        if self.waiting.len() < MAX_WAITING {
            self.latest += 1;
            if self.unanswered.len() == MAX_UNANSWERED {
                self.unanswered.pop_front();
            }
            self.unanswered.push_back(Sent { id: self.latest, path, at, size });
            let item = Item::Probe(self.latest, Stamp::at(at));
            self.waiting.push_back(Waiting { path, item, size });
        }
    }

    /// Answers a probe of the peer's, on the path that it took.
    pub(super) fn answer(&mut self, path: PathId, id: u64, stamp: Stamp) {
        if self.waiting.len() < MAX_WAITING {
            let item = Item::ProbeReply(id, stamp);
            self.waiting.push_back(Waiting { path, item, size: 0 });
        }
    }

    pub(super) fn any_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    pub(super) fn next(&mut self) -> Option<Waiting> {
        self.waiting.pop_front()
    }

    /// The next one, if it is an answer on this path too.
    pub(super) fn next_answer(&mut self, path: PathId) -> Option<Item<'static>> {
        let is_answer =
            |probe: &mut Waiting| probe.path == path && matches!(probe.item, Item::ProbeReply(..));
        let next = self.waiting.front_mut().is_some_and(is_answer);
        next.then(|| self.waiting.pop_front()).flatten().map(|probe| probe.item)
    }

    /// Drops what waits to leave on a path.
    pub(super) fn drop_waiting(&mut self, path: PathId) {
        self.waiting.retain(|probe| probe.path != path);
    }

    /// A path is gone.
    pub(super) fn forget(&mut self, path: PathId) {
        self.drop_waiting(path);
        self.unanswered.retain(|sent| sent.path != path);
    }

    /// The probe left on this path. On another than was meant it proves nothing.
    pub(super) fn on_departure(&mut self, id: u64, path: PathId) {
        self.unanswered.retain(|sent| sent.id != id || sent.path == path);
    }

    fn take(&mut self, id: u64) -> Option<Sent> {
        let at = self.unanswered.iter().position(|sent| sent.id == id)?;
        self.unanswered.remove(at)
    }
}

impl Session {
    /// Sends a small probe on a path; the answer, which comes back on the same path, updates its
    /// round-trip time.
    pub fn probe(&mut self, now: Instant, path: PathId) {
        self.queue_probe(self.micros(now), path, 0);
    }

    pub(super) fn queue_probe(&mut self, now: Micros, path: PathId, size: u16) {
        let usable = |path: &Path| path.life.is_up() && !path.life.is_spent();
        if self.conn.paths.get(path).is_some_and(usable) {
            self.probes.send(now, path, size);
        }
    }

    /// The peer answers a probe, over the path that the probe took unless it suspects that one. An answer to a probe that
    /// was not sent proves nothing.
    pub(super) fn on_probe_reply(&mut self, at: Micros, over: Option<PathId>, id: u64) {
        let Some(sent) = self.probes.take(id) else { return };
        let is_stale = self.conn.paths[sent.path].life.is_stale(at, sent.at);
        if over == Some(sent.path) && !self.clock.was_suspended_after(sent.at) && !is_stale {
            self.sample_rtt(at, sent.path, (at - sent.at).max(1), Sample::Probe);
        }
        let path = &mut self.conn.paths[sent.path];
        let packet = Packet::without_data(sent.at, sent.size);
        let change = path.life.on_proof(at, packet, path.rtt.steady);
        self.carry_out(at, sent.path, change);
        self.schedule();
    }

    /// Takes in a round trip that was measured on a path.
    ///
    /// One-way delays are measured with data alone, so that of a path which nothing uses would stay. But no packet takes longer one way
    /// than another one took both. Probes of such a path show nothing else: the smoothed round trip holds the queue that data makes for
    /// itself on a thin path, and for that schedulers avoid it. It begins again after the interval of keep-alives. Nor does the delay
    /// change where data once was as quick: ECF gave the empty path of 300 kbps a large part of each block.
    pub(super) fn sample_rtt(&mut self, at: Micros, id: PathId, rtt: Micros, with: Sample) {
        let path = &self.conn.paths[id];
        let sampled_at = path.rtt.sampled_at;
        let is_spared = at >= path.departed_at.max(sampled_at) + WANTED_INTERVAL;
        let is_unused = with == Sample::Probe && is_spared && !path.life.is_suspect();
        if is_unused && path.rtt.is_new_to_data(rtt) {
            let paths = self.conn.paths.iter();
            let delay = paths.clone().zip(one_way_delays(paths, at)).find(|(path, _)| path.id == id);
            let excess = delay.map_or(0, |(_, delay)| delay.saturating_sub(rtt));
            self.conn.paths[id].shorten_delay(at, excess);
        }
        if !is_unused || at >= sampled_at + self.clock.timeouts.keep_alive {
            self.conn.paths[id].rtt.sample(at, rtt, with);
        }
    }

    /// Whether data waits that the path may carry: what keeps the schedulers from it must not stay unmeasured.
    fn is_wanted(&self, path: &Path) -> bool {
        self.outbox.queue.has_work() && path.role <= self.role_in_life()
    }

    /// When a path is probed next for lack of samples.
    pub(super) fn idle_probe_at(&self, path: &Path) -> Option<Micros> {
        let wanted = self.is_wanted(path).then_some(WANTED_INTERVAL);
        path.idle_probe_at(self.clock.timeouts.keep_alive, wanted)
    }

    /// Probes the paths whose proof of delivery is overdue, and those that were idle for long.
    pub(super) fn probe_paths(&mut self, at: Micros) {
        let silence = self.clock.timeouts.silence;
        let is_due = |due: Option<Micros>| due.is_some_and(|due| due <= at);
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

    /// A path that is marked as backup, because of its radio, lets a PING through and no datagram.
    fn challenge(&mut self, at: Micros, id: PathId) {
        if self.conn.paths[id].life.is_out() {
            self.conn.ping(id);
        } else {
            self.queue_probe(at, id, 0);
        }
        self.flush();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_probe_is_answered_once_and_few_are_remembered() {
        let mut probes = Probes::default();
        for i in 0..100 {
            probes.send(i, PathId(3), 0);
            assert!(probes.next().is_some());
        }
        assert!(probes.take(100).is_some_and(|sent| (sent.path, sent.at) == (PathId(3), 99)));
        assert!(probes.take(100).is_none(), "answered twice");
        assert!(probes.take(12_345).is_none(), "never sent");
        assert!(probes.take(1).is_none(), "too long ago");
        assert_eq!(probes.unanswered.len(), MAX_UNANSWERED - 1);
        probes.on_departure(99, PathId(1));
        assert!(probes.take(99).is_none(), "left on another path");
        (0..100).for_each(|id| probes.answer(PathId(3), id, Stamp::at(0)));
        assert_eq!(probes.waiting.len(), MAX_WAITING);
        probes.forget(PathId(3));
        assert!(!probes.any_waiting() && probes.unanswered.is_empty());
    }
}

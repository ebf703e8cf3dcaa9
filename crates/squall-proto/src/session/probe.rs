//! Probes: when a path is asked whether it delivers, and what the answer proves.

use std::{collections::VecDeque, time::Instant};

use squall_sched::{Micros, PathId};

use super::{Session, receive::MAX_PROBES};
use crate::{
    PathChange,
    liveness::Packet,
    path::Sample,
    wire::{Item, Stamp},
};

/// Probes that were not answered yet, oldest first.
#[derive(Debug, Default)]
pub(super) struct Asked {
    latest: u64,
    open: VecDeque<Question>,
}

#[derive(Clone, Copy, Debug)]
struct Question {
    id: u64,
    /// Number of the path it left on.
    path: u32,
    at: Micros,
    full_size: bool,
}

/// A probe of ours, or the answer to one of the peer's, that waits to leave.
#[derive(Debug)]
pub(super) struct Waiting {
    /// Number of its path.
    pub(super) path: u32,
    pub(super) item: Item<'static>,
    /// Whether it is padded to the size of a full packet.
    pub(super) full_size: bool,
}

/// Unanswered probes that are remembered.
const MAX_OPEN: usize = 64;

impl Asked {
    fn ask(&mut self, at: Micros, path: u32, full_size: bool) -> u64 {
        self.latest += 1;
        if self.open.len() == MAX_OPEN {
            self.open.pop_front();
        }
        self.open.push_back(Question { id: self.latest, path, at, full_size });
        self.latest
    }

    /// The probe left on the path of that number. On another than was meant it proves nothing.
    pub(super) fn on_departure(&mut self, id: u64, path: u32) {
        self.open.retain(|question| question.id != id || question.path == path);
    }

    fn take(&mut self, id: u64) -> Option<Question> {
        let at = self.open.iter().position(|question| question.id == id)?;
        self.open.remove(at)
    }
}

impl Session {
    /// Sends a small probe on a path; the answer, which comes back on the same path, updates its
    /// round-trip time.
    pub fn probe(&mut self, now: Instant, path: PathId) {
        self.queue_probe(self.micros(now), path, false);
    }

    pub(super) fn queue_probe(&mut self, now: Micros, path: PathId, full_size: bool) {
        let usable = |p: &&crate::path::Path| p.id == path && p.up && !p.is_spent();
        if let Some(number) = self.paths.iter().find(usable).map(|p| p.number)
            && self.probes.len() < MAX_PROBES
        {
            let id = self.asked.ask(now, number, full_size);
            let item = Item::Probe(id, Stamp::at(now));
            self.probes.push_back(Waiting { path: number, item, full_size });
        }
    }

    /// The peer answers a probe, over the path of `number` unless it suspects that one. An answer to what was not
    /// asked proves nothing.
    pub(super) fn on_probe_reply(&mut self, at: Micros, number: u32, id: u64) {
        let Some(question) = self.asked.take(id) else { return };
        let Some(position) = self.paths.iter().position(|p| p.number == question.path) else { return };
        let path = &mut self.paths[position];
        if number == question.path {
            path.rtt.sample(at, (at - question.at).max(1), Sample::Probe);
        }
        let packet = Packet { sent_at: question.at, full_size: question.full_size };
        let recovery = path.liveness.on_proof(at, packet, path.rtt.steady);
        self.on_recovery(position, recovery);
        self.duties.schedule();
    }

    /// Probes the paths whose proof of delivery is overdue, and those that were idle for long.
    pub(super) fn probe_paths(&mut self, at: Micros) {
        let silence = self.config.silence.as_micros() as Micros;
        let keep_alive = self.config.keep_alive.as_micros() as Micros;
        for position in 0..self.paths.len() {
            let path = &mut self.paths[position];
            if !path.up {
                continue;
            }
            if path.full_probe_at().is_some_and(|due| due <= at) {
                let unanswered = path.liveness.on_full_probe(at);
                let id = path.id;
                self.queue_probe(at, id, true);
                self.duties.flush();
                if unanswered {
                    self.path_event(id, PathChange::Narrow);
                }
                continue;
            }
            if path.challenge_at(silence).is_some_and(|due| due <= at) {
                let expected = path.expectation(silence);
                path.liveness.on_challenge(at, &expected);
                self.ask(at, position);
            } else if path.idle_probe_at(keep_alive).is_some_and(|due| due <= at) {
                path.probed_at = at;
                self.ask(at, position);
            }
        }
    }

    /// A path that is marked as backup, because of its radio, lets a PING through and no datagram.
    fn ask(&mut self, at: Micros, position: usize) {
        let path = &self.paths[position];
        if !path.is_out() {
            self.queue_probe(at, path.id, false);
        } else if let Some(index) = self.conn.index_of(path.number) {
            self.conn.ping(index);
        }
        self.duties.flush();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_probe_is_answered_once_and_only_so_many_are_remembered() {
        let mut asked = Asked::default();
        let ids: Vec<u64> = (0..100).map(|i| asked.ask(i, 3, false)).collect();
        assert!(asked.take(ids[99]).is_some_and(|q| (q.path, q.at) == (3, 99)));
        assert!(asked.take(ids[99]).is_none(), "answered twice");
        assert!(asked.take(12_345).is_none(), "never asked");
        assert!(asked.take(ids[0]).is_none(), "too long ago");
        assert_eq!(asked.open.len(), MAX_OPEN - 1);
    }
}

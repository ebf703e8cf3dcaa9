//! Paths that a client wants: each is opened when the peer allows, and again whenever it goes down.

use std::time::Instant;

use squall_sched::Micros;

use super::{Session, Stage};
use crate::{Interface, NetPath};

/// A path that the application wants to have.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted {
    net: NetPath,
    /// Times in a row that it went down without having been up.
    failures: u32,
    /// Times in a row that the peer did not allow it.
    refusals: u32,
    /// When it is to be opened; `None` while it is there.
    open_at: Option<Micros>,
}

/// A path the peer does not allow yet is tried again after this, and ever later.
const RETRY: Micros = 50_000;
/// Doublings of that at most: 1.6 s.
const MAX_RETRY_DOUBLINGS: u32 = 5;
/// A client that abandons paths before they are up, with an interface that goes, is allowed another one for each, but not more than
/// one in this time …
const GRANT_INTERVAL: Micros = 1_000_000;
/// … and this many in a session: each keeps some connection ids.
const MAX_GRANTS: usize = 256;
/// A path that went down is opened again after this, and ever later if it does not come up.
const REOPEN: Micros = 1_000_000;
/// Doublings of that at most: about a minute.
const MAX_DOUBLINGS: u32 = 6;

impl Session {
    /// Opens a further path, as soon as the peer allows, and again whenever it goes down. Only a client
    /// can; on a server this does nothing.
    pub fn add_path(&mut self, now: Instant, net: NetPath) {
        self.conn
            .paths
            .iter_mut()
            .filter(|path| path.quic.net == net)
            .for_each(|path| path.is_leaving = false);
        if self.is_client && !self.wanted.iter().any(|wanted| wanted.net == net) {
            let open_at = self.conn.number_of(net).is_none().then(|| self.micros(now));
            self.wanted.push(Wanted { net, failures: 0, refusals: 0, open_at });
        }
    }

    /// Closes the paths of a local interface, for instance because it is gone. The last path stays
    /// until another is up.
    pub fn remove_interface(&mut self, now: Instant, local: Interface) {
        self.wanted.retain(|wanted| wanted.net.local != local);
        for id in self.conn.paths.at_local(local) {
            self.conn.paths[id].is_leaving = true;
        }
        self.close_leaving(self.micros(now));
    }

    /// Closes one path of a local interface, where others stay.
    pub fn remove_path(&mut self, now: Instant, net: NetPath) {
        self.wanted.retain(|wanted| wanted.net != net);
        let meant = self.conn.paths.iter_mut().filter(|path| path.quic.net == net);
        meant.for_each(|path| path.is_leaving = true);
        self.close_leaving(self.micros(now));
    }

    /// Closes the paths that are not to stay. The last one that is up has to wait for another one: that may need connection ids which
    /// are in flight on this path, and noq repeats them on no path that is not up.
    pub(super) fn close_leaving(&mut self, at: Micros) {
        if !self.conn.paths.iter().any(|path| path.is_leaving) {
            return;
        }
        let mut up = self.conn.paths.iter().filter(|path| path.life.is_up()).count();
        for id in self.conn.paths.ids().rev() {
            let path = &self.conn.paths[id];
            let is_up = path.life.is_up();
            if !path.is_leaving || is_up && up == 1 {
                continue;
            }
            // Fails on the last path, which goes with the session.
            if self.conn.close_path(id, self.instant(at), 0).is_ok() {
                up -= usize::from(is_up);
            }
        }
        self.pump(at);
        self.duties.flush();
    }

    pub(super) fn on_wanted_up(&mut self, net: NetPath) {
        if let Some(wanted) = self.wanted.iter_mut().find(|wanted| wanted.net == net) {
            wanted.failures = 0;
        }
    }

    pub(super) fn on_wanted_gone(&mut self, at: Micros, net: NetPath) {
        if let Some(wanted) = self.wanted.iter_mut().find(|wanted| wanted.net == net) {
            wanted.open_at = Some(at + (REOPEN << wanted.failures.min(MAX_DOUBLINGS)));
            wanted.failures += 1;
        }
    }

    /// When a path is to be opened next.
    pub(super) fn open_at(&self) -> Option<Micros> {
        self.wanted.iter().filter(|_| self.conn.is_multipath()).filter_map(|wanted| wanted.open_at).min()
    }

    /// Opens the paths for which it is time.
    pub(super) fn open_paths(&mut self, at: Micros) {
        if self.stage != Stage::Open || !self.conn.is_multipath() {
            return;
        }
        for index in 0..self.wanted.len() {
            let Wanted { net, open_at: Some(due), .. } = self.wanted[index] else { continue };
            if due > at {
                continue;
            }
            let refusals = std::mem::take(&mut self.wanted[index].refusals);
            self.wanted[index].open_at = if self.metering.is_barred(net) {
                // Until its budget grows, which is nothing to hurry for.
                Some(at + REOPEN)
            } else {
                match self.conn.open_path(net, self.instant(at)) {
                    Ok(number) => {
                        if let Some(id) = self.admit_path(number, at) {
                            self.announce_cost(at, id);
                        }
                        self.duties.flush();
                        None
                    }
                    Err(error) => {
                        tracing::debug!(%error, ?net, "path not opened yet");
                        self.wanted[index].refusals = refusals + 1;
                        // The number must be allowed by both sides.
                        self.conn.allow_paths(self.config.limits.paths, self.instant(at));
                        Some(at + (RETRY << refusals.min(MAX_RETRY_DOUBLINGS)))
                    }
                }
            };
        }
    }

    /// A server allows the client another path if it wants one, may open none, and has fewer than it may have.
    pub(super) fn grant_paths(&mut self, at: Micros) {
        if self.is_client || at < self.granted_at + GRANT_INTERVAL || self.stage != Stage::Open {
            return;
        }
        self.granted_at = at;
        let (blocked, most) = (self.conn.paths_blocked(), self.config.limits.paths);
        let is_blocked = std::mem::replace(&mut self.paths_blocked, blocked) < blocked;
        if is_blocked && self.conn.paths.iter().count() < most && self.grants < MAX_GRANTS {
            self.grants += 1;
            self.conn.allow_paths(most + self.grants, self.instant(at));
            self.duties.flush();
        }
    }
}

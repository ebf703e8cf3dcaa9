//! Paths that a client wants: each is opened when the peer allows, and again whenever it goes down.

use std::{net::IpAddr, time::Instant};

use squall_sched::Micros;

use super::{Session, Stage};
use crate::NetPath;

/// A path that the application wants to have.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted {
    net: NetPath,
    /// Times in a row that it went down without having been up.
    failures: u32,
    /// When it is to be opened; `None` while it is there.
    open_at: Option<Micros>,
}

/// A path the peer does not allow yet is tried again after this.
const RETRY: Micros = 50_000;
/// A path that went down is opened again after this, and ever later if it does not come up.
const REOPEN: Micros = 1_000_000;
/// Doublings of that at most: about a minute.
const MAX_DOUBLINGS: u32 = 6;

impl Session {
    /// Opens a further path, as soon as the peer allows, and again whenever it goes down. Only a client
    /// can; on a server this does nothing.
    pub fn add_path(&mut self, now: Instant, net: NetPath) {
        if self.is_client && !self.wanted.iter().any(|wanted| wanted.net == net) {
            let open_at = self.conn.number_of(net).is_none().then(|| self.micros(now));
            self.wanted.push(Wanted { net, failures: 0, open_at });
        }
    }

    /// Closes the paths of a local interface, for instance because it is gone. The last path stays
    /// until another is up.
    pub fn remove_interface(&mut self, now: Instant, local: IpAddr) {
        self.wanted.retain(|wanted| wanted.net.local != local);
        for id in self.conn.paths.at_local(local).into_iter().rev() {
            // Fails on the last path, which goes with the session.
            let _ = self.conn.close_path(id, now, 0);
        }
        self.pump(self.micros(now));
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
                        Some(at + RETRY)
                    }
                }
            };
        }
    }
}

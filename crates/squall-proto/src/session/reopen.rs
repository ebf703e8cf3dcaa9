//! Paths that come and go while the session runs.

use std::{net::IpAddr, time::Instant};

use squall_sched::Micros;

use super::{Session, Stage};
use crate::NetPath;

/// A path that the application wants to have.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted {
    pub(super) net: NetPath,
    /// Times in a row that it went down without having been up.
    pub(super) failures: u32,
}

/// A path the peer does not allow yet is tried again after this.
const RETRY: Micros = 50_000;
/// A path that went down is opened anew after this, and ever later if it does not come up.
const REOPEN: Micros = 1_000_000;
/// Doublings of that at most: about a minute.
const MAX_DOUBLINGS: u32 = 6;

impl Wanted {
    pub(super) fn next_delay(&mut self) -> Micros {
        self.failures += 1;
        REOPEN << (self.failures - 1).min(MAX_DOUBLINGS)
    }
}

impl Session {
    /// Opens a further path, as soon as the peer allows, and again whenever it goes down. Only a client
    /// can; on a server this does nothing.
    pub fn add_path(&mut self, now: Instant, net: NetPath) {
        if !self.is_client {
            return;
        }
        let now = self.micros(now);
        if !self.wanted.iter().any(|w| w.net == net) {
            self.wanted.push(Wanted { net, failures: 0 });
        }
        if self.conn.index_of_net(net).is_none() && !self.to_open.iter().any(|(_, waiting)| *waiting == net) {
            self.to_open.push_back((now, net));
        }
    }

    /// Closes the paths of a local interface, for instance because it is gone. The last path stays
    /// until another is up.
    pub fn remove_interface(&mut self, now: Instant, local: IpAddr) {
        self.wanted.retain(|w| w.net.local != local);
        self.to_open.retain(|(_, net)| net.local != local);
        for index in (0..self.conn.paths.len()).rev() {
            if self.conn.paths[index].net.local == local {
                // Fails on the last path, which goes with the session.
                let _ = self.conn.close_path(index, now, 0);
            }
        }
        let now = self.micros(now);
        self.pump(now);
        self.duties.flush();
    }

    /// Opens the paths that wait for it.
    pub(super) fn open_paths(&mut self, at: Micros) {
        if self.stage != Stage::Open || !self.conn.is_multipath() {
            return;
        }
        for _ in 0..self.to_open.len() {
            let Some((due, net)) = self.to_open.pop_front() else { break };
            if due > at {
                self.to_open.push_back((due, net));
                continue;
            }
            if self.metering.is_barred(net) {
                // Until its budget grows, which is nothing to hurry for.
                self.to_open.push_back((at + REOPEN, net));
                continue;
            }
            let now = self.instant(at);
            match self.conn.open_path(net, now) {
                Ok(number) => {
                    self.ensure_path(number, at);
                    self.introduce(number);
                    self.duties.flush();
                }
                Err(error) => {
                    tracing::debug!(%error, ?net, "path not opened yet");
                    self.to_open.push_back((at + RETRY, net));
                }
            }
        }
    }
}

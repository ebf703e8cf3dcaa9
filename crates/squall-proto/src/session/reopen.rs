//! Opening of paths: a client opens those that the application wants as soon as the server allows
//! it, and again whenever they are down.

use std::time::Instant;

use squall_sched::Time;

use super::{
    Session,
    side::{REOPEN, Side, Wanted},
};
use crate::{Interface, NetPath};

impl Session {
    /// Opens a further path, as soon as the peer allows it, and again whenever it is down. Only a
    /// client can; on a server this has no effect.
    pub fn add_path(&mut self, now: Instant, net: NetPath) {
        let there = self.conn.paths.iter_mut().filter(|path| path.quic.net == net);
        there.for_each(|path| path.is_leaving = false);
        let open_at = self.conn.number_of(net).is_none().then(|| self.time(now));
        if self.side.wanted(net).is_none()
            && let Side::Client(client) = &mut self.side
        {
            client.wanted.push(Wanted::new(net, open_at));
        }
    }

    /// Closes the paths of a local interface, for instance because it is gone. The last path stays
    /// until another is up.
    pub fn remove_interface(&mut self, now: Instant, local: Interface) {
        self.leave(now, |net| net.local == local);
    }

    /// Closes one path of a local interface that has others.
    pub fn remove_path(&mut self, now: Instant, net: NetPath) {
        self.leave(now, |other| other == net);
    }

    fn leave(&mut self, now: Instant, is_meant: impl Fn(NetPath) -> bool) {
        let meant = self.conn.paths.iter_mut().filter(|path| is_meant(path.quic.net));
        meant.for_each(|path| path.is_leaving = true);
        if let Side::Client(client) = &mut self.side {
            client.wanted.retain(|wanted| !is_meant(wanted.net));
        }
        self.close_leaving(self.time(now));
    }

    /// Closes the paths that the application has removed. The last one that is up must wait for
    /// another one: that may need connection ids which are in flight on this path, and noq repeats
    /// them on no path that is not up.
    pub(super) fn close_leaving(&mut self, at: Time) {
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
            // Fails on the last path, which ends with the session.
            if self.conn.close_path(id, self.instant(at), 0).is_ok() {
                up -= usize::from(is_up);
            }
        }
        self.pump(at);
        self.flush();
    }

    /// Returns the time at which the next path is to be opened.
    pub(super) fn open_at(&self) -> Option<Time> {
        let wanted = self.side.all_wanted().iter().filter(|_| self.conn.is_multipath());
        wanted.filter_map(|wanted| wanted.open_at).min()
    }

    /// Opens the paths whose time has come.
    pub(super) fn open_paths(&mut self, at: Time) {
        if !self.is_open() || !self.conn.is_multipath() {
            return;
        }
        let now = self.instant(at);
        let Side::Client(client) = &mut self.side else { return };
        let mut opened = Vec::new();
        for wanted in client.wanted.iter_mut().filter(|wanted| wanted.open_at.is_some_and(|due| due <= at)) {
            if self.metering.is_barred(wanted.net) {
                // The path is barred until its budget grows, which is not urgent.
                wanted.tried(Some(at + REOPEN));
                continue;
            }
            match self.conn.open_path(wanted.net, now) {
                Ok(number) => {
                    wanted.tried(None);
                    opened.push(number);
                }
                Err(error) => {
                    tracing::debug!(%error, net = ?wanted.net, "path not opened yet");
                    wanted.refused(at);
                    // The number must be allowed by both sides.
                    self.conn.allow_paths(client.most, now);
                }
            }
        }
        for number in opened {
            if let Some(id) = self.admit_path(number, at) {
                self.announce_cost(at, id);
            }
            self.flush();
        }
    }

    /// Allows the client of a server another path if it wants one, may open none, and has fewer
    /// than its limit.
    pub(super) fn grant_paths(&mut self, at: Time) {
        let Side::Server(grants) = &mut self.side else { return };
        if !grants.is_due(at) || !self.life.is_open() {
            return;
        }
        let paths = self.conn.paths.iter().count();
        if let Some(allowed) = grants.review(at, self.conn.paths_blocked(), paths) {
            self.conn.allow_paths(allowed, self.instant(at));
            self.flush();
        }
    }
}

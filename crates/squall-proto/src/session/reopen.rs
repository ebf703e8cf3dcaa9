//! Opening paths: a client opens those that it wants as soon as the server allows, and again whenever they go down.

use std::time::Instant;

use squall_sched::Micros;

use super::{Session, grants::PathGrants};
use crate::{Interface, NetPath};

/// The side of a session, with what it needs to open paths.
#[derive(Debug)]
pub(super) enum Side {
    Client(ClientPaths),
    Server(PathGrants),
}

/// Paths of a client.
#[derive(Debug)]
pub(super) struct ClientPaths {
    /// Paths that the server may allow.
    most: usize,
    wanted: Vec<Wanted>,
    /// Interfaces of closed paths, and until when packets are taken in there.
    closed: Vec<(Interface, Micros)>,
}

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
/// A path that went down is opened again after this, and ever later if it does not come up.
const REOPEN: Micros = 1_000_000;
/// Doublings of that at most: about a minute.
const MAX_DOUBLINGS: u32 = 6;
/// Packets that were under way to a closed path are taken in for this long.
const CLOSED_RECEIVES: Micros = 3_000_000;

impl Side {
    /// `most` is the usual number of paths.
    pub(super) fn new(is_client: bool, most: usize) -> Self {
        if is_client {
            Self::Client(ClientPaths { most, wanted: Vec::new(), closed: Vec::new() })
        } else {
            Self::Server(PathGrants::new(most))
        }
    }

    pub(super) fn is_client(&self) -> bool {
        matches!(self, Self::Client(_))
    }

    fn all_wanted(&self) -> &[Wanted] {
        if let Self::Client(client) = self { &client.wanted } else { &[] }
    }

    /// The path between these addresses, if a client wants it.
    pub(super) fn wanted(&mut self, net: NetPath) -> Option<&mut Wanted> {
        let Self::Client(client) = self else { return None };
        client.wanted.iter_mut().find(|wanted| wanted.net == net)
    }

    /// A path of this interface has left its slot.
    pub(super) fn on_gone(&mut self, at: Micros, home: Interface) {
        if let Self::Client(client) = self {
            client.closed.retain(|(_, until)| *until > at);
            client.closed.push((home, at + CLOSED_RECEIVES));
        }
    }

    /// Whether packets are taken in at an interface: a client does where a path was just now, a server anywhere.
    pub(super) fn receives_at(&self, at: Micros, local: Interface) -> bool {
        let Self::Client(client) = self else { return true };
        client.closed.iter().any(|(home, until)| *home == local && at < *until)
    }
}

impl Wanted {
    pub(super) fn on_up(&mut self) {
        self.failures = 0;
    }

    pub(super) fn on_down(&mut self, at: Micros) {
        self.open_at = Some(at + (REOPEN << self.failures.min(MAX_DOUBLINGS)));
        self.failures += 1;
    }

    /// The path is there, or is not to be opened before `again_at`.
    fn tried(&mut self, again_at: Option<Micros>) {
        (self.open_at, self.refusals) = (again_at, 0);
    }

    fn refused(&mut self, at: Micros) {
        self.open_at = Some(at + (RETRY << self.refusals.min(MAX_RETRY_DOUBLINGS)));
        self.refusals += 1;
    }
}

impl Session {
    /// Opens a further path, as soon as the peer allows, and again whenever it goes down. Only a client
    /// can; on a server this does nothing.
    pub fn add_path(&mut self, now: Instant, net: NetPath) {
        let there = self.conn.paths.iter_mut().filter(|path| path.quic.net == net);
        there.for_each(|path| path.is_leaving = false);
        let open_at = self.conn.number_of(net).is_none().then(|| self.micros(now));
        if self.side.wanted(net).is_none()
            && let Side::Client(client) = &mut self.side
        {
            client.wanted.push(Wanted { net, failures: 0, refusals: 0, open_at });
        }
    }

    /// Closes the paths of a local interface, for instance because it is gone. The last path stays
    /// until another is up.
    pub fn remove_interface(&mut self, now: Instant, local: Interface) {
        self.leave(now, |net| net.local == local);
    }

    /// Closes one path of a local interface, where others stay.
    pub fn remove_path(&mut self, now: Instant, net: NetPath) {
        self.leave(now, |other| other == net);
    }

    fn leave(&mut self, now: Instant, is_meant: impl Fn(NetPath) -> bool) {
        let meant = self.conn.paths.iter_mut().filter(|path| is_meant(path.quic.net));
        meant.for_each(|path| path.is_leaving = true);
        if let Side::Client(client) = &mut self.side {
            client.wanted.retain(|wanted| !is_meant(wanted.net));
        }
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
        self.flush();
    }

    /// When a path is to be opened next.
    pub(super) fn open_at(&self) -> Option<Micros> {
        let wanted = self.side.all_wanted().iter().filter(|_| self.conn.is_multipath());
        wanted.filter_map(|wanted| wanted.open_at).min()
    }

    /// Opens the paths for which it is time.
    pub(super) fn open_paths(&mut self, at: Micros) {
        if !self.is_open() || !self.conn.is_multipath() {
            return;
        }
        let now = self.instant(at);
        let Side::Client(client) = &mut self.side else { return };
        let mut opened = Vec::new();
        for wanted in client.wanted.iter_mut().filter(|wanted| wanted.open_at.is_some_and(|due| due <= at)) {
            if self.metering.is_barred(wanted.net) {
                // Until its budget grows, which is nothing to hurry for.
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

    /// A server allows the client another path if it wants one, may open none, and has fewer than it may have.
    pub(super) fn grant_paths(&mut self, at: Micros) {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted() -> Wanted {
        let net = NetPath { local: Interface(1), remote: ([192, 0, 2, 1], 443).into() };
        Wanted { net, failures: 0, refusals: 0, open_at: None }
    }

    #[test]
    fn a_path_that_goes_down_is_opened_again_ever_later() {
        let mut path = wanted();
        for doublings in [0, 1, 2, 3, 4, 5, 6, 6] {
            path.on_down(100);
            assert_eq!(path.open_at, Some(100 + (REOPEN << doublings)));
        }
        path.on_up();
        path.on_down(0);
        assert_eq!(path.open_at, Some(REOPEN));
    }

    #[test]
    fn a_path_that_the_server_refuses_is_tried_again_within_two_seconds() {
        let mut path = wanted();
        for doublings in [0, 1, 2, 3, 4, 5, 5] {
            path.refused(0);
            assert_eq!(path.open_at, Some(RETRY << doublings));
        }
        path.tried(Some(7));
        path.refused(0);
        assert_eq!(path.open_at, Some(RETRY), "another outcome came between");
    }

    #[test]
    fn a_client_takes_packets_in_where_a_path_was_just_now() {
        let (mut side, [home, other]) = (Side::new(true, 8), [1, 2].map(Interface));
        side.on_gone(100, home);
        assert!(side.receives_at(100 + CLOSED_RECEIVES - 1, home));
        assert!(!side.receives_at(100 + CLOSED_RECEIVES, home) && !side.receives_at(100, other));
        assert!(Side::new(false, 8).receives_at(0, home), "a server anywhere");
    }
}

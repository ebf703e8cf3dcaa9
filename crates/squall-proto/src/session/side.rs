//! The two sides of a session: a client requests paths, a server grants them.

use squall_sched::{Span, Time};

use super::grants::PathGrants;
use crate::{Interface, NetPath};

/// The side of a session, with its state for opening paths.
#[derive(Debug)]
pub(super) enum Side {
    Client(ClientPaths),
    Server(PathGrants),
}

/// Paths of a client.
#[derive(Debug)]
pub(super) struct ClientPaths {
    /// Largest number of paths that the server may allow.
    pub(super) most: usize,
    pub(super) wanted: Vec<Wanted>,
    /// Interfaces of closed paths, and the time until which packets are accepted there.
    closed: Vec<(Interface, Time)>,
}

/// A path that the application wants.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted {
    pub(super) net: NetPath,
    /// Consecutive failures without having been up.
    failures: u32,
    /// Consecutive refusals by the peer.
    refusals: u32,
    /// Time to open it; `None` while it exists.
    pub(super) open_at: Option<Time>,
}

/// First pause before a path that the peer does not allow is tried again; it doubles each time.
const RETRY: Span = Span::from_millis(50);
/// Largest number of doublings of [`RETRY`]; the longest pause is 1.6 s.
const MAX_RETRY_DOUBLINGS: u32 = 5;
/// First pause before a path that is down is opened again; it doubles while the path is not up.
pub(super) const REOPEN: Span = Span::from_secs(1);
/// Largest number of doublings of [`REOPEN`]; the longest pause is about a minute.
const MAX_DOUBLINGS: u32 = 6;
/// Time for which packets in flight to a closed path are still accepted.
const CLOSED_RECEIVES: Span = Span::from_secs(3);

impl Side {
    /// Creates a side. `most` is the usual number of paths.
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

    pub(super) fn all_wanted(&self) -> &[Wanted] {
        if let Self::Client(client) = self { &client.wanted } else { &[] }
    }

    /// Returns the path between these addresses, if a client wants it.
    pub(super) fn wanted(&mut self, net: NetPath) -> Option<&mut Wanted> {
        let Self::Client(client) = self else { return None };
        client.wanted.iter_mut().find(|wanted| wanted.net == net)
    }

    /// Records that a path of this interface has left its slot.
    pub(super) fn on_gone(&mut self, at: Time, home: Interface) {
        if let Self::Client(client) = self {
            client.closed.retain(|(_, until)| *until > at);
            client.closed.push((home, at + CLOSED_RECEIVES));
        }
    }

    /// Returns `true` if packets at an interface are accepted: at a client only where a path
    /// existed shortly before, at a server anywhere.
    pub(super) fn receives_at(&self, at: Time, local: Interface) -> bool {
        let Self::Client(client) = self else { return true };
        client.closed.iter().any(|(home, until)| *home == local && at < *until)
    }
}

impl Wanted {
    pub(super) fn new(net: NetPath, open_at: Option<Time>) -> Self {
        Self { net, failures: 0, refusals: 0, open_at }
    }

    pub(super) fn on_up(&mut self) {
        self.failures = 0;
    }

    pub(super) fn on_down(&mut self, at: Time) {
        self.open_at = Some(at + REOPEN * (1 << self.failures.min(MAX_DOUBLINGS)));
        self.failures += 1;
    }

    /// Sets the next attempt: the path exists, or is not to be opened before `again_at`.
    pub(super) fn tried(&mut self, again_at: Option<Time>) {
        (self.open_at, self.refusals) = (again_at, 0);
    }

    pub(super) fn refused(&mut self, at: Time) {
        self.open_at = Some(at + RETRY * (1 << self.refusals.min(MAX_RETRY_DOUBLINGS)));
        self.refusals += 1;
    }
}

#[cfg(test)]
mod tests {
    use squall_units::short::{at_us, us};

    use super::*;

    fn wanted() -> Wanted {
        let net = NetPath { local: Interface(1), remote: ([192, 0, 2, 1], 443).into() };
        Wanted::new(net, None)
    }

    #[test]
    fn a_path_that_goes_down_is_opened_again_ever_later() {
        let mut path = wanted();
        for doublings in [0, 1, 2, 3, 4, 5, 6, 6] {
            path.on_down(at_us(100));
            assert_eq!(path.open_at, Some(at_us(100) + REOPEN * (1 << doublings)));
        }
        path.on_up();
        path.on_down(at_us(0));
        assert_eq!(path.open_at, Some(Time::EPOCH + REOPEN));
    }

    #[test]
    fn a_path_that_the_server_refuses_is_tried_again_within_two_seconds() {
        let mut path = wanted();
        for doublings in [0, 1, 2, 3, 4, 5, 5] {
            path.refused(at_us(0));
            assert_eq!(path.open_at, Some(Time::EPOCH + RETRY * (1 << doublings)));
        }
        path.tried(Some(at_us(7)));
        path.refused(at_us(0));
        assert_eq!(path.open_at, Some(Time::EPOCH + RETRY), "another outcome came between");
    }

    #[test]
    fn a_client_takes_packets_in_where_a_path_was_just_now() {
        let (mut side, [home, other]) = (Side::new(true, 8), [1, 2].map(Interface));
        let gone = at_us(100);
        side.on_gone(gone, home);
        assert!(side.receives_at(gone + CLOSED_RECEIVES - us(1), home));
        assert!(!side.receives_at(gone + CLOSED_RECEIVES, home) && !side.receives_at(gone, other));
        assert!(Side::new(false, 8).receives_at(at_us(0), home), "a server anywhere");
    }
}

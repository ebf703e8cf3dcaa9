//! The sockets of an endpoint. Sessions that leave over the same interface share one.

use std::{io, net::SocketAddr};
#[cfg(target_os = "linux")]
use std::{os::fd::OwnedFd, sync::Arc};

use squall_proto::{NetPath, Transmit};

use super::{
    interfaces::Candidate,
    routes::Routes,
    socket::{Binding, Packet, Socket, SocketKey},
};

/// All sockets of an endpoint.
#[derive(Default)]
pub(crate) struct Sockets {
    all: Vec<Entry>,
    next: u64,
    /// Listening sockets of all workers, kept open until the last worker ends.
    #[cfg(target_os = "linux")]
    kept: Vec<Arc<Vec<OwnedFd>>>,
}

struct Entry {
    socket: Socket,
    local: SocketAddr,
    /// Path that it was bound for; `None` for a listening socket.
    candidate: Option<Candidate>,
    /// Number of paths that use it.
    users: usize,
}

impl Sockets {
    /// Binds a listening socket; returns its address.
    pub(crate) fn listen(&mut self, addr: SocketAddr, binding: Binding<'_>) -> io::Result<SocketAddr> {
        let (_, local) = self.bind(addr, binding, None)?;
        Ok(local)
    }

    /// Returns a duplicate of the socket that was bound last, and allows others on its address.
    #[cfg(target_os = "linux")]
    pub(crate) fn last_for_others(&self) -> io::Result<OwnedFd> {
        let entry = self.all.last().ok_or(io::ErrorKind::NotFound)?;
        entry.socket.share()
    }

    /// Keeps these sockets open for the life of this set.
    #[cfg(target_os = "linux")]
    pub(crate) fn keep(&mut self, sockets: Arc<Vec<OwnedFd>>) {
        self.kept.push(sockets);
    }

    /// Leases a socket for a path: that of another path over the same interface, unless it is among
    /// `apart`, or a new one.
    pub(crate) fn lease(&mut self, candidate: &Candidate, apart: &[SocketKey]) -> io::Result<Lease> {
        let same = |entry: &&mut Entry| {
            let shared = entry.candidate.as_ref().is_some_and(|other| other.shares_socket(candidate));
            shared && !apart.contains(&entry.socket.key)
        };
        if let Some(entry) = self.all.iter_mut().find(same) {
            entry.users += 1;
            return Ok(Lease { key: entry.socket.key, local: entry.local });
        }
        let binding = match (&candidate.network, &candidate.device) {
            (Some(network), _) => Binding::Network(network),
            (None, Some(device)) => Binding::Device(device),
            (None, None) => Binding::Address,
        };
        let (key, local) = self.bind(candidate.local, binding, Some(candidate.clone()))?;
        Ok(Lease { key, local })
    }

    /// Ends the use of a socket by a path. Returns `true` if the socket was closed because no other
    /// path uses it.
    pub(crate) fn release(&mut self, key: SocketKey) -> bool {
        let Some(at) = self.all.iter().position(|entry| entry.socket.key == key) else { return false };
        self.all[at].users -= 1;
        if self.all[at].users > 0 {
            return false;
        }
        self.all.remove(at);
        true
    }

    fn bind(
        &mut self,
        addr: SocketAddr,
        binding: Binding<'_>,
        candidate: Option<Candidate>,
    ) -> io::Result<(SocketKey, SocketAddr)> {
        self.next += 1;
        let key = SocketKey(self.next);
        let socket = Socket::bind(key, addr, binding)?;
        let local = socket.local_addr()?;
        self.all.push(Entry { socket, local, candidate, users: 1 });
        Ok((key, local))
    }

    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    /// Returns a socket by index, with its address.
    pub(crate) fn at(&mut self, index: usize) -> (&mut Socket, SocketAddr) {
        let entry = &mut self.all[index];
        (&mut entry.socket, entry.local)
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Socket> {
        self.all.iter_mut().map(|entry| &mut entry.socket)
    }

    /// Returns the number of packets per transmit that every socket can send in one call.
    pub(crate) fn max_segments(&self) -> usize {
        self.all.iter().map(|entry| entry.socket.max_segments()).min().unwrap_or(1)
    }

    /// Returns the socket that a transmit leaves from; `None` when it is gone.
    pub(crate) fn route(&mut self, routes: &Routes, transmit: &Transmit) -> Option<(&mut Socket, Packet)> {
        let route = routes.get(transmit.path.local)?;
        let socket = self.iter_mut().find(|socket| socket.key == route.socket)?;
        let Transmit { path: NetPath { remote, .. }, segment_size, ecn, .. } = *transmit;
        Some((socket, Packet { remote, source: route.source, segment_size, ecn }))
    }
}

/// A socket leased for a path.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lease {
    pub(crate) key: SocketKey,
    /// Local address of the socket.
    pub(crate) local: SocketAddr,
}

//! Paths in real time: UDP relays on loopback addresses, without privileges.
//!
//! Each path has one socket on a loopback address of its own, to which clients send. Datagrams
//! received there pass the path's upward link and leave for the server from another loopback
//! address, with a port for each client, so that the server sees one remote address per path and
//! client. Replies return through the downward link. Headers count: a payload of n bytes is n + 28
//! bytes on the link.
//!
//! One thread serves all sockets and the [`Network`] between them ([`Live`]). ECN marks do not
//! pass. Datagrams that the kernel drops before the relay reads them are not in the counters of a
//! link, but in [`RelayReport::overruns`].

mod ports;
mod sockets;

use std::{
    io,
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use serde::{Deserialize, Serialize};
use squall_signal::Reading;

use self::ports::{Datagram, Sockets};
use crate::{
    config::{Direction, PathConfig},
    live::{Live, LiveReport, PathSnapshot},
    log::Record,
    network::Network,
    radio::Air,
};

/// Bytes of IPv4 and UDP headers that each datagram occupies on a link in addition to its payload.
pub const HEADERS: usize = 28;

/// Running relays, one for each path. Dropping it stops them.
#[derive(Debug)]
pub struct Relay {
    addresses: Vec<SocketAddr>,
    server_sides: ServerSides,
    live: Live<Datagram>,
}

/// Counters of a relay.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RelayReport {
    /// Counters of the links, and lateness of datagrams. Strays are datagrams for a client that the
    /// relay had removed.
    #[serde(flatten)]
    pub live: LiveReport,
    /// Datagrams that the kernel dropped because the relay read them too late; `None` if the kernel
    /// does not count them (it does on Linux with IPv4). Sockets that a rebinding has closed are
    /// not included.
    pub overruns: Option<u64>,
}

/// Addresses of the server's sides of all flows, which the thread writes and reports read.
#[derive(Debug, Clone, Default)]
struct ServerSides(Arc<Mutex<Vec<SocketAddr>>>);

impl ServerSides {
    fn lock(&self) -> MutexGuard<'_, Vec<SocketAddr>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Relay {
    /// Starts a relay for each path to `server`. Time 0 of the paths' events is now. Files of the
    /// paths must have been [loaded](PathConfig::load).
    ///
    /// # Errors
    ///
    /// Kind `InvalidInput` if the paths cannot be built; otherwise the operating system's error for
    /// the sockets.
    pub fn start(paths: &[PathConfig], server: SocketAddr, seed: u64) -> io::Result<Self> {
        let network =
            Network::new(paths, seed).map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
        let sockets = (0..paths.len())
            .map(|path| sockets::client_side(path, server))
            .collect::<io::Result<Vec<_>>>()?;
        let addresses =
            sockets.iter().map(std::net::UdpSocket::local_addr).collect::<io::Result<Vec<_>>>()?;
        let server_sides = ServerSides::default();
        let ports = Sockets::new(sockets, server, server_sides.clone());
        let live = Live::start(network, ports, "squall-relay")?;
        Ok(Self { addresses, server_sides, live })
    }

    /// Returns the address to which clients send on a path.
    ///
    /// # Panics
    ///
    /// If there is no such path.
    pub fn address(&self, path: usize) -> SocketAddr {
        self.addresses[path]
    }

    /// Returns time 0 of the paths' events and of the records.
    pub fn started(&self) -> Instant {
        self.live.started()
    }

    /// Returns counters and slip so far.
    pub fn report(&self) -> RelayReport {
        let server_sides = self.server_sides.lock();
        let overruns = sockets::overruns(self.addresses.iter().chain(server_sides.iter()));
        RelayReport { live: self.live.report(), overruns }
    }

    /// Returns the current state of all paths.
    pub fn snapshot(&self) -> Vec<PathSnapshot> {
        self.live.snapshot()
    }

    /// Returns the current report of the radio of a path; see [`Live::signal`].
    pub fn signal(&self, path: usize) -> Option<Reading> {
        self.live.signal(path)
    }

    /// Returns the true conditions of the links of a path at this moment; `None` if it has no
    /// radio.
    pub fn air(&self, path: usize) -> Option<Air> {
        self.live.air(path)
    }

    /// Starts or ends recording every packet on one direction of a path.
    pub fn keep_records(&self, path: usize, direction: Direction, keep: bool) {
        self.live.keep_records(path, direction, keep);
    }

    /// Takes the records of one direction of a path since the last call.
    pub fn drain_records(&self, path: usize, direction: Direction) -> Vec<Record> {
        self.live.drain_records(path, direction)
    }

    /// Stops the relay within some 20 ms, and returns its counters. Datagrams in the links are
    /// lost.
    pub fn stop(mut self) -> RelayReport {
        // Report first: the kernel's counters disappear with the sockets.
        let report = self.report();
        self.live.stop();
        report
    }
}

impl RelayReport {
    /// Returns the reason if the emulation was not faithful; see [`LiveReport::invalid`].
    pub fn invalid(&self, threshold: Duration) -> Option<String> {
        self.live.invalid(self.overruns.unwrap_or(0), threshold)
    }
}

//! Paths in real time: UDP relays on loopback addresses, without privileges.
//!
//! For each path there is one socket on a loopback address of its own, to which clients send. What arrives
//! there passes the path's upward link and leaves for the server from another loopback address, with a port
//! for each client, so that the server sees one remote address a path and client. What the server answers
//! comes back through the downward link. Headers count: a payload of n bytes is n + 28 bytes on the link.
//!
//! One thread serves all sockets and the [`Network`] between them. It sleeps in the kernel until the next
//! delivery is due and measures how late it hands each datagram over ([`RelayReport::slip`]). ECN marks do not
//! pass. A datagram that the kernel drops before the relay reads it is in no link's counters, but in
//! [`RelayReport::overruns`].

mod engine;
mod slip;
mod sockets;

use std::{
    io,
    net::SocketAddr,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use serde::{Deserialize, Serialize};
use squall_signal::Reading;

pub use self::slip::SlipReport;
use self::{
    engine::{Datagram, Engine},
    slip::Slip,
};
use crate::{
    config::{Direction, PathConfig},
    link::LinkState,
    log::{LinkStats, Record},
    network::Network,
    radio::Air,
    units::Micros,
};

/// Bytes of IPv4 and UDP header that each datagram occupies on a link beyond its payload.
pub const HEADERS: usize = 28;

/// Running relays, one for each path. Dropping it stops them.
#[derive(Debug)]
pub struct Relay {
    addresses: Vec<SocketAddr>,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// What the relay's thread and its owner both use.
#[derive(Debug)]
struct Shared {
    stop: AtomicBool,
    /// Time 0 of links and scripts.
    start: Instant,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    network: Network<Datagram>,
    slip: Slip,
    /// Addresses of the server's sides of all flows.
    server_sides: Vec<SocketAddr>,
    strays: u64,
    refused: u64,
    failure: Option<String>,
}

/// What the relay has done so far.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RelayReport {
    /// Time since the start, in microseconds.
    pub elapsed: Micros,
    /// The paths in order.
    pub paths: Vec<PathReport>,
    /// How late datagrams were handed to the kernel.
    pub slip: SlipReport,
    /// Datagrams that came out of a link for a client that the relay no longer knew.
    pub strays: u64,
    /// Datagrams that the kernel dropped because the relay read them too late; `None` where the kernel does not
    /// tell (it does on Linux with IPv4). Those of sockets that a rebind has closed are forgotten.
    pub overruns: Option<u64>,
    /// Datagrams that the kernel did not take (its buffer was full, or the other side is gone).
    pub refused: u64,
    /// Why the relay ended by itself, if it did.
    pub failure: Option<String>,
}

/// One path in a [`RelayReport`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathReport {
    /// Its name.
    pub name: String,
    /// Counters towards the server.
    pub up: LinkStats,
    /// Counters towards the client.
    pub down: LinkStats,
    /// Counters of the shared queues and serialisers (up, down), if the path shares them.
    pub bottleneck: Option<(LinkStats, LinkStats)>,
}

/// One path at a moment, for a live view.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathSnapshot {
    /// Its name.
    pub name: String,
    /// The link towards the server.
    pub up: LinkState,
    /// The link towards the client.
    pub down: LinkState,
    /// Counters towards the server.
    pub up_stats: LinkStats,
    /// Counters towards the client.
    pub down_stats: LinkStats,
}

impl Relay {
    /// Starts a relay for each path to `server`. Time 0 of the paths' events is now. Files that the paths name
    /// must have been [loaded](PathConfig::load).
    ///
    /// # Errors
    ///
    /// Of kind `InvalidInput` if the paths cannot be built; otherwise what the system says about the sockets.
    pub fn start(paths: &[PathConfig], server: SocketAddr, seed: u64) -> io::Result<Self> {
        let network =
            Network::new(paths, seed).map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
        let sockets = (0..paths.len())
            .map(|path| sockets::client_side(path, server))
            .collect::<io::Result<Vec<_>>>()?;
        let addresses =
            sockets.iter().map(std::net::UdpSocket::local_addr).collect::<io::Result<Vec<_>>>()?;
        let state = State {
            network,
            slip: Slip::new(),
            server_sides: Vec::new(),
            strays: 0,
            refused: 0,
            failure: None,
        };
        let shared = Arc::new(Shared {
            stop: AtomicBool::new(false),
            start: Instant::now(),
            state: Mutex::new(state),
        });
        let engine = Engine::new(Arc::clone(&shared), sockets, server);
        let thread =
            std::thread::Builder::new().name("squall-relay".to_owned()).spawn(move || engine.run())?;
        Ok(Self { addresses, shared, thread: Some(thread) })
    }

    /// Where a client sends to use a path.
    ///
    /// # Panics
    ///
    /// If there is no such path.
    pub fn address(&self, path: usize) -> SocketAddr {
        self.addresses[path]
    }

    /// Time 0 of the paths' events and of the records.
    pub fn started(&self) -> Instant {
        self.shared.start
    }

    /// Counters and slip so far.
    pub fn report(&self) -> RelayReport {
        let state = self.shared.lock();
        let network = &state.network;
        let path = |path| PathReport {
            name: network.name(path).to_owned(),
            up: network.stats(path, Direction::Up),
            down: network.stats(path, Direction::Down),
            bottleneck: network
                .bottleneck_stats(path, Direction::Up)
                .zip(network.bottleneck_stats(path, Direction::Down)),
        };
        RelayReport {
            elapsed: self.shared.now(),
            paths: (0..network.len()).map(path).collect(),
            slip: state.slip.report(),
            strays: state.strays,
            overruns: sockets::overruns(self.addresses.iter().chain(&state.server_sides)),
            refused: state.refused,
            failure: state.failure.clone(),
        }
    }

    /// The state of all paths now.
    pub fn snapshot(&self) -> Vec<PathSnapshot> {
        let mut state = self.shared.lock();
        let network = &mut state.network;
        let now = self.shared.now();
        (0..network.len())
            .map(|path| PathSnapshot {
                name: network.name(path).to_owned(),
                up: network.state(now, path, Direction::Up),
                down: network.state(now, path, Direction::Down),
                up_stats: network.stats(path, Direction::Up),
                down_stats: network.stats(path, Direction::Down),
            })
            .collect()
    }

    /// What the radio of a path reports at this moment; `None` if it has none, and after the last report of a
    /// recording. Times are microseconds since [`started`](Self::started).
    pub fn signal(&self, path: usize) -> Option<Reading> {
        let mut state = self.shared.lock();
        state.network.report(self.shared.now(), path)
    }

    /// What the links of a path truly follow at this moment; `None` if it has no radio.
    pub fn air(&self, path: usize) -> Option<Air> {
        let mut state = self.shared.lock();
        state.network.air(self.shared.now(), path)
    }

    /// Starts (or ends) the record of every packet on one direction of a path.
    pub fn keep_records(&self, path: usize, direction: Direction, keep: bool) {
        self.shared.lock().network.keep_records(path, direction, keep);
    }

    /// The record of one direction of a path since the last call.
    pub fn drain_records(&self, path: usize, direction: Direction) -> Vec<Record> {
        self.shared.lock().network.drain_records(path, direction)
    }

    /// Stops the relay, which takes at most some 20 ms, and says what it has done. Datagrams on the way are lost.
    pub fn stop(mut self) -> RelayReport {
        // While the sockets are open: the kernel's counters go with them.
        let report = self.report();
        self.join();
        report
    }

    fn join(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        if let Some(Err(panic)) = self.thread.take().map(JoinHandle::join)
            && !std::thread::panicking()
        {
            std::panic::resume_unwind(panic);
        }
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.join();
    }
}

impl RelayReport {
    /// Whether the emulation was true: the relay is still at work, it has read every datagram, and 99 of 100
    /// were handed over at most `threshold` late.
    pub fn valid(&self, threshold: Duration) -> bool {
        let prompt = u128::from(self.slip.p99) <= threshold.as_micros();
        prompt && self.failure.is_none() && self.overruns.unwrap_or(0) == 0
    }
}

impl Shared {
    /// Microseconds since the start.
    fn now(&self) -> Micros {
        // 584,000 years fit.
        self.start.elapsed().as_micros() as Micros
    }

    /// The state. A panic of the other thread does not make its counters wrong.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

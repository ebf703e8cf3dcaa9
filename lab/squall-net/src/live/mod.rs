//! A [`Network`] in real time, between arbitrary sources and sinks of packets.
//!
//! [`Live`] has one thread that serves all [`Ports`] and the network between them. It sleeps in the kernel until the
//! next delivery is due and measures how late it hands each packet over ([`SlipReport`]).

mod engine;
mod slip;

use std::{
    io,
    os::fd::BorrowedFd,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use serde::{Deserialize, Serialize};
use squall_signal::Reading;
use squall_trace::Micros;

pub use self::slip::SlipReport;
use self::{engine::Engine, slip::Slip};
use crate::{
    config::Direction,
    link::LinkState,
    log::{LinkStats, Record},
    network::{Arrival, Network},
    radio::Air,
};

/// Sources and sinks of packets: sockets or devices.
pub trait Ports: Send + 'static {
    /// A packet.
    type Packet: Clone + Send + 'static;

    /// Returns the descriptors to wait for, in the order of `ready` in [`receive`](Self::receive).
    fn watched(&self) -> Vec<BorrowedFd<'_>>;

    /// Reads a bounded number of packets from each of the [`watched`](Self::watched) descriptors
    /// that is ready.
    ///
    /// # Errors
    ///
    /// An error ends the emulation.
    fn receive(&mut self, ready: &[bool], inbox: &mut Inbox<Self::Packet>) -> io::Result<()>;

    /// Hands a packet that has left its link to its receiver.
    fn hand_over(&mut self, arrival: &Arrival<Self::Packet>) -> Outcome;

    /// Changes the client's address on a path as the far side sees it, like a NAT that has dropped
    /// its mapping.
    ///
    /// # Errors
    ///
    /// Errors of the operating system.
    fn rebind(&mut self, path: usize) -> io::Result<()>;
}

/// Result of handing over a packet at the end of its link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The kernel accepted the packet.
    Sent,
    /// The kernel rejected the packet.
    Refused,
    /// The packet has no receiver.
    Stray,
}

/// Packets just read, to be passed to the network.
#[derive(Debug)]
pub struct Inbox<T> {
    start: Instant,
    packets: Vec<Incoming<T>>,
}

/// A packet that was just read.
#[derive(Debug)]
struct Incoming<T> {
    at: Micros,
    path: usize,
    direction: Direction,
    size: usize,
    packet: T,
}

impl<T> Inbox<T> {
    /// Adds a packet of `size` bytes (IP size) that was just read, and returns the current time in
    /// microseconds since the start.
    pub fn push(&mut self, path: usize, direction: Direction, size: usize, packet: T) -> Micros {
        let at = micros_since(self.start);
        self.packets.push(Incoming { at, path, direction, size, packet });
        at
    }
}

/// A running network. Dropping it stops it.
#[derive(Debug)]
pub struct Live<T> {
    shared: Arc<Shared<T>>,
    thread: Option<JoinHandle<()>>,
}

/// State shared by the thread and the owner.
#[derive(Debug)]
struct Shared<T> {
    stop: AtomicBool,
    /// Time 0 of links and scripts.
    start: Instant,
    state: Mutex<State<T>>,
}

#[derive(Debug)]
struct State<T> {
    network: Network<T>,
    slip: Slip,
    strays: u64,
    refused: u64,
    failure: Option<String>,
}

/// Counters since the start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LiveReport {
    /// Time since the start, in microseconds.
    #[serde(rename = "elapsed_us")]
    pub elapsed: Micros,
    /// The paths in order.
    pub paths: Vec<PathReport>,
    /// Lateness of packets handed to the kernel.
    pub slip: SlipReport,
    /// Packets without a receiver at the end of their link.
    pub strays: u64,
    /// Packets that the kernel rejected (its buffer was full, or the other side is gone).
    pub refused: u64,
    /// The error that ended the emulation, if any.
    pub failure: Option<String>,
}

/// One path in a [`LiveReport`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathReport {
    /// Its name.
    pub name: String,
    /// Counters of the link towards the server.
    pub up: LinkStats,
    /// Counters of the link towards the client.
    pub down: LinkStats,
    /// Counters of the shared queues and serialisers (up, down), if the path shares them.
    pub bottleneck: Option<(LinkStats, LinkStats)>,
}

/// The state of one path at a moment, for a live view.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathSnapshot {
    /// Its name.
    pub name: String,
    /// The link towards the server.
    pub up: LinkState,
    /// The link towards the client.
    pub down: LinkState,
    /// Counters of the link towards the server.
    pub up_stats: LinkStats,
    /// Counters of the link towards the client.
    pub down_stats: LinkStats,
}

impl<T: Clone + Send + 'static> Live<T> {
    /// Starts a network. Time 0 of its events is now. `name` is the name of the thread.
    ///
    /// # Errors
    ///
    /// If the system cannot create a thread.
    pub fn start(network: Network<T>, ports: impl Ports<Packet = T>, name: &str) -> io::Result<Self> {
        let state = State { network, slip: Slip::new(), strays: 0, refused: 0, failure: None };
        let shared = Arc::new(Shared {
            stop: AtomicBool::new(false),
            start: Instant::now(),
            state: Mutex::new(state),
        });
        let engine = Engine::new(Arc::clone(&shared), ports);
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(move || engine.run())?;
        Ok(Self { shared, thread: Some(thread) })
    }
}

impl<T: Clone> Live<T> {
    /// Returns time 0 of the paths' events and of the records.
    pub fn started(&self) -> Instant {
        self.shared.start
    }

    /// Returns counters and slip so far.
    pub fn report(&self) -> LiveReport {
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
        LiveReport {
            elapsed: self.shared.now(),
            paths: (0..network.len()).map(path).collect(),
            slip: state.slip.report(),
            strays: state.strays,
            refused: state.refused,
            failure: state.failure.clone(),
        }
    }

    /// Returns the current state of all paths.
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

    /// Returns the current report of the radio of a path; `None` if it has none, and after the last
    /// report of a recording. Times are microseconds since [`started`](Self::started).
    pub fn signal(&self, path: usize) -> Option<Reading> {
        let mut state = self.shared.lock();
        state.network.report(self.shared.now(), path)
    }

    /// Returns the next radio report that is due and was not taken yet, with the index of its path.
    pub fn poll_report(&self) -> Option<(usize, Reading)> {
        let mut state = self.shared.lock();
        state.network.poll_report(self.shared.now())
    }

    /// Returns the true conditions of the links of a path at this moment; `None` if it has no
    /// radio.
    pub fn air(&self, path: usize) -> Option<Air> {
        let mut state = self.shared.lock();
        state.network.air(self.shared.now(), path)
    }

    /// Starts or ends recording every packet on one direction of a path.
    pub fn keep_records(&self, path: usize, direction: Direction, keep: bool) {
        self.shared.lock().network.keep_records(path, direction, keep);
    }

    /// Takes the records of one direction of a path since the last call.
    pub fn drain_records(&self, path: usize, direction: Direction) -> Vec<Record> {
        self.shared.lock().network.drain_records(path, direction)
    }
}

impl<T> Live<T> {
    /// Stops the thread within some 20 ms. Packets in the links are lost.
    pub fn stop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        if let Some(Err(panic)) = self.thread.take().map(JoinHandle::join)
            && !std::thread::panicking()
        {
            std::panic::resume_unwind(panic);
        }
    }
}

impl<T> Drop for Live<T> {
    fn drop(&mut self) {
        self.stop();
    }
}

impl LiveReport {
    /// Returns the reason if the emulation was not faithful: the links have stopped, the kernel
    /// dropped packets before they reached their link (`overruns`), or more than one of 100 was
    /// handed over later than `threshold`.
    pub fn invalid(&self, overruns: u64, threshold: Duration) -> Option<String> {
        if let Some(failure) = &self.failure {
            return Some(format!("the links have stopped: {failure}"));
        }
        if overruns > 0 {
            return Some(format!("the kernel dropped {overruns} packets before they reached their link"));
        }
        let late = u128::from(self.slip.p99) > threshold.as_micros();
        late.then(|| {
            format!(
                "1 of 100 packets came more than {:.1} ms late ({:.1} ms are allowed): the machine was busy",
                self.slip.p99 as f64 / 1e3,
                threshold.as_secs_f64() * 1e3
            )
        })
    }
}

impl<T> Shared<T> {
    /// Returns the microseconds since the start.
    fn now(&self) -> Micros {
        micros_since(self.start)
    }

    /// Locks the state. A panic of the other thread does not invalidate its counters.
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn micros_since(start: Instant) -> Micros {
    // Microseconds of 584,000 years fit.
    start.elapsed().as_micros() as Micros
}

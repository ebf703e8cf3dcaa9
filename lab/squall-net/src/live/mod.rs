//! A [`Network`] in real time, between whatever packets come from and go to.
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

/// Where packets come from and go to: sockets, or devices.
pub trait Ports: Send + 'static {
    /// A packet.
    type Packet: Clone + Send + 'static;

    /// What to wait for, in an order that [`receive`](Self::receive) understands.
    fn watched(&self) -> Vec<BorrowedFd<'_>>;

    /// Reads a bounded number of packets from each of the [`watched`](Self::watched) that is marked.
    ///
    /// # Errors
    ///
    /// What ends the emulation.
    fn receive(&mut self, ready: &[bool], inbox: &mut Inbox<Self::Packet>) -> io::Result<()>;

    /// Hands a packet that has come out of its link to its receiver.
    fn hand_over(&mut self, arrival: &Arrival<Self::Packet>) -> Outcome;

    /// Changes what the far side takes for the client's address on a path, as a NAT does that has forgotten it.
    ///
    /// # Errors
    ///
    /// What the system says.
    fn rebind(&mut self, path: usize) -> io::Result<()>;
}

/// What became of a packet at the end of its link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The kernel has it.
    Sent,
    /// The kernel did not take it.
    Refused,
    /// It has no receiver.
    Stray,
}

/// Packets just read, for the network.
#[derive(Debug)]
pub struct Inbox<T> {
    start: Instant,
    packets: Vec<Incoming<T>>,
}

/// A packet just read.
#[derive(Debug)]
struct Incoming<T> {
    at: Micros,
    path: usize,
    direction: Direction,
    size: usize,
    packet: T,
}

impl<T> Inbox<T> {
    /// Takes a packet of `size` bytes (IP size) that has just been read, and returns the time, in microseconds since
    /// the start.
    pub fn push(&mut self, path: usize, direction: Direction, size: usize, packet: T) -> Micros {
        let at = micros_since(self.start);
        self.packets.push(Incoming { at, path, direction, size, packet });
        at
    }
}

/// A network at work. Dropping it stops it.
#[derive(Debug)]
pub struct Live<T> {
    shared: Arc<Shared<T>>,
    thread: Option<JoinHandle<()>>,
}

/// What the thread and the owner both use.
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

/// What has happened so far.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LiveReport {
    /// Time since the start, in microseconds.
    #[serde(rename = "elapsed_us")]
    pub elapsed: Micros,
    /// The paths in order.
    pub paths: Vec<PathReport>,
    /// How late packets were handed to the kernel.
    pub slip: SlipReport,
    /// Packets that came out of a link and had no receiver.
    pub strays: u64,
    /// Packets that the kernel did not take (its buffer was full, or the other side is gone).
    pub refused: u64,
    /// Why the emulation ended by itself, if it did.
    pub failure: Option<String>,
}

/// One path in a [`LiveReport`].
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

impl<T: Clone + Send + 'static> Live<T> {
    /// Sets a network to work. Time 0 of its events is now. `name` is that of the thread.
    ///
    /// # Errors
    ///
    /// If the system has no thread left.
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
    /// Time 0 of the paths' events and of the records.
    pub fn started(&self) -> Instant {
        self.shared.start
    }

    /// Counters and slip so far.
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

    /// The next report of a radio that is due by now and was not taken yet, with the path of the radio.
    pub fn poll_report(&self) -> Option<(usize, Reading)> {
        let mut state = self.shared.lock();
        state.network.poll_report(self.shared.now())
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
}

impl<T> Live<T> {
    /// Stops the thread, which takes at most some 20 ms. Packets on the way are lost.
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
    /// Why the emulation was not true, if it was not: the links have stopped, the kernel dropped packets on their way to
    /// their link (`overruns`), or more than one of 100 was handed over later than `threshold`.
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
    /// Microseconds since the start.
    fn now(&self) -> Micros {
        micros_since(self.start)
    }

    /// The state. A panic of the other thread does not make its counters wrong.
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn micros_since(start: Instant) -> Micros {
    // 584,000 years fit.
    start.elapsed().as_micros() as Micros
}

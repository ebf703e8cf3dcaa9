//! The workers of an endpoint: several tasks behind the same addresses.
//!
//! On Linux each worker has a socket of its own on every listening address (`SO_REUSEPORT`, socket(7)), and a program of the
//! kernel gives each packet to the worker that its connection id names: [`worker_of`]. So a session stays with its worker
//! when the addresses of its peer change. The few packets that the kernel gives to another one all the same, such as those of
//! two sessions of one peer that the network card has joined, are handed over from worker to worker.

use std::{
    collections::VecDeque,
    io,
    net::{IpAddr, SocketAddr},
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak},
};

use bytes::BytesMut;
use squall_proto::{Config, Ecn, MAX_WORKERS, SessionId, worker_of};
use tokio::sync::Notify;

use crate::{EndpointError, shared::Shared, socket::Binding, sockets::Sockets};

/// Sessions that wait for [`Endpoint::accept`](crate::Endpoint::accept) at most, of all workers; more are refused.
const MAX_WAITING: usize = 1024;

/// Packets of other workers that wait at most; more are lost.
const MAX_HANDED: usize = 256;

/// What a worker of an endpoint has; see [`Endpoint::workers`](crate::Endpoint::workers).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WorkerStats {
    /// Sessions that are open, accepted or not.
    pub sessions: usize,
    /// Datagrams that belonged to no connection and began none: garbage, late packets of a session that is over, and packets
    /// that a load balancer sent to the wrong server.
    pub unknown: u64,
    /// Packets that arrived here and were handed over to the worker that has their session.
    pub handed_over: u64,
}

/// What the workers of an endpoint share.
pub(crate) struct Group {
    /// A session can be accepted, or no more will come.
    pub(crate) accept: Notify,
    /// A worker has nothing left to do.
    pub(crate) idle: Notify,
    accepted: Mutex<VecDeque<(usize, SessionId)>>,
    /// The first sockets of each worker are those that it listens on, in the same order.
    listening: usize,
    workers: OnceLock<Vec<Weak<Shared>>>,
}

/// The place of a worker among the others.
pub(crate) struct Worker {
    pub(crate) group: Arc<Group>,
    index: usize,
    count: usize,
}

/// A packet that arrived at another worker.
pub(crate) struct Handed {
    /// The place of the socket.
    pub(crate) socket: usize,
    pub(crate) remote: SocketAddr,
    /// The local address.
    pub(crate) sent_to: Option<IpAddr>,
    pub(crate) ecn: Option<Ecn>,
    pub(crate) data: BytesMut,
}

impl Group {
    /// The workers, one for each of these endpoints, which listen on this number of addresses.
    pub(crate) fn new(
        endpoints: Vec<squall_proto::Endpoint>,
        listening: usize,
        accepting: bool,
    ) -> (Arc<Self>, Vec<Arc<Shared>>) {
        let group = Arc::new(Self {
            accept: Notify::new(),
            idle: Notify::new(),
            accepted: Mutex::default(),
            listening,
            workers: OnceLock::new(),
        });
        let count = endpoints.len();
        let shared = |(index, endpoint)| {
            Shared::new(endpoint, accepting, Worker { group: group.clone(), index, count })
        };
        let workers: Vec<Arc<Shared>> = endpoints.into_iter().enumerate().map(shared).collect();
        group.workers.get_or_init(|| workers.iter().map(Arc::downgrade).collect());
        (group, workers)
    }

    /// Whether there are addresses that sessions come in on.
    pub(crate) fn is_listening(&self) -> bool {
        self.listening > 0
    }

    /// A session that can be accepted, and the worker that has it.
    pub(crate) fn next_accepted(&self) -> Option<(usize, SessionId)> {
        self.accepted().pop_front()
    }

    /// A worker has ended while the endpoint is in use, by a panic or with its runtime: what the kernel gives to it is lost. So no worker accepts
    /// any more, and the application learns that the endpoint has ended. Not to be called with a core locked.
    pub(crate) fn stop_accepting(&self) {
        for shared in self.workers.get().into_iter().flatten().filter_map(Weak::upgrade) {
            let mut core = shared.lock();
            core.accepting = false;
            core.wake();
        }
        self.accept.notify_waiters();
    }

    fn accepted(&self) -> MutexGuard<'_, VecDeque<(usize, SessionId)>> {
        self.accepted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Worker {
    /// Offers a session to the application; returns whether there was room for it.
    pub(crate) fn offer(&self, id: SessionId) -> bool {
        let mut accepted = self.group.accepted();
        let has_room = accepted.len() < MAX_WAITING;
        if has_room {
            accepted.push_back((self.index, id));
            self.group.accept.notify_waiters();
        }
        has_room
    }

    /// The other worker that a packet which arrived on this socket is for, if it is for another.
    pub(crate) fn other_for(&self, socket: usize, packet: &[u8]) -> Option<usize> {
        if self.count == 1 || socket >= self.group.listening {
            return None;
        }
        Some(worker_of(packet, self.count)).filter(|worker| *worker != self.index)
    }

    /// Hands packets over to the workers that they are for. Not to be called with a core locked.
    pub(crate) fn hand_over(&self, packets: &mut Vec<(usize, Handed)>) {
        let workers = self.group.workers.get().map(Vec::as_slice).unwrap_or_default();
        for (worker, packet) in packets.drain(..) {
            let Some(shared) = workers.get(worker).and_then(Weak::upgrade) else { continue };
            let mut core = shared.lock();
            if core.handed.len() < MAX_HANDED && !core.gone {
                core.handed.push_back(packet);
                core.wake();
            }
        }
    }
}

/// How many workers an endpoint of this configuration has.
pub(crate) fn count(config: &Config) -> Result<usize, EndpointError> {
    match config.workers {
        workers @ 1..=MAX_WORKERS => Ok(workers),
        workers => Err(EndpointError::Workers(workers)),
    }
}

/// The same, of one that listens: several workers need a system that gives packets to them by their connection ids.
pub(crate) fn count_listening(config: &Config) -> Result<usize, EndpointError> {
    let workers = count(config)?;
    if cfg!(target_os = "linux") || workers == 1 {
        return Ok(workers);
    }
    tracing::warn!(workers, "on this system an endpoint that listens has one worker");
    Ok(1)
}

/// Binds a socket for each worker to an address; returns the address.
///
/// The first one is bound exclusively, so that an address which another process has is refused even if that process shares
/// its own, as a second start of the same program does.
#[cfg(target_os = "linux")]
pub(crate) fn listen(workers: &mut [Sockets], addr: SocketAddr) -> io::Result<SocketAddr> {
    let Some((first, others)) = workers.split_first_mut() else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let local = first.listen(addr, Binding::Address)?;
    if others.is_empty() {
        return Ok(local);
    }
    let mut bound = vec![first.last_for_others()?];
    for worker in others {
        worker.listen(local, Binding::Shared)?;
        bound.push(worker.last_for_others()?);
    }
    steering::attach(&bound)?;
    // The kernel numbers the sockets in the order in which they were bound, and would do so again if one of them were
    // closed. So all stay open until the last worker has ended.
    let bound = Arc::new(bound);
    workers.iter_mut().for_each(|worker| worker.keep(bound.clone()));
    Ok(local)
}

/// Binds a socket to an address, for the only worker.
#[cfg(not(target_os = "linux"))]
pub(crate) fn listen(workers: &mut [Sockets], addr: SocketAddr) -> io::Result<SocketAddr> {
    match workers {
        [only] => only.listen(addr, Binding::Address),
        _ => Err(io::ErrorKind::Unsupported.into()),
    }
}

#[cfg(target_os = "linux")]
mod steering {
    //! The program that gives packets to workers.

    use std::{io, os::fd::OwnedFd};

    use nix::{
        libc::{
            BPF_A, BPF_ABS, BPF_ALU, BPF_AND, BPF_B, BPF_JA, BPF_JMP, BPF_JSET, BPF_K, BPF_LD, BPF_MOD,
            BPF_RET, sock_filter, sock_fprog,
        },
        sys::socket::{setsockopt, sockopt::AttachReusePortCbpf},
    };
    use squall_proto::{LONG_ID_AT, MAX_WORKERS, SHORT_ID_AT};

    /// Attaches the program to the sockets of an address, one for each worker.
    pub(super) fn attach(sockets: &[OwnedFd]) -> io::Result<()> {
        let mut program = program(sockets.len());
        let program = sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
        // It is that of all of them.
        setsockopt(&sockets[0], AttachReusePortCbpf, &program)?;
        Ok(())
    }

    /// The same as [`worker_of`](squall_proto::worker_of), in classic BPF: the index of the socket. Data begin with the UDP
    /// payload; a load beyond their end ends the program with 0.
    fn program(workers: usize) -> [sock_filter; 8] {
        let load = |at| instruction(BPF_LD | BPF_B | BPF_ABS, 0, 0, at);
        [
            load(0),
            instruction(BPF_JMP | BPF_JSET | BPF_K, 0, 2, 0x80),
            load(LONG_ID_AT),
            instruction(BPF_JMP | BPF_JA, 0, 0, 1),
            load(SHORT_ID_AT),
            instruction(BPF_ALU | BPF_AND | BPF_K, 0, 0, MAX_WORKERS - 1),
            instruction(BPF_ALU | BPF_MOD | BPF_K, 0, 0, workers),
            instruction(BPF_RET | BPF_A, 0, 0, 0),
        ]
    }

    fn instruction(code: u32, jt: u8, jf: u8, k: usize) -> sock_filter {
        sock_filter { code: code as u16, jt, jf, k: k as u32 }
    }
}

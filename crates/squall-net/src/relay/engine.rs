//! The relay's thread: read what arrives, let the network have it, hand over what is due, sleep.

use std::{
    collections::HashMap,
    io,
    net::{SocketAddr, UdpSocket},
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::{HEADERS, Shared, State, sockets};
use crate::{config::Direction, network::Arrival, units::Micros};

/// A payload on its way, and whose it is.
#[derive(Debug, Clone)]
pub(super) struct Datagram {
    flow: u64,
    payload: Box<[u8]>,
}

pub(super) struct Engine {
    shared: Arc<Shared>,
    server: SocketAddr,
    /// The clients' side of each path.
    clients: Vec<UdpSocket>,
    flows: Vec<Flow>,
    /// The flow of each client on each path.
    known: HashMap<(usize, SocketAddr), u64>,
    next_flow: u64,
    /// Whether flows have come or gone since they were last published.
    changed: bool,
    /// What has been read and not yet been given to the network.
    inbox: Vec<Incoming>,
    buffer: Box<[u8]>,
}

/// One client on one path.
struct Flow {
    id: u64,
    path: usize,
    client: SocketAddr,
    /// The server's side: what the server takes for the client's address.
    socket: UdpSocket,
    used: Micros,
}

/// A datagram just read.
struct Incoming {
    at: Micros,
    path: usize,
    direction: Direction,
    datagram: Datagram,
}

/// The longest sleep, after which the wish to stop is seen.
const NAP: Micros = 20_000;

/// Before a delivery is due the thread does not sleep but asks the sockets again and again, because the kernel
/// may wake it late by about this much.
const AWAKE: Micros = 40;

/// Datagrams read from a socket before the others have their turn.
const BATCH: usize = 32;

/// Clients of a path that are remembered; beyond them the one that was silent longest is forgotten.
const CLIENTS: usize = 64;

impl Engine {
    pub(super) fn new(shared: Arc<Shared>, clients: Vec<UdpSocket>, server: SocketAddr) -> Self {
        Self {
            shared,
            server,
            clients,
            flows: Vec::new(),
            known: HashMap::new(),
            next_flow: 0,
            changed: false,
            inbox: Vec::new(),
            buffer: vec![0; 1 << 16].into(),
        }
    }

    pub(super) fn run(mut self) {
        be_prompt();
        while !self.shared.stop.load(Ordering::Relaxed) {
            let next = self.exchange();
            if let Err(error) = self.wait(next).and_then(|ready| self.receive(&ready)) {
                self.shared.lock().failure = Some(error.to_string());
                return;
            }
        }
    }

    /// Gives the network what was read and hands over what is due; says when the next thing is due.
    fn exchange(&mut self) -> Option<Micros> {
        let shared = Arc::clone(&self.shared);
        let mut state = shared.lock();
        if self.changed {
            self.publish(&mut state);
            self.changed = false;
        }
        for Incoming { at, path, direction, datagram } in self.inbox.drain(..) {
            let size = datagram.payload.len() + HEADERS;
            // A snapshot may have moved the network past the time of reading; the network then takes the later.
            // What the first queue refuses is in its statistics.
            let _ = state.network.send(at, path, direction, size, datagram);
        }
        loop {
            let now = shared.now();
            while let Some(path) = state.network.poll_rebind(now) {
                if let Err(error) = self.rebind(path) {
                    state.failure = Some(format!("rebinding path {path}: {error}"));
                }
                self.publish(&mut state);
            }
            let Some(arrival) = state.network.poll(now) else { break };
            self.hand_over(&mut state, arrival);
        }
        state.network.poll_timeout()
    }

    fn hand_over(&mut self, state: &mut State, arrival: Arrival<Datagram>) {
        let Arrival { path, direction, item, at, .. } = arrival;
        let Some(flow) = self.flows.iter().find(|flow| flow.id == item.flow) else {
            state.strays += 1;
            return;
        };
        state.slip.record(self.shared.now().saturating_sub(at));
        let sent = match direction {
            Direction::Up => flow.socket.send(&item.payload),
            Direction::Down => self.clients[path].send_to(&item.payload, flow.client),
        };
        state.refused += u64::from(sent.is_err());
    }

    /// Sleeps until a socket has something or `next` is due; the sockets that have something, clients' first.
    fn wait(&self, next: Option<Micros>) -> io::Result<Vec<bool>> {
        let sockets = self.clients.iter().chain(self.flows.iter().map(|flow| &flow.socket));
        let mut watched: Vec<PollFd<'_>> = sockets.map(|socket| PollFd::new(socket, PollFlags::IN)).collect();
        let mut rest = next.map_or(NAP, |next| next.saturating_sub(self.shared.now()).min(NAP));
        loop {
            let sleep = Timespec::try_from(Duration::from_micros(rest.saturating_sub(AWAKE)))
                .expect("a nap fits a timespec");
            let ready = match poll(&mut watched, Some(&sleep)) {
                Err(rustix::io::Errno::INTR) => 0,
                result => result?,
            };
            rest = next.map_or(0, |next| next.saturating_sub(self.shared.now()).min(rest));
            if ready > 0 || rest == 0 || rest > AWAKE {
                return Ok(watched.iter().map(|socket| !socket.revents().is_empty()).collect());
            }
        }
    }

    fn receive(&mut self, ready: &[bool]) -> io::Result<()> {
        let paths = self.clients.len();
        // Flows may be forgotten while clients' sockets are read: first those whose places are known.
        for place in (paths..ready.len()).filter(|&place| ready[place]) {
            self.receive_replies(place - paths)?;
        }
        for path in (0..paths).filter(|&path| ready[path]) {
            self.receive_requests(path)?;
        }
        Ok(())
    }

    fn receive_replies(&mut self, place: usize) -> io::Result<()> {
        for _ in 0..BATCH {
            let flow = &mut self.flows[place];
            let Some((length, _)) = read(&flow.socket, &mut self.buffer)? else { break };
            let at = self.shared.now();
            flow.used = at;
            let datagram = Datagram { flow: flow.id, payload: self.buffer[..length].into() };
            self.inbox.push(Incoming { at, path: flow.path, direction: Direction::Down, datagram });
        }
        Ok(())
    }

    fn receive_requests(&mut self, path: usize) -> io::Result<()> {
        for _ in 0..BATCH {
            let Some((length, client)) = read(&self.clients[path], &mut self.buffer)? else { break };
            let at = self.shared.now();
            let flow = self.flow(at, path, client)?;
            let datagram = Datagram { flow, payload: self.buffer[..length].into() };
            self.inbox.push(Incoming { at, path, direction: Direction::Up, datagram });
        }
        Ok(())
    }

    /// The flow of a client on a path, a new one if need be.
    fn flow(&mut self, at: Micros, path: usize, client: SocketAddr) -> io::Result<u64> {
        if let Some(&id) = self.known.get(&(path, client)) {
            if let Some(flow) = self.flows.iter_mut().find(|flow| flow.id == id) {
                flow.used = at;
            }
            return Ok(id);
        }
        self.forget_the_silent(path);
        let id = self.next_flow;
        self.next_flow += 1;
        let socket = sockets::server_side(path, self.server)?;
        self.flows.push(Flow { id, path, client, socket, used: at });
        self.known.insert((path, client), id);
        self.changed = true;
        Ok(id)
    }

    fn forget_the_silent(&mut self, path: usize) {
        let mine = || self.flows.iter().enumerate().filter(|(_, flow)| flow.path == path);
        if mine().count() < CLIENTS {
            return;
        }
        if let Some((place, _)) = mine().min_by_key(|(_, flow)| flow.used) {
            let flow = self.flows.remove(place);
            self.known.remove(&(path, flow.client));
        }
    }

    /// Tells whoever makes a report which sockets there are.
    fn publish(&self, state: &mut State) {
        let local = self.flows.iter().filter_map(|flow| flow.socket.local_addr().ok());
        state.server_sides = local.collect();
    }

    /// Gives each client of a path a new port towards the server, as a NAT does that has forgotten it.
    fn rebind(&mut self, path: usize) -> io::Result<()> {
        for flow in self.flows.iter_mut().filter(|flow| flow.path == path) {
            // The old socket is still open here, so that the new one cannot get its port.
            flow.socket = sockets::server_side(path, self.server)?;
        }
        Ok(())
    }
}

/// Reads one datagram; `None` if there is none.
fn read(socket: &UdpSocket, buffer: &mut [u8]) -> io::Result<Option<(usize, SocketAddr)>> {
    use io::ErrorKind::{ConnectionRefused, ConnectionReset, Interrupted, WouldBlock};
    match socket.recv_from(buffer) {
        Ok(read) => Ok(Some(read)),
        // A refusal is the answer to an earlier datagram: the other side has closed its socket.
        Err(error)
            if matches!(error.kind(), WouldBlock | Interrupted | ConnectionRefused | ConnectionReset) =>
        {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Asks the kernel to wake this thread to the microsecond instead of rounding sleeps up by 50, and before others
/// if this program has the right to ask for that. Without either the relay is later, which its slip will show.
fn be_prompt() {
    #[cfg(target_os = "linux")]
    {
        const BEFORE_OTHERS: i32 = -15;
        let _ = rustix::thread::set_current_timer_slack(std::num::NonZero::new(1));
        // Linux keeps a priority for each thread: this is for the calling one alone.
        let _ = rustix::process::setpriority_process(None, BEFORE_OTHERS);
    }
}

//! The relay's clients and their addresses as seen by the server.

use std::{
    borrow::Cow,
    collections::HashMap,
    io,
    net::{SocketAddr, UdpSocket},
    os::fd::{AsFd as _, BorrowedFd},
};

use squall_trace::Micros;

use super::{HEADERS, ServerSides, sockets};
use crate::{
    config::Direction,
    live::{Inbox, Outcome, Ports},
    network::Arrival,
};

/// A payload in transit, and its flow.
#[derive(Debug, Clone)]
pub(super) struct Datagram {
    flow: u64,
    payload: Box<[u8]>,
}

pub(super) struct Sockets {
    server: SocketAddr,
    /// Sockets on the clients' side, by path.
    clients: Vec<UdpSocket>,
    flows: Vec<Flow>,
    /// Flow of each client on each path.
    known: HashMap<(usize, SocketAddr), u64>,
    next_flow: u64,
    server_sides: ServerSides,
    buffer: Box<[u8]>,
}

/// One client on one path.
struct Flow {
    id: u64,
    path: usize,
    client: SocketAddr,
    /// Socket on the server's side; its address is the client's for the server.
    socket: UdpSocket,
    used: Micros,
}

/// Datagrams read from one socket before the others are served.
const BATCH: usize = 32;

/// Maximum number of clients per path; beyond it the one that has been silent longest is removed.
const CLIENTS: usize = 64;

impl Ports for Sockets {
    type Packet = Datagram;

    /// First the sockets of the clients' side, then those of the flows.
    fn watched(&self) -> Vec<BorrowedFd<'_>> {
        self.clients
            .iter()
            .chain(self.flows.iter().map(|flow| &flow.socket))
            .map(|socket| socket.as_fd())
            .collect()
    }

    fn receive(&mut self, ready: &[bool], inbox: &mut Inbox<Datagram>) -> io::Result<()> {
        let paths = self.clients.len();
        // Reading clients' sockets may remove flows and shift their indices: read the flows first.
        for place in (paths..ready.len()).filter(|&place| ready[place]) {
            self.receive_replies(place - paths, inbox)?;
        }
        for path in (0..paths).filter(|&path| ready[path]) {
            self.receive_requests(path, inbox)?;
        }
        Ok(())
    }

    fn hand_over(&mut self, arrival: &Arrival<Datagram>) -> Outcome {
        let Some(flow) = self.flows.iter().find(|flow| flow.id == arrival.item.flow) else {
            return Outcome::Stray;
        };
        let mut payload = Cow::Borrowed(&*arrival.item.payload);
        if let Some(damage) = arrival.damage {
            damage.apply(payload.to_mut());
        }
        let sent = match arrival.direction {
            Direction::Up => flow.socket.send(&payload),
            Direction::Down => self.clients[arrival.path].send_to(&payload, flow.client),
        };
        if sent.is_ok() { Outcome::Sent } else { Outcome::Refused }
    }

    /// Gives each client of a path a new port towards the server.
    fn rebind(&mut self, path: usize) -> io::Result<()> {
        for flow in self.flows.iter_mut().filter(|flow| flow.path == path) {
            // The old socket is still open here, so that the new one cannot get its port.
            flow.socket = sockets::server_side(path, self.server)?;
        }
        self.publish();
        Ok(())
    }
}

impl Sockets {
    pub(super) fn new(clients: Vec<UdpSocket>, server: SocketAddr, server_sides: ServerSides) -> Self {
        Self {
            server,
            clients,
            flows: Vec::new(),
            known: HashMap::new(),
            next_flow: 0,
            server_sides,
            buffer: vec![0; 1 << 16].into(),
        }
    }

    fn receive_replies(&mut self, place: usize, inbox: &mut Inbox<Datagram>) -> io::Result<()> {
        for _ in 0..BATCH {
            let flow = &mut self.flows[place];
            let Some((length, _)) = read(&flow.socket, &mut self.buffer)? else { break };
            let datagram = Datagram { flow: flow.id, payload: self.buffer[..length].into() };
            flow.used = inbox.push(flow.path, Direction::Down, length + HEADERS, datagram);
        }
        Ok(())
    }

    fn receive_requests(&mut self, path: usize, inbox: &mut Inbox<Datagram>) -> io::Result<()> {
        for _ in 0..BATCH {
            let Some((length, client)) = read(&self.clients[path], &mut self.buffer)? else { break };
            let flow = self.flow(path, client)?;
            let datagram = Datagram { flow: self.flows[flow].id, payload: self.buffer[..length].into() };
            self.flows[flow].used = inbox.push(path, Direction::Up, length + HEADERS, datagram);
        }
        Ok(())
    }

    /// Returns the index of the flow of a client on a path; creates it if necessary.
    fn flow(&mut self, path: usize, client: SocketAddr) -> io::Result<usize> {
        if let Some(&id) = self.known.get(&(path, client))
            && let Some(place) = self.flows.iter().position(|flow| flow.id == id)
        {
            return Ok(place);
        }
        self.forget_the_silent(path);
        let id = self.next_flow;
        self.next_flow += 1;
        let socket = sockets::server_side(path, self.server)?;
        self.flows.push(Flow { id, path, client, socket, used: 0 });
        self.known.insert((path, client), id);
        self.publish();
        Ok(self.flows.len() - 1)
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

    /// Publishes the addresses of the sockets, for reports.
    fn publish(&self) {
        *self.server_sides.lock() =
            self.flows.iter().filter_map(|flow| flow.socket.local_addr().ok()).collect();
    }
}

/// Reads one datagram; `None` if none is available.
fn read(socket: &UdpSocket, buffer: &mut [u8]) -> io::Result<Option<(usize, SocketAddr)>> {
    use io::ErrorKind::{ConnectionRefused, ConnectionReset, Interrupted, WouldBlock};
    match socket.recv_from(buffer) {
        Ok(read) => Ok(Some(read)),
        // Such an error belongs to an earlier datagram: the other side has closed its socket.
        Err(error)
            if matches!(error.kind(), WouldBlock | Interrupted | ConnectionRefused | ConnectionReset) =>
        {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

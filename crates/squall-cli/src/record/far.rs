//! The listening end: serves all peers that prove possession of the token.

use std::{
    collections::HashMap,
    net::{IpAddr, SocketAddr},
    time::Instant,
};

use anyhow::Context as _;
use ring::hmac::Key;
use socket2::Socket;
use squall_terminal::note;

use super::{
    flow::Flow,
    socket::{self, Epoch},
    wire::{self, Datagram, Packet, Secret},
};

/// Microseconds without a packet after which an interface of a recording is forgotten. Long outages
/// are part of a walk.
const SILENCE: u64 = 120_000_000;

/// Maximum number of interfaces of all recordings.
const MAX_FLOWS: usize = 64;

/// Maximum number of packets received in a row, and sent to an interface in a row.
const BURST: usize = 64;

struct Server {
    socket: Socket,
    epoch: Epoch,
    token: Key,
    /// Secret from which the nonces of addresses derive.
    secret: Key,
    flows: HashMap<u64, Served>,
}

/// An interface of a recording.
struct Served {
    /// Current address of the interface; a network may assign another one.
    address: SocketAddr,
    /// Address of this host that the interface sends to.
    local: Option<IpAddr>,
    flow: Flow,
    arrived_at: u64,
}

/// Serves until the process ends.
///
/// # Errors
/// If the socket fails.
pub(super) fn run(socket: Socket, token: &[u8]) -> anyhow::Result<()> {
    let mut secret = [0; 32];
    crate::token::random(&mut secret)?;
    let mut server = Server {
        socket,
        epoch: Epoch(Instant::now()),
        token: wire::key(token),
        secret: wire::key(&secret),
        flows: HashMap::new(),
    };
    let mut buffer = [0; 2_048];
    loop {
        socket::wait(&server.socket, !server.flows.is_empty()).context("cannot wait for packets")?;
        // Limited, so that recordings are served even in a flood of packets from others.
        for _ in 0..BURST {
            // Errors of the socket are answers to single packets, for instance "port unreachable".
            let Ok(Some(arrival)) = socket::receive(&server.socket, &mut buffer) else { break };
            let now = server.epoch.now().saturating_sub(arrival.age).max(1);
            let Some(from) = arrival.from else { continue };
            server.receive(&buffer[..arrival.length], from, arrival.to, now);
        }
        server.transmit();
    }
}

impl Server {
    fn receive(&mut self, data: &[u8], from: SocketAddr, local: Option<IpAddr>, now: u64) {
        let Some((session, datagram)) = Datagram::decode(data) else { return };
        let nonce = self.nonce(from, session);
        let is_proven = |given: &Secret| wire::is_equal(given, &wire::proof(&self.token, session, &nonce));
        match datagram {
            Datagram::Packet(packet) if is_proven(&packet.proof) => {
                self.take((from, local), session, &packet, data.len(), now);
            }
            Datagram::Packet(_) => {
                let _ =
                    socket::send(&self.socket, &Datagram::Challenge(nonce).encode(session, 0), from, local);
            }
            Datagram::Bye(proof) if is_proven(&proof) => {
                if self.flows.remove(&session).is_some() {
                    note!("{from}: the recording is over");
                }
            }
            Datagram::Bye(_) | Datagram::Challenge(_) => {}
        }
    }

    fn take(
        &mut self,
        (from, local): (SocketAddr, Option<IpAddr>),
        session: u64,
        packet: &Packet,
        size: usize,
        now: u64,
    ) {
        if !self.flows.contains_key(&session) {
            if self.flows.len() >= MAX_FLOWS {
                return;
            }
            let Packet { plan, .. } = packet;
            note!("{from}: a recording, {} every {} ms", plan.mode, plan.step / 1_000);
            let flow = Flow::new(*plan, false, socket::headers(from));
            self.flows.insert(session, Served { address: from, local, flow, arrived_at: now });
        }
        if let Some(served) = self.flows.get_mut(&session).filter(|served| {
            (served.flow.plan.mode, served.flow.plan.step) == (packet.plan.mode, packet.plan.step)
        }) {
            (served.arrived_at, served.address, served.local) = (now, from, local);
            served.flow.receive(packet, size, now);
        }
    }

    fn transmit(&mut self) {
        let now = self.epoch.now();
        self.flows.retain(|_, served| {
            let is_there = now.saturating_sub(served.arrived_at) < SILENCE;
            if !is_there {
                note!("{}: silent for {} s, forgotten", served.address, SILENCE / 1_000_000);
            }
            is_there
        });
        let mut out = Vec::new();
        for (&session, served) in &mut self.flows {
            for _ in 0..BURST {
                let Some((packet, size)) = served.flow.transmit(now, Secret::default()) else { break };
                let data = Datagram::Packet(Box::new(packet)).encode(session, size);
                out.push((data, served.address, served.local));
            }
        }
        for (data, address, local) in out {
            // A packet without room in the socket is lost, and the other end counts it as lost.
            let _ = socket::send(&self.socket, &data, address, local);
        }
    }

    fn nonce(&self, address: SocketAddr, session: u64) -> Secret {
        wire::proof(&self.secret, session, address.to_string().as_bytes())
    }
}

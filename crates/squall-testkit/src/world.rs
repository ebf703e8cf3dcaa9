//! A server, its clients, and the network between them, in virtual time.

use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    time::{Duration, Instant},
};

use bytes::BytesMut;

use crate::{Peer, Stranger};

/// The usual address of servers.
pub const SERVER: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), 4433);

/// A period in which no world has more packets and instants than [`World::most`].
const MOMENT: Duration = Duration::from_millis(10);

/// A datagram of UDP.
#[derive(Clone, Debug)]
pub struct Packet {
    /// Its source.
    pub from: SocketAddr,
    /// Its destination.
    pub to: SocketAddr,
    /// Its payload.
    pub data: BytesMut,
}

/// Packets under way.
#[derive(Debug, Default)]
pub struct Wire {
    packets: BTreeMap<(Instant, u64), Packet>,
    sent: u64,
}

impl Wire {
    /// Has a packet arrive at this time; of those of one time the first one first.
    pub fn put(&mut self, at: Instant, packet: Packet) {
        self.sent += 1;
        self.packets.insert((at, self.sent), packet);
    }

    /// Packets that have not arrived.
    pub fn packets(&self) -> impl Iterator<Item = &Packet> {
        self.packets.values()
    }

    fn next(&self) -> Option<Instant> {
        self.packets.first_key_value().map(|(key, _)| key.0)
    }

    /// The next packet that has arrived at this time.
    pub fn arrive(&mut self, now: Instant) -> Option<Packet> {
        let entry = self.packets.first_entry().filter(|entry| entry.key().0 <= now)?;
        Some(entry.remove())
    }
}

/// An end of the network: an endpoint, without its clock and its sockets.
pub trait End {
    /// Whether packets to this address are for it.
    fn is_at(&self, address: SocketAddr) -> bool;

    /// Time of its next timer.
    fn due(&mut self) -> Option<Instant>;

    /// Handles a packet.
    fn receive(&mut self, now: Instant, packet: Packet);

    /// Handles its timers, of which one is due.
    fn on_timeout(&mut self, now: Instant);

    /// Sends all packets that it may send now.
    fn transmit(&mut self, now: Instant, send: &mut dyn FnMut(Packet));

    /// Does all of this once, in this order.
    fn turn(
        &mut self,
        now: Instant,
        arrived: &mut dyn Iterator<Item = Packet>,
        send: &mut dyn FnMut(Packet),
    ) {
        arrived.for_each(|packet| self.receive(now, packet));
        if self.due().is_some_and(|due| due <= now) {
            self.on_timeout(now);
        }
        self.transmit(now, send);
    }
}

/// A server, its clients, and packets between them.
///
/// The network is a function that gets each packet that leaves, and puts it on the [`Wire`] for the time at which it
/// arrives, changed or repeated, or drops it. [`after`] is one that only delays packets.
pub struct World<S: End = Peer, C: End = S> {
    /// The time.
    pub now: Instant,
    /// Shortest step of the clock. Default: 1 µs, so that every timer fires.
    pub tick: Duration,
    /// Packets and instants of 10 ms after which time counts as not passing. Default: 4,000.
    pub most: u32,
    /// The server.
    pub server: S,
    /// Clients.
    pub clients: Vec<C>,
    /// Clients of QUIC that are not Squall's.
    pub strangers: Vec<Stranger>,
    /// Packets under way.
    pub wire: Wire,
    /// Instants so far.
    pub instants: u64,
    /// Begin of the current moment, and what happened since.
    moment: (Instant, u32),
}

impl<S: End, C: End> World<S, C> {
    /// A server and clients at this time.
    pub fn new(now: Instant, server: S, clients: Vec<C>) -> Self {
        Self {
            now,
            tick: Duration::from_micros(1),
            most: 4_000,
            server,
            clients,
            strangers: Vec::new(),
            wire: Wire::default(),
            instants: 0,
            moment: (now, 0),
        }
    }

    /// Lets time pass, from one packet or timer to the next.
    ///
    /// # Panics
    /// If time does not pass.
    pub fn run(&mut self, time: Duration, mut network: impl FnMut(Instant, Packet, &mut Wire)) {
        let end = self.now + time;
        loop {
            self.turn(&mut network);
            let Some(next) = self.next().filter(|next| *next <= end) else { break };
            self.now = next.max(self.now + self.tick);
        }
        self.now = self.now.max(end);
    }

    /// Time of the next packet or timer.
    fn next(&mut self) -> Option<Instant> {
        let strangers = self.strangers.iter_mut().filter_map(End::due);
        let due = self.clients.iter_mut().filter_map(End::due).chain(strangers).chain(self.server.due());
        due.chain(self.wire.next()).min()
    }

    /// All ends handle what arrives now, and act.
    ///
    /// # Panics
    /// If time does not pass.
    pub fn turn(&mut self, mut network: impl FnMut(Instant, Packet, &mut Wire)) {
        let now = self.now;
        if now >= self.moment.0 + MOMENT {
            self.moment = (now, 0);
        }
        self.instants += 1;
        let ends = self.clients.len() + self.strangers.len() + 1;
        let mut arrived: Vec<Vec<Packet>> = Vec::new();
        while let Some(packet) = self.wire.arrive(now) {
            arrived.resize_with(ends, Vec::new);
            if let Some(end) = self.at(packet.to) {
                arrived[end].push(packet);
            }
        }
        let (wire, count) = (&mut self.wire, &mut self.moment.1);
        *count += 1;
        let mut send = |packet| {
            *count += 1;
            network(now, packet, wire);
        };
        let mut arrived = arrived.into_iter();
        let mut next = || arrived.next().unwrap_or_default().into_iter();
        self.clients.iter_mut().for_each(|client| client.turn(now, &mut next(), &mut send));
        self.strangers.iter_mut().for_each(|stranger| stranger.turn(now, &mut next(), &mut send));
        self.server.turn(now, &mut next(), &mut send);
        assert!(self.moment.1 <= self.most, "endless work: {} packets on the way", self.wire.packets.len());
    }

    /// The place of the end at this address: clients, strangers, the server.
    fn at(&self, to: SocketAddr) -> Option<usize> {
        let (clients, strangers) = (self.clients.len(), self.strangers.len());
        if self.server.is_at(to) {
            return Some(clients + strangers);
        }
        let client = self.clients.iter().position(|client| client.is_at(to));
        client.or_else(|| Some(clients + self.strangers.iter().position(|one| one.is_at(to))?))
    }
}

/// A network that delivers every packet after this time.
pub fn after(delay: Duration) -> impl FnMut(Instant, Packet, &mut Wire) {
    move |now, packet, wire| wire.put(now + delay, packet)
}

//! A server, its clients and the network between them, in virtual time.

use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

pub use crate::wire::{End, Packet, SERVER, Wire, after};
use crate::{Peer, Stranger};

/// Period in which a world has at most [`World::most`] packets and instants.
const MOMENT: Duration = Duration::from_millis(10);

/// A server, its clients, and packets between them.
///
/// The network is a function that receives each packet sent. It puts the packet on the [`Wire`]
/// with an arrival time, also changed or duplicated, or drops it. [`after`] returns one that only
/// delays packets.
pub struct World<S: End = Peer, C: End = S> {
    /// Current time.
    pub now: Instant,
    /// Minimum step of the clock. Default: 1 µs, so that every timer fires.
    pub tick: Duration,
    /// Maximum number of packets and instants in 10 ms; beyond it, time counts as not passing.
    /// Default: 4,000.
    pub most: u32,
    /// Server.
    pub server: S,
    /// Clients.
    pub clients: Vec<C>,
    /// QUIC clients without Squall.
    pub strangers: Vec<Stranger>,
    /// Packets in flight.
    pub wire: Wire,
    /// Number of instants so far.
    pub instants: u64,
    /// Start of the current period, and the packets and instants since.
    moment: (Instant, u32),
}

impl<S: End, C: End> World<S, C> {
    /// Creates a world with a server and clients at this time.
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

    /// Runs for a time, from one packet or timer to the next.
    ///
    /// # Panics
    ///
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

    /// Returns the time of the next packet or timer.
    fn next(&mut self) -> Option<Instant> {
        let strangers = self.strangers.iter_mut().filter_map(End::due);
        let due = self.clients.iter_mut().filter_map(End::due).chain(strangers).chain(self.server.due());
        due.chain(self.wire.next()).min()
    }

    /// Lets all ends handle the packets that arrive now, their timers, and send.
    ///
    /// # Panics
    ///
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
        assert!(
            self.moment.1 <= self.most,
            "endless work: {} packets on the way",
            self.wire.packets().count()
        );
    }

    /// Returns the index of the end at this address: clients first, then strangers, then the
    /// server.
    fn at(&self, to: SocketAddr) -> Option<usize> {
        let (clients, strangers) = (self.clients.len(), self.strangers.len());
        if self.server.is_at(to) {
            return Some(clients + strangers);
        }
        let client = self.clients.iter().position(|client| client.is_at(to));
        client.or_else(|| Some(clients + self.strangers.iter().position(|one| one.is_at(to))?))
    }
}

//! Packets under way, and the ends between which they are.

use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    time::{Duration, Instant},
};

use bytes::BytesMut;

/// The usual address of servers.
pub const SERVER: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), 4433);

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

    /// Time of the next packet that arrives.
    pub fn next(&self) -> Option<Instant> {
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

/// A network that delivers every packet after this time.
pub fn after(delay: Duration) -> impl FnMut(Instant, Packet, &mut Wire) {
    move |now, packet, wire| wire.put(now + delay, packet)
}

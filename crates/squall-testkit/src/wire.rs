//! Packets in flight, and the ends between them.

use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    time::{Duration, Instant},
};

use bytes::BytesMut;

/// Default address of servers.
pub const SERVER: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), 4433);

/// A UDP datagram.
#[derive(Clone, Debug)]
pub struct Packet {
    /// Source address.
    pub from: SocketAddr,
    /// Destination address.
    pub to: SocketAddr,
    /// Payload.
    pub data: BytesMut,
}

/// Packets in flight, by arrival.
#[derive(Debug, Default)]
pub struct Wire {
    packets: BTreeMap<(Instant, u64), Packet>,
    sent: u64,
}

impl Wire {
    /// Schedules a packet to arrive at this time; packets of the same time arrive in the order of
    /// these calls.
    pub fn put(&mut self, at: Instant, packet: Packet) {
        self.sent += 1;
        self.packets.insert((at, self.sent), packet);
    }

    /// Returns the packets that have not arrived.
    pub fn packets(&self) -> impl Iterator<Item = &Packet> {
        self.packets.values()
    }

    /// Returns the time of the next arrival.
    pub fn next(&self) -> Option<Instant> {
        self.packets.first_key_value().map(|(key, _)| key.0)
    }

    /// Removes and returns the next packet that has arrived at this time.
    pub fn arrive(&mut self, now: Instant) -> Option<Packet> {
        let entry = self.packets.first_entry().filter(|entry| entry.key().0 <= now)?;
        Some(entry.remove())
    }
}

/// An end of the network: an endpoint without clock and sockets.
pub trait End {
    /// `true` if packets to this address are for this end.
    fn is_at(&self, address: SocketAddr) -> bool;

    /// Returns the time of its next timer.
    fn due(&mut self) -> Option<Instant>;

    /// Handles a received packet.
    fn receive(&mut self, now: Instant, packet: Packet);

    /// Handles its timers, of which at least one is due.
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

/// Returns a network that delivers every packet after this time.
pub fn after(delay: Duration) -> impl FnMut(Instant, Packet, &mut Wire) {
    move |now, packet, wire| wire.put(now + delay, packet)
}

//! The loop that drives an endpoint, common to sockets and virtual time.
//!
//! A driver implements [`Io`], and in each iteration calls [`take_in`], takes the events of the
//! sessions, calls [`send_out`], and waits for the next datagram, at most until
//! [`Endpoint::poll_timeout`].

use std::time::Instant;

use bytes::BytesMut;

use crate::{Ecn, Endpoint, NetPath, Transmit};

/// A UDP datagram that arrived.
#[derive(Clone, Debug)]
pub struct Datagram {
    /// The two ends of its path.
    pub path: NetPath,
    /// Its congestion notification bits.
    pub ecn: Option<Ecn>,
    /// Payload of the datagram.
    pub data: BytesMut,
}

/// The network refuses packets to an address: see [`Endpoint::handle_unreachable`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unreachable;

/// An endpoint and its environment: the clock, the datagrams that arrived, the output.
pub trait Io {
    /// Returns the endpoint that is driven.
    fn endpoint(&mut self) -> &mut Endpoint;

    /// Returns the time, which never goes backwards.
    fn now(&self) -> Instant;

    /// Returns the next datagram that has arrived.
    fn receive(&mut self) -> Option<Datagram>;

    /// Passes new readings of radios to [`Session::on_signal`](crate::Session::on_signal). Default:
    /// nothing.
    fn read_radios(&mut self) {}

    /// Returns the largest number of packets of one size that can be sent in one call.
    fn max_packets(&self) -> usize;

    /// Sends packets. Those that cannot leave are lost.
    ///
    /// # Errors
    /// If the address is unreachable.
    fn send(&mut self, transmit: &Transmit, data: &[u8]) -> Result<(), Unreachable>;
}

/// Passes on arrived datagrams and readings, and runs timers that are due. Returns `true` if there
/// were any.
pub fn take_in(io: &mut impl Io) -> bool {
    let mut acted = false;
    while let Some(Datagram { path, ecn, data }) = io.receive() {
        let now = io.now();
        io.endpoint().handle(now, path, ecn, data);
        acted = true;
    }
    io.read_radios();
    let now = io.now();
    if io.endpoint().poll_timeout().is_some_and(|due| due <= now) {
        io.endpoint().handle_timeout(now);
        acted = true;
    }
    acted
}

/// Sends pending packets, in at most `most` calls. `buf` is memory to write packets to. Returns
/// `true` if there may be more.
pub fn send_out(io: &mut impl Io, most: usize, buf: &mut Vec<u8>) -> bool {
    let max_packets = io.max_packets();
    for _ in 0..most {
        buf.clear();
        let now = io.now();
        let Some(transmit) = io.endpoint().poll_transmit(now, max_packets, buf) else { return false };
        if io.send(&transmit, &buf[..transmit.size]) == Err(Unreachable) {
            let (now, NetPath { local, remote }) = (io.now(), transmit.path);
            io.endpoint().handle_unreachable(now, local, Some(remote));
        }
    }
    true
}

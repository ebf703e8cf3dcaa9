//! The loop that drives an endpoint: the same on sockets and in virtual time.
//!
//! A driver implements [`Io`], and in each turn calls [`take_in`], takes the events of the sessions, calls [`send_out`], and
//! waits for the next datagram, at most until [`Endpoint::poll_timeout`].

use std::time::Instant;

use bytes::BytesMut;

use crate::{Ecn, Endpoint, NetPath, Transmit};

/// A UDP datagram that arrived.
#[derive(Clone, Debug)]
pub struct Datagram {
    /// Between which ends.
    pub path: NetPath,
    /// Its congestion notification bits.
    pub ecn: Option<Ecn>,
    /// What it holds.
    pub data: BytesMut,
}

/// The network refuses packets to an address: see [`Endpoint::handle_unreachable`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unreachable;

/// An endpoint and its outside: the clock, the datagrams that arrived, the way out.
pub trait Io {
    /// The endpoint that is driven.
    fn endpoint(&mut self) -> &mut Endpoint;

    /// The time, which never goes backwards.
    fn now(&self) -> Instant;

    /// The next datagram that has arrived.
    fn receive(&mut self) -> Option<Datagram>;

    /// Hands over readings of radios, if there are new ones: [`Session::on_signal`](crate::Session::on_signal). Default:
    /// there are none.
    fn read_radios(&mut self) {}

    /// Packets of one size that can be sent in one go.
    fn max_packets(&self) -> usize;

    /// Sends packets. Those that cannot leave are lost.
    ///
    /// # Errors
    /// If there is no way to the address.
    fn send(&mut self, transmit: &Transmit, data: &[u8]) -> Result<(), Unreachable>;
}

/// Hands over what has arrived and been read, and lets timers act that are due. Returns whether there was anything.
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

/// Sends what there is to send, in at most `most` goes. `buf` is memory to write packets to. Returns whether there may be
/// more.
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

//! Carrier without a transport: it forwards each datagram once, at once, over the first link. The
//! result is the baseline for all carriers.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket},
};

use anyhow::Context as _;
use squall_shell::Addresses;

use squall_versus_stream::{PORT, SINK_PORT, SOURCE_PORT};

use super::run::RelayEnd;

/// Size of the socket's buffer: some frames of the fastest stream, or less if the system grants
/// less.
const BUFFER: usize = 1 << 20;

/// Maximum size of a datagram.
const DATAGRAM: usize = 1 << 16;

pub(super) fn run(end: &RelayEnd) -> anyhow::Result<()> {
    let local = |port| (IpAddr::from(Ipv4Addr::LOCALHOST), port);
    let family = end.family();
    let there = (squall_shell::server(family), PORT);
    match end {
        RelayEnd::Client { .. } => forward(local(SOURCE_PORT), (Addresses::of(0).client(family), 0), there),
        RelayEnd::Server { .. } => forward(there, local(0), local(SINK_PORT)),
    }
}

/// Forwards datagrams that arrive at `at` to `to`, until the process is killed.
fn forward(at: (IpAddr, u16), from: (IpAddr, u16), to: (IpAddr, u16)) -> anyhow::Result<()> {
    let bind = |at: (IpAddr, u16)| UdpSocket::bind(at).with_context(|| SocketAddr::from(at).to_string());
    let (incoming, outgoing) = (bind(at)?, bind(from)?);
    socket2::SockRef::from(&incoming).set_recv_buffer_size(BUFFER)?;
    outgoing.connect(to)?;
    let mut buffer = vec![0; DATAGRAM];
    loop {
        let length = incoming.recv(&mut buffer)?;
        // The error is about an earlier datagram, for which no socket was open.
        if let Err(error) = outgoing.send(&buffer[..length])
            && error.kind() != io::ErrorKind::ConnectionRefused
        {
            return Err(error.into());
        }
    }
}

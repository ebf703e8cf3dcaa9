//! Nothing: each datagram goes on over the first link as it came, once. What the link makes of it is what carriers start from.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket},
};

use anyhow::Context as _;
use squall_shell::Addresses;

use squall_versus_stream::{PORT, SINK_PORT, SOURCE_PORT};

use super::run::RelayEnd;

/// Holds some frames of the fastest stream; less if the system gives less.
const BUFFER: usize = 1 << 20;

/// Largest datagram.
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

/// Sends what comes to `at` on to `to`, until it is killed.
fn forward(at: (IpAddr, u16), from: (IpAddr, u16), to: (IpAddr, u16)) -> anyhow::Result<()> {
    let bind = |at: (IpAddr, u16)| UdpSocket::bind(at).with_context(|| SocketAddr::from(at).to_string());
    let (incoming, outgoing) = (bind(at)?, bind(from)?);
    socket2::SockRef::from(&incoming).set_recv_buffer_size(BUFFER)?;
    outgoing.connect(to)?;
    let mut buffer = vec![0; DATAGRAM];
    loop {
        let length = incoming.recv(&mut buffer)?;
        // The error reports the datagram before, when no socket was open for it.
        if let Err(error) = outgoing.send(&buffer[..length])
            && error.kind() != io::ErrorKind::ConnectionRefused
        {
            return Err(error.into());
        }
    }
}

//! Carrier over a Multipath TCP connection, frame after frame.

use std::{
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
};

use anyhow::Context as _;
use socket2::{Domain, Protocol, Socket, Type};
use squall_shell::Addresses;
use squall_versus_stream::{PORT, Scatter, frames};

use super::{RelayEnd, Run};
use crate::spec::{End, SideSpec};

/// Lets the kernel use all links for a connection: the client's other addresses become subflows.
pub(super) fn settings(spec: &SideSpec) -> Vec<Run> {
    let ip = |words: &str| Run::new("ip", words.split(' '));
    let mut all = vec![ip("mptcp limits set subflows 8 add_addr_accepted 8")];
    if spec.end == End::Near {
        all.extend((1..spec.links).map(|link| {
            ip(&format!("mptcp endpoint add {} subflow", Addresses::of(link).client(spec.family)))
        }));
    }
    all
}

pub(super) fn run(end: &RelayEnd) -> anyhow::Result<()> {
    let address = SocketAddr::new(squall_shell::server(end.family()), PORT);
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::MPTCP))
        .context("Multipath TCP")?;
    match end {
        RelayEnd::Client { .. } => {
            socket.connect(&address.into()).context("connecting")?;
            let mut stream = TcpStream::from(socket);
            stream.set_nodelay(true)?;
            for frame in frames()? {
                stream.write_all(&frame)?;
            }
        }
        RelayEnd::Server { .. } => {
            socket.set_reuse_address(true)?;
            socket.bind(&address.into())?;
            socket.listen(1)?;
            // The listener stays open: the kernel accepts further subflows by it.
            let listener = TcpListener::from(socket);
            let (mut stream, _) = listener.accept()?;
            let (mut scatter, mut buffer) = (Scatter::new()?, vec![0; 1 << 17]);
            loop {
                match stream.read(&mut buffer)? {
                    0 => break,
                    read => scatter.take(&buffer[..read]),
                }
            }
        }
    }
    Ok(())
}

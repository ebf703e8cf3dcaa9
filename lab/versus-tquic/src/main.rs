//! A relay over TQUIC, for `squall-lab versus`: a stream for each frame, on all links, with one of TQUIC's schedulers.
//!
//! ```text
//! squall-versus-tquic client SCHEDULER CERTIFICATE SERVER:PORT LOCAL...
//! squall-versus-tquic server SCHEDULER CERTIFICATE ADDRESS:PORT
//! ```
//!
//! The client takes packets from the source's port and opens a path from each local address. The
//! server passes them to the sink's port; it writes the file CERTIFICATE, for which the client
//! waits.

#![cfg(target_os = "linux")]

mod certificate;
mod client;
mod relay;
mod server;

use std::{net::SocketAddr, path::Path, process::ExitCode};

use anyhow::Context as _;

const USAGE: &str = "usage: squall-versus-tquic client SCHEDULER CERTIFICATE SERVER:PORT LOCAL...\n   or: squall-versus-tquic server \
                     SCHEDULER CERTIFICATE ADDRESS:PORT";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let outcome = match words.as_slice() {
        ["client", scheduler, certificate, server, locals @ ..] if !locals.is_empty() => {
            client(scheduler, Path::new(certificate), server, locals)
        }
        ["server", scheduler, certificate, address] => server(scheduler, Path::new(certificate), address),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    outcome.map_or_else(
        |error| {
            eprintln!("squall-versus-tquic: {error:#}");
            ExitCode::FAILURE
        },
        |()| ExitCode::SUCCESS,
    )
}

fn client(scheduler: &str, certificate: &Path, server: &str, locals: &[&str]) -> anyhow::Result<()> {
    let locals: Vec<SocketAddr> = locals.iter().map(|local| address(local, 0)).collect::<Result<_, _>>()?;
    client::run(scheduler, certificate, server.parse().context(server.to_owned())?, &locals)
}

fn server(scheduler: &str, certificate: &Path, at: &str) -> anyhow::Result<()> {
    server::run(scheduler, certificate, at.parse().context(at.to_owned())?)
}

fn address(text: &str, port: u16) -> anyhow::Result<SocketAddr> {
    Ok(SocketAddr::new(text.parse().with_context(|| text.to_owned())?, port))
}

//! Carrier over SRT's tool, with UDP at both ends.

use std::net::SocketAddr;

use squall_shell::Addresses;

use squall_versus_stream::{PORT, SINK_PORT, SOURCE_PORT};

use super::run::Run;
use crate::spec::{End, SideSpec};

/// Uses the first link only.
pub(super) fn single(spec: &SideSpec, latency_ms: u32) -> Run {
    let (there, here) = (there(spec, 0), here(spec));
    between(
        spec,
        &format!("srt://{there}?latency={latency_ms}"),
        &format!("srt://{here}?mode=listener&latency={latency_ms}"),
    )
}

/// Uses all links, as an SRT group.
pub(super) fn group(spec: &SideSpec, kind: &str, latency_ms: u32) -> Run {
    let nodes: Vec<String> = (0..spec.links).map(|link| there(spec, link).to_string()).collect();
    let (nodes, here) = (nodes.join(","), here(spec));
    between(
        spec,
        &format!("srt:////group?type={kind}&nodes={nodes}&latency={latency_ms}"),
        &format!("srt://{here}?mode=listener&groupconnect=1&latency={latency_ms}"),
    )
}

/// Returns the server's address over a link.
fn there(spec: &SideSpec, link: usize) -> SocketAddr {
    SocketAddr::new(Addresses::of(link).server(spec.family), PORT)
}

/// Returns the address on which the server listens.
fn here(spec: &SideSpec) -> SocketAddr {
    SocketAddr::new(spec.family.unspecified(), PORT)
}

fn between(spec: &SideSpec, client: &str, server: &str) -> Run {
    let quiet = ["-q", "-chunk:1316"].map(str::to_owned).into_iter();
    let ends = match spec.end {
        End::Near => [format!("udp://127.0.0.1:{SOURCE_PORT}"), client.to_owned()],
        End::Far => [server.to_owned(), format!("udp://127.0.0.1:{SINK_PORT}")],
    };
    Run::new("srt-live-transmit", quiet.chain(ends))
}

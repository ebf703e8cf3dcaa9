//! Carrier over Squall's tunnel.

use std::net::SocketAddr;

use squall_versus_stream::{PORT, SINK_PORT, SOURCE_PORT};

use super::run::Run;
use crate::spec::{End, SideSpec};

/// Token that both ends share.
const TOKEN: &str = "the-token-of-a-measurement";

pub(super) fn tunnel(spec: &SideSpec, scheduler: &str, congestion: &str) -> Run {
    let mut arguments: Vec<String> =
        ["tunnel", "--token", TOKEN, "--scheduler", scheduler, "--congestion", congestion]
            .map(str::to_owned)
            .to_vec();
    let server = SocketAddr::new(squall_shell::server(spec.family), PORT);
    arguments.extend(match spec.end {
        End::Near => [
            "--to".to_owned(),
            server.to_string(),
            "--insecure".to_owned(),
            "--in".to_owned(),
            format!("stream=udp://127.0.0.1:{SOURCE_PORT},media=rtp,latency={}ms", spec.latency_ms),
        ]
        .to_vec(),
        End::Far => [
            "--listen".to_owned(),
            server.to_string(),
            "--out".to_owned(),
            format!("stream=udp://127.0.0.1:{SINK_PORT}"),
        ]
        .to_vec(),
    });
    // As in the laboratory, where other schedulers use signals with `+swm` only.
    if spec.end == End::Near && spec.radios && scheduler == "storm" {
        arguments.push("--signal".to_owned());
    }
    Run::new(&spec.squall, arguments)
}

//! Asks a tunnel for its status.

use std::{
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

use anyhow::{Context as _, bail};
use squall_tunnel::Status;

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(3);

/// Longest answer in bytes.
const MAX_ANSWER: u64 = 8 << 20;

/// The status now.
pub(super) fn status(address: SocketAddr) -> anyhow::Result<Status> {
    let answer = get(address).with_context(|| {
        format!("no tunnel answers on {address}: does it serve its status there (metrics = \"{address}\")?")
    })?;
    let Some((head, body)) = answer.split_once("\r\n\r\n") else {
        bail!("what answers on {address} is no tunnel");
    };
    if !head.starts_with("HTTP/1.1 200 ") {
        bail!("what answers on {address} is no tunnel: {}", head.lines().next().unwrap_or_default());
    }
    serde_json::from_str(body)
        .with_context(|| format!("what answers on {address} is no tunnel of this version"))
}

fn get(address: SocketAddr) -> std::io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    write!(stream, "GET /status HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.take(MAX_ANSWER).read_to_string(&mut answer)?;
    Ok(answer)
}

//! Carrier over the QUIC implementation under Squall, unmodified: a stream for each frame, on as
//! many paths as there are links.
//!
//! All settings are the defaults, except that streams are served in order of their opening: with
//! the default, round-robin, one late frame would delay all others.

use std::{
    net::SocketAddr,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::Context as _;
use noq::{Connection, Endpoint, PathStatus, RecvStream, TransportConfig};
use rustls::pki_types::CertificateDer;
use squall_shell::{Addresses, Family};
use squall_versus_stream::{Frame, PORT, Scatter, frames};

use super::RelayEnd;

/// Time for which the client waits for the server's certificate and for a path.
const PATIENCE: Duration = Duration::from_secs(5);

/// Maximum number of frames in flight.
const STREAMS: u32 = 1_000;

/// Maximum size of a frame.
const MAX_FRAME: usize = 4 << 20;

pub(super) fn run(end: RelayEnd) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    runtime.block_on(async {
        match end {
            RelayEnd::Client { links, family, certificate } => client(links, family, &certificate).await,
            RelayEnd::Server { family, certificate } => server(family, &certificate).await,
        }
    })
}

fn transport(paths: u32) -> Arc<TransportConfig> {
    let mut transport = TransportConfig::default();
    transport.send_fairness(false).max_concurrent_uni_streams(STREAMS.into());
    if paths > 1 {
        transport.max_concurrent_multipath_paths(paths);
    }
    Arc::new(transport)
}

async fn client(links: usize, family: Family, certificate: &Path) -> anyhow::Result<()> {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(read(certificate).await?)?;
    let mut config = noq::ClientConfig::with_root_certificates(Arc::new(roots))?;
    config.transport_config(transport(links as u32));
    let endpoint = Endpoint::client((family.unspecified(), 0).into())?;
    let remote = SocketAddr::new(squall_shell::server(family), PORT);
    let connection = endpoint.connect_with(config, remote, "versus")?.await.context("the handshake")?;
    for link in 1..links {
        let local = Some(Addresses::of(link).client(family));
        let path = noq::FourTuple::new(remote, local);
        open(&connection, path).await.with_context(|| format!("path {}", link + 1))?;
    }
    let frames = frames()?;
    // A separate thread reads the queue, because reading blocks.
    let (give, mut take) = tokio::sync::mpsc::channel(1);
    std::thread::spawn(move || frames.into_iter().try_for_each(|frame| give.blocking_send(frame)));
    // One frame at a time: noq wakes streams that wait for space newest first, and the bound of the
    // queue must hold.
    while let Some(frame) = take.recv().await {
        if send(&connection, &frame).await.is_none() {
            break;
        }
    }
    Ok(())
}

/// Opens a path, with retries: the server must issue connection ids first.
async fn open(connection: &Connection, path: noq::FourTuple) -> anyhow::Result<()> {
    let start = Instant::now();
    loop {
        match connection.open_path_ensure(path, PathStatus::Available).await {
            Ok(_) => return Ok(()),
            Err(error) if start.elapsed() > PATIENCE => return Err(error.into()),
            Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    }
}

/// Sends a frame on a stream of its own; `None` if the connection does not accept it.
async fn send(connection: &Connection, frame: &Frame) -> Option<()> {
    let mut stream = connection.open_uni().await.ok()?;
    stream.write_all(frame).await.ok()?;
    stream.finish().ok()
}

/// Waits for the certificate file that the server writes.
async fn read(file: &Path) -> anyhow::Result<CertificateDer<'static>> {
    let start = Instant::now();
    loop {
        match std::fs::read(file) {
            Ok(bytes) => return Ok(bytes.into()),
            Err(error) if start.elapsed() > PATIENCE => return Err(error).context("no certificate"),
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
}

async fn server(family: Family, certificate: &Path) -> anyhow::Result<()> {
    let (chain, key) = squall_testkit::certificate("versus");
    let mut config = noq::ServerConfig::with_single_cert(vec![chain.clone()], key)?;
    // The server accepts as many paths as the client has.
    config.transport_config(transport(8));
    let endpoint = Endpoint::server(config, (squall_shell::server(family), PORT).into())?;
    // Written atomically: the client polls for the file.
    let part = certificate.with_extension("part");
    std::fs::write(&part, chain)?;
    std::fs::rename(&part, certificate)?;
    let connection = endpoint.accept().await.context("no connection has arrived")?.await?;
    while let Ok(stream) = connection.accept_uni().await {
        tokio::spawn(receive(stream));
    }
    Ok(())
}

async fn receive(mut stream: RecvStream) -> Option<()> {
    let frame = stream.read_to_end(MAX_FRAME).await.ok()?;
    Scatter::new().ok()?.take(&frame);
    Some(())
}

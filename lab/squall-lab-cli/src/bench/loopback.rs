//! Goodput over real sockets, compared with plain QUIC datagrams of the same library: the overhead
//! of Squall.
//!
//! Both send from client to server over 127.0.0.1 as fast as they can, each with its default
//! controller, with one connection, the same packet size and the same runtime. They alternate, so
//! that both are affected by the same load on the machine. Squall copies its data into datagrams
//! and out of them. Plain datagrams are measured without copying application data, and with it.

use std::{
    future::Future,
    hint::black_box,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::Context as _;
use bytes::Bytes;
use squall::{Block, Config, Connect, Endpoint, Identity, Trust};
use tokio::time::{sleep, timeout};

use super::{
    clock::process_time,
    figure::{Figure, Target},
};

const TURNS: usize = 5;

/// Time for the windows to open, not counted.
const WARM_UP: Duration = Duration::from_millis(500);

/// Duration of the measurement.
const COUNTED: Duration = Duration::from_millis(1500);

/// Size of Squall's blocks.
const BLOCK: usize = 64_000;

/// Maximum number of plain datagrams submitted at a time: about the work of one of Squall's blocks.
const BATCH: usize = 64;

/// Maximum number of bytes queued at the sender, for both.
const QUEUE: usize = 1 << 20;

/// Contents of plain datagrams.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Data {
    /// The same bytes in every datagram, which the receiver ignores.
    Same,
    /// Bytes copied from a block of the sender and into one of the receiver.
    Copied,
}

pub(super) fn measure() -> anyhow::Result<Vec<Figure>> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let mut ours = [const { Vec::new() }; 2];
    let mut plain = [const { Vec::new() }; 2];
    let mut ratios = [const { Vec::new() }; 2];
    let mut to_copied = [const { Vec::new() }; 2];
    for _ in 0..TURNS {
        let of_squall = runtime.block_on(squall()).context("loopback, squall")?;
        let of_plain = runtime.block_on(datagrams(Data::Same)).context("loopback, plain datagrams")?;
        let of_copied = runtime.block_on(datagrams(Data::Copied)).context("loopback, copied datagrams")?;
        for at in 0..2 {
            ours[at].push(of_squall[at]);
            plain[at].push(of_plain[at]);
            ratios[at].push(of_squall[at] / of_plain[at]);
            to_copied[at].push(of_squall[at] / of_copied[at]);
        }
    }
    runtime.shutdown_timeout(Duration::from_secs(1));
    let [our_goodput, our_cost] = ours;
    let [goodput, cost] = plain;
    let [goodputs, costs] = ratios;
    let [to_copied, costs_to_copied] = to_copied;
    Ok(vec![
        Figure::of("loopback goodput, squall", "Mbps", our_goodput),
        Figure::of("loopback goodput, plain datagrams", "Mbps", goodput),
        Figure::of("loopback, squall / plain", "", goodputs).target(Target::AtLeast(1.0)),
        Figure::of("loopback, squall / plain with data", "", to_copied).target(Target::AtLeast(1.0)),
        Figure::of("loopback processor time, both ends, squall", "µs/Mbit", our_cost),
        Figure::of("loopback processor time, both ends, plain datagrams", "µs/Mbit", cost),
        Figure::of("loopback processor time, squall / plain", "", costs).target(Target::AtMost(1.1)),
        Figure::of("loopback processor time, squall / plain with data", "", costs_to_copied)
            .target(Target::AtMost(1.0)),
    ])
}

/// Goodput in Mbps, and processor time of both ends in µs per megabit.
type Measured = [f64; 2];

async fn squall() -> anyhow::Result<Measured> {
    let identity = Identity::self_signed("localhost")?;
    let config = Config::default().queued_bytes(QUEUE as u64);
    let server = Endpoint::listen("127.0.0.1:0", &identity.server_tls()?, config.clone())?;
    let request = Connect::to(server.local_addrs()[0])
        .trust(Trust::Pinned(identity.fingerprint()))
        .over(["127.0.0.1".parse()?]);
    let client = squall::connect(request.config(config)).await?;
    let accept = async { server.accept().await.context("the server is gone") };
    let session = client.clone();
    let sender = tokio::spawn(async move {
        let data = Bytes::from(vec![0; BLOCK]);
        while session.send(Block::new(data.clone())).await.is_ok() {}
    });
    let receiver = timeout(Duration::from_secs(5), accept).await??;
    let rate = count(|| async { receiver.recv().await.ok().flatten().map(|block| block.data.len()) }).await;
    client.close(0, "");
    sender.await?;
    rate
}

async fn datagrams(data: Data) -> anyhow::Result<Measured> {
    let (certificate, key) = squall_testkit::certificate("localhost");
    let mut roots = rustls::RootCertStore::empty();
    roots.add(certificate.clone())?;
    let mut transport = noq::TransportConfig::default();
    transport.datagram_send_buffer_size(QUEUE).datagram_receive_buffer_size(Some(8 << 20));
    let transport = Arc::new(transport);
    let mut server_config = noq::ServerConfig::with_single_cert(vec![certificate], key)?;
    server_config.transport_config(transport.clone());
    let mut client_config = noq::ClientConfig::with_root_certificates(Arc::new(roots))?;
    client_config.transport_config(transport);
    let server = noq::Endpoint::server(server_config, "127.0.0.1:0".parse()?)?;
    let client = noq::Endpoint::client("127.0.0.1:0".parse()?)?;
    let connecting = client.connect_with(client_config, server.local_addr()?, "localhost")?;
    let accept = async { anyhow::Ok(server.accept().await.context("the server is gone")?.await?) };
    let (sending, receiving) = tokio::join!(connecting, accept);
    let (sending, receiving) = (sending?, receiving?);
    let connection = sending.clone();
    let sender = tokio::spawn(async move { while send_some(&connection, data).await.is_some() {} });
    let rate = count(|| async {
        let mut datagrams = [const { Bytes::new() }; BATCH];
        let got = receiving.read_many_datagrams(&mut datagrams).await.ok()?;
        let got = &datagrams[..got];
        Some(if data == Data::Copied {
            black_box(got.concat()).len()
        } else {
            got.iter().map(Bytes::len).sum()
        })
    })
    .await;
    sending.close(0u32.into(), b"");
    sender.await?;
    rate
}

/// Sends datagrams that fill their packets in the fastest available way; `None` when the connection
/// has ended.
async fn send_some(connection: &noq::Connection, data: Data) -> Option<()> {
    static DATA: [u8; 1 << 16] = [0; 1 << 16];
    let datagram = Bytes::from_static(&DATA).slice(..connection.max_datagram_size()?);
    // Waits for room. A single call for many datagrams would make room by dropping queued ones.
    connection.send_datagram_wait(datagram.clone()).await.ok()?;
    let room = connection.datagram_send_buffer_space() / datagram.len();
    let make = || if data == Data::Copied { Bytes::copy_from_slice(&datagram) } else { datagram.clone() };
    let datagrams: Vec<Bytes> = std::iter::repeat_with(make).take(room.min(BATCH)).collect();
    connection.send_many_datagrams(&datagrams).ok()?;
    Some(())
}

/// Measures the data returned by `receive` during the measurement.
async fn count<F: Future<Output = Option<usize>>>(receive: impl Fn() -> F) -> anyhow::Result<Measured> {
    let take_until = async |end: Duration| {
        let mut bytes = 0u64;
        let pause = sleep(end);
        tokio::pin!(pause);
        loop {
            tokio::select! {
                biased;
                () = &mut pause => return Some(bytes),
                got = receive() => bytes += got? as u64,
            }
        }
    };
    let ended = "the connection ended";
    take_until(WARM_UP).await.context(ended)?;
    let (start, spent) = (Instant::now(), process_time());
    let bytes = take_until(COUNTED).await.context(ended)?;
    let megabits = bytes as f64 * 8.0 / 1e6;
    let spent = (process_time() - spent).as_secs_f64() * 1e6;
    Ok([megabits / start.elapsed().as_secs_f64(), spent / megabits])
}

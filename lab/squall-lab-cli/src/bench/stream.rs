//! `squall-lab bench stream`: the price of one video stream, beside plain QUIC.

use std::{
    net::{IpAddr, SocketAddr},
    path::{Path, PathBuf},
    process::ExitCode,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail, ensure};
use bytes::Bytes;
use clap::{Args, ValueEnum};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _};
use squall::{BlockOptions, Config, Connect, Endpoint, Identity, Trust};
use squall_terminal::output;
use squall_units::Rate;
use tokio::sync::mpsc;

use super::{
    clock::since_start,
    side::{Side, quantile},
};

/// Frames per second.
const FPS: u32 = 30;

/// Bytes that the encoder hands over at a time: seven packets of MPEG-TS.
const PIECE: usize = 1_316;

/// Rate at which a frame grows, in bits per second.
const GROWTH: u64 = 100_000_000;

/// Time in which a frame is worth sending.
const DEADLINE: Duration = Duration::from_millis(300);

/// Time before the measurement of processor time begins.
const WARM_UP: Duration = Duration::from_secs(3);

/// Time in which late frames may still arrive.
const DRAIN: Duration = Duration::from_secs(1);

/// Limit of a frame at the receiver over plain QUIC.
const MAX_FRAME: usize = 4 << 20;

/// Time for which a sender waits for the receiver's file and for paths.
const PATIENCE: Duration = Duration::from_secs(5);

/// Measures one stream of frames that are handed over while they grow.
///
/// Frames of 30 a second grow at 100 Mbps in pieces of 1,316 bytes. Each side has threads of its
/// own, whose processor time is reported in percent of a core; the source of the frames is not
/// counted. Both sides are in one process, over loopback, unless one is chosen by --listen or --to.
#[derive(Args, Clone, Debug)]
#[command(
    after_help = "Examples:\n  squall-lab bench stream\n  squall-lab bench stream --transport noq --rate 12mbps\n  squall-lab shell --link rate=20mbps,delay=20ms --link rate=20mbps,delay=40ms \\\n      --server 'squall-lab bench stream --listen $SQUALL_SERVER:7000' \\\n      --client 'squall-lab bench stream --to $SQUALL_SERVER:7000'"
)]
pub(super) struct StreamArgs {
    /// Transport of the frames
    #[arg(long, value_enum, default_value_t = Transport::Squall)]
    transport: Transport,
    /// Rate of the stream
    #[arg(long, default_value = "30mbps")]
    rate: Rate,
    /// Duration in seconds, of which the first three do not count for processor time
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u16).range(4..=3600))]
    seconds: u16,
    /// Only receive, at this address
    #[arg(long, value_name = "ADDR", conflicts_with = "to")]
    listen: Option<SocketAddr>,
    /// Only send, to this address
    #[arg(long, value_name = "ADDR")]
    to: Option<SocketAddr>,
    /// Local addresses of the paths
    #[arg(long, env = "SQUALL_CLIENT", value_name = "ADDR,...", value_delimiter = ',', default_values_t = [IpAddr::from([127, 0, 0, 1]), IpAddr::from([127, 0, 0, 2])])]
    over: Vec<IpAddr>,
    /// Certificate and key of a receiver in another process, which creates the file; both read it
    #[arg(long, value_name = "FILE", default_value = "bench.pem")]
    identity: PathBuf,
}

/// A transport for frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Transport {
    /// The library with its defaults: a block for each frame
    Squall,
    /// The library with the scheduler minRTT
    Minrtt,
    /// The QUIC library under it, with its defaults: a stream for each frame
    Noq,
}

/// Part of a frame.
struct Piece {
    data: Bytes,
    is_last: bool,
}

/// Arrived frames: nanoseconds between the start of a frame and its arrival.
type Delays = Arc<Mutex<Vec<f64>>>;

/// Runs the command.
pub(super) fn run(args: &StreamArgs) -> anyhow::Result<ExitCode> {
    let folder = tempfile::tempdir()?;
    let is_alone = args.listen.is_none() && args.to.is_none();
    let file = if is_alone { folder.path().join("identity.pem") } else { args.identity.clone() };
    let delays = Delays::default();
    let sink = args.to.is_none().then(|| sink(args, &file, &delays)).transpose()?;
    let source = match (args.listen, args.to, &sink) {
        (Some(_), ..) => None,
        (_, to, sink) => {
            let to = to.or_else(|| sink.as_ref().map(|(_, at)| *at)).context("no receiver")?;
            Some(source(args, &file, to)?)
        }
    };
    std::thread::sleep(WARM_UP);
    let sides = || sink.iter().map(|(side, _)| side).chain(&source);
    let begin: Vec<f64> = sides().map(Side::spent).collect::<Result<_, _>>()?;
    let from = Instant::now();
    std::thread::sleep(Duration::from_secs(args.seconds.into()) - WARM_UP);
    let seconds = from.elapsed().as_secs_f64();
    for (side, begin) in sides().zip(begin) {
        let share = 100.0 * (side.spent()? - begin) / seconds;
        output::print(&format!("{:<13} {share:.1} % of a core\n", side.name()))?;
    }
    std::thread::sleep(DRAIN);
    if let Some((side, _)) = sink {
        side.runtime.shutdown_background();
        let mut delays = delays.lock().unwrap_or_else(PoisonError::into_inner);
        ensure!(!delays.is_empty(), "no frame has arrived");
        let all = u32::from(args.seconds) * FPS;
        let [p50, p95, p99, p999] = [0.5, 0.95, 0.99, 0.999].map(|q| quantile(&mut delays, q) / 1e6);
        output::print(&format!(
            "frames        {} of {all}\nlatency       p50 {p50:.1}, p95 {p95:.1}, p99 {p99:.1}, p99.9 {p999:.1} ms\n",
            delays.len(),
        ))?;
    }
    if let Some(side) = source {
        side.runtime.shutdown_background();
    }
    Ok(ExitCode::SUCCESS)
}

fn arrived(delays: &Delays, frame: &[u8]) {
    let Some((taken, _)) = frame.split_first_chunk::<8>() else { return };
    let delay = since_start().saturating_sub(Duration::from_nanos(u64::from_be_bytes(*taken)));
    delays.lock().unwrap_or_else(PoisonError::into_inner).push(delay.as_nanos() as f64);
}

/// Starts the receiver; returns the address at which it listens.
fn sink(args: &StreamArgs, file: &Path, delays: &Delays) -> anyhow::Result<(Side, SocketAddr)> {
    let side = Side::new("receiver", 1)?;
    let identity = Identity::load_or_create(file, "bench")?;
    let at = args.listen.unwrap_or_else(|| ([127, 0, 0, 1], 0).into());
    let delays = delays.clone();
    let guard = side.runtime.enter();
    let at = if args.transport == Transport::Noq {
        let key = PrivateKeyDer::from_pem_file(file)?;
        let mut config = noq::ServerConfig::with_single_cert(identity.chain().to_vec(), key)?;
        config.transport_config(Arc::new(transport(8)));
        let endpoint = noq::Endpoint::server(config, at)?;
        let at = endpoint.local_addr()?;
        side.runtime.spawn(async move {
            let connection = endpoint.accept().await.context("no connection")?.await?;
            while let Ok(mut stream) = connection.accept_uni().await {
                let delays = delays.clone();
                tokio::spawn(async move {
                    if let Ok(frame) = stream.read_to_end(MAX_FRAME).await {
                        arrived(&delays, &frame);
                    }
                });
            }
            anyhow::Ok(())
        });
        at
    } else {
        let endpoint = Endpoint::listen(at, &identity.server_tls()?, Config::default())?;
        let at = endpoint.local_addrs()[0];
        side.runtime.spawn(async move {
            let session = endpoint.accept().await.context("no session")?;
            while let Ok(Some(block)) = session.recv().await {
                arrived(&delays, &block.data);
            }
            anyhow::Ok(())
        });
        at
    };
    drop(guard);
    Ok((side, at))
}

/// Starts the sender, once it has connected.
fn source(args: &StreamArgs, file: &Path, to: SocketAddr) -> anyhow::Result<Side> {
    let side = Side::new("sender", 1)?;
    let start = Instant::now();
    while !file.exists() {
        ensure!(start.elapsed() < PATIENCE, "{} does not exist", file.display());
        std::thread::sleep(Duration::from_millis(50));
    }
    let identity = Identity::load(file)?;
    let (give, take) = mpsc::unbounded_channel();
    if args.transport == Transport::Noq {
        let connection = side.runtime.block_on(connect(args, identity.chain(), to))?;
        side.runtime.spawn(send_streams(connection, take));
    } else {
        let config = Config::default();
        let config = match args.transport {
            Transport::Minrtt => config.scheduler(squall::scheduler("minrtt")?),
            _ => config,
        };
        let request = Connect::to(to)
            .trust(Trust::Pinned(identity.fingerprint()))
            .over(args.over.iter().copied())
            .config(config);
        let session = side.runtime.block_on(squall::connect(request))?;
        side.runtime.spawn(send_blocks(session, take));
    }
    let (rate, seconds) = (args.rate, args.seconds);
    std::thread::Builder::new().name("film".to_owned()).spawn(move || film(rate, seconds, &give))?;
    Ok(side)
}

/// Produces the pieces of the frames in time.
fn film(rate: Rate, seconds: u16, give: &mpsc::UnboundedSender<Piece>) {
    let start = Instant::now();
    let bytes = (rate.bps() / 8 / u64::from(FPS)) as usize;
    for number in 0..u32::from(seconds) * FPS {
        let due = start + Duration::from_secs(1) / FPS * number;
        sleep_until(due);
        let mut frame = vec![0x5a; bytes.max(8)];
        frame[..8].copy_from_slice(&(since_start().as_nanos() as u64).to_be_bytes());
        let frame = Bytes::from(frame);
        for from in (0..frame.len()).step_by(PIECE) {
            sleep_until(due + Duration::from_nanos(from as u64 * 8 * 1_000_000_000 / GROWTH));
            let to = (from + PIECE).min(frame.len());
            if give.send(Piece { data: frame.slice(from..to), is_last: to == frame.len() }).is_err() {
                return;
            }
        }
    }
}

fn sleep_until(due: Instant) {
    std::thread::sleep(due.saturating_duration_since(Instant::now()));
}

async fn send_blocks(
    session: squall::Session,
    mut take: mpsc::UnboundedReceiver<Piece>,
) -> anyhow::Result<()> {
    let options = BlockOptions::new().deadline(DEADLINE);
    let mut open = None;
    while let Some(Piece { data, is_last }) = take.recv().await {
        let mut block = match open.take() {
            Some(block) => block,
            None => session.open(options.clone()).await?,
        };
        if is_last {
            block.try_append_last(data)?;
            drop(block.finish()?);
        } else {
            block.append(data).await?;
            open = Some(block);
        }
    }
    session.finish(DRAIN).await?;
    Ok(())
}

async fn send_streams(
    connection: noq::Connection,
    mut take: mpsc::UnboundedReceiver<Piece>,
) -> anyhow::Result<()> {
    let mut open = None;
    while let Some(Piece { data, is_last }) = take.recv().await {
        let mut stream = match open.take() {
            Some(stream) => stream,
            None => connection.open_uni().await?,
        };
        stream.write_chunk(data).await?;
        if is_last {
            stream.finish()?;
        } else {
            open = Some(stream);
        }
    }
    tokio::time::sleep(DRAIN).await;
    Ok(())
}

/// Settings of plain QUIC: the defaults, with streams in the order of their opening, as one late
/// frame would delay all others otherwise.
fn transport(paths: usize) -> noq::TransportConfig {
    let mut transport = noq::TransportConfig::default();
    transport.send_fairness(false).max_concurrent_uni_streams(1_000_u32.into());
    if paths > 1 {
        transport.max_concurrent_multipath_paths(paths as u32);
    }
    transport
}

/// Connects over plain QUIC, and opens a path from each address.
async fn connect(
    args: &StreamArgs,
    chain: &[CertificateDer<'static>],
    to: SocketAddr,
) -> anyhow::Result<noq::Connection> {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(chain.first().context("no certificate")?.clone())?;
    let mut config = noq::ClientConfig::with_root_certificates(Arc::new(roots))?;
    config.transport_config(Arc::new(transport(args.over.len())));
    let endpoint = noq::Endpoint::client(([0, 0, 0, 0], 0).into())?;
    let connection = endpoint.connect_with(config, to, "bench")?.await?;
    for local in args.over.iter().skip(1) {
        let start = Instant::now();
        let path = noq::FourTuple::new(to, Some(*local));
        // The server must issue connection ids first.
        while let Err(error) = connection.open_path_ensure(path, noq::PathStatus::Available).await {
            if start.elapsed() > PATIENCE {
                bail!("a path from {local}: {error}");
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    Ok(connection)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_stream_is_measured_over_each_transport() {
        for transport in [Transport::Squall, Transport::Minrtt, Transport::Noq] {
            let args = StreamArgs {
                transport,
                rate: Rate::from_bps(1_000_000),
                seconds: 4,
                listen: None,
                to: None,
                over: [[127, 0, 0, 1], [127, 0, 0, 2]].map(IpAddr::from).to_vec(),
                identity: PathBuf::new(),
            };
            run(&args).expect("it is measured");
        }
    }
}

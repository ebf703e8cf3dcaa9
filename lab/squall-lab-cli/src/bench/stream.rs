//! `squall-lab bench stream`: the price of one video stream, beside plain QUIC.

use std::{
    net::SocketAddr,
    path::Path,
    process::ExitCode,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use anyhow::{Context as _, ensure};
use bytes::Bytes;
use clap::Args;
use squall::BlockOptions;
use squall_terminal::output;
use squall_units::Rate;
use tokio::sync::mpsc;

use super::{
    clock::since_start,
    ends::{Client, Ends, Server},
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
    #[command(flatten)]
    ends: Ends,
    /// Rate of the stream
    #[arg(long, default_value = "30mbps")]
    rate: Rate,
    /// Duration in seconds, of which the first three do not count for processor time
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u16).range(4..=3600))]
    seconds: u16,
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
    let file = args.ends.file(folder.path());
    let delays = Delays::default();
    let sink = args.ends.to.is_none().then(|| sink(args, &file, &delays)).transpose()?;
    let source = match (args.ends.listen, args.ends.to, &sink) {
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
    let guard = side.runtime.enter();
    let (server, at) = args.ends.serve(file)?;
    drop(guard);
    side.runtime.spawn(receive(server, delays.clone()));
    Ok((side, at))
}

async fn receive(server: Server, delays: Delays) -> anyhow::Result<()> {
    match server {
        Server::Squall(endpoint) => {
            let session = endpoint.accept().await.context("no session")?;
            while let Ok(Some(block)) = session.recv().await {
                arrived(&delays, &block.data);
            }
        }
        Server::Noq(endpoint) => {
            let connection = endpoint.accept().await.context("no connection")?.await?;
            while let Ok(mut stream) = connection.accept_uni().await {
                let delays = delays.clone();
                tokio::spawn(async move {
                    if let Ok(frame) = stream.read_to_end(MAX_FRAME).await {
                        arrived(&delays, &frame);
                    }
                });
            }
        }
    }
    Ok(())
}

/// Starts the sender, once it has connected.
fn source(args: &StreamArgs, file: &Path, to: SocketAddr) -> anyhow::Result<Side> {
    let side = Side::new("sender", 1)?;
    let (give, take) = mpsc::unbounded_channel();
    match side.runtime.block_on(args.ends.connect(file, to))? {
        Client::Noq(connection) => drop(side.runtime.spawn(send_streams(connection, take))),
        Client::Squall(session) => drop(side.runtime.spawn(send_blocks(session, take))),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::ends::Transport;

    #[test]
    fn a_short_stream_is_measured_over_each_transport() {
        for transport in [Transport::Squall, Transport::Minrtt, Transport::Noq] {
            let args =
                StreamArgs { ends: Ends::here(transport), rate: Rate::from_bps(1_000_000), seconds: 4 };
            run(&args).expect("it is measured");
        }
    }
}

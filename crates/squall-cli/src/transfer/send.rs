//! `squall send`.

use std::{
    net::IpAddr,
    path::{Path, PathBuf},
    process::ExitCode,
    time::{Duration, Instant},
};

use anyhow::Context as _;
use bytes::Bytes;
use clap::{Args, ValueEnum};
use serde::Serialize;
use squall::{
    Block, Config, CongestionControl, Connect, Endpoint, Fingerprint, Interfaces, Limits, Session, Trust,
    follow_radios,
};
use squall_lab::table::format;
use squall_media::FrameKind;
use squall_net::Span;

use super::{
    delivery::{Delivery, Peer},
    failure,
    message::{Content, End, Header},
    paths::{PathBook, PathSummary},
    source::Source,
};
use crate::{
    error::{parse_scheduler, usage, whole},
    interrupt::{Interrupted, interrupted},
    output,
    progress::Progress,
};

/// Bytes handed over at a time: enough for a second of a gigabit, and for a file not to fill the memory.
const QUEUED: u64 = 32 << 20;

/// How often the counters of the paths are read.
const LOOK: Duration = Duration::from_millis(250);

/// How long the farewell may take once everything has arrived.
const FAREWELL: Duration = Duration::from_secs(5);

/// Sends a file, a video or standard input to `squall recv`, over all networks at once.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  squall send holiday.iso --to media.example.org:4433 --pin 5F:AB:…\n  \
                        squall send camera.h264 --to 192.0.2.7:4433 --pin 5F:AB:… --interface wlan0 \
                        --interface wwan0 --scheduler storm --signal --deadline 300ms\n  \
                        tar c folder | squall send - --to media.example.org:4433 --ca ca.pem")]
pub(crate) struct SendArgs {
    /// What to send; - for standard input
    file: PathBuf,
    /// The receiver
    #[arg(long, value_name = "HOST:PORT", value_parser = parse_host)]
    to: String,
    /// Trust the certificate of this fingerprint, which the receiver shows
    #[arg(long, value_name = "FINGERPRINT", conflicts_with_all = ["ca", "insecure"])]
    pin: Option<Fingerprint>,
    /// Trust the authorities of this PEM file instead of the system's
    #[arg(long, value_name = "FILE", conflicts_with = "insecure")]
    ca: Option<PathBuf>,
    /// Trust anyone: for tests
    #[arg(long)]
    insecure: bool,
    /// Use this interface, or this local address; may be given several times. All if not given
    #[arg(long, value_name = "NAME|ADDR")]
    interface: Vec<String>,
    /// Go by the radios of the interfaces, as far as they can be read: Wi-Fi, and modems by ModemManager
    #[arg(long)]
    signal: bool,
    /// Who decides what goes where; see `squall schedulers`
    #[arg(long, value_name = "NAME", default_value = "minrtt", value_parser = parse_scheduler)]
    scheduler: String,
    #[arg(long, value_name = "NAME", default_value = "cubic", help = format!(
        "Congestion control of all paths: {}", CongestionControl::names()
    ))]
    congestion: CongestionControl,
    /// Send a video frame by frame, each when its time has come
    #[arg(long)]
    realtime: bool,
    /// Give a frame up this long after its time, such as 300ms; implies --realtime
    #[arg(long, value_name = "SPAN")]
    deadline: Option<Span>,
    /// Which frames are sent again when they are lost
    #[arg(long, value_name = "WHICH", default_value = "all")]
    reliable: Reliable,
    /// Send every lost byte again, whatever else is said: the scheduler's "-R" in comparisons
    #[arg(long)]
    all_reliable: bool,
    /// Frames per second of an H.264 byte stream, which does not say it itself
    #[arg(long, value_name = "N")]
    fps: Option<f64>,
    /// How long to try to connect
    #[arg(long, value_name = "SPAN", default_value = "10s")]
    timeout: Span,
    /// Write the summary as JSON; - for standard output
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write a qlog of the connection into this folder
    #[arg(long, value_name = "DIR")]
    qlog: Option<PathBuf>,
}

/// Which frames are reliable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Reliable {
    /// All of them.
    All,
    /// Key frames.
    Key,
    /// None.
    None,
}

/// What came of it.
#[derive(Serialize)]
struct Summary {
    name: String,
    kind: &'static str,
    /// Of the file or the frames.
    bytes: u64,
    seconds: f64,
    /// Bytes that arrived, over the time it took, in bits per second.
    goodput_bps: u64,
    blocks: Fates,
    paths: Vec<PathSummary>,
}

/// Blocks by fate: those of the file or the frames, and two around them.
#[derive(Clone, Copy, Debug, Default, Serialize)]
struct Fates {
    offered: u64,
    delivered: u64,
    /// Given up because the deadline passed.
    expired: u64,
    /// Unreliable, and lost in part.
    lost: u64,
    cancelled: u64,
    refused: u64,
    /// Not even handed over, as there was no room.
    dropped: u64,
}

/// Runs the command.
pub(crate) fn run(args: &SendArgs) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let outcome = runtime.block_on(send(args));
    // A thread may still wait for standard input.
    runtime.shutdown_background();
    publish(&outcome?, args.json.as_deref())?;
    Ok(ExitCode::SUCCESS)
}

async fn send(args: &SendArgs) -> anyhow::Result<Summary> {
    let mut source = args.source()?;
    let (request, config) = (args.request()?, args.config()?);
    let session = Endpoint::connect(request, config).await.map_err(whole)?;
    let begin = Instant::now();
    let peer = Peer::listen_to(session.clone());
    let watching = tokio::spawn(watch(session.clone(), source.header.clone()));
    if args.signal {
        tokio::spawn(follow_radios(session.clone(), |problem| eprintln!("note: no radio: {problem}")));
    }
    let mut delivery = Delivery { args, session: &session, peer, end: End::default(), dropped: 0 };
    let sent = tokio::select! {
        sent = delivery.run(&mut source) => sent,
        _ = interrupted() => Err(Interrupted.into()),
    };
    let seconds = begin.elapsed().as_secs_f64();
    if sent.is_err() {
        session.close(1, "the sender gave up");
    }
    // Nothing but acknowledgements is on its way any more, or nothing matters.
    let _ = session.finish(FAREWELL).await;
    let stats = session.stats();
    let arrived = stats.bytes_delivered;
    sent.with_context(|| format!("not sent completely, {} arrived", format::size(arrived as f64)))?;
    let paths = watching.await.context("the counters are lost")?;
    let Delivery { end, dropped, .. } = delivery;
    Ok(Summary {
        name: source.header.name,
        kind: source.header.content.kind(),
        bytes: end.bytes,
        seconds,
        goodput_bps: (arrived as f64 * 8.0 / seconds.max(1e-6)) as u64,
        blocks: Fates {
            offered: stats.blocks_offered + dropped,
            delivered: stats.blocks_delivered,
            expired: stats.blocks_expired,
            lost: stats.blocks_lost,
            cancelled: stats.blocks_cancelled,
            refused: stats.blocks_refused,
            dropped,
        },
        paths: paths.summary(),
    })
}

/// Shows how far the transfer is, until the session is over; gives back what the paths have carried.
async fn watch(session: Session, header: Header) -> PathBook {
    let mut progress = Progress::new();
    let mut paths = PathBook::default();
    let mut clock = tokio::time::interval(LOOK);
    let of = match header.content {
        Content::File { size: Some(size) } => format!(" of {}", format::size(size as f64)),
        _ => String::new(),
    };
    let (mut before, mut before_at) = (0, Instant::now());
    while session.close_reason().is_none() {
        clock.tick().await;
        paths.update(&session);
        let (arrived, at) = (session.stats().bytes_delivered, Instant::now());
        let rate = (arrived - before) as f64 * 8.0 / (at - before_at).as_secs_f64().max(1e-3);
        (before, before_at) = (arrived, at);
        progress.show(&format!(
            "{}: {}{of} arrived, {}",
            header.name,
            format::size(arrived as f64),
            format::rate(rate)
        ));
    }
    paths.update(&session);
    paths
}

fn publish(summary: &Summary, json: Option<&Path>) -> anyhow::Result<()> {
    if !json.is_some_and(output::is_stdout) {
        output::print(&summary.to_string())?;
    }
    json.map_or(Ok(()), |file| super::write_json(file, summary))
}

impl std::fmt::Display for Summary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let blocks = &self.blocks;
        writeln!(
            f,
            "sent {}: {} in {:.2} s, {}",
            self.name,
            format::size(self.bytes as f64),
            self.seconds,
            format::rate(self.goodput_bps as f64)
        )?;
        write!(f, "blocks: {} of {} delivered", blocks.delivered, blocks.offered)?;
        let others = [
            (blocks.expired, "expired"),
            (blocks.lost, "lost"),
            (blocks.cancelled, "cancelled"),
            (blocks.refused, "refused"),
            (blocks.dropped, "dropped"),
        ];
        for (count, fate) in others.iter().filter(|(count, _)| *count > 0) {
            write!(f, ", {count} {fate}")?;
        }
        writeln!(f)?;
        self.paths.iter().try_for_each(|path| writeln!(f, "{}", path.line()))
    }
}

impl SendArgs {
    fn source(&self) -> anyhow::Result<Source> {
        if !self.realtime && self.deadline.is_none() {
            return Source::file(&self.file);
        }
        if self.file == Path::new("-") {
            return Err(usage("standard input cannot be sent in real time: give a video file"));
        }
        Source::video(&self.file, self.fps, self.deadline.map(Span::micros))
    }

    fn request(&self) -> anyhow::Result<Connect> {
        let trust = match (self.pin, &self.ca) {
            (Some(pin), _) => Trust::Pinned(pin),
            (None, Some(file)) => Trust::Roots(squall::load_certificates(file).map_err(whole)?),
            (None, None) if self.insecure => Trust::InsecureAnyone,
            (None, None) => Trust::PlatformRoots,
        };
        Ok(Connect::to(&self.to).trust(trust).interfaces(interfaces(&self.interface)?))
    }

    fn config(&self) -> anyhow::Result<Config> {
        if let Some(folder) = &self.qlog {
            std::fs::create_dir_all(folder).map_err(|error| failure::on_file("make", folder, &error))?;
        }
        Ok(Config {
            scheduler: squall::scheduler(&self.scheduler).map_err(whole)?,
            congestion: self.congestion,
            all_reliable: self.all_reliable,
            connect_timeout: self.timeout.duration(),
            limits: Limits { queued_bytes: QUEUED, ..Limits::default() },
            qlog_dir: self.qlog.clone(),
            ..Config::default()
        })
    }

    /// Whether everything has to arrive.
    pub(super) fn is_whole(&self) -> bool {
        self.deadline.is_none() && (self.all_reliable || self.reliable == Reliable::All)
    }

    /// Key frames first: all others need them.
    pub(super) fn frame_block(&self, data: Bytes, kind: FrameKind) -> Block {
        let key = kind == FrameKind::Key;
        let priority = match kind {
            FrameKind::Key => 1,
            FrameKind::Delta => 3,
            FrameKind::Disposable => 5,
        };
        let mut block = Block::new(data).priority(priority).ordered();
        block.deadline = self.deadline.map(Span::duration);
        block.reliable = self.reliable == Reliable::All || key && self.reliable == Reliable::Key;
        block
    }
}

/// Names or addresses, but not both: a named interface may change its address, an address is fixed.
fn interfaces(given: &[String]) -> anyhow::Result<Interfaces> {
    if given.is_empty() {
        return Ok(Interfaces::Auto);
    }
    let addresses: Vec<IpAddr> = given.iter().filter_map(|one| one.parse().ok()).collect();
    match addresses.len() {
        0 => Ok(Interfaces::Named(given.to_vec())),
        all if all == given.len() => Ok(Interfaces::Local(addresses)),
        _ => Err(usage("--interface: give names or addresses, not both")),
    }
}

pub(crate) fn parse_host(text: &str) -> Result<String, String> {
    let port = text.rsplit_once(':').and_then(|(host, port)| Some((host, port.parse::<u16>().ok()?)));
    match port {
        Some((host, 1..)) if is_host(host) => Ok(text.to_owned()),
        _ => Err("expected HOST:PORT, such as media.example.org:4433 or [2001:db8::7]:4433".to_owned()),
    }
}

/// A name or an address; the colons of IPv6 need brackets, or the port could not be told.
fn is_host(text: &str) -> bool {
    let bracketed = text.starts_with('[') && text.ends_with(']');
    !text.is_empty() && (bracketed || !text.contains(':'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interfaces_are_names_or_addresses() {
        let given = |all: &[&str]| interfaces(&all.iter().map(|one| (*one).to_owned()).collect::<Vec<_>>());
        assert_eq!(given(&[]).unwrap(), Interfaces::Auto);
        assert_eq!(given(&["wlan0"]).unwrap(), Interfaces::Named(vec!["wlan0".into()]));
        let local = Interfaces::Local(vec!["127.0.0.2".parse().unwrap(), "::1".parse().unwrap()]);
        assert_eq!(given(&["127.0.0.2", "::1"]).unwrap(), local);
        assert!(given(&["wlan0", "127.0.0.2"]).is_err());
    }

    #[test]
    fn hosts_have_ports() {
        assert!(["a:1", "127.0.0.1:4433", "[::1]:65535"].iter().all(|host| parse_host(host).is_ok()));
        assert!(["a", ":1", "a:0", "a:65536", "::1", ""].iter().all(|host| parse_host(host).is_err()));
    }
}

//! `squall send`.

use std::{
    net::IpAddr,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::atomic::Ordering::Relaxed,
};

use clap::Args;
use serde::Serialize;
use squall::{Config, CongestionControl, Connect, Fingerprint, Interfaces, Limits, Trust};
use squall_terminal::{
    error::{usage, whole},
    interrupt::{Interrupted, Interrupts},
    output,
};
use squall_units::Span;
use squall_units::format;

use super::{
    delivery::Delivery,
    line::Line,
    message::{Header, Secret, VERSION},
    paths::PathSummary,
    source::Source,
};
use crate::{
    arguments::{parse_host, parse_scheduler},
    token::{self, TokenArgs},
};

/// Bytes handed over at a time: enough for a second of a gigabit, and for a file not to fill the memory.
const QUEUED: u64 = 32 << 20;

/// Sends a file or standard input to `squall recv`, over all networks at once.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    squall send holiday.iso --to HOST:4433 --pin FINGERPRINT --token TOKEN\n  \
    squall send camera.h264 --to HOST:4433 --pin FINGERPRINT \\\n    \
    --token-file secret --interface wlan0 --interface wwan0 \\\n    \
    --scheduler storm --signal\n  \
    tar c folder | squall send - --to HOST:4433 --ca ca.pem --token TOKEN\n\n\
    What happens when the connection is lost is in docs/transfer.md.")]
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
    pub(super) signal: bool,
    #[command(flatten)]
    token: TokenArgs,
    /// Who decides what goes where; see `squall-lab schedulers`
    #[arg(long, value_name = "NAME", default_value = "minrtt", value_parser = parse_scheduler)]
    scheduler: String,
    #[arg(long, value_name = "NAME", default_value = "steady", help = format!(
        "Congestion control of all paths: {}", CongestionControl::names()
    ))]
    congestion: CongestionControl,
    /// How long to try to connect
    #[arg(long, value_name = "SPAN", default_value = "10s")]
    pub(super) timeout: Span,
    /// How long to try to connect again when the connection is lost on the way; the receiver goes on from what it has
    #[arg(long, value_name = "SPAN", default_value = "5min")]
    pub(super) outage: Span,
    /// Write the summary as JSON; - for standard output
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    #[cfg(feature = "qlog")]
    /// Write a qlog of the connection into this folder
    #[arg(long, value_name = "DIR")]
    qlog: Option<PathBuf>,
}

/// What came of it.
#[derive(Serialize)]
struct Summary {
    name: String,
    bytes: u64,
    seconds: f64,
    /// Bytes that arrived, over the time it took, in bits per second.
    goodput_bps: u64,
    blocks: Blocks,
    /// Sessions that it took: more than one if the connection was lost on the way.
    sessions: u32,
    paths: Vec<PathSummary>,
}

/// Blocks of the file.
#[derive(Clone, Copy, Debug, Serialize)]
struct Blocks {
    offered: u64,
    delivered: u64,
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
    let mut source = args.source().map_err(|error| usage(format!("{error:#}")))?;
    let name = source.name.clone();
    let header = args.header(&source)?;
    let mut line = Line::new(args, &source)?;
    let taken = line.taken.clone();
    // What is opened by name, such as a FIFO, may have made this program wait until here.
    let mut interrupts = Interrupts::listen()?;
    let mut delivery = Delivery::new(&mut source, header, &taken);
    let sent = tokio::select! {
        sent = line.carry(&mut delivery) => sent,
        () = interrupts.next() => Err(Interrupted.into()),
    };
    let (end, all_sent) = (delivery.end, delivery.is_all_sent());
    if sent.is_err() {
        line.give_up().await;
    }
    line.hang_up().await;
    let receipt = sent.map_err(|error| match taken.load(Relaxed) {
        _ if line.sessions == 0 => error,
        arrived if all_sent && arrived >= end.bytes => {
            error.context("everything arrived, but the receiver did not confirm that it is written")
        }
        arrived => error.context(format!("not sent completely, {} arrived", format::size(arrived as f64))),
    })?;
    let seconds = line.begin.map_or(0.0, |begin| begin.elapsed().as_secs_f64());
    Ok(Summary {
        name,
        bytes: end.bytes,
        seconds,
        goodput_bps: (receipt.bytes as f64 * 8.0 / seconds.max(1e-6)) as u64,
        blocks: Blocks { offered: end.blocks, delivered: receipt.blocks },
        sessions: line.sessions,
        paths: line.paths.summary(),
    })
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
        writeln!(f, "blocks: {} of {} delivered", blocks.delivered, blocks.offered)?;
        if self.sessions > 1 {
            writeln!(f, "sessions: {}, as the connection was lost on the way", self.sessions)?;
        }
        self.paths.iter().try_for_each(|path| writeln!(f, "{}", path.line()))
    }
}

impl SendArgs {
    fn source(&self) -> anyhow::Result<Source> {
        Source::file(&self.file)
    }

    fn header(&self, source: &Source) -> anyhow::Result<Header> {
        let mut id = [0; 16];
        token::random(&mut id)?;
        let secret = self.token.token()?;
        Ok(Header {
            version: VERSION,
            transfer: id.iter().map(|byte| format!("{byte:02x}")).collect(),
            from: 0,
            token: secret.map(|token| Secret(token.reveal().to_owned())),
            name: source.name.clone(),
            size: source.size,
        })
    }

    pub(super) fn request(&self) -> anyhow::Result<Connect> {
        let trust = match (self.pin, &self.ca) {
            (Some(pin), _) => Trust::Pinned(pin),
            (None, Some(file)) => Trust::Roots(squall::load_certificates(file).map_err(usage)?),
            (None, None) if self.insecure => Trust::InsecureAnyone,
            (None, None) => Trust::PlatformRoots,
        };
        Ok(Connect::to(&self.to).trust(trust).interfaces(interfaces(&self.interface)?))
    }

    pub(super) fn config(&self) -> anyhow::Result<Config> {
        #[cfg(feature = "qlog")]
        if let Some(folder) = &self.qlog {
            std::fs::create_dir_all(folder)
                .map_err(|error| super::failure::on_file("make", folder, &error))?;
        }
        Ok(Config {
            scheduler: squall::scheduler(&self.scheduler).map_err(whole)?,
            congestion: self.congestion,
            limits: Limits { queued_bytes: QUEUED, ..Limits::default() },
            #[cfg(feature = "qlog")]
            qlog_dir: self.qlog.clone(),
            ..Config::default()
        })
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
}

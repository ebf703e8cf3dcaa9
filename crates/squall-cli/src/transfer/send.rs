//! `squall send`.

use std::{
    net::IpAddr,
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::Args;
use serde::Serialize;
use squall::{Config, CongestionControl, Connect, Fingerprint, Interfaces, Limits, Trust};
use squall_terminal::{
    error::{usage, whole},
    interrupt::{Interrupted, Interrupts},
    output,
};
use squall_units::{Span, format};

use super::{
    message::{Header, Secret, VERSION},
    paths::PathSummary,
    sender::{Plan, Sender},
    source::Source,
};
use crate::{
    arguments::{parse_host, parse_scheduler},
    token::{self, TokenArgs},
};

/// Unacknowledged bytes: enough for a quarter of a second at a gigabit, and bounded memory.
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
    /// File to send; - for standard input
    file: PathBuf,
    /// Address of the receiver
    #[arg(long, value_name = "HOST:PORT", value_parser = parse_host)]
    to: String,
    /// Fingerprint of the receiver's certificate, as the receiver prints it
    #[arg(long, value_name = "FINGERPRINT", conflicts_with_all = ["ca", "insecure"])]
    pin: Option<Fingerprint>,
    /// PEM file with trusted authorities, instead of those of the system
    #[arg(long, value_name = "FILE", conflicts_with = "insecure")]
    ca: Option<PathBuf>,
    /// Accept any certificate: for tests
    #[arg(long)]
    insecure: bool,
    /// Interface or local address to use; repeatable [default: all]
    #[arg(long, value_name = "NAME|ADDR")]
    interface: Vec<String>,
    /// Follow the radios of the interfaces: Wi-Fi, and modems of ModemManager
    #[arg(long)]
    signal: bool,
    #[command(flatten)]
    token: TokenArgs,
    /// Scheduler, with options; see `squall-lab schedulers`
    #[arg(long, value_name = "NAME", default_value = "minrtt", value_parser = parse_scheduler)]
    scheduler: String,
    #[arg(long, value_name = "NAME", default_value = "steady", help = format!(
        "Congestion control of all paths: {}", CongestionControl::names()
    ))]
    congestion: CongestionControl,
    /// Timeout of the first connection
    #[arg(long, value_name = "SPAN", default_value = "10s")]
    timeout: Span,
    /// How long to try to reconnect; the transfer then continues where it was
    #[arg(long, value_name = "SPAN", default_value = "5min")]
    outage: Span,
    /// File for the summary as JSON; - for standard output
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    #[cfg(feature = "qlog")]
    /// Folder for a qlog of each connection
    #[arg(long, value_name = "DIR")]
    qlog: Option<PathBuf>,
}

/// The result.
#[derive(Serialize)]
struct Summary {
    name: String,
    bytes: u64,
    seconds: f64,
    /// Bytes that arrived, over the time it took, in bits per second.
    goodput_bps: u64,
    blocks: Blocks,
    /// Number of sessions: more than one if the connection was lost.
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
    // A thread may still read standard input.
    runtime.shutdown_background();
    publish(&outcome?, args.json.as_deref())?;
    Ok(ExitCode::SUCCESS)
}

async fn send(args: &SendArgs) -> anyhow::Result<Summary> {
    let source = Source::open(&args.file).map_err(|error| usage(format!("{error:#}")))?;
    let header = args.header(&source)?;
    let name = header.name.clone();
    let plan = Plan {
        request: args.request()?,
        config: args.config()?,
        timeout: args.timeout,
        outage: args.outage,
        signal: args.signal,
    };
    // From here on: to open a FIFO may have blocked.
    let mut interrupts = Interrupts::listen()?;
    let mut sender = Sender::new(plan, source, header);
    let sent = tokio::select! {
        sent = sender.run() => sent,
        () = interrupts.next() => Err(Interrupted.into()),
    };
    if sent.is_err() {
        sender.cancel().await;
    }
    sender.finish().await;
    let receipt = sent.map_err(|error| match sender.acknowledged {
        _ if sender.sessions == 0 => error,
        arrived if sender.all_sent && arrived >= sender.sent.bytes => {
            error.context("everything arrived, but the receiver did not confirm that it is written")
        }
        arrived => error.context(format!("not sent completely, {} arrived", format::size(arrived as f64))),
    })?;
    let seconds = sender.begin.map_or(0.0, |begin| begin.elapsed().as_secs_f64());
    Ok(Summary {
        name,
        bytes: sender.sent.bytes,
        seconds,
        goodput_bps: (receipt.bytes as f64 * 8.0 / seconds.max(1e-6)) as u64,
        blocks: Blocks { offered: sender.sent.blocks, delivered: receipt.blocks },
        sessions: sender.sessions,
        paths: sender.paths.summary(),
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

    fn request(&self) -> anyhow::Result<Connect> {
        let trust = match (self.pin, &self.ca) {
            (Some(pin), _) => Trust::Pinned(pin),
            (None, Some(file)) => Trust::Roots(squall::load_certificates(file).map_err(usage)?),
            (None, None) if self.insecure => Trust::InsecureAnyone,
            (None, None) => Trust::PlatformRoots,
        };
        Ok(Connect::to(&self.to).trust(trust).interfaces(interfaces(&self.interface)?))
    }

    fn config(&self) -> anyhow::Result<Config> {
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

/// Names or addresses: a named interface may change its address, an address is fixed.
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

//! `squall send`.

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::Args;
use serde::Serialize;
use squall::Config;
use squall_terminal::{
    error::{usage, whole},
    interrupt::{Interrupted, Interrupts},
    output,
};
use squall_tunnel::config::ExitAddress;
use squall_units::{Span, format};

use super::{
    message::{Header, Secret, VERSION},
    paths::PathSummary,
    qlog::Qlog,
    sender::{Plan, Sender},
    source::Source,
};
use crate::{
    arguments::{ConnectArgs, PathArgs, parse_host},
    token::{self, TokenArgs},
};

/// Maximum unacknowledged bytes: enough for a quarter of a second at 1 Gbit/s, with bounded memory.
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
    #[command(flatten)]
    connect: ConnectArgs,
    #[command(flatten)]
    token: TokenArgs,
    #[command(flatten)]
    paths: PathArgs,
    /// Timeout of the first connection
    #[arg(long, value_name = "SPAN", default_value = "10s")]
    timeout: Span,
    /// Time to try to reconnect; the transfer then continues where it stopped
    #[arg(long, value_name = "SPAN", default_value = "5min")]
    outage: Span,
    /// File for the summary as JSON; - for standard output
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    #[command(flatten)]
    qlog: Qlog,
}

/// Summary of a transfer.
#[derive(Serialize)]
struct Summary {
    name: String,
    bytes: u64,
    seconds: f64,
    /// Delivered bytes over the time of the transfer, in bits per second.
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
    crate::runtime::free_standard_error()?;
    let runtime = crate::runtime::start(2)?;
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
    let connect = args.connect.config(&[ExitAddress::Host(args.to.clone())], &[])?;
    let plan = Plan {
        request: connect.request(&args.to, None).map_err(usage)?,
        config: args.config()?,
        timeout: args.timeout,
        outage: args.outage,
        signal: connect.signal,
    };
    // Not earlier: opening a FIFO may have blocked.
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

    fn config(&self) -> anyhow::Result<Config> {
        self.qlog.apply(
            Config::default()
                .scheduler(squall::scheduler(&self.paths.scheduler).map_err(whole)?)
                .congestion(self.paths.congestion.clone())
                .queued_bytes(QUEUED),
        )
    }
}

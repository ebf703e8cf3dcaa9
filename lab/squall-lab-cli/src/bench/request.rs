//! `squall-lab bench request`: the time from a request to its answer, beside plain QUIC.

use std::{
    process::ExitCode,
    time::{Duration, Instant},
};

use anyhow::{Context as _, ensure};
use bytes::Bytes;
use clap::Args;
use squall::{Block, BlockOptions};
use squall_terminal::output;

use super::{
    ends::{Client, Ends, Server},
    side::{Side, quantile},
};

/// Time for which an answer is awaited.
const DEADLINE: Duration = Duration::from_secs(1);

/// Limit of a message over plain QUIC.
const MAX_MESSAGE: usize = 1 << 20;

/// Measures the time from a request to its answer.
///
/// The server answers each message with the same bytes. With --pause 0 each request follows the
/// answer before it at once. Both sides are in one process, over loopback, unless one is chosen by
/// --listen or --to; the server then runs until it is stopped.
#[derive(Args, Clone, Debug)]
#[command(
    after_help = "Examples:\n  squall-lab bench request\n  squall-lab bench request --transport noq --bytes 5000\n  squall-lab shell --link delay=10ms --link delay=40ms \\\n      --server 'squall-lab bench request --listen $SQUALL_SERVER:7000' \\\n      --client 'squall-lab bench request --to $SQUALL_SERVER:7000'"
)]
pub(super) struct RequestArgs {
    #[command(flatten)]
    ends: Ends,
    /// Number of requests
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    count: u32,
    /// Size of each message
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    bytes: u32,
    /// Pause after each answer in milliseconds
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(0..=10_000))]
    pause: u32,
}

/// Runs the command.
pub(super) fn run(args: &RequestArgs) -> anyhow::Result<ExitCode> {
    let folder = tempfile::tempdir()?;
    let file = args.ends.file(folder.path());
    let mut to = args.ends.to;
    let server = Side::new("server", 1)?;
    if to.is_none() {
        let guard = server.runtime.enter();
        let (endpoint, at) = args.ends.serve(&file)?;
        drop(guard);
        to = Some(at);
        if args.ends.listen.is_some() {
            server.runtime.block_on(answer(endpoint))?;
            return Ok(ExitCode::SUCCESS);
        }
        server.runtime.spawn(answer(endpoint));
    }
    let client = Side::new("client", 1)?;
    let mut times = client.runtime.block_on(async {
        let peer = args.ends.connect(&file, to.context("no server")?).await?;
        ask(args, &peer).await
    })?;
    let [p50, p99] = [0.5, 0.99].map(|q| quantile(&mut times, q));
    let most = times.iter().copied().fold(0.0, f64::max);
    output::print(&format!(
        "answers       {}\ntime          p50 {p50:.2}, p99 {p99:.2}, max {most:.2} ms\n",
        times.len()
    ))?;
    for side in [client, server] {
        side.runtime.shutdown_background();
    }
    Ok(ExitCode::SUCCESS)
}

/// Sends the requests, each after the answer to the one before; returns the times in milliseconds.
async fn ask(args: &RequestArgs, peer: &Client) -> anyhow::Result<Vec<f64>> {
    let message = Bytes::from(vec![0x5a; args.bytes as usize]);
    let mut times = Vec::new();
    for _ in 0..args.count {
        let start = Instant::now();
        let answer = tokio::time::timeout(DEADLINE, async {
            anyhow::Ok(match peer {
                Client::Squall(session) => {
                    drop(session.send(Block::with(message.clone(), BlockOptions::new())).await?);
                    session.recv().await?.context("the session is over")?.data.len()
                }
                Client::Noq(connection) => {
                    let (mut send, mut receive) = connection.open_bi().await?;
                    send.write_chunk(message.clone()).await?;
                    send.finish()?;
                    receive.read_to_end(MAX_MESSAGE).await?.len()
                }
            })
        });
        let length = answer.await.context("no answer within a second")??;
        ensure!(length == message.len(), "an answer of another length");
        times.push(start.elapsed().as_secs_f64() * 1e3);
        tokio::time::sleep(Duration::from_millis(args.pause.into())).await;
    }
    Ok(times)
}

/// Answers each message with the same bytes.
async fn answer(server: Server) -> anyhow::Result<()> {
    match server {
        Server::Squall(endpoint) => {
            let session = endpoint.accept().await.context("no session")?;
            while let Ok(Some(block)) = session.recv().await {
                drop(session.send(Block::with(block.data, BlockOptions::new())).await?);
            }
        }
        Server::Noq(endpoint) => {
            let connection = endpoint.accept().await.context("no connection")?.await?;
            while let Ok((mut send, mut receive)) = connection.accept_bi().await {
                send.write_chunk(receive.read_to_end(MAX_MESSAGE).await?.into()).await?;
                send.finish()?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::ends::Transport;

    #[test]
    fn each_transport_answers() {
        for transport in [Transport::Squall, Transport::Minrtt, Transport::Noq] {
            let args = RequestArgs { ends: Ends::here(transport), count: 20, bytes: 3_000, pause: 0 };
            run(&args).expect("it is measured");
        }
    }
}

//! `squall-lab bench sessions`: many sessions over real sockets, with several workers at the exit.

use std::{
    process::ExitCode,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use anyhow::{Context as _, ensure};
use bytes::Bytes;
use clap::Args;
use squall::{Block, BlockOptions, Config, Connect, Endpoint, EndpointConfig, Identity, Session, Trust};
use squall_terminal::output;
use tokio::time::MissedTickBehavior;

use super::{
    memory::resident_bytes,
    side::{Side, quantile},
};

/// Bytes of a frame: 2 Mbps at 30 frames a second.
const FRAME: usize = 8333;

const INTERVAL: Duration = Duration::from_nanos(1_000_000_000 / 30);

/// Bytes of a frame of the additional flow: 2 Mbps at 60 frames a second.
const SMALL_FRAME: usize = 4167;

const SHORT_INTERVAL: Duration = Duration::from_nanos(1_000_000_000 / 60);

/// Time before the measurement begins.
const WARM_UP: Duration = Duration::from_secs(3);

/// Maximum number of concurrent handshakes.
const CONNECTING: usize = 16;

/// Measures many sessions of 2 Mbps over loopback sockets.
///
/// Each sends 30 frames a second from one endpoint to another in the same process; one additional
/// session sends 60 smaller frames. Each side has threads of its own, to measure its processor
/// time.
#[derive(Args, Clone, Debug)]
#[command(
    after_help = "Examples:\n  squall-lab bench sessions\n  squall-lab bench sessions --count 200 --workers 2"
)]
pub(super) struct SessionsArgs {
    /// Number of sessions
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u16).range(1..=2000))]
    count: u16,
    /// Workers of each side
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=32))]
    workers: u8,
    /// Duration of the measurement in seconds
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..=3600))]
    seconds: u16,
}

/// Delays of the frames that a session received during the measurement, in seconds.
type Delays = Arc<Mutex<Vec<f64>>>;

/// Runs the command.
pub(super) fn run(args: &SessionsArgs) -> anyhow::Result<ExitCode> {
    let (source, sink) = (Side::new("bench-source", args.workers)?, Side::new("bench-sink", args.workers)?);
    let config =
        EndpointConfig::from(Config::default().handshakes_per_host(1024)).workers(args.workers.into());
    let identity = Identity::self_signed("localhost")?;
    let tls = identity.server_tls()?;
    let server = sink.runtime.block_on(async { Endpoint::listen("127.0.0.1:0", &tls, config.clone()) })?;
    let client = source.runtime.block_on(async { Endpoint::client(config) })?;
    let request = Connect::to(server.local_addrs()[0])
        .trust(Trust::Pinned(identity.fingerprint()))
        .over(["127.0.0.1".parse()?]);
    let count = usize::from(args.count);
    let before = resident_bytes();

    // The last session is the additional flow.
    let epoch = Instant::now();
    let counts_from = Arc::new(Mutex::new(None));
    let delays: Vec<Delays> = (0..=count).map(|_| Delays::default()).collect();
    sink.runtime.spawn(accept(server.clone(), delays.clone(), counts_from.clone(), epoch));
    let sessions = source.runtime.block_on(connect(client, request, count + 1))?;
    let handshakes = (count + 1) as f64 / epoch.elapsed().as_secs_f64();
    let memory = before.zip(resident_bytes()).map(|(before, after)| after.saturating_sub(before));

    for (number, session) in sessions.iter().cloned().enumerate() {
        let (frame, interval) =
            if number == count { (SMALL_FRAME, SHORT_INTERVAL) } else { (FRAME, INTERVAL) };
        let phase = interval.mul_f64(number as f64 / (count + 1) as f64);
        source.runtime.spawn(send(session, number as u32, frame, interval, phase, epoch));
    }
    std::thread::sleep(WARM_UP);
    let (from, spent) = (Instant::now(), [source.spent()?, sink.spent()?]);
    *counts_from.lock().unwrap_or_else(PoisonError::into_inner) = Some(from);
    std::thread::sleep(Duration::from_secs(args.seconds.into()));
    let seconds = from.elapsed().as_secs_f64();
    let [source_time, sink_time] =
        [source.spent()? - spent[0], sink.spent()? - spent[1]].map(|spent| spent / seconds);
    let all: Vec<Vec<f64>> =
        delays.iter().map(|one| one.lock().unwrap_or_else(PoisonError::into_inner).clone()).collect();
    let workers = server.workers();
    sessions.iter().for_each(|session| session.close(0, ""));
    source.runtime.shutdown_timeout(Duration::from_secs(1));
    sink.runtime.shutdown_timeout(Duration::from_secs(1));

    let (others, beside) = all.split_at(count);
    let arrived: Vec<f64> = others.iter().map(|one| one.len() as f64).collect();
    let mut together: Vec<f64> = others.iter().flatten().copied().collect();
    ensure!(!together.is_empty() && !beside[0].is_empty(), "no frame has arrived");
    let mut beside = beside[0].clone();
    let share = arrived.iter().sum::<f64>() / (count as f64 * 30.0 * seconds);
    let held: Vec<String> = workers.iter().map(|worker| worker.sessions.to_string()).collect();
    let per_session = memory.map_or("unknown".to_owned(), |bytes| {
        format!("{:.0} kB", bytes as f64 / 1e3 / (2 * (count + 1)) as f64)
    });
    output::print(&format!(
        "{count} sessions of 2 Mbps, {} workers at each side (sessions: {}), {seconds:.1} s\n\
         processor time           sender {source_time:.2} s/s, receiver {sink_time:.2} s/s\n\
         frames arrived           {:.2} %, Jain's fairness {:.4}\n\
         delay of a frame         p50 {:.1} ms, p99 {:.1} ms\n\
         beside them, 60 frames/s p50 {:.1} ms, p99 {:.1} ms\n\
         handshakes               {handshakes:.0} a second, {CONNECTING} at a time, both ends in this process\n\
         memory after them        {per_session} for a session, one end\n",
        args.workers,
        held.join(", "),
        100.0 * share,
        fairness(&arrived),
        1e3 * quantile(&mut together, 0.5),
        1e3 * quantile(&mut together, 0.99),
        1e3 * quantile(&mut beside, 0.5),
        1e3 * quantile(&mut beside, 0.99),
    ))?;
    Ok(ExitCode::SUCCESS)
}

async fn connect(client: Endpoint, request: Connect, count: usize) -> anyhow::Result<Vec<Session>> {
    let mut connecting = tokio::task::JoinSet::new();
    let mut sessions = Vec::new();
    for number in 0..count {
        if number >= CONNECTING {
            sessions.push(connecting.join_next().await.context("none connects")???);
        }
        let (client, request) = (client.clone(), request.clone());
        connecting.spawn(async move { client.connect(request).await });
    }
    while let Some(session) = connecting.join_next().await {
        sessions.push(session??);
    }
    Ok(sessions)
}

/// Sends frames, each prefixed with the number of the session and the time.
async fn send(
    session: Session,
    number: u32,
    frame: usize,
    interval: Duration,
    phase: Duration,
    epoch: Instant,
) {
    tokio::time::sleep(phase).await;
    let mut ticks = tokio::time::interval(interval);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
    loop {
        let due = ticks.tick().await.into_std();
        let mut data = vec![0; frame];
        data[..4].copy_from_slice(&number.to_be_bytes());
        data[4..12].copy_from_slice(&(due.saturating_duration_since(epoch).as_nanos() as u64).to_be_bytes());
        let block = Block::with(Bytes::from(data), BlockOptions::new().deadline(Duration::from_millis(150)));
        if session.send(block).await.is_err() {
            return;
        }
    }
}

async fn accept(
    server: Endpoint,
    delays: Vec<Delays>,
    counts_from: Arc<Mutex<Option<Instant>>>,
    epoch: Instant,
) {
    while let Some(session) = server.accept().await {
        let (delays, counts_from) = (delays.clone(), counts_from.clone());
        tokio::spawn(async move {
            while let Ok(Some(block)) = session.recv().await {
                let from = *counts_from.lock().unwrap_or_else(PoisonError::into_inner);
                let Some((number, sent)) = head(&block.data, epoch) else { return };
                if from.is_some_and(|from| sent >= from)
                    && let Some(delays) = delays.get(number)
                {
                    let delay = sent.elapsed().as_secs_f64();
                    delays.lock().unwrap_or_else(PoisonError::into_inner).push(delay);
                }
            }
        });
    }
}

/// Returns the number of the session and the time at which the frame was due.
fn head(data: &[u8], epoch: Instant) -> Option<(usize, Instant)> {
    let (number, rest) = data.split_first_chunk::<4>()?;
    let (nanos, _) = rest.split_first_chunk::<8>()?;
    let sent = epoch + Duration::from_nanos(u64::from_be_bytes(*nanos));
    Some((u32::from_be_bytes(*number) as usize, sent))
}

/// Jain's fairness index: 1 if all shares are equal, 1/n if one has everything.
fn fairness(shares: &[f64]) -> f64 {
    let sum: f64 = shares.iter().sum();
    let squares: f64 = shares.iter().map(|share| share * share).sum();
    sum * sum / (shares.len() as f64 * squares)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_fair_if_they_are_the_same() {
        assert_eq!(fairness(&[3.0, 3.0, 3.0]), 1.0);
        assert_eq!(fairness(&[9.0, 0.0, 0.0]), 1.0 / 3.0);
        assert_eq!(quantile(&mut [5.0, 1.0, 3.0], 0.5), 3.0);
    }

    #[test]
    fn a_few_sessions_are_measured() {
        let args = SessionsArgs { count: 3, workers: 2, seconds: 1 };
        assert!(run(&args).is_ok());
    }
}

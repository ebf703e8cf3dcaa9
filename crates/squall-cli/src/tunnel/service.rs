//! A tunnel as a service: SIGTERM and Ctrl-C stop it, an exit once its sessions have moved; SIGHUP
//! reloads its file.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use squall_terminal::{error::whole, interrupt::Interrupts, note, output};
use squall_tunnel::{Bitrate, Config, Tunnel, config::LogFormat};
use tokio::sync::broadcast::{Receiver, error::RecvError};

use super::options::Plan;

/// Time from the first signal within which further ones count as the same: `timeout` and others
/// send theirs to the process and to its group.
const SAME: Duration = Duration::from_millis(500);

/// Interval of notices to systemd while a tunnel starts.
const START_NOTICE: Duration = Duration::from_secs(20);
/// Start time that each notice requests from systemd.
const START_LIMIT: Duration = Duration::from_secs(60);

/// Runs until the program is stopped.
pub(super) async fn run(plan: Plan) -> anyhow::Result<()> {
    let has_flows = !plan.config.flows.is_empty();
    let (token, format) = (plan.config.token.clone().filter(|_| plan.is_new_token), plan.config.log.format);
    // Listen for signals first: they may arrive as soon as the tunnel reports that it is up.
    let (mut hangups, mut interrupts) = (Hangups::listen()?, Interrupts::listen()?);
    // Opening a FIFO may block.
    let mut started = tokio::spawn(Tunnel::start(plan.config));
    let tunnel = loop {
        tokio::select! {
            started = &mut started => break started?.map_err(whole)?,
            () = interrupts.next() => return Ok(()),
            // An exit waits for its address without a limit.
            () = tokio::time::sleep(START_NOTICE) => {
                notify(&[sd_notify::NotifyState::ExtendTimeoutUsec(START_LIMIT.as_micros() as u32)]);
            }
        }
    };
    announce(&tunnel, format, has_flows, token.as_ref().map(squall_tunnel::config::Token::reveal));
    notify(&[sd_notify::NotifyState::Ready]);
    if plan.prints_bitrate {
        tokio::spawn(print_bitrates(tunnel.bitrates()));
    }
    let serve = async {
        loop {
            hangups.next().await;
            reload(&tunnel, plan.file.as_deref()).await;
        }
    };
    // An exit first moves its entries to other exits. The second signal ends it at once.
    let stopped = async {
        let asked = tokio::select! {
            () = interrupts.next() => Some(Instant::now()),
            () = tunnel.draining() => None,
        };
        notify(&[sd_notify::NotifyState::Stopping]);
        if tunnel.listening().is_some() {
            tunnel.drain();
            tokio::select! {
                () = tunnel.drained() => {}
                () = second(&mut interrupts, asked) => {
                    tracing::warn!("a second signal: the sessions that are left are closed");
                }
            }
        }
    };
    let failed = tokio::select! {
        () = stopped => None,
        why = tunnel.failed() => Some(why),
        () = serve => None,
    };
    tunnel.stop().await;
    failed.map_or(Ok(()), |why| Err(anyhow::anyhow!("the tunnel cannot continue: {why}")))
}

/// Waits for a second signal. `first` is the time of the first one; `None` if the drain was started
/// over the control socket, in which case the service manager sends the first signal later.
async fn second(interrupts: &mut Interrupts, mut first: Option<Instant>) {
    loop {
        interrupts.next().await;
        if first.get_or_insert_with(Instant::now).elapsed() >= SAME {
            return;
        }
    }
}

/// Prints a line for each change. If standard output is closed, the printing ends, but not the
/// tunnel.
async fn print_bitrates(mut changes: Receiver<Bitrate>) {
    loop {
        let Bitrate { session, safe_bps, limit } = match changes.recv().await {
            Ok(change) => change,
            Err(RecvError::Lagged(_)) => continue,
            Err(RecvError::Closed) => return,
        };
        let line = format!("{safe_bps} {} {session}\n", limit.name());
        // A slow reader blocks only a separate thread.
        let printed = tokio::task::spawn_blocking(move || output::print(&line)).await;
        if !matches!(printed, Ok(Ok(()))) {
            tracing::warn!("standard output is closed: bitrates are no longer printed");
            return;
        }
    }
}

/// Prints the options for the other end on standard error; as log lines if the log is JSON.
fn announce(tunnel: &Tunnel, format: LogFormat, has_flows: bool, is_new_token: Option<&str>) {
    let say = |line: String| match format {
        LogFormat::Text => note!("{line}"),
        LogFormat::Json => tracing::info!("{line}"),
    };
    if let (Some(address), Some(fingerprint)) = (tunnel.listening(), tunnel.fingerprint()) {
        say(format!("listening on {address}, fingerprint {fingerprint}"));
        if let Some(token) = is_new_token {
            let port = address.port();
            let more = if has_flows { "--in …" } else { "--tun …" };
            say(format!(
                "connect with: squall tunnel --to HOST:{port} --pin {fingerprint} --token {token} {more}"
            ));
        }
    }
    if let Some(address) = tunnel.metrics() {
        say(format!(
            "metrics on http://{address}/metrics, page on http://{address}/, live view: squall top {address}"
        ));
    }
}

/// Reloads the file. A file with a mistake changes nothing.
async fn reload(tunnel: &Tunnel, file: Option<&Path>) {
    let Some(file) = file else {
        tracing::warn!("no file to reload: this tunnel was started with options");
        return;
    };
    if let Ok(now) = sd_notify::NotifyState::monotonic_usec_now() {
        notify(&[sd_notify::NotifyState::Reloading, now]);
    }
    // Opening a FIFO may block.
    let file = file.to_owned();
    let loaded = tokio::task::spawn_blocking(move || Config::load(&file)).await;
    match loaded {
        Err(error) => tunnel.refuse(&error),
        Ok(Err(error)) => tunnel.refuse(&error),
        Ok(Ok(config)) => {
            if let Err(error) = tunnel.reload(config) {
                tunnel.refuse(&error);
            }
        }
    }
    notify(&[sd_notify::NotifyState::Ready]);
}

/// Notifies systemd, if it started the program.
fn notify(state: &[sd_notify::NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(state) {
        tracing::debug!(%error, "systemd was not notified");
    }
}

/// SIGHUP, on systems that have it.
struct Hangups {
    #[cfg(unix)]
    signal: tokio::signal::unix::Signal,
}

impl Hangups {
    fn listen() -> std::io::Result<Self> {
        Ok(Self {
            #[cfg(unix)]
            signal: tokio::signal::unix::signal(tokio::signal::unix::SignalKind::hangup())?,
        })
    }

    /// Waits for the next signal.
    async fn next(&mut self) {
        #[cfg(unix)]
        let more = self.signal.recv().await;
        #[cfg(not(unix))]
        let more: Option<()> = None;
        if more.is_none() {
            std::future::pending::<()>().await;
        }
    }
}

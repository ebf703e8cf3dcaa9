//! `squall recv`.

use std::{
    net::{IpAddr, SocketAddr, UdpSocket},
    path::PathBuf,
    process::ExitCode,
    sync::Arc,
    time::Duration,
};

use clap::Args;
use squall::{Config, CongestionControl, Endpoint, Identity};
use squall_terminal::{
    error::whole,
    interrupt::{Interrupted, Interrupts},
    note, output,
};
use squall_units::{Size, Span};
use tokio::{
    sync::{mpsc, oneshot},
    task::JoinSet,
};

use super::{
    admission::{Admission, Bounds},
    host::{Host, MAX_UNAUTHENTICATED, Outcome},
    incoming::Summary,
    output::Target,
    qlog::Qlog,
};
use crate::{
    arguments::parse_address,
    token::{self, TokenArgs},
};

/// Maximum number of sessions: [`MAX_UNAUTHENTICATED`], and those of authorised senders.
const SESSIONS: usize = MAX_UNAUTHENTICATED + 16;

/// Maximum number of simultaneous handshakes.
const HANDSHAKES: usize = 16;

/// Maximum bytes of incomplete or unread blocks of a session.
const REASSEMBLY: u64 = 16 << 20;

/// Time for which an unauthenticated sender may stall, or stay disconnected, as other senders may
/// wait.
const STRANGER_TIMEOUT: Duration = Duration::from_secs(10);

/// Timeout for closing all sessions.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(3);

/// Receives files from `squall send`.
///
/// Senders on other machines must present a token: --token, --token-file or SQUALL_TOKEN. Without these a random token is
/// created and printed. A file is written as FILE.XXXXXX.part, and gets its name once it is complete.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    squall recv --listen 0.0.0.0:4433 --identity receiver.pem\n  \
    squall recv --listen '[::]:4433' --token-file secret --out camera.h264 --once\n  \
    squall recv --listen 0.0.0.0:4433 --out - --once | tar x\n\n\
    docs/transfer.md describes what happens when the connection is lost.")]
pub(crate) struct RecvArgs {
    /// Address to listen on; port 0 selects a free port
    #[arg(long, value_name = "ADDR:PORT", value_parser = parse_address)]
    listen: SocketAddr,
    /// File or folder for the output, - for standard output [default: the current folder]
    #[arg(long, value_name = "FILE|DIR|-")]
    out: Option<PathBuf>,
    #[command(flatten)]
    token: TokenArgs,
    /// Accept files from anyone who reaches the address, without a token
    #[arg(long, conflicts_with_all = ["token", "token_file"])]
    anyone: bool,
    /// File with certificate and key, created if it does not exist [default: new ones on every start]
    #[arg(long, value_name = "FILE")]
    identity: Option<PathBuf>,
    /// Host name or address in a new certificate [default: the address of --listen]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Exit after one transfer, with code 1 if it failed
    #[arg(long)]
    once: bool,
    /// Maximum size of a file, such as 2GB
    #[arg(long, value_name = "SIZE")]
    max_size: Option<Size>,
    /// Maximum number of files
    #[arg(long, value_name = "N")]
    max_files: Option<u64>,
    /// Time for which a connected sender may send nothing [default: 60s; 10s with --anyone]
    #[arg(long, value_name = "SPAN")]
    stall: Option<Span>,
    /// Time to wait for a sender that lost its connection [default: 5min; 10s with --anyone]
    #[arg(long, value_name = "SPAN")]
    outage: Option<Span>,
    #[arg(long, value_name = "NAME", default_value = "steady", value_parser = squall::congestion_control, help = format!(
        "Congestion control of the way back: {}", squall::controllers().names()
    ))]
    congestion: CongestionControl,
    /// File for the summary of the last transfer as JSON; - for standard output
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    #[command(flatten)]
    qlog: Qlog,
}

/// Runs the command.
pub(crate) fn run(args: &RecvArgs) -> anyhow::Result<ExitCode> {
    crate::runtime::free_standard_error()?;
    let runtime = crate::runtime::start(2)?;
    let outcome = runtime.block_on(receive(args));
    // A thread may still write to standard output.
    runtime.shutdown_background();
    outcome
}

async fn receive(args: &RecvArgs) -> anyhow::Result<ExitCode> {
    let target = Target::of(args.out.as_deref());
    target.check()?;
    let identity = args.identity()?;
    let (admission, is_new) = args.admission()?;
    let bounds = args.bounds(&admission);
    let endpoint = Endpoint::listen(args.listen, &identity.server_tls()?, args.config()?).map_err(whole)?;
    // Before the address is printed: its reader may send a signal at once.
    let interrupts = Interrupts::listen()?;
    announce(endpoint.local_addrs()[0], &identity, &admission, is_new);
    let host = Host::new(target, admission, bounds, args.once);
    let ended = serve(args, &endpoint, &host, interrupts).await;
    endpoint.close(ENDED, "the receiver ends");
    let _ = tokio::time::timeout(CLOSE_TIMEOUT, endpoint.wait_idle()).await;
    ended
}

/// Close code of sessions that are open at the end.
const ENDED: u32 = 5;

/// Serves senders until the only transfer has ended, or the user interrupts it.
async fn serve(
    args: &RecvArgs,
    endpoint: &Endpoint,
    host: &Arc<Host>,
    mut interrupts: Interrupts,
) -> anyhow::Result<ExitCode> {
    let (report, mut outcomes) = mpsc::channel(1);
    let mut sessions = JoinSet::new();
    let mut last = None;
    loop {
        tokio::select! {
            session = endpoint.accept() => {
                let Some(session) = session else { return Ok(ExitCode::SUCCESS) };
                let (host, report) = (host.clone(), report.clone());
                sessions.spawn(async move { host.serve(session, report).await });
            }
            Some(_) = sessions.join_next() => {}
            // Its sender may still reconnect for the receipt.
            ended = Last::settled(&mut last), if last.is_some() => return ended,
            Some(outcome) = outcomes.recv(), if last.is_none() => last = args.report(host, outcome),
            () = interrupts.next() => break,
        }
    }
    // Running transfers receive the same signal, and end.
    let mut ended = match last {
        Some(last) => last.ended,
        None if args.once => Err(Interrupted.into()),
        None => Ok(ExitCode::SUCCESS),
    };
    let end = async {
        while !sessions.is_empty() || !outcomes.is_empty() {
            tokio::select! {
                Some(outcome) = outcomes.recv() => if let Some(last) = args.report(host, outcome) {
                    let _ = last.settled.await;
                    ended = last.ended;
                },
                _ = sessions.join_next() => {}
            }
        }
    };
    let _ = tokio::time::timeout(CLOSE_TIMEOUT, end).await;
    ended
}

/// The last transfer. The receiver ends once its sender is notified.
struct Last {
    settled: oneshot::Receiver<()>,
    ended: anyhow::Result<ExitCode>,
}

impl Last {
    async fn settled(last: &mut Option<Self>) -> anyhow::Result<ExitCode> {
        match last {
            // Cancel safe: the receiver stays in place.
            Some(one) => drop((&mut one.settled).await),
            None => std::future::pending().await,
        }
        last.take().map_or(Ok(ExitCode::SUCCESS), |last| last.ended)
    }
}

/// Prints the command for a sender on standard error, as standard output may carry data.
fn announce(listening: SocketAddr, identity: &Identity, admission: &Admission, is_new: bool) {
    let fingerprint = identity.fingerprint();
    note!("listening on {listening}, fingerprint {fingerprint}");
    let host = match listening.ip() {
        // Without a route, only the user can name this machine.
        any if any.is_unspecified() => outward(any.is_ipv4()).map_or_else(|| "HOST".to_owned(), in_brackets),
        one => in_brackets(one),
    };
    let to = format!("{host}:{}", listening.port());
    let token = match admission {
        Admission::Token(token) if is_new => format!(" --token {}", token.reveal()),
        Admission::Token(_) => " --token …".to_owned(),
        Admission::Local | Admission::Anyone => String::new(),
    };
    note!("send with: squall send FILE --to {to} --pin {fingerprint}{token}");
}

fn in_brackets(address: IpAddr) -> String {
    match address {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => format!("[{address}]"),
    }
}

/// Returns the address from which this machine reaches others. Sends no packet.
fn outward(v4: bool) -> Option<IpAddr> {
    // Documentation addresses (RFC 5737, RFC 3849) are routed like others.
    let (any, far) = if v4 { ("0.0.0.0:0", "192.0.2.1:9") } else { ("[::]:0", "[2001:db8::1]:9") };
    let socket = UdpSocket::bind(any).ok()?;
    socket.connect(far).ok()?;
    Some(socket.local_addr().ok()?.ip())
}

impl RecvArgs {
    /// Returns the rule for authorisation, and `true` if the token is a new one.
    fn admission(&self) -> anyhow::Result<(Admission, bool)> {
        if self.anyone {
            return Ok((Admission::Anyone, false));
        }
        match self.token.token()? {
            Some(token) => Ok((Admission::Token(token), false)),
            None if self.listen.ip().is_loopback() => Ok((Admission::Local, false)),
            None => Ok((Admission::Token(token::make()?), true)),
        }
    }

    fn bounds(&self, admission: &Admission) -> Bounds {
        let default =
            |seconds| if admission.is_open() { STRANGER_TIMEOUT } else { Duration::from_secs(seconds) };
        Bounds {
            size: self.max_size.map(Size::bytes),
            files: self.max_files,
            stall: self.stall.map_or_else(|| default(60), Span::duration),
            outage: self.outage.map_or_else(|| default(300), Span::duration),
        }
    }

    /// Prints the outcome of a transfer. Returns it if it is the last one.
    fn report(&self, host: &Host, outcome: Outcome) -> Option<Last> {
        let Outcome { result, begun, settled } = outcome;
        // The failed transfer of an unauthenticated sender has no effect, except on standard
        // output.
        let has_no_effect = host.admission.is_open() && !(begun && host.target == Target::Stdout);
        match result.and_then(|summary| self.publish(&host.target, &summary)) {
            // Interrupted during a transfer.
            Err(error) if error.is::<Interrupted>() || self.once && !has_no_effect => {
                Some(Last { settled, ended: Err(error) })
            }
            Err(error) => {
                host.note(format_args!("squall: {}", output::one_line(&error)));
                None
            }
            Ok(()) => self.once.then_some(Last { settled, ended: Ok(ExitCode::SUCCESS) }),
        }
    }

    fn identity(&self) -> anyhow::Result<Identity> {
        let address = self.listen.ip();
        let listened = if address.is_unspecified() { "localhost".to_owned() } else { address.to_string() };
        let name = self.name.clone().unwrap_or(listened);
        let identity = match &self.identity {
            Some(file) => Identity::load_or_create(file, &name),
            None => Identity::self_signed(&name),
        };
        identity.map_err(whole)
    }

    fn config(&self) -> anyhow::Result<Config> {
        self.qlog.apply(
            Config::default()
                .congestion(self.congestion.clone())
                .max_sessions(SESSIONS)
                .handshakes(HANDSHAKES)
                .reassembly(REASSEMBLY)
                // Until the sender is authorised.
                .distrust(true),
        )
    }

    fn publish(&self, target: &Target, summary: &Summary) -> anyhow::Result<()> {
        let words = summary.to_string();
        match (target, self.json.as_deref()) {
            (Target::Stdout, _) => output::on_stderr(&words),
            (_, Some(json)) if output::is_stdout(json) => {}
            _ => output::print(&words)?,
        }
        self.json.as_deref().map_or(Ok(()), |file| super::write_json(file, summary))
    }
}

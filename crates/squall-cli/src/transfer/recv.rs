//! `squall recv`.

use std::{
    net::{IpAddr, SocketAddr, UdpSocket},
    path::PathBuf,
    process::ExitCode,
    sync::Arc,
    time::Duration,
};

use clap::Args;
use squall::{Config, CongestionControl, Endpoint, Identity, Limits};
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
    admission::Admission,
    host::{Bounds, Host, Outcome, VISITORS},
    incoming::Summary,
    output::Target,
};
use crate::token::{self, TokenArgs};

/// Sessions at a time, of senders that are authorised and of [`VISITORS`].
const SESSIONS: usize = VISITORS + 16;

/// Handshakes at a time.
const HANDSHAKES: usize = 16;

/// Bytes of a session's blocks that are being put together, or wait to be taken.
const REASSEMBLY: u64 = 16 << 20;

/// How long a stranger may stand still, and stay away: others may wait for its place.
const STRANGER: Duration = Duration::from_secs(10);

/// How long the last words to senders may take.
const FAREWELL: Duration = Duration::from_secs(3);

/// Receives what `squall send` sends.
///
/// A sender has to know a token, unless it is on this machine: --token, --token-file or SQUALL_TOKEN. Without one, a
/// random token is made and shown. A file is written beside its final name, as FILE.….part, and gets that name when it
/// is whole.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    squall recv --listen 0.0.0.0:4433 --identity receiver.pem\n  \
    squall recv --listen '[::]:4433' --token-file secret --out camera.h264 --once\n  \
    squall recv --listen 0.0.0.0:4433 --out - --once | tar x\n\n\
    What happens when the connection is lost is in docs/transfer.md.")]
pub(crate) struct RecvArgs {
    /// Where to listen; port 0 takes a free one
    #[arg(long, value_name = "ADDR:PORT")]
    listen: SocketAddr,
    /// File or folder to write to, - for standard output; the sender's name for it in this folder if not given
    #[arg(long, value_name = "FILE|DIR|-")]
    out: Option<PathBuf>,
    #[command(flatten)]
    token: TokenArgs,
    /// Take files from anyone who reaches the address, without a token
    #[arg(long, conflicts_with_all = ["token", "token_file"])]
    anyone: bool,
    /// Certificate and key, made when the file is not there; new ones on every start if not given
    #[arg(long, value_name = "FILE")]
    identity: Option<PathBuf>,
    /// Name in a certificate that is made: a host name or an address; that of --listen if not given
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// End after one transfer, with exit code 1 if it failed
    #[arg(long)]
    once: bool,
    /// Refuse files that are larger, such as 2GB
    #[arg(long, value_name = "SIZE")]
    max_size: Option<Size>,
    /// Refuse files after so many
    #[arg(long, value_name = "N")]
    max_files: Option<u64>,
    /// How long a connected sender may send nothing; 60 s if not given, 10 s with --anyone
    #[arg(long, value_name = "SPAN")]
    stall: Option<Span>,
    /// How long to wait for a sender whose connection was lost; 5 min if not given, 10 s with --anyone
    #[arg(long, value_name = "SPAN")]
    outage: Option<Span>,
    #[arg(long, value_name = "NAME", default_value = "steady", help = format!(
        "Congestion control for what is sent back: {}", CongestionControl::names()
    ))]
    congestion: CongestionControl,
    /// Write the summary of the last transfer as JSON; - for standard output
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    #[cfg(feature = "qlog")]
    /// Write a qlog of every connection into this folder
    #[arg(long, value_name = "DIR")]
    qlog: Option<PathBuf>,
}

/// Runs the command.
pub(crate) fn run(args: &RecvArgs) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let outcome = runtime.block_on(receive(args));
    // A thread may still wait for a reader of standard output.
    runtime.shutdown_background();
    outcome
}

async fn receive(args: &RecvArgs) -> anyhow::Result<ExitCode> {
    let target = Target::of(args.out.as_deref());
    target.check()?;
    let identity = args.identity()?;
    let (admission, made) = args.admission()?;
    let bounds = args.bounds(&admission);
    let endpoint = Endpoint::listen(args.listen, &identity.server_tls()?, args.config()?).map_err(whole)?;
    // Before the address is printed: its reader may send a signal at once.
    let interrupts = Interrupts::listen()?;
    announce(endpoint.local_addrs()[0], &identity, &admission, made);
    let host = Host::new(target, admission, bounds, args.once);
    let ended = serve(args, &endpoint, &host, interrupts).await;
    endpoint.close(ENDED, "it has ended");
    let _ = tokio::time::timeout(FAREWELL, endpoint.wait_idle()).await;
    ended
}

/// Code with which sessions are closed that are there at the end.
const ENDED: u32 = 5;

/// Serves senders until there is nothing more to do, or the user wants it to end.
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
            // Its sender may still come back for the receipt.
            ended = Last::settled(&mut last), if last.is_some() => return ended,
            Some(outcome) = outcomes.recv(), if last.is_none() => last = args.take(host, outcome),
            () = interrupts.next() => break,
        }
    }
    // Transfers in progress end by themselves, as they see the same signal.
    let mut ended = match last {
        Some(last) => last.ended,
        None if args.once => Err(Interrupted.into()),
        None => Ok(ExitCode::SUCCESS),
    };
    let end = async {
        while !sessions.is_empty() || !outcomes.is_empty() {
            tokio::select! {
                Some(outcome) = outcomes.recv() => if let Some(last) = args.take(host, outcome) {
                    let _ = last.settled.await;
                    ended = last.ended;
                },
                _ = sessions.join_next() => {}
            }
        }
    };
    let _ = tokio::time::timeout(FAREWELL, end).await;
    ended
}

/// What the receiver ends with, once the sender knows how its transfer ended.
struct Last {
    settled: oneshot::Receiver<()>,
    ended: anyhow::Result<ExitCode>,
}

impl Last {
    async fn settled(last: &mut Option<Self>) -> anyhow::Result<ExitCode> {
        match last {
            // Cancel safe: it is still there next time.
            Some(one) => drop((&mut one.settled).await),
            None => std::future::pending().await,
        }
        last.take().map_or(Ok(ExitCode::SUCCESS), |last| last.ended)
    }
}

/// Tells on standard error whom a sender has to trust, as standard output may carry data.
fn announce(listening: SocketAddr, identity: &Identity, admission: &Admission, made: bool) {
    let fingerprint = identity.fingerprint();
    note!("listening on {listening}, fingerprint {fingerprint}");
    let host = match listening.ip() {
        // Without a way out only the user knows a name for this machine.
        any if any.is_unspecified() => outward(any.is_ipv4()).map_or_else(|| "HOST".to_owned(), in_brackets),
        one => in_brackets(one),
    };
    let to = format!("{host}:{}", listening.port());
    let token = match admission {
        Admission::Token(token) if made => format!(" --token {}", token.reveal()),
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

/// The address of this machine by which it reaches others. No packet is sent to find out.
fn outward(v4: bool) -> Option<IpAddr> {
    // Addresses for documentation (RFC 5737, RFC 3849) are routed like any other.
    let (any, far) = if v4 { ("0.0.0.0:0", "192.0.2.1:9") } else { ("[::]:0", "[2001:db8::1]:9") };
    let socket = UdpSocket::bind(any).ok()?;
    socket.connect(far).ok()?;
    Some(socket.local_addr().ok()?.ip())
}

impl RecvArgs {
    /// Who may send, and whether the token for that was made here.
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
        let usual = |known| if admission.is_open() { STRANGER } else { Duration::from_secs(known) };
        Bounds {
            size: self.max_size.map(Size::bytes),
            files: self.max_files,
            stall: self.stall.map_or_else(|| usual(60), Span::duration),
            outage: self.outage.map_or_else(|| usual(300), Span::duration),
        }
    }

    /// Reports how a transfer ended. Gives what the receiver ends with, if there is nothing more to do.
    fn take(&self, host: &Host, outcome: Outcome) -> Option<Last> {
        let Outcome { result, begun, settled } = outcome;
        // What a stranger breaks off leaves no trace, except on standard output.
        let of_no_effect = host.admission.is_open() && !(begun && host.target == Target::Stdout);
        match result.and_then(|summary| self.publish(&host.target, &summary)) {
            // Asked to end in the middle of a transfer.
            Err(error) if error.is::<Interrupted>() || self.once && !of_no_effect => {
                Some(Last { settled, ended: Err(error) })
            }
            Err(error) => {
                note!("squall: {}", output::one_line(&error));
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
        #[cfg(feature = "qlog")]
        if let Some(folder) = &self.qlog {
            std::fs::create_dir_all(folder)
                .map_err(|error| super::failure::on_file("make", folder, &error))?;
        }
        let limits = Limits {
            sessions: SESSIONS,
            handshakes: HANDSHAKES,
            reassembly: REASSEMBLY,
            ..Limits::default()
        };
        Ok(Config {
            congestion: self.congestion,
            limits,
            // Until it is authorised.
            distrust: true,
            #[cfg(feature = "qlog")]
            qlog_dir: self.qlog.clone(),
            ..Config::default()
        })
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

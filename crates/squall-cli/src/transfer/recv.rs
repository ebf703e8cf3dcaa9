//! `squall recv`.

use std::{
    net::{IpAddr, SocketAddr, UdpSocket},
    path::PathBuf,
    process::ExitCode,
};

use clap::Args;
use squall::{Config, CongestionControl, Endpoint, Identity};

use super::{
    incoming::{self, Summary},
    output::Target,
};
use crate::{
    error::whole,
    interrupt::{Interrupted, Interrupts},
    output,
};

/// Receives what `squall send` sends.
///
/// A file is written beside its final name, as FILE.part, and gets that name when it is whole.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  squall recv --listen 0.0.0.0:4433 --identity receiver.pem\n  \
                        squall recv --listen '[::]:4433' --out camera.h264 --once\n  \
                        squall recv --listen 0.0.0.0:4433 --out - --once | tar x")]
pub(crate) struct RecvArgs {
    /// Where to listen; port 0 takes a free one
    #[arg(long, value_name = "ADDR:PORT")]
    listen: SocketAddr,
    /// File or folder to write to, - for standard output; the sender's name for it in this folder if not given
    #[arg(long, value_name = "FILE|DIR|-")]
    out: Option<PathBuf>,
    /// Certificate and key, made when the file is not there; new ones on every start if not given
    #[arg(long, value_name = "FILE")]
    identity: Option<PathBuf>,
    /// Name in a certificate that is made: a host name or an address; that of --listen if not given
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// End after one transfer, with exit code 1 if it failed
    #[arg(long)]
    once: bool,
    #[arg(long, value_name = "NAME", default_value = "cubic", help = format!(
        "Congestion control for what is sent back: {}", CongestionControl::names()
    ))]
    congestion: CongestionControl,
    /// Write the summary of the last transfer as JSON; - for standard output
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
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
    let endpoint = Endpoint::listen(args.listen, &identity.server_tls()?, args.config()?).map_err(whole)?;
    // Before the address is printed: its reader may send a signal at once.
    let mut interrupts = Interrupts::listen()?;
    announce(endpoint.local_addrs()[0], &identity);
    loop {
        let session = tokio::select! {
            session = endpoint.accept() => session,
            () = interrupts.next() => None,
        };
        let Some(session) = session else {
            // A service has done its work; the one transfer that was asked for is not there.
            return if args.once { Err(Interrupted.into()) } else { Ok(ExitCode::SUCCESS) };
        };
        let outcome = incoming::receive(&session, &target).await;
        let result = outcome.and_then(|summary| args.publish(&target, &summary));
        match result {
            // Asked to end in the middle of a transfer.
            Err(error) if args.once || error.is::<Interrupted>() => return Err(error),
            Err(error) => eprintln!("squall: {error:#}"),
            Ok(()) if args.once => return Ok(ExitCode::SUCCESS),
            Ok(()) => {}
        }
    }
}

/// Tells on standard error whom a sender has to trust, as standard output may carry data.
fn announce(listening: SocketAddr, identity: &Identity) {
    let fingerprint = identity.fingerprint();
    eprintln!("listening on {listening}, fingerprint {fingerprint}");
    let host = match listening.ip() {
        // Without a way out only the user knows a name for this machine.
        any if any.is_unspecified() => outward(any.is_ipv4()).map_or_else(|| "HOST".to_owned(), in_brackets),
        one => in_brackets(one),
    };
    let to = format!("{host}:{}", listening.port());
    eprintln!("send with: squall send FILE --to {to} --pin {fingerprint}");
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
        if let Some(folder) = &self.qlog {
            std::fs::create_dir_all(folder)
                .map_err(|error| super::failure::on_file("make", folder, &error))?;
        }
        Ok(Config { congestion: self.congestion, qlog_dir: self.qlog.clone(), ..Config::default() })
    }

    fn publish(&self, target: &Target, summary: &Summary) -> anyhow::Result<()> {
        let words = summary.to_string();
        match (target, self.json.as_deref()) {
            (Target::Stdout, _) => eprint!("{words}"),
            (_, Some(json)) if output::is_stdout(json) => {}
            _ => output::print(&words)?,
        }
        self.json.as_deref().map_or(Ok(()), |file| super::write_json(file, summary))
    }
}

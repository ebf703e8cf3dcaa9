//! `squall-lab shell`: runs any program behind emulated links.

mod links;
mod programs;
mod summary;

use std::{ffi::OsString, io::IsTerminal as _, path::PathBuf, process::ExitCode, time::Duration};

use clap::{Args, ValueEnum};
use squall_shell::{Awake, End, Prepared, ShellError};
use squall_terminal::{
    error::{usage, whole},
    interrupt::Interrupts,
    note, output,
};
use squall_units::Span;

use self::programs::{Ended, Programs};

/// Runs a program behind emulated links, each with its own interface, that lead to a server side in
/// a separate network.
///
/// The program sees an interface for each link, named after it, with the addresses 10.77.1.2,
/// 10.77.2.2, ... The server side is reachable at 10.77.0.1 over any link (over link 1 alone at
/// 10.77.1.1, ...); with IPv6 the addresses are fd77:1::2, fd77:2::2, ... and fd77::1 (fd77:1::1,
/// ...). Sockets bound to an address or an interface use its link, all others the first. Links are
/// defined by --link, once for each, or by a scenario. Exits with the program's exit code and
/// leaves nothing behind. Linux; requires root or user namespaces.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  \
    squall-lab shell --link name=wifi,rate=20mbps,delay=15ms,loss=0.1% \\\n      \
    --link name=lte,rate=8mbps,delay=40ms\n  \
    squall-lab shell --join far\n  \
    squall-lab shell --link delay=20ms -- ping -c 3 10.77.0.1\n  \
    squall-lab shell --scenario scenarios/fading.toml --server 'iperf3 -s -1' \\\n      \
    --client 'iperf3 -c 10.77.0.1'\n  \
    squall-lab shell --link trace:scenarios/traces/lte.mahi,delay=30ms \\\n      \
    --log out/logs -- ping -c 3 10.77.0.1\n  \
    squall-lab shell --ipv6 --link delay=20ms -- ping -c 3 fd77::1\n\n\
    Variables for both programs: SQUALL_SERVER (10.77.0.1), SQUALL_LINKS (names) and SQUALL_CLIENT (addresses), separated by \
    commas; SQUALL_SERVER6 and SQUALL_CLIENT6 with IPv6; SQUALL_RADIOS if links have radios, by which `squall signal watch` and --signal find them.")]
pub(crate) struct ShellArgs {
    /// Link to emulate: key=value pairs as in scenario files (name, rate, delay, jitter, queue,
    /// loss, duplicate, corrupt, mtu, mahimahi, ...; up. and down. before a key for one direction),
    /// or trace:FILE[,key=value...] for a recorded rate in any format that `squall-lab trace info`
    /// reads
    #[arg(long, value_name = "LINK", conflicts_with = "scenario", required_unless_present_any = ["scenario", "join"])]
    link: Vec<String>,
    /// Scenario whose paths are used, with all their events; docs/scenarios.md describes the format
    #[arg(long, value_name = "SCENARIO.toml")]
    scenario: Option<PathBuf>,
    /// Enter a side of a running shell from another terminal: near is the client's, far the
    /// server's. Ends with that shell
    #[arg(long, value_name = "SIDE", conflicts_with_all = ["link", "scenario", "server", "client", "time", "log", "json"])]
    join: Option<Side>,
    /// Process id of the shell to join; needed only if several run
    #[arg(long, value_name = "PID", requires = "join")]
    pid: Option<u32>,
    /// Command to run on the server side, by a shell; it starts first and gets no input
    #[arg(long, value_name = "CMD")]
    server: Option<String>,
    /// Command to run on the client side, by a shell
    #[arg(long, value_name = "CMD", conflicts_with = "program")]
    client: Option<String>,
    /// Program to run on the client side, without a shell. Default: an interactive shell
    #[arg(last = true, value_name = "PROGRAM")]
    program: Vec<OsString>,
    /// Delay between the start of the server's program and that of the links and the client's
    /// program
    #[arg(long, value_name = "TIME", default_value = "300ms")]
    after: Span,
    /// End the client's program after this time
    #[arg(long, value_name = "TIME")]
    time: Option<Span>,
    /// Use only IPv6: the links have no IPv4 addresses, and the variables contain those of IPv6
    #[arg(long, conflicts_with = "join")]
    ipv6: bool,
    /// Seed of the links' randomness
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Log every packet, for each link and direction: NAME-up.log in the format of mahimahi,
    /// NAME-up.jsonl with all details
    #[arg(long, value_name = "DIR")]
    log: Option<PathBuf>,
    /// Write the statistics of the links as JSON; - for standard output
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Declare the run invalid if more than 1 % of the packets left their link later than this
    #[arg(long, value_name = "TIME", default_value = "2ms")]
    max_slip: Span,
    /// Keep the processors from halting, by a thread of the lowest priority on each: reduces the
    /// delay of packets on a virtual machine whose host is shared
    #[arg(long)]
    keep_awake: bool,
    /// Exit with 1 if the run is invalid
    #[arg(long)]
    strict: bool,
    /// Print nothing at the start, and at the end only if the run is invalid
    #[arg(long, short)]
    quiet: bool,
}

/// A side of the links.
#[derive(ValueEnum, Clone, Copy, Debug)]
enum Side {
    Near,
    Far,
}

/// First process behind the links on one side, started only by `squall-lab shell`.
#[derive(Args, Clone, Debug)]
pub(crate) struct InitArgs {
    alive: i32,
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<OsString>,
}

/// Runs the init process.
pub(crate) fn init(args: &InitArgs) -> ExitCode {
    ExitCode::from(squall_shell::init::run(args.alive, &args.command))
}

/// Runs the command.
pub(crate) fn run(args: &ShellArgs) -> anyhow::Result<ExitCode> {
    if let Some(side) = args.join {
        return join(args, side);
    }
    let paths = links::paths(args)?;
    // Must precede the first thread.
    squall_shell::acquire().map_err(whole)?;
    let prepare = if args.ipv6 { Prepared::over_ipv6 } else { Prepared::new };
    let prepared = prepare(&paths, args.seed).map_err(|error| match error {
        ShellError::Links(_) | ShellError::Mtu { .. } | ShellError::MtuForIpv6 { .. } => usage(error),
        error => whole(error),
    })?;
    // There is something to clean up from here on. A signal that arrives earlier is seen by the
    // wait for the programs.
    let _interrupts = Interrupts::listen()?;
    if !args.quiet && std::io::stderr().is_terminal() {
        output::on_stderr(&summary::welcome(&prepared, &paths, args.server.is_some()));
    }
    let _awake = args.keep_awake.then(Awake::keep).transpose().map_err(whole)?;
    let mut programs = Programs::new(&prepared);
    if let Some(command) = &args.server {
        programs.start_server(prepared.server(), command).map_err(whole)?;
        std::thread::sleep(Duration::from_micros(args.after.micros()));
    }
    let mut shell = prepared.start(args.log.as_deref()).map_err(whole)?;
    programs.start_client(shell.client(), args.client.as_deref(), &args.program).map_err(whole)?;
    let ended = programs.wait(args.time.map(|time| Duration::from_micros(time.micros())), &shell)?;
    let report = shell.report().map_err(whole)?;
    let logs = shell.finish_logs();
    drop(shell);
    let invalid = report.invalid(Duration::from_micros(args.max_slip.micros()));
    if !args.quiet {
        output::on_stderr(&summary::table(&report));
    }
    if let Some(why) = &invalid {
        note!("squall-lab: this run does not count: {why}");
    }
    if let Some(file) = &args.json {
        output::write(file, &summary::json(&report, args.seed, invalid.as_deref())?)?;
    }
    logs.map_err(whole)?;
    Ok(match ended {
        _ if args.strict && invalid.is_some() => ExitCode::from(1),
        Ended::Interrupted => ExitCode::from(130),
        Ended::Client(code) => ExitCode::from(code),
    })
}

/// Runs a program on a side of a running shell.
fn join(args: &ShellArgs, side: Side) -> anyhow::Result<ExitCode> {
    let end = match side {
        Side::Near => End::Near,
        Side::Far => End::Far,
    };
    // Must precede the first thread.
    let joined = squall_shell::join(end, args.pid).map_err(|error| match error {
        ShellError::Join(_) => usage(error),
        error => whole(error),
    })?;
    let code = joined.run(programs::init(), programs::program_or_shell(&args.program)).map_err(whole)?;
    Ok(ExitCode::from(code))
}

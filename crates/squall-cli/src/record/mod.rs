//! `squall record`: rate, round trip, loss and radio levels of each interface to another host, as a scenario of the laboratory.

mod far;
mod flow;
mod near;
mod pace;
mod socket;
mod table;
mod wire;

use std::{
    collections::{BTreeMap, VecDeque},
    net::{SocketAddr, ToSocketAddrs as _},
    path::PathBuf,
    process::ExitCode,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail};
use clap::Args;
use squall_signal::{Clock, Monitor, Reading, SourceError, radio};
use squall_terminal::{error::usage, interrupt::Interrupts, note, output};
use squall_units::{Size, Span, format};

use self::{
    near::{Common, Interface},
    socket::Epoch,
    table::Link,
    wire::{Mode, Plan},
};
use crate::{
    arguments::{parse_address, parse_host},
    hops::interfaces,
    token::{self, TokenArgs},
};

/// Time for the other end to answer, and for a saturating end to fill the queue. Not recorded.
const BEGIN: Duration = Duration::from_secs(3);

/// Time without an answer over any interface after which the recording fails.
const NO_ANSWER: Duration = Duration::from_secs(5);

/// Interval at which the files are written, so that little is lost if the battery runs out.
const SAVE: Duration = Duration::from_secs(30);

/// Time at the current rate whose bytes are reserved for the end of a recording with a limit.
const RESERVE: Duration = Duration::from_secs(1);

/// Bytes of a step in addition to trains, for instance reports.
const REPORTS: f64 = 1_000.0;

/// Interval of reading the radios.
const RADIO: Duration = Duration::from_millis(100);

/// Default steps: for samples, and with `--saturate`.
const STEP: (Span, Span) = (Span::from_millis(500), Span::from_millis(100));

/// Maximum duration of a recording, which is that of a trace.
const LONGEST: Duration = Duration::from_secs(24 * 3600);

/// Records the rate, the round trip and the loss of every interface to another host, with the
/// levels of its radio, as a scenario.
///
/// One end listens; the other end records and writes a table for each interface, and scenario.toml
/// for `squall-lab run`. Without --saturate each end sends a train of packets at each step, which
/// needs little data; a radio that delivers a train in one piece has a gap in its recording.
/// --saturate fills every link in both directions all the time: exact, but the data grows with the
/// rate of the links.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  squall record --listen 0.0.0.0:4434\n  squall record --to HOST:4434 --token-file secret --for 10min --out walk\n  \
                  squall record --to HOST:4434 --token-file secret --out walk \\\n    --saturate --at-most 500MB"
)]
pub(crate) struct RecordArgs {
    /// Address to listen on
    #[arg(long, value_name = "ADDR:PORT", value_parser = parse_address, conflicts_with_all = ["to", "interfaces", "out", "saturate",
        "at_most", "step", "packets", "duration"], required_unless_present = "to")]
    listen: Option<SocketAddr>,
    /// Address of the end that listens
    #[arg(long, value_name = "HOST:PORT", value_parser = parse_host, requires = "out")]
    to: Option<String>,
    #[command(flatten)]
    token: TokenArgs,
    /// Interface to record, repeatable. Default: all that are up and get an answer
    #[arg(long = "interface", value_name = "NAME")]
    interfaces: Vec<String>,
    /// Folder for the tables and scenario.toml, which must not exist there yet
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Fill the links instead of sampling them
    #[arg(long, requires = "at_most")]
    saturate: bool,
    /// IP bytes, sent and received over all interfaces, after which the recording ends
    #[arg(long, value_name = "SIZE")]
    at_most: Option<Size>,
    /// Duration of a row, 10ms to 10s [default: 500ms, with --saturate 100ms]
    #[arg(long, value_name = "TIME")]
    step: Option<Span>,
    /// Packets of a train; fewer over slow links
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u16).range(4..=256))]
    packets: u16,
    /// Duration of the recording; otherwise it ends with Ctrl-C
    #[arg(long = "for", value_name = "TIME")]
    duration: Option<Span>,
}

/// Runs the command.
pub(crate) fn run(args: &RecordArgs) -> anyhow::Result<ExitCode> {
    let given = args.token.token()?;
    if let Some(address) = args.listen {
        return listen(address, given);
    }
    let Some(token) = given else {
        return Err(usage("--token-file, --token or SQUALL_TOKEN is required: that of the end that listens"));
    };
    let (to, out) = (args.to.as_deref().unwrap_or_default(), args.out.clone().unwrap_or_default());
    let step = args.step.unwrap_or(if args.saturate { STEP.1 } else { STEP.0 });
    let mode = if args.saturate { Mode::Saturate } else { Mode::Sample };
    let plan =
        Plan { mode, step: u32::try_from(step.micros()).unwrap_or(0), train: args.packets, is_ending: false };
    if !plan.is_possible() {
        return Err(usage("--step: 10ms to 10s"));
    }
    if args.duration.is_some_and(|time| !(step.duration()..=LONGEST).contains(&time.duration())) {
        return Err(usage("--for: at least a step, at most 24 hours"));
    }
    let host = to.to_socket_addrs().with_context(|| format!("{to} is not found"))?.next();
    let host = host.with_context(|| format!("{to} has no address"))?;
    let names = chosen(&args.interfaces, host)?;
    for file in names.iter().map(|name| format!("{name}.csv")).chain(["scenario.toml".to_owned()]) {
        if out.join(&file).exists() {
            return Err(usage(format!(
                "{} is there already; choose another --out",
                out.join(&file).display()
            )));
        }
    }
    note!("{}", cost(args, plan, names.len()));
    let common = Common {
        epoch: Epoch(Instant::now()),
        plan,
        token: wire::key(token.reveal().as_bytes()),
        host,
        bytes: AtomicU64::new(0),
        at_most: args.at_most.map_or(u64::MAX, Size::bytes),
        is_over: AtomicBool::new(false),
    };
    Recording::new(common, names, out)?.run(args.duration.map(Span::duration))
}

fn listen(address: SocketAddr, given: Option<squall_tunnel::config::Token>) -> anyhow::Result<ExitCode> {
    let is_new = given.is_none();
    let token = given.map_or_else(token::make, Ok)?;
    let socket = socket::listen(address).with_context(|| format!("cannot listen on {address}"))?;
    let port = socket.local_addr()?.as_socket().map_or(address.port(), |address| address.port());
    let words = if is_new { token.reveal() } else { "…" };
    note!(
        "listening on {}, port {port}; record with: squall record --to HOST:{port} --token {words} --out DIR",
        address.ip()
    );
    far::run(socket, token.reveal().as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

/// Returns the interfaces to record.
fn chosen(given: &[String], host: SocketAddr) -> anyhow::Result<Vec<String>> {
    let known = interfaces(host.is_ipv6())?;
    let Some(unknown) = given.iter().find(|name| !known.contains(name)) else {
        let mut names = if given.is_empty() { known } else { given.to_vec() };
        names.sort_unstable();
        names.dedup();
        return if names.is_empty() { bail!("no interface is up") } else { Ok(names) };
    };
    let family = if host.is_ipv6() { "IPv6" } else { "IPv4" };
    Err(usage(format!(
        "--interface: {unknown} is not up or has no {family} address; there are {}",
        known.join(", ")
    )))
}

/// Describes the expected amount of data.
fn cost(args: &RecordArgs, plan: Plan, interfaces: usize) -> String {
    let size = |bytes: f64| format::size(bytes);
    let most =
        args.at_most.map_or_else(String::new, |most| format!(", {} at most", size(most.bytes() as f64)));
    if plan.mode == Mode::Saturate {
        return format!("this fills {interfaces} interfaces in both directions{most} of data in all");
    }
    let of_step = 2.0 * f64::from(plan.train) * (wire::SIZE + 48) as f64 + REPORTS;
    let (time, words) = match args.duration {
        Some(time) => ((time.duration() + BEGIN).as_secs_f64(), "in all"),
        None => (60.0, "a minute"),
    };
    let bytes = interfaces as f64 * of_step * time * 1e6 / f64::from(plan.step);
    format!(
        "this costs up to {} of data {words} over {interfaces} interfaces, both directions together{most}",
        size(bytes)
    )
}

/// Readings of a radio, ordered by time.
type Readings = Arc<Mutex<Vec<Reading>>>;

/// A recording in progress.
struct Recording {
    common: Arc<Common>,
    interfaces: Vec<Arc<Interface>>,
    readings: BTreeMap<String, Readings>,
    /// Monitors, which read as long as they exist.
    _radios: Vec<Monitor>,
    out: PathBuf,
    /// First recorded step.
    begin: u32,
}

impl Recording {
    fn new(common: Common, names: Vec<String>, out: PathBuf) -> anyhow::Result<Self> {
        let clock = Clock::new(common.epoch.0);
        let (mut radios, mut readings) = (Vec::new(), BTreeMap::new());
        for name in &names {
            let source = match radio(name) {
                Ok(source) => source,
                Err(SourceError::Missing { .. }) => continue,
                Err(error) => {
                    note!("note: {error}");
                    continue;
                }
            };
            let all = Readings::default();
            let push = all.clone();
            let push =
                move |reading: &Reading| push.lock().unwrap_or_else(PoisonError::into_inner).push(*reading);
            let monitor = Monitor::start_with(source, clock, RADIO, push)?;
            if let Some(note) = monitor.note() {
                note!("note: {name}: {note}");
            }
            radios.push(monitor);
            readings.insert(name.clone(), all);
        }
        let begin = (BEGIN.as_micros() as u32).div_ceil(common.plan.step);
        let common = Arc::new(common);
        let mut interfaces = Vec::new();
        for name in names {
            let mut session = [0; 8];
            token::random(&mut session)?;
            interfaces.push(Arc::new(Interface::new(name, u64::from_be_bytes(session), &common)));
        }
        Ok(Self { common, interfaces, readings, _radios: radios, out, begin })
    }

    fn run(&self, duration: Option<Duration>) -> anyhow::Result<ExitCode> {
        let mut threads = Vec::new();
        for interface in &self.interfaces {
            let (interface, common) = (interface.clone(), self.common.clone());
            let thread = thread::Builder::new().name(format!("record {}", interface.name));
            threads.push(thread.spawn(move || interface.run(&common))?);
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let outcome = runtime.block_on(self.supervise(duration));
        self.common.is_over.store(true, Relaxed);
        let end = self.common.plan.step_of(self.common.epoch.now());
        for thread in threads {
            thread.join().map_err(|_| anyhow::anyhow!("a thread of the recording failed"))?;
        }
        outcome?;
        self.save(end)?;
        let files = self.answered().len();
        note!(
            "recorded {files} of {} interfaces, {} of data: {}",
            self.interfaces.len(),
            format::size(self.common.bytes.load(Relaxed) as f64),
            self.out.join("scenario.toml").display()
        );
        Ok(ExitCode::SUCCESS)
    }

    /// Waits for the end, and writes intermediate results.
    async fn supervise(&self, duration: Option<Duration>) -> anyhow::Result<()> {
        let mut interrupts = Interrupts::listen()?;
        let began = self.common.epoch.0;
        let end = duration.map(|time| began + BEGIN + time);
        let mut saved = began + BEGIN;
        let mut spent: VecDeque<(Instant, u64)> = VecDeque::new();
        let mut tick = tokio::time::interval(Duration::from_millis(50));
        loop {
            tokio::select! {
                () = interrupts.next() => break,
                _ = tick.tick() => {}
            }
            let now = Instant::now();
            if self.answered().is_empty() && now >= began + NO_ANSWER {
                return Err(self.no_answer());
            }
            // Packets in flight still arrive: at most those of a second, as the queue is shorter.
            let bytes = self.common.bytes.load(Relaxed);
            spent.push_back((now, bytes));
            while spent.front().is_some_and(|(at, _)| *at + RESERVE < now) {
                spent.pop_front();
            }
            let reserve = spent.front().map_or(0, |(_, before)| bytes - before);
            let is_spent = bytes + reserve >= self.common.at_most;
            if is_spent || self.common.is_over.load(Relaxed) || end.is_some_and(|end| now >= end) {
                break;
            }
            if now >= saved + SAVE {
                saved = now;
                let closed = self.common.epoch.now().saturating_sub(SAVE.as_micros() as u64 / 2);
                self.save(self.common.plan.step_of(closed))?;
            }
        }
        Ok(())
    }

    fn answered(&self) -> Vec<&Arc<Interface>> {
        self.interfaces.iter().filter(|interface| interface.state().has_answer).collect()
    }

    fn no_answer(&self) -> anyhow::Error {
        let host = self.common.host;
        if self.interfaces.iter().any(|interface| interface.state().is_refused) {
            return anyhow::anyhow!("{host} refuses the token: both ends need the same one");
        }
        let problems: Vec<String> = self
            .interfaces
            .iter()
            .map(|interface| {
                let problem = interface.state().problem.clone();
                format!("{}: {}", interface.name, problem.unwrap_or_else(|| "no answer".to_owned()))
            })
            .collect();
        anyhow::anyhow!("{host}: is `squall record --listen` running there? {}", problems.join("; "))
    }

    /// Writes the steps before `end`.
    fn save(&self, end: u32) -> anyhow::Result<()> {
        let mut tables = Vec::new();
        for interface in self.answered() {
            let readings = self
                .readings
                .get(&interface.name)
                .map(|readings| readings.lock().unwrap_or_else(PoisonError::into_inner).clone());
            let state = interface.state();
            let rows = table::rows(&state.flow, &readings.unwrap_or_default(), self.begin, end);
            let least_rtt = state.flow.round_trips.values().min().copied().unwrap_or(0);
            tables.push((&interface.name, format!("{}.csv", interface.name), rows, least_rtt));
        }
        anyhow::ensure!(
            tables.iter().any(|(_, _, rows, _)| !rows.is_empty()),
            "nothing was recorded: it takes {} s to begin",
            BEGIN.as_secs()
        );
        for (_, file, rows, _) in &tables {
            output::write(&self.out.join(file), &table::csv(rows))?;
        }
        let links: Vec<Link<'_>> = tables
            .iter()
            .map(|(name, file, rows, least_rtt)| Link { name, file, rows, least_rtt: *least_rtt })
            .collect();
        let duration = u64::from(end.saturating_sub(self.begin)) * u64::from(self.common.plan.step);
        let name = self.out.file_name().map_or_else(|| "recording".into(), |name| name.to_string_lossy());
        output::write(
            &self.out.join("scenario.toml"),
            &table::scenario(&name, self.common.plan.mode, &links, duration),
        )
    }
}

//! `squall-lab versus`: the same stream over Squall and over its alternatives.

mod machine;

use std::{
    fmt::Display,
    io::{IsTerminal as _, stderr},
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

use anyhow::{Context as _, ensure};
use clap::Args;
use squall_lab::Scenario;
use squall_shell::{Awake, Family};
use squall_units::{Rate, Span};
use squall_versus::{Figures, Plan, Relay, RelayEnd, SideSpec, Stream, Transport, markdown, text};

use squall_terminal::{
    error::{usage, whole},
    note, output,
};

/// Default scenarios.
const SCENARIOS: [(&str, &str); 5] = [
    ("stable.toml", include_str!("../../../../scenarios/versus/stable.toml")),
    ("outage.toml", include_str!("../../../../scenarios/versus/outage.toml")),
    ("lossy.toml", include_str!("../../../../scenarios/versus/lossy.toml")),
    ("walking.toml", include_str!("../../../../scenarios/versus/walking.toml")),
    ("bloated.toml", include_str!("../../../../scenarios/versus/bloated.toml")),
];

/// Frames per second for scenarios without a video.
const FPS: u64 = 30;

/// Bitrates of the stream for scenarios without a video, in bits per second.
const RATES: [u64; 2] = [30_000_000, 8_000_000];

/// Compares Squall's tunnel with MPTCP, SRT, RIST, plain QUIC, TQUIC and plain UDP: the same frames
/// through the same emulated links.
///
/// Each carries the stream between local UDP sockets in its own `squall-lab shell`, one after the
/// other, in real time: the machine should be otherwise idle. Transports that are not installed are
/// listed and left out. Linux; requires root, because RIST and MPTCP need real network namespaces.
#[derive(Args, Clone, Debug)]
#[command(
    after_help = "Examples:\n  squall-lab versus --list\n  squall-lab versus --rate 8mbps --time 10s\n  \
    squall-lab versus --scenario scenarios/versus/lossy.toml \\\n      \
    --transport squall-storm,mptcp --page out/versus.md\n  \
    squall-lab versus --scenario scenarios/limits/dark.toml --time 20s"
)]
pub(crate) struct VersusArgs {
    /// Scenarios to run instead of the five built-in ones
    #[arg(long, value_name = "SCENARIO.toml", value_delimiter = ',')]
    scenario: Vec<PathBuf>,
    /// Transports to compare. Default: all
    #[arg(long, alias = "contender", value_name = "NAMES", value_delimiter = ',')]
    transport: Vec<String>,
    /// Additional transports: programs of your own, each with its command at both ends;
    /// docs/versus.md describes the file
    #[arg(long, value_name = "FILE.toml")]
    programs: Option<PathBuf>,
    /// Bitrates of the stream [default: that of the scenario's video; 30mbps,8mbps where it has
    /// none]
    #[arg(long, value_name = "RATES", value_delimiter = ',')]
    rate: Vec<Rate>,
    /// Duration of the stream in each run
    #[arg(long, value_name = "TIME", default_value = "15s")]
    time: Span,
    /// Seeds of the links' randomness and of the frame sizes, one run with each [default: those of
    /// a scenario that lists several, else 1 to 5]
    #[arg(long, value_name = "SEEDS", value_delimiter = ',')]
    seed: Vec<u64>,
    /// Maximum number of attempts for a run; runs are invalid if the machine was too slow for the
    /// links
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    attempts: u32,
    /// Carry the stream over IPv6; the links have no IPv4 addresses
    #[arg(long)]
    ipv6: bool,
    /// Keep the processors from halting during the runs, as `squall-lab shell --keep-awake` does
    #[arg(long)]
    keep_awake: bool,
    /// List the transports that can be compared on this machine, and the missing requirements of
    /// the others
    #[arg(long)]
    list: bool,
    /// Write the tables into a page, after its line <!-- figures -->
    #[arg(long, value_name = "FILE.md")]
    page: Option<PathBuf>,
    /// Write all results as JSON; - for standard output
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Folder for the output of the transports
    #[arg(long, value_name = "DIR", default_value = "out/versus")]
    log: PathBuf,
}

/// Argument that `squall-lab versus` passes to the processes it starts.
#[derive(Args, Clone, Debug)]
pub(crate) struct PartArgs {
    words: String,
}

/// Runs one side of a run.
pub(crate) fn side(args: &PartArgs) -> anyhow::Result<ExitCode> {
    let spec: SideSpec = serde_json::from_str(&args.words).map_err(usage)?;
    squall_versus::side(&spec)?;
    Ok(ExitCode::SUCCESS)
}

/// Runs one end of a relay.
pub(crate) fn relay(args: &PartArgs) -> anyhow::Result<ExitCode> {
    let (relay, end): (Relay, RelayEnd) = serde_json::from_str(&args.words).map_err(usage)?;
    squall_versus::relay(relay, end)?;
    Ok(ExitCode::SUCCESS)
}

/// Largest page in bytes that results are written into.
const MAX_PAGE: u64 = 16 << 20;

/// Runs the command.
pub(crate) fn run(args: &VersusArgs) -> anyhow::Result<ExitCode> {
    let known = known(args)?;
    let wanted = wanted(args, &known)?;
    if args.list {
        let line = |transport: &Transport| {
            let missing = transport.missing().unwrap_or_else(|| "ready".to_owned());
            format!("{:<22}{missing}\n", transport.name())
        };
        output::print(&known.iter().map(line).collect::<String>())?;
        return Ok(ExitCode::SUCCESS);
    }
    let scenarios = scenarios(args)?;
    for scenario in &scenarios {
        wanted.iter().try_for_each(|transport| transport.check(scenario.paths.len())).map_err(usage)?;
    }
    check_page(args)?;
    check_time(args, &scenarios)?;
    // Must precede the first thread.
    squall_shell::acquire().map_err(whole)?;
    let (ready, left_out) = ready(wanted);
    let _awake = args.keep_awake.then(Awake::keep).transpose().map_err(whole)?;
    let (figures, failed) = measure(args, &scenarios, &ready)?;
    output::print(&text(&figures))?;
    if let Some(file) = &args.page {
        let page = if file.exists() { squall_file::read_text(file, MAX_PAGE)? } else { String::new() };
        let about = machine::about(args, &figures, &left_out);
        output::write(file, &markdown(&page, &about, &figures))?;
    }
    if let Some(file) = &args.json {
        output::write(file, &(serde_json::to_string_pretty(&figures)? + "\n"))?;
    }
    ensure!(failed.is_empty(), "{} of the runs have failed: {}", failed.len(), failed.join("; "));
    Ok(ExitCode::SUCCESS)
}

/// Checks that the page has a place for the results. After an hour of measurement it would be too
/// late.
fn check_page(args: &VersusArgs) -> anyhow::Result<()> {
    let Some(file) = args.page.as_ref().filter(|file| file.exists()) else { return Ok(()) };
    let page = squall_file::read_text(file, MAX_PAGE)
        .map_err(|error| usage(format!("{}: {error}", file.display())))?;
    let has_place = page.trim().is_empty() || page.contains(squall_versus::MARK);
    if !has_place {
        return Err(usage(format!("{}: there is no line {}", file.display(), squall_versus::MARK)));
    }
    Ok(())
}

/// Checks that the links' events cover the duration of the stream.
fn check_time(args: &VersusArgs, scenarios: &[Scenario]) -> anyhow::Result<()> {
    let takes = squall_versus::takes(Duration::from_micros(args.time.micros()));
    match scenarios.iter().find(|scenario| u128::from(scenario.duration_us) < takes.as_micros()) {
        None => Ok(()),
        Some(short) => Err(usage(format!(
            "--time {}: scenario {} lasts {} s, and a run takes {} s",
            args.time,
            short.name,
            short.duration_us as f64 / 1e6,
            takes.as_secs_f64()
        ))),
    }
}

fn scenarios(args: &VersusArgs) -> anyhow::Result<Vec<Scenario>> {
    if args.scenario.is_empty() {
        let load = |(name, text)| Scenario::load_text(text, name, Path::new("")).map_err(whole);
        return SCENARIOS.into_iter().map(load).collect();
    }
    args.scenario.iter().map(|file| Scenario::load(file).map_err(usage)).collect()
}

/// Largest file of programs in bytes.
const MAX_PROGRAMS: u64 = 1 << 20;

/// All available transports, including those from the file.
fn known(args: &VersusArgs) -> anyhow::Result<Vec<Transport>> {
    let mut known = Transport::ALL.to_vec();
    if let Some(file) = &args.programs {
        let at_file = |error: &dyn Display, between| usage(format!("{}{between}{error}", file.display()));
        let text = squall_file::read_text(file, MAX_PROGRAMS).map_err(|error| at_file(&error, ": "))?;
        known.extend(Transport::of_file(&text).map_err(|error| at_file(&error, ":"))?);
    }
    Ok(known)
}

/// Returns the transports that were named, or all.
fn wanted(args: &VersusArgs, known: &[Transport]) -> anyhow::Result<Vec<Transport>> {
    if args.transport.is_empty() {
        return Ok(known.to_vec());
    }
    let named = |name: &String| {
        known.iter().find(|transport| transport.name() == name).cloned().ok_or_else(|| {
            let names: Vec<&str> = known.iter().map(Transport::name).collect();
            usage(format!("no transport is called {name:?}; there are {}", names.join(", ")))
        })
    };
    args.transport.iter().map(named).collect()
}

/// Divides transports into those that are ready and, with the reason, those that are not.
fn ready(wanted: Vec<Transport>) -> (Vec<Transport>, Vec<String>) {
    let (mut ready, mut left_out) = (Vec::new(), Vec::new());
    for transport in wanted {
        match transport.missing() {
            None => ready.push(transport),
            Some(why) => left_out.push(format!("{}: {why}", transport.name())),
        }
    }
    for line in &left_out {
        note!("left out: {line}");
    }
    (ready, left_out)
}

/// Default seeds for scenarios that do not list several.
const SEEDS: [u64; 5] = [1, 2, 3, 4, 5];

fn seeds<'a>(args: &'a VersusArgs, scenario: &'a Scenario) -> &'a [u64] {
    match (args.seed.as_slice(), scenario.seeds.as_slice()) {
        ([], [_]) => &SEEDS,
        ([], listed) => listed,
        (wanted, _) => wanted,
    }
}

/// Streams that are sent over the links of a scenario, one per rate.
fn streams(args: &VersusArgs, scenario: &Scenario) -> Vec<Stream> {
    let video = squall_versus::video(scenario);
    let rates: Vec<u64> = match video {
        _ if !args.rate.is_empty() => args.rate.iter().map(|rate| rate.bps()).collect(),
        Some(video) => vec![video.bitrate.bps()],
        None => RATES.to_vec(),
    };
    let fps = video.map_or(FPS, |video| video.fps.into());
    rates.into_iter().map(|rate_bps| Stream { rate_bps, fps }).collect()
}

fn measure(
    args: &VersusArgs,
    scenarios: &[Scenario],
    ready: &[Transport],
) -> anyhow::Result<(Vec<Figures>, Vec<String>)> {
    let lab = std::env::current_exe().context("this program's own file")?;
    let squall = lab.with_file_name("squall");
    ensure!(
        squall.is_file(),
        "{} is missing: build it with cargo build --release -p squall-cli",
        squall.display()
    );
    let log = std::path::absolute(&args.log)?;
    let family = if args.ipv6 { Family::V6 } else { Family::V4 };
    let mut plans = Vec::new();
    for scenario in scenarios {
        for stream in streams(args, scenario) {
            for transport in ready {
                for &seed in seeds(args, scenario) {
                    let rate = Rate::from_bps(stream.rate_bps);
                    let name = format!("{}-{rate}-{}-{seed}", scenario.name, transport.name());
                    let time = Duration::from_micros(args.time.micros());
                    let folder = log.join(&name);
                    let (lab, squall, transport) = (lab.clone(), squall.clone(), transport.clone());
                    let plan = Plan { scenario, stream, transport, time, seed, family, lab, squall, folder };
                    plans.push((name, plan));
                }
            }
        }
    }
    let all = plans.len();
    let (mut figures, mut failed) = (Vec::with_capacity(all), Vec::new());
    for (done, (name, plan)) in plans.into_iter().enumerate() {
        if stderr().is_terminal() {
            note!("{} of {all}: {name}", done + 1);
        }
        let does_not_count = |run: &Figures, then: &str| {
            if let Some(why) = &run.invalid {
                note!("{name} does not count: {why}{then}");
            }
        };
        let run = || squall_versus::run(&plan);
        match Figures::that_count(args.attempts, run, |run| does_not_count(run, "; once more")) {
            Ok(run) => {
                does_not_count(&run, "");
                if run.overflows > 0 {
                    note!("{name}: sockets dropped {} packets for lack of room", run.overflows);
                }
                figures.push(run);
                // Save after each run, so that an abort loses no results.
                if let Some(file) = args.json.as_ref().filter(|file| !output::is_stdout(file)) {
                    output::write(file, &(serde_json::to_string_pretty(&figures)? + "\n"))?;
                }
            }
            // A failed run must not discard the results of the others.
            Err(error) => failed.push(format!("{name}: {error:#}")),
        }
    }
    Ok((figures, failed))
}

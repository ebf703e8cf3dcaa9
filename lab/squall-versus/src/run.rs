//! A single run of a scenario, a stream and a transport.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Child,
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail};
use squall_lab::Scenario;
use squall_shell::{Family, Prepared, Program, terminate};
use squall_versus_stream::Stream;

use crate::{
    clock::now_us,
    figures::{Figures, Run},
    frames::{self, Best},
    side::{DRAIN, Far, HEAD_START, Near, SETTLE},
    spec::{End, SideSpec},
    transport::Transport,
};

/// Parameters of a run.
#[derive(Debug, Clone)]
pub struct Plan<'a> {
    /// Scenario with the links.
    pub scenario: &'a Scenario,
    /// Stream to carry.
    pub stream: Stream,
    /// Transport that carries it.
    pub transport: Transport,
    /// Length of the stream.
    pub time: Duration,
    /// Seed of the links' random decisions and of the frame sizes.
    pub seed: u64,
    /// Version of IP over the links. With IPv6 they have no IPv4 addresses.
    pub family: Family,
    /// The `squall-lab` program, which acts as init process, relay and side.
    pub lab: PathBuf,
    /// The `squall` program, whose tunnel is measured.
    pub squall: PathBuf,
    /// Folder for the results of the sides and the output of their carriers.
    pub folder: PathBuf,
}

/// A run is invalid if more than one of 100 packets leaves its link later than this.
const MAX_SLIP: Duration = Duration::from_millis(2);

/// Returns the time for which the links must last for a stream of this length.
pub fn takes(time: Duration) -> Duration {
    SETTLE + time + DRAIN + HEAD_START
}

/// Executes a run. The links start with the client's side, and the stream after the carrier has had
/// time to connect.
///
/// # Errors
///
/// If a side cannot be started or fails; with the last message of its carrier if there is one.
pub fn run(plan: &Plan<'_>) -> anyhow::Result<Figures> {
    fs::create_dir_all(&plan.folder).with_context(|| plan.folder.display().to_string())?;
    for left in ["near.json", "far.json", "near.log", "far.log", "certificate"] {
        let _ = fs::remove_file(plan.folder.join(left));
    }
    let packets = frames::packets(plan.scenario, plan.stream, plan.time, plan.seed);
    let prepared = match plan.family {
        Family::V4 => Prepared::new(&plan.scenario.paths, plan.seed)?,
        Family::V6 => Prepared::over_ipv6(&plan.scenario.paths, plan.seed)?,
    };
    let radios = prepared.radios().map(Path::to_owned);
    let program = |end: End| -> anyhow::Result<Program> {
        let spec = SideSpec {
            end,
            transport: plan.transport.clone(),
            stream: plan.stream,
            time_ms: plan.time.as_millis() as u64,
            latency_ms: frames::latency(plan.scenario).as_millis() as u64,
            packets: if end == End::Near { packets.clone() } else { Vec::new() },
            links: plan.scenario.paths.len(),
            family: plan.family,
            radios: radios.is_some(),
            lab: plan.lab.clone(),
            squall: plan.squall.clone(),
            folder: plan.folder.clone(),
        };
        let words = serde_json::to_string(&spec).context("a path that is no UTF-8")?;
        let folder = radios
            .iter()
            .map(|folder| (squall_signal::external::FOLDER.to_owned(), folder.display().to_string()));
        Ok(Program {
            init: vec![plan.lab.clone().into(), "shell-init".into()],
            command: vec![plan.lab.clone().into(), "versus-side".into(), words.into()],
            variables: folder.collect(),
            reads_input: false,
        })
    };
    let mut far = prepared.server().start(program(End::Far)?)?;
    std::thread::sleep(HEAD_START);
    let shell = prepared.start(None)?;
    let links_began = now_us();
    let mut near = shell.client().start(program(End::Near)?)?;
    let deadline = Instant::now() + takes(plan.time) + Duration::from_secs(5);
    for (child, name) in [(&mut near, "near"), (&mut far, "far")] {
        wait(child, name, deadline, plan)?;
    }
    let report = shell.report()?;
    drop(shell);
    let invalid = report.invalid(MAX_SLIP);
    let near: Near = serde_json::from_slice(&fs::read(plan.folder.join("near.json"))?)?;
    let far: Far = serde_json::from_slice(&fs::read(plan.folder.join("far.json"))?)?;
    let start = Duration::from_micros(near.started_us.saturating_sub(links_began));
    let best = Best::of(plan.scenario, plan.seed, start, plan.stream, &packets)?;
    let (scenario, stream, transport, seed) =
        (plan.scenario.name.clone(), plan.stream, plan.transport.name().to_owned(), plan.seed);
    Ok(Figures::of(Run { scenario, stream, transport, seed, best }, &near, &far, &report, invalid))
}

fn wait(child: &mut Child, name: &str, deadline: Instant, plan: &Plan<'_>) -> anyhow::Result<()> {
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if Instant::now() > deadline {
            terminate(child.id());
            bail!("the {name} side does not end");
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    if !status.success() {
        let said = fs::read_to_string(plan.folder.join(format!("{name}.log"))).unwrap_or_default();
        let words = said.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("without a word");
        bail!("the {name} side has failed: {words}");
    }
    Ok(())
}

//! Sequence of one run.

#[cfg(feature = "qlog")]
use std::path::PathBuf;
use std::{sync::Arc, time::Duration};

use squall_net::{DelayConfig, Direction, EcnTreatment, LinkConfig, PathConfig};
use squall_proto::{Config, RateLimit, sched::Registry};
use squall_trace::Micros;
use squall_units::Size;

use super::{RunError, application::Application, quota::Meters, stopwatch::Stopwatch};
#[cfg(feature = "qlog")]
use crate::file::FileError;
use crate::message_log::MessageLog;
use crate::result::{Recorder, RunResult, SAMPLE_INTERVAL_US};
use crate::scenario::Scenario;
use crate::variant::Variant;
use crate::world::{Protection, Side, World};

/// Time to connect, in addition to a number of round trips.
const CONNECT_TIME: Micros = 1_000_000;

/// Round trips to connect: handshake, further paths, and the search for the largest packet size.
const CONNECT_ROUNDS: u64 = 10;

/// Treatment of the packets of a run, beyond the scenario.
#[derive(Clone, Default)]
pub(super) struct Handling {
    pub(super) protection: Protection,
    /// Messages, chunks and packets are logged.
    pub(super) messages: bool,
    /// Folder for qlog files, if they are to be written.
    #[cfg(feature = "qlog")]
    pub(super) qlog_dir: Option<PathBuf>,
}

pub(super) fn run(
    scenario: &Scenario,
    scheduler: &str,
    seed: u64,
    registry: &Arc<Registry>,
    handling: &Handling,
    progress: &mut dyn FnMut(u64),
) -> Result<(RunResult, Option<MessageLog>), RunError> {
    let variant = Variant::of(scheduler);
    for flow in &scenario.flows {
        variant.flow(flow).traffic.prepare(&|_, _| {}).map_err(|source| RunError::Pictures {
            scenario: scenario.name.clone(),
            flow: flow.name.clone(),
            source,
        })?;
    }
    let calm: Vec<PathConfig> = scenario.paths.iter().map(calm).collect();
    let start = connect_time(&calm);
    let stopwatch = scenario.timed.then(Stopwatch::default);
    let config = config(scenario, scheduler, registry, stopwatch.as_ref())?;
    let cap = (config.scheduler)().profile().metered_cap;
    #[cfg(feature = "qlog")]
    let config = config.qlog_dir(make(handling.qlog_dir.clone())?);
    // The delay is long enough for even a distant first path to win the race, so path ids follow
    // the order of the file.
    let config = config.race_delay(Duration::from_micros(start));
    let problem = |source| RunError::World { scenario: scenario.name.clone(), source };
    let mut world =
        World::protected(handling.protection, &calm, config.clone(), config, seed).map_err(problem)?;
    let recorder = Recorder::new(scenario.unmeasured(scheduler, seed));
    let mut application = Application::new(scenario, scheduler, seed, recorder, registry)
        .map_err(|source| RunError::Scheduler { scenario: scenario.name.clone(), source })?;
    // Both sides receive the status of metered paths before the flows begin.
    world.run_until(start / 2, |world, side, event| application.on_event(world, side, event));
    for (index, path) in scenario.paths.iter().enumerate() {
        world.set_metered(index, path.metered);
        world.set_role(index, path.role);
        if let Some(limit) = rate_limit(path) {
            world.set_rate_limit(index, Some(limit));
        }
        world.set_label(index, &path.name);
    }
    world.run_until(start, |world, side, event| application.on_event(world, side, event));
    if let Some(path) = application.missing_path() {
        let (scenario, path) = (scenario.name.clone(), scenario.paths[path].name.clone());
        return Err(RunError::NotConnected { scenario, scheduler: scheduler.to_owned(), seed, path });
    }
    world.enter(&scenario.paths, seed).map_err(|error| problem(error.into()))?;
    for side in [Side::Client, Side::Server] {
        if let Some(session) = world.session(side) {
            session.keep_arrivals(true);
            session.keep_packets(handling.messages);
        }
    }
    if handling.messages {
        application.keep_log(MessageLog::new(scenario));
    }
    application.begin(&mut world);
    let mut meters = Meters::new(&scenario.paths, scenario.duration_us, &mut world);
    let mut next_sample = SAMPLE_INTERVAL_US;
    loop {
        let now = world.now() - start;
        meters.read(now, &mut world);
        application.offer(&mut world);
        let next = application.next_offer(now).unwrap_or(u64::MAX).min(next_sample).min(scenario.duration_us);
        let next = meters.due().map_or(next, |due| due.min(next));
        let end = start + next;
        while world.advance(end, &mut |world, side, event| application.on_event(world, side, event)) {
            if application.has_news() && world.now() < end {
                break;
            }
        }
        let reached = world.now() - start;
        let at_end = reached == scenario.duration_us;
        if reached == next_sample || at_end {
            application.sample(&mut world);
            progress(reached);
            next_sample = reached + SAMPLE_INTERVAL_US;
        }
        if at_end {
            break;
        }
    }
    let log = application.take_log();
    let (mut result, offered) = application.finish(scenario.duration_us);
    offered.bound(scenario, cap, &mut result);
    result.scheduling_ns = stopwatch.map(|stopwatch| stopwatch.nanos());
    result.checks = scenario.judge(&result);
    Ok((result, log))
}

/// Configuration of the sessions of a run.
pub(super) fn config(
    scenario: &Scenario,
    scheduler: &str,
    registry: &Arc<Registry>,
    stopwatch: Option<&Stopwatch>,
) -> Result<Config, RunError> {
    let problem = |source| RunError::Scheduler { scenario: scenario.name.clone(), source };
    let config = Variant::of(&scenario.configured(scheduler)).config(registry).map_err(problem)?;
    registry.build_streams(&scenario.streams).map_err(problem)?;
    let (streams, known) = (scenario.streams.clone(), registry.clone());
    let scheduler = match stopwatch {
        Some(stopwatch) => stopwatch.time(config.scheduler.clone()),
        None => config.scheduler.clone(),
    };
    let signal = config.signal.map(|_| scenario.signal);
    Ok(config
        .streams(Arc::new(move || known.build_streams(&streams).expect("it was built before")))
        .scheduler(scheduler)
        .signal(signal)
        .congestion(scenario.congestion.clone()))
}

/// Rate limit of each side on a path.
fn rate_limit(path: &PathConfig) -> Option<RateLimit> {
    let limit = RateLimit::new(path.rate_limit?.bps());
    Some(RateLimit { burst: path.rate_burst.map_or(limit.burst, Size::bytes), ..limit })
}

/// Creates a folder unless it exists.
#[cfg(feature = "qlog")]
fn make(folder: Option<PathBuf>) -> Result<Option<PathBuf>, RunError> {
    if let Some(path) = &folder {
        std::fs::create_dir_all(path).map_err(FileError::of(path))?;
    }
    Ok(folder)
}

/// The path with its initial delay and without any disturbance.
fn calm(path: &PathConfig) -> PathConfig {
    let link = |direction| {
        let link = path.link(direction);
        // A router that treats ECN wrongly starts with the run. A path that clears the field does
        // so from the start, as nothing would restore it.
        let ecn = if link.ecn == EcnTreatment::Clear { link.ecn } else { EcnTreatment::Pass };
        let delay = DelayConfig::Fixed(link.delay.initial());
        LinkConfig { delay, ecn, mtu: link.mtu, ..LinkConfig::default() }
    };
    PathConfig {
        up: link(Direction::Up),
        down: link(Direction::Down),
        metered: path.metered,
        ..PathConfig::symmetric(path.name.clone(), LinkConfig::default())
    }
}

fn connect_time(paths: &[PathConfig]) -> Micros {
    let round = |path: &PathConfig| path.up.delay.initial().micros() + path.down.delay.initial().micros();
    CONNECT_TIME + CONNECT_ROUNDS * paths.iter().map(round).max().unwrap_or(0)
}

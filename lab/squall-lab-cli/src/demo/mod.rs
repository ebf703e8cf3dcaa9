//! `squall-lab demo`: one scenario live, with several schedulers at the same time.

mod args;
mod outcome;
mod scenario;
mod screen;
mod show;

use std::{
    process::ExitCode,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use anyhow::Context as _;
use squall::sched::Registry;
use squall_lab::{RunResult, Scenario, Variant, runner::LiveRun};
use squall_net::RelayReport;
use squall_terminal::{
    error::{usage, whole},
    list, note, output,
    progress::Progress,
};

pub(crate) use self::args::{DemoArgs, parse_size};
use self::{scenario::film, show::Show};

/// Runs the command.
pub(crate) fn run(args: &DemoArgs, registry: &Arc<Registry>) -> anyhow::Result<ExitCode> {
    let scenario = Arc::new(scenario::load(args)?);
    let schedulers = schedulers(&args.schedulers, &scenario, registry)?;
    output::make_folder_of(&args.report)?;
    encode(&scenario, &schedulers)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let runs = runtime.block_on(play(args, &scenario, &schedulers, registry))?;
    runtime.shutdown_timeout(Duration::from_secs(1));
    outcome::publish(args, &scenario, runs)?;
    Ok(ExitCode::SUCCESS)
}

fn schedulers(words: &str, scenario: &Scenario, registry: &Registry) -> anyhow::Result<Vec<String>> {
    let names = list::split(words);
    if !(1..=4).contains(&names.len()) {
        return Err(usage(format!("--schedulers: give 1 to 4 of them, not {}", names.len())));
    }
    for name in &names {
        let known = Variant::of(name).check_in(scenario, registry);
        known.map_err(|error| usage(format!("--schedulers: {error}")))?;
    }
    Ok(names.into_iter().map(str::to_owned).collect())
}

/// Encodes the video before the run, so that the run does not compete for the processor: for
/// encoders that do not follow, and for those that do.
fn encode(scenario: &Scenario, schedulers: &[String]) -> anyhow::Result<()> {
    let follows = |name: &String| Variant::of(name).follow;
    let wanted = [
        schedulers.iter().find(|name| !follows(name)).map(|name| (name, "")),
        schedulers.iter().find(|name| follows(name)).map(|name| (name, " and lower bitrates")),
    ];
    let film = film(scenario);
    let (asked, fps) = (film.bitrate.bps() as f64, film.fps);
    let size = format!("{}x{} H.264", film.width, film.height);
    for (name, and_lower) in wanted.into_iter().flatten() {
        let (progress, begin) = (Mutex::new(Progress::default()), Instant::now());
        let progress = || progress.lock().unwrap_or_else(PoisonError::into_inner);
        let encoded = Variant::of(name).flow(&scenario.flows[0]).traffic.prepare(&|done, of| {
            progress().show(&format!("encoding {size}: frame {done} of {of}"));
        })?;
        let bps = encoded.unwrap_or(asked);
        progress().done(&format!(
            "encoded {:.1} s of {size} at {fps} fps, {:.1} Mbps{and_lower}, in {:.1} s",
            film.pictures() as f64 / f64::from(fps),
            bps / 1e6,
            begin.elapsed().as_secs_f64()
        ));
        if bps < asked * 0.9 {
            note!("note: pictures of this size cannot use {:.1} Mbps; give a larger --size", asked / 1e6);
        }
    }
    Ok(())
}

/// Plays until the end, or until the viewer quits.
async fn play(
    args: &DemoArgs,
    scenario: &Arc<Scenario>,
    schedulers: &[String],
    registry: &Arc<Registry>,
) -> anyhow::Result<Vec<(RunResult, RelayReport)>> {
    // All links start their script within a millisecond; the handshakes take place meanwhile.
    let start = |name: &String| LiveRun::start(scenario, name, scenario.seeds[0], registry);
    let runs: Vec<LiveRun> = schedulers.iter().map(start).collect::<Result<_, _>>().map_err(whole)?;
    let (stop, stopped) = tokio::sync::watch::channel(false);
    let live = !args.no_live && !args.json_to_stdout();
    let show = Show::start(scenario, runs.iter().map(LiveRun::view).collect(), stop.clone(), live)?;
    let tasks: Vec<_> = runs.into_iter().map(|run| tokio::spawn(run.run(stopped.clone()))).collect();
    let signals = tokio::spawn(async move {
        // A signal ends the demo like its key does: with the results so far.
        if squall_terminal::interrupt::interrupted().await.is_ok() {
            stop.send_replace(true);
        }
    });
    let mut all = Vec::new();
    for task in tasks {
        all.push(task.await.context("a part of the demo broke off"));
    }
    signals.abort();
    // Restore the terminal before any further output.
    show.end();
    all.into_iter().map(|run| run?.map_err(whole)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_to_four_known_schedulers_are_compared() {
        let scenario = scenario::load(&DemoArgs::example()).expect("is valid");
        let registry = squall_papers::registry();
        let names = schedulers("minrtt, storm+follow", &scenario, &registry).expect("are known");
        assert_eq!(names, ["minrtt", "storm+follow"]);
        for (list, word) in [("fastest", "'fastest'"), (",", "1 to 4"), ("rr,rr,rr,rr,rr", "1 to 4")] {
            let error = schedulers(list, &scenario, &registry).expect_err("is refused");
            assert!(format!("{error:#}").contains(word), "{error}");
        }
    }
}

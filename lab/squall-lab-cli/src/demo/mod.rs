//! `squall-lab demo`: the same video at the same time over the same failing links, once for each scheduler.

mod comparison;
mod frame;
mod ladder;
mod path;
mod plan;
mod radio;
mod record;
mod screen;
mod script;
mod show;
mod side;
mod verdict;

use std::{
    path::PathBuf,
    process::ExitCode,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use anyhow::Context as _;
use clap::Args;
use squall::sched::Registry;
use squall_media::Clip;
use squall_terminal::{note, output, progress::Progress};
use squall_units::Rate;

use self::{ladder::Ladder, plan::Plan, show::Show, side::Side};

/// Plays a video over two emulated links that fade and fail, with several schedulers side by side.
///
/// Real H.264 frames travel in real time through real UDP sockets on loopback addresses; relays in between
/// behave like Wi-Fi and LTE by a script, and their radios report. Schedulers to whom that belongs go by the
/// reports (storm, or any with +swm after its name); the others see only what becomes of their packets. With +follow
/// after its name the encoder makes what the session says it can carry. On a terminal the run can be watched;
/// afterwards there are a table and a report.
#[derive(Args, Clone, Debug)]
#[command(
    after_help = "Examples:\n  squall-lab demo\n  squall-lab demo --schedulers minrtt,minrtt+swm,ras,storm\n  \
                        squall-lab demo --schedulers storm,storm+follow --bitrate 40mbps\n  \
                        squall-lab demo --scenario scenarios/outage-second.toml \\\n      \
                        --report out/outage.html"
)]
pub(crate) struct DemoArgs {
    /// Schedulers to compare, one to four, separated by commas
    #[arg(long, alias = "scheduler", value_name = "LIST", default_value = "minrtt,storm,storm+follow")]
    schedulers: String,
    /// Length; the scenario's if not given
    #[arg(long, value_name = "N")]
    seconds: Option<u32>,
    /// Links, script and video; the built-in "coverage" if not given
    #[arg(long, value_name = "FILE")]
    scenario: Option<PathBuf>,
    /// Size of the picture
    #[arg(long, value_name = "WxH", default_value = "1280x720", value_parser = parse_size)]
    size: (u32, u32),
    /// Frames per second; the scenario's if not given
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=240))]
    fps: Option<u32>,
    /// Rate of the video, such as 20mbps; the scenario's if not given
    #[arg(long, value_name = "RATE")]
    bitrate: Option<Rate>,
    /// Whether every second frame is one that no other needs, left unrepaired; if not given, so it is in the
    /// built-in scenario, and not in others
    #[arg(long, value_name = "true|false", num_args = 0..=1, default_missing_value = "true")]
    disposable: Option<bool>,
    /// Seed of links and picture; the scenario's if not given
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Where to write the report
    #[arg(long, value_name = "FILE", default_value = "out/demo.html")]
    report: PathBuf,
    /// Also write all measurements as JSON; - for standard output, instead of everything else there
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Print progress lines instead of the live view
    #[arg(long)]
    no_live: bool,
}

/// Runs the command.
pub(crate) fn run(args: &DemoArgs, registry: &Arc<Registry>) -> anyhow::Result<ExitCode> {
    let plan = Arc::new(Plan::new(args, registry)?);
    output::make_folder_of(&args.report)?;
    let clip = Arc::new(encode(&plan)?);
    let ladder = if plan.follows() { Some(Arc::new(encode_ladder(&plan)?)) } else { None };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let played = runtime.block_on(play(args, &plan, &clip, ladder.as_ref()))?;
    runtime.shutdown_timeout(Duration::from_secs(1));
    let judged = verdict::judge(&plan, &clip, played)?;
    verdict::publish(args, &plan, &judged)?;
    Ok(ExitCode::SUCCESS)
}

/// Encodes the clip before the run, so that the run spends its time on the network.
fn encode(plan: &Plan) -> anyhow::Result<Clip> {
    let mut progress = Progress::default();
    let config = plan.clip.clone();
    let (width, height, fps) = (config.encoder.width, config.encoder.height, config.encoder.fps);
    let begin = Instant::now();
    let clip = Clip::generate_with(config, plan.clip_seconds, |done, of| {
        progress.show(&format!("encoding {width}x{height} H.264: frame {done} of {of}"));
    })?;
    let asked = plan.video.bitrate.bps() as f64;
    progress.done(&format!(
        "encoded {:.1} s of {width}x{height} H.264 at {fps:.0} fps, {:.1} Mbps, in {:.1} s",
        plan.clip_seconds,
        clip.bitrate_bps() / 1e6,
        begin.elapsed().as_secs_f64()
    ));
    if clip.bitrate_bps() < asked * 0.9 {
        note!("note: pictures of this size cannot use {:.1} Mbps; give a larger --size", asked / 1e6);
    }
    Ok(clip)
}

fn encode_ladder(plan: &Plan) -> anyhow::Result<Ladder> {
    let progress = Mutex::new(Progress::default());
    let show = |text: String, is_last: bool| {
        let mut progress = progress.lock().unwrap_or_else(PoisonError::into_inner);
        if is_last { progress.done(&text) } else { progress.show(&text) }
    };
    let begin = Instant::now();
    let ladder = Ladder::generate(&plan.clip, plan.clip_seconds, |done, of| {
        show(format!("encoding at lower bitrates: frame {done} of {of}"), false);
    })?;
    show(format!("encoded the same at lower bitrates in {:.1} s", begin.elapsed().as_secs_f64()), true);
    Ok(ladder)
}

/// Plays until the end, or until the viewer has seen enough.
async fn play(
    args: &DemoArgs,
    plan: &Arc<Plan>,
    clip: &Arc<Clip>,
    ladder: Option<&Arc<Ladder>>,
) -> anyhow::Result<Vec<side::Played>> {
    let mut sides = Vec::new();
    // All relays begin their script within a millisecond; the handshakes run meanwhile.
    for (name, config) in &plan.schedulers {
        sides.push(Side::start(plan, name, config.clone())?);
    }
    let (stop, stopped) = tokio::sync::watch::channel(false);
    let views = sides.iter().map(Side::view).collect();
    let show = Show::start(plan.clone(), views, stop.clone(), !args.no_live && !args.json_to_stdout())?;
    let start = |side: Side| {
        let ladder = ladder.filter(|_| side.follows()).cloned();
        tokio::spawn(side.play(clip.clone(), ladder, stopped.clone()))
    };
    let tasks: Vec<_> = sides.into_iter().map(start).collect();
    let signals = tokio::spawn(stop_on_signal(stop));
    let mut played = Vec::new();
    let mut failure = None;
    for task in tasks {
        match task.await.context("a part of the demo broke off").and_then(|played| played) {
            Ok(one) => played.push(one),
            Err(error) => failure = failure.or(Some(error)),
        }
    }
    signals.abort();
    // The terminal is as it was before anything else is said.
    show.end();
    failure.map_or(Ok(played), Err)
}

/// Asked to end from outside, the demo ends like by its key: with the results so far.
async fn stop_on_signal(stop: tokio::sync::watch::Sender<bool>) {
    if squall_terminal::interrupt::interrupted().await.is_ok() {
        stop.send_replace(true);
    }
}

pub(crate) fn parse_size(text: &str) -> Result<(u32, u32), String> {
    let sides = text.split_once('x').and_then(|(w, h)| Some((w.parse().ok()?, h.parse().ok()?)));
    sides.ok_or_else(|| "expected WIDTHxHEIGHT, such as 1280x720".to_owned())
}

impl DemoArgs {
    fn json_to_stdout(&self) -> bool {
        self.json.as_deref().is_some_and(output::is_stdout)
    }

    /// What `squall-lab demo` means.
    #[cfg(test)]
    fn example() -> Self {
        Self {
            schedulers: "minrtt,storm".into(),
            seconds: None,
            scenario: None,
            size: (1280, 720),
            fps: None,
            bitrate: None,
            disposable: None,
            seed: None,
            report: "out/demo.html".into(),
            json: None,
            no_live: true,
        }
    }
}

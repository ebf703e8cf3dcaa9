//! `squall signal watch`: current readings of radios, and the alerts that a session would get.

mod json;
mod live;
mod text;
mod watched;

use std::{
    path::PathBuf,
    process::ExitCode,
    time::{Duration, Instant},
};

use clap::Args;
use squall_signal::{
    Clock, Reading, RecordedSource, Replay, ReplayError, SignalSource, SourceError, radio, radios,
};
use squall_terminal::{
    error::{usage, whole},
    input, interrupt, note,
};
use squall_units::Span;
use tokio::sync::mpsc;

use self::{json::Json, live::Live, text::Text, watched::Watched};

/// Interval of drawing the table and of checking for silence.
const TICK: Duration = Duration::from_millis(100);

/// Size limit of a recording in bytes: hours of readings.
const MAX_TRACE: u64 = 64 << 20;

/// Shows the radios of this machine, or a recorded one, with the quality index and the watermarks.
///
/// Wi-Fi is read from the kernel (nl80211), modems from ModemManager; neither needs privileges,
/// though ModemManager may require one to measure each second. Nothing is sent: losses, which also
/// affect the index of a session, are missing here.
#[derive(Args, Clone, Debug)]
#[command(
    after_help = "Examples:\n  squall signal watch\n  squall signal watch --interface wlan0 --interface wwan0\n  \
                        squall signal watch --for 60s --json > walk.jsonl\n  \
    squall signal watch --trace scenarios/traces/drive.csv"
)]
pub(crate) struct WatchArgs {
    /// Interface whose radio is shown, repeatable [default: all radios]
    #[arg(long, value_name = "NAME", conflicts_with = "trace")]
    interface: Vec<String>,
    /// Replay a recording as if it were a radio: a CSV file with time_s and levels
    /// (docs/signal.md), which `squall-lab signal import` makes of other formats
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Requested time between readings of a radio, 1ms to 60s
    #[arg(long, value_name = "TIME", default_value = "100ms")]
    period: Span,
    /// Duration of the watch; otherwise it ends with Ctrl-C, or the trace
    #[arg(long = "for", value_name = "TIME")]
    duration: Option<Span>,
    /// Print JSON Lines, one for each reading and one for each alert
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub(crate) fn run(args: &WatchArgs) -> anyhow::Result<ExitCode> {
    let period = args.period.duration();
    if !(Duration::from_millis(1)..=Duration::from_secs(60)).contains(&period) {
        return Err(usage("--period: 1ms to 60s"));
    }
    let sources = sources(args)?;
    let clock = Clock::new(Instant::now());
    let (send, readings) = mpsc::unbounded_channel();
    let mut all = Vec::new();
    for (index, source) in sources.into_iter().enumerate() {
        let send = send.clone();
        let forward = move |reading: &Reading| {
            // The last ones arrive after the watch has ended.
            let _ = send.send((index, *reading));
        };
        all.push(Watched::start(source, clock, period, forward)?);
    }
    let show = Show::new(args.json, all.len())?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(watch(all, readings, show, clock, args.duration.map(Span::duration)))?;
    Ok(ExitCode::SUCCESS)
}

/// Returns the sources to read.
fn sources(args: &WatchArgs) -> anyhow::Result<Vec<Box<dyn SignalSource>>> {
    if let Some(file) = &args.trace {
        input::check(file)?;
        let label = file.display().to_string();
        let text =
            squall_file::read_text(file, MAX_TRACE).map_err(|error| usage(format!("{label}: {error}")))?;
        let source =
            RecordedSource::parse(&label, &text, Replay::default()).map_err(|error| match error {
                ReplayError::Line { .. } => usage(error),
                ReplayError::Speed(_) | ReplayError::Silent(_) => whole(error),
            })?;
        return Ok(vec![Box::new(source)]);
    }
    if !args.interface.is_empty() {
        return args.interface.iter().map(|name| radio(name).map_err(whole)).collect();
    }
    let found = radios();
    if found.sources.is_empty() {
        let reasons: Vec<_> = found.problems.iter().map(ToString::to_string).collect();
        anyhow::bail!(
            "no radio to watch: {}; a recorded one can be watched with --trace",
            reasons.join("; ")
        );
    }
    // Without a selection, missing sources are not reported.
    for problem in found.problems.iter().filter(|problem| !matches!(problem, SourceError::Missing { .. })) {
        note!("note: {problem}");
    }
    Ok(found.sources)
}

/// Output of the watch.
enum Show {
    Live(Live),
    Text(Text),
    Json(Json),
}

impl Show {
    fn new(json: bool, radios: usize) -> anyhow::Result<Self> {
        Ok(match json {
            true => Self::Json(Json),
            false if Live::is_possible() => Self::Live(Live::start(radios)?),
            false => Self::Text(Text::default()),
        })
    }
}

/// Watches until the duration is over, all radios have ended, or the user quits.
async fn watch(
    mut all: Vec<Watched>,
    mut readings: mpsc::UnboundedReceiver<(usize, Reading)>,
    mut show: Show,
    clock: Clock,
    duration: Option<Duration>,
) -> anyhow::Result<()> {
    for note in all.iter().filter_map(Watched::note) {
        match &mut show {
            Show::Live(live) => live.say(&note)?,
            _ => note!("note: {note}"),
        }
    }
    let interrupted = interrupt::interrupted();
    let over = async {
        match duration {
            Some(duration) => tokio::time::sleep(duration).await,
            None => std::future::pending().await,
        }
    };
    tokio::pin!(interrupted, over);
    let mut tick = tokio::time::interval(TICK);
    loop {
        tokio::select! {
            Some((index, reading)) = readings.recv() => take_in(&mut all[index], &reading, clock, &mut show)?,
            _ = tick.tick() => {
                // Show everything that was read before a radio counts as ended.
                let ended = all.iter().all(Watched::is_over) && readings.is_empty();
                let quit = look(&mut all, clock, &mut show)?;
                if ended {
                    return end(&all);
                }
                if quit {
                    return Ok(());
                }
            }
            outcome = &mut interrupted => return outcome.map_err(Into::into),
            () = &mut over => return Ok(()),
        }
    }
}

/// Updates the watermarks of a radio with a reading.
fn take_in(one: &mut Watched, reading: &Reading, clock: Clock, show: &mut Show) -> anyhow::Result<()> {
    let alert = one.on_reading(reading, clock.now());
    match show {
        Show::Live(_) => {}
        Show::Text(text) => alert.map_or(Ok(()), |alert| text.alert(one, &alert))?,
        Show::Json(json) => {
            json.reading(one, reading)?;
            alert.map_or(Ok(()), |alert| json.alert(one, &alert))?;
        }
    }
    Ok(())
}

/// Handles the passing of time; returns `true` if the viewer requested the end.
fn look(all: &mut [Watched], clock: Clock, show: &mut Show) -> anyhow::Result<bool> {
    let now = clock.now();
    for one in &mut *all {
        let alert = one.on_time(now);
        let error = one.new_error();
        match show {
            Show::Live(_) => {}
            Show::Text(text) => alert.map_or(Ok(()), |alert| text.alert(one, &alert))?,
            Show::Json(json) => alert.map_or(Ok(()), |alert| json.alert(one, &alert))?,
        }
        if let (Show::Text(_) | Show::Json(_), Some(error)) = (&*show, error) {
            note!("note: {error}");
        }
    }
    match show {
        Show::Live(live) => return live.draw(all, now),
        Show::Text(text) => text.lines(all, now)?,
        Show::Json(_) => {}
    }
    Ok(false)
}

/// Returns the result once all radios have ended: `Ok` if they were recordings.
fn end(all: &[Watched]) -> anyhow::Result<()> {
    let mut errors = all.iter().filter_map(Watched::error);
    errors.find(|error| !matches!(error, SourceError::Ended(_))).map_or(Ok(()), |error| Err(whole(error)))
}

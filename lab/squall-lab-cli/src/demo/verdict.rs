//! What came of a demo: pictures compared, a table, the report.

use std::{
    fs,
    num::NonZeroU32,
    path::Path,
    thread,
    time::{Duration, Instant},
};

use anyhow::Context as _;
use squall_lab::{
    RunResult,
    result::{self, Extra},
    table,
};
use squall_media::{Clip, PlayReport, Player, QualityReport};
use squall_net::RelayReport;
use squall_terminal::{note, output, progress::Progress};

use super::{
    DemoArgs,
    comparison::{self, lost_in_outages},
    plan::Plan,
    side::Played,
};

/// The emulation counts as true when 99 of 100 datagrams left it no later than this.
const MAX_SLIP: Duration = Duration::from_millis(10);

/// Pictures that are compared, at most: a tenth of a second each or so.
const COMPARED: u64 = 40;

/// All that is known of one scheduler's half.
pub(super) struct Judged {
    pub(super) result: RunResult,
    pub(super) play: PlayReport,
    pub(super) quality: QualityReport,
    pub(super) relay: RelayReport,
    /// Bytes over links that cost money.
    pub(super) metered_bytes: u64,
}

/// Counts frames and compares pictures, all halves at once.
pub(super) fn judge(plan: &Plan, clip: &Clip, played: Vec<Played>) -> anyhow::Result<Vec<Judged>> {
    let begin = Instant::now();
    let mut progress = Progress::default();
    let judged = thread::scope(|scope| {
        let threads: Vec<_> =
            played.into_iter().map(|half| scope.spawn(|| judge_half(plan, clip, half))).collect();
        while threads.iter().any(|thread| !thread.is_finished()) {
            progress.show("decoding what arrived and comparing pictures");
            thread::sleep(Duration::from_millis(50));
        }
        threads.into_iter().map(|thread| thread.join().expect("judging does not panic")).collect()
    });
    progress.done(&format!(
        "decoded what arrived and compared pictures in {:.1} s",
        begin.elapsed().as_secs_f64()
    ));
    judged
}

fn judge_half(plan: &Plan, clip: &Clip, played: Played) -> anyhow::Result<Judged> {
    let relay = played.relay.clone();
    let (mut result, player) = played.take_record().context("the record is still in use")?;
    let play = player.finish();
    let quality = compare(plan, clip, &player)?;
    result.extra = extras(&play, &quality, &relay);
    result.checks = plan.scenario.judge(&result);
    let paths = result.paths.iter().zip(&plan.scenario.paths);
    let metered_bytes = paths.filter(|(_, link)| link.metered).map(|(path, _)| comparison::bytes(path)).sum();
    Ok(Judged { result, play, quality, relay, metered_bytes })
}

fn compare(plan: &Plan, clip: &Clip, player: &Player) -> anyhow::Result<QualityReport> {
    let every = NonZeroU32::new((plan.frames / COMPARED) as u32).unwrap_or(NonZeroU32::MIN);
    player.quality(|frame| clip.source_picture(frame), every).context("cannot judge the pictures")
}

/// What goes into report and JSON beside blocks and paths.
fn extras(
    play: &PlayReport,
    quality: &QualityReport,
    relay: &RelayReport,
) -> std::collections::BTreeMap<String, Extra> {
    let mut extras = std::collections::BTreeMap::new();
    let mut number = |name: &str, value: f64| extras.insert(name.to_owned(), Extra::from(value));
    number("fps", play.fps.mean);
    number("freezes", play.stalls.count as f64);
    number("frozen s", play.stalls.total_us as f64 / 1e6);
    number("lost in outages", lost_in_outages(relay) as f64);
    number("PSNR dB", quality.psnr_y.mean);
    number("slip ms", relay.live.slip.p99 as f64 / 1e3);
    let word = if relay.invalid(MAX_SLIP).is_none() { "yes" } else { "NO" };
    extras.insert("valid".to_owned(), Extra::from(word));
    extras
}

/// Prints the table, writes the files, and says where they are.
pub(super) fn publish(args: &DemoArgs, plan: &Plan, judged: &[Judged]) -> anyhow::Result<()> {
    let runs: Vec<RunResult> = judged.iter().map(|half| half.result.clone()).collect();
    let title = format!("Squall demo: {}", plan.scenario.name);
    std::fs::write(&args.report, squall_report::html(&runs, &title))
        .with_context(|| format!("cannot write the report {}", args.report.display()))?;
    let mut notes = Vec::new();
    for half in judged {
        notes.extend(doubt(half));
    }
    if judged.iter().any(|half| half.result.duration_us < plan.duration_us) {
        notes.push("note: ended early; the figures are about what was played".to_owned());
    }
    if args.json_to_stdout() {
        output::print(&result::to_json(&runs))?;
    } else {
        output::print(&format!("\n{}\n", table::render(&comparison::table(judged))))?;
        notes.splice(0..0, comparison::verdict(judged));
    }
    for note in notes {
        note!("{note}");
    }
    note!("report: {}", shown(&args.report));
    if let Some(file) = args.json.as_deref().filter(|_| !args.json_to_stdout()) {
        output::write(file, &result::to_json(&runs))?;
        note!("measurements: {}", shown(file));
    }
    Ok(())
}

/// Why a half is not to be trusted, if it is not.
fn doubt(half: &Judged) -> Option<String> {
    let why = half.relay.invalid(MAX_SLIP)?;
    Some(format!("warning: INVALID RUN of {}: {why}", half.result.scheduler))
}

/// The whole path, which a terminal may make into a link.
fn shown(file: &Path) -> String {
    fs::canonicalize(file).unwrap_or_else(|_| file.to_owned()).display().to_string()
}

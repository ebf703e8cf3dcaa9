//! `squall-lab video`: sends a film over a scenario and evaluates its pictures.

mod plan;
mod scratch;

use std::{
    fs,
    io::{IsTerminal as _, stderr},
    path::{Path, PathBuf},
    process::ExitCode,
    str::FromStr,
    sync::{Arc, Mutex},
};

use anyhow::Context as _;
use clap::Args;
use squall::sched::Registry;
use squall_lab::video::{self, Panel, Show, Shown, Step, VideoError};
use squall_media::studio::{Coding, FrameRate};
use squall_units::{Rate, Span};

use squall_terminal::{
    error::{usage, whole},
    output,
    progress::Progress,
};

/// Sends a film through a scenario with several schedulers, and evaluates the quality for a viewer.
///
/// ffmpeg encodes the film; its frames travel in virtual time over the paths of the scenario, each
/// with its deadline. Frames that arrive in time are decoded by ffmpeg and compared with the
/// source, picture by picture (PSNR, SSIM).
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  squall-lab video film.mp4 --scenario scenarios/outage-first.toml\n  \
    squall-lab video scene --scenario scenarios/coverage.toml \\\n      \
    --scheduler minrtt,redundant,storm --out out/video\n  \
    squall-lab video film.mkv --scenario scenarios/lossy.toml --codec svc \\\n      \
    --bitrate 4mbps --size 640x360 --seconds 10")]
pub(crate) struct VideoArgs {
    /// Any video that ffmpeg reads, or `scene` for a generated one (also called `test`; ./scene is
    /// a file)
    #[arg(value_name = "FILE")]
    film: PathBuf,
    /// Scenario with the paths, radios and events; the film replaces its flows and ends with it at
    /// the latest
    #[arg(long, value_name = "SCENARIO.toml")]
    scenario: PathBuf,
    /// Schedulers to compare, one to seven, with options, separated by commas
    #[arg(long, alias = "schedulers", value_name = "A,B", default_value = "minrtt,storm")]
    scheduler: String,
    /// Codec: h264 (every second picture a B frame), vp9, or svc (VP9 in three temporal layers)
    #[arg(long, value_name = "CODEC", default_value = "h264", value_parser = Coding::from_str)]
    codec: Coding,
    /// Bitrate of the encode
    #[arg(long, value_name = "RATE", default_value = "8mbps", value_parser = parse_bitrate)]
    bitrate: Rate,
    /// Pictures per second, such as 30, 29.97 or 30000/1001. Default: that of the film
    #[arg(long, value_name = "N", value_parser = FrameRate::from_str)]
    fps: Option<FrameRate>,
    /// Size of the picture. Default: that of the film
    #[arg(long, value_name = "WxH", value_parser = crate::demo::parse_size)]
    size: Option<(u32, u32)>,
    /// Time from capturing a picture to showing it; `deadline` for that of the scenario's first
    /// flow that has one
    #[arg(long, value_name = "TIME", default_value = "150ms", value_parser = Latency::from_str)]
    latency: Latency,
    /// Maximum length in seconds. Default: limited only by film and scenario
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    seconds: Option<u32>,
    /// Seed of links and generated scene. Default: the scenario's first
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Also write pictures of the worst moment and of SSIM over time, and the received frames as
    /// files that ffmpeg plays
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Also write all results as JSON; - for standard output, which replaces all other output there
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Time from capturing a picture to showing it.
#[derive(Clone, Copy, Debug)]
enum Latency {
    /// A given time.
    Time(Span),
    /// Deadline in the scenario.
    Deadline,
}

impl FromStr for Latency {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "deadline" {
            return Ok(Self::Deadline);
        }
        let span = text.parse::<Span>().map_err(|error| error.to_string())?;
        if (1..=60_000_000).contains(&span.micros()) {
            Ok(Self::Time(span))
        } else {
            Err(format!("{span} is not within 1us and 60 s"))
        }
    }
}

fn parse_bitrate(text: &str) -> Result<Rate, String> {
    let rate = text.parse::<Rate>().map_err(|error| error.to_string())?;
    if (10_000..=200_000_000).contains(&rate.bps()) {
        Ok(rate)
    } else {
        Err(format!("{rate} is not within 10kbps and 200mbps"))
    }
}

/// Runs the command.
pub(crate) fn run(args: &VideoArgs, registry: &Arc<Registry>) -> anyhow::Result<ExitCode> {
    let show = plan::plan(args, registry).map_err(usage)?;
    let scratch = scratch::folder().context("cannot make a temporary folder")?;
    let shown = play(&show, registry.clone(), scratch.path())?;
    let quiet = args.json.as_deref().is_some_and(output::is_stdout);
    let mut text = video::text(&shown.accounts);
    if let Some(folder) = &args.out {
        for file in keep(&show, &shown, folder)? {
            text.push_str(&format!("{}\n", file.display()));
        }
    }
    if let Some(file) = &args.json {
        output::write(file, &video::to_json(&shown.accounts))?;
    }
    if !quiet {
        output::print(&text)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn play(show: &Show, registry: Arc<Registry>, work: &Path) -> anyhow::Result<Shown> {
    let line = stderr().is_terminal().then(|| Mutex::new(Progress::default()));
    let shown = show.play(registry, work, &|step| {
        let Some(Ok(mut line)) = line.as_ref().map(Mutex::lock) else { return };
        line.show(&match step {
            Step::Encoding(done, most) => format!("encoding: {done} of at most {most} pictures"),
            Step::Running(percent) => format!("{}: {percent} %", show.scenario.name),
            Step::Watching(done, all) => format!("comparing: {done} of {all} pictures"),
        });
    });
    shown.map_err(|error| match error {
        // The request cannot be fulfilled as it stands.
        VideoError::Latency { .. } | VideoError::Short { .. } => usage(error),
        VideoError::Studio(ref studio) if studio.is_missing() => usage(error),
        error => whole(error),
    })
}

/// Writes the files for the user; returns their names.
fn keep(show: &Show, shown: &Shown, folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    fs::create_dir_all(folder).with_context(|| format!("cannot make the folder {}", folder.display()))?;
    let mut files = vec![folder.join("worst.png"), folder.join("ssim.svg")];
    let write = |file: &Path, data: &[u8]| {
        fs::write(file, data).with_context(|| format!("cannot write {}", file.display()))
    };
    write(&files[0], &worst_moment(shown))?;
    write(&files[1], squall_report::ssim(shown).as_bytes())?;
    let names = std::iter::once("encode").chain(show.schedulers.iter().map(String::as_str));
    for (name, from) in names.zip(&shown.files) {
        let Some(from) = from else { continue };
        let plain: String =
            name.chars().map(|c| if c.is_alphanumeric() || c == '-' { c } else { '_' }).collect();
        let file = folder.join(format!("{plain}.ivf"));
        fs::copy(from, &file).with_context(|| format!("cannot write {}", file.display()))?;
        files.push(file);
    }
    Ok(files)
}

/// Draws the source and each screen.
fn worst_moment(shown: &Shown) -> Vec<u8> {
    let Shown { accounts, moment, still, .. } = shown;
    let title = format!(
        "{} in {}, {:.2} s, {}",
        accounts.film,
        accounts.scenario,
        accounts.moment_us as f64 / 1e6,
        accounts.codec
    );
    let likeness = |seen: &video::Seen| {
        let (psnr, ssim) = (seen.psnr[*moment], seen.ssim[*moment]);
        format!("PSNR {psnr:.1} dB  SSIM {ssim:.3}")
    };
    let encode = Panel {
        name: "source".into(),
        note: format!("encode: {}", likeness(&shown.encode)),
        picture: &still[0],
    };
    let screens =
        accounts.schedulers.iter().zip(&shown.seen).zip(&still[1..]).map(|((account, seen), picture)| {
            let frozen_ms = seen.frozen_for(*moment) as f64 * 1e3 / accounts.fps;
            let state =
                if frozen_ms > 0.0 { format!(", frozen for {frozen_ms:.0} ms") } else { String::new() };
            Panel { name: format!("{}{state}", account.scheduler), note: likeness(seen), picture }
        });
    let panels: Vec<Panel<'_>> = std::iter::once(encode).chain(screens).collect();
    video::png(&title, &panels)
}

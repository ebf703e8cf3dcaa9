//! Results of a show: as a table for people, as JSON for machines.

use serde::Serialize;
use squall_media::studio::{CodedFrame, FrameRate};
use squall_units::format;

use super::{Figures, Playout, Seen, Show};
use crate::result::{PathResult, RunResult, round6};
use crate::table::{Column, Table, render};
use crate::traffic::Encoded;

/// Description of the show and the results of each scheduler.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Accounts {
    /// Name of the film.
    pub film: String,
    /// Name of the scenario.
    pub scenario: String,
    /// Seed of the run.
    pub seed: u64,
    /// `h264`, `vp9` or `svc`.
    pub codec: String,
    /// Width and height in pixels.
    pub size: (u32, u32),
    /// Frame rate in pictures per second.
    pub fps: f64,
    /// Number of pictures.
    pub pictures: u64,
    /// Bitrate of the encode in bits per second.
    pub bitrate_bps: u64,
    /// Time for which the encoder held frames back, in microseconds.
    pub hold_us: u64,
    /// Time from capturing a picture to showing it, in microseconds.
    pub latency_us: u64,
    /// PSNR in dB of the encode relative to the source, which no network can exceed.
    pub encode_psnr: Option<Figures>,
    /// SSIM of the encode relative to the source.
    pub encode_ssim: Option<Figures>,
    /// Capture time of the picture with the largest difference, in microseconds.
    pub moment_us: u64,
    /// One entry per scheduler.
    pub schedulers: Vec<Account>,
}

/// Results of one scheduler.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Account {
    /// The scheduler with its options.
    pub scheduler: String,
    /// Frames that arrived in time.
    pub in_time: u64,
    /// Pictures that were shown at their time.
    pub shown: u64,
    /// Pictures shown that depend on missing frames.
    pub damaged: u64,
    /// Share of the pictures that were replaced by the previous one, 0 to 1.
    pub frozen_ratio: f64,
    /// Longest freeze in microseconds.
    pub longest_freeze_us: u64,
    /// PSNR of luma in dB, screen relative to source, over all pictures; 100 for equal pictures.
    pub psnr: Option<Figures>,
    /// SSIM of luma.
    pub ssim: Option<Figures>,
    /// One entry per path.
    pub paths: Vec<PathBytes>,
    /// UDP payload on metered paths in both directions, in bytes.
    pub metered_bytes: u64,
}

/// Traffic of a path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PathBytes {
    /// Name of the path.
    pub name: String,
    /// The path is metered.
    pub metered: bool,
    /// UDP payload of both ends in both directions, in bytes.
    pub bytes: u64,
}

impl From<&PathResult> for PathBytes {
    fn from(path: &PathResult) -> Self {
        Self { name: path.name.clone(), metered: path.metered, bytes: path.wire_bytes() }
    }
}

/// Statistics for a film with this frame rate.
fn figures(values: &[f64], rate: FrameRate) -> Option<Figures> {
    Figures::of(values, rate.fps().round() as usize)
}

impl Accounts {
    /// Creates the part that does not depend on the schedulers.
    pub(super) fn of(show: &Show, frames: &[CodedFrame], encode: &Seen, moment: usize) -> Self {
        let rate = show.footage.rate;
        let bytes: u64 = frames.iter().map(|frame| frame.size).sum();
        let length_us = rate.time_us(frames.len() as u64).max(1);
        Self {
            film: show.name.clone(),
            scenario: show.scenario.name.clone(),
            seed: show.seed,
            codec: show.coding.to_string(),
            size: show.footage.size,
            fps: round6(rate.fps()),
            pictures: frames.len() as u64,
            bitrate_bps: (bytes as f64 * 8e6 / length_us as f64).round() as u64,
            hold_us: super::hold_us(frames, rate),
            latency_us: show.latency.micros(),
            encode_psnr: figures(&encode.psnr, rate),
            encode_ssim: figures(&encode.ssim, rate),
            moment_us: rate.time_us(moment as u64),
            schedulers: Vec::new(),
        }
    }
}

impl Account {
    pub(super) fn of(
        run: &RunResult,
        playout: &Playout,
        seen: &Seen,
        film: &Encoded,
        rate: FrameRate,
    ) -> Self {
        let paths: Vec<PathBytes> = run.paths.iter().map(PathBytes::from).collect();
        let damaged = film.frames.iter().zip(&playout.intact);
        let damaged = damaged.filter(|(frame, intact)| !**intact && seen.fresh[frame.picture as usize]);
        Self {
            scheduler: run.scheduler.clone(),
            in_time: playout.count(),
            shown: seen.fresh.iter().filter(|fresh| **fresh).count() as u64,
            damaged: damaged.count() as u64,
            frozen_ratio: seen.frozen_ratio(),
            longest_freeze_us: rate.time_us(seen.longest_freeze()),
            psnr: figures(&seen.psnr, rate),
            ssim: figures(&seen.ssim, rate),
            metered_bytes: paths.iter().filter(|path| path.metered).map(|path| path.bytes).sum(),
            paths,
        }
    }
}

/// Formats the results as a table for a terminal.
pub fn text(accounts: &Accounts) -> String {
    let (width, height) = accounts.size;
    let head = format!(
        "{} in scenario {}, seed {}\n{width}x{height}, {} pictures, {} a second, {} at {}; shown {} after they are taken, {} of it in the encoder\n\n",
        accounts.film,
        accounts.scenario,
        accounts.seed,
        accounts.pictures,
        format::digits(accounts.fps),
        accounts.codec,
        format::rate(accounts.bitrate_bps as f64),
        format::time(accounts.latency_us),
        format::time(accounts.hold_us),
    );
    head + &render(&frames_table(accounts))
        + "\n"
        + &render(&quality_table(accounts))
        + "\n"
        + &render(&paths_table(accounts))
}

/// Formats the results as JSON.
pub fn to_json(accounts: &Accounts) -> String {
    serde_json::to_string_pretty(accounts).expect("numbers and words can be written") + "\n"
}

/// Creates a table with one row per scheduler, which begins with its name.
fn table(
    accounts: &Accounts,
    title: &str,
    columns: impl IntoIterator<Item = Column>,
    row: impl Fn(&Account) -> Vec<String>,
) -> Table {
    let rows = accounts.schedulers.iter().map(|one| [vec![one.scheduler.clone()], row(one)].concat());
    let columns = std::iter::once(Column::text("scheduler")).chain(columns).collect();
    Table { title: title.into(), columns, rows: rows.collect() }
}

fn frames_table(accounts: &Accounts) -> Table {
    let counts = ["frames in time", "pictures shown", "damaged"].map(|name| Column::number(name, ""));
    let freezes = [Column::number("frozen", "%"), Column::number("longest freeze", "ms")];
    table(accounts, "pictures", counts.into_iter().chain(freezes), |one| {
        vec![
            one.in_time.to_string(),
            one.shown.to_string(),
            one.damaged.to_string(),
            format!("{:.1}", one.frozen_ratio * 100.0),
            format!("{:.0}", one.longest_freeze_us as f64 / 1e3),
        ]
    })
}

fn quality_table(accounts: &Accounts) -> Table {
    let psnr = ["PSNR mean", "p5", "worst second"].map(|name| Column::number(name, "dB"));
    let ssim = ["SSIM mean", "p5", "worst second"].map(|name| Column::number(name, ""));
    let values = |psnr: Option<Figures>, ssim: Option<Figures>| -> Vec<String> {
        let all =
            |figures: Option<Figures>| figures.map_or([0.0; 3], |all| [all.mean, all.p5, all.worst_second]);
        let psnr = all(psnr).map(|value| format!("{value:.2}"));
        psnr.into_iter().chain(all(ssim).map(|value| format!("{value:.4}"))).collect()
    };
    let columns = psnr.into_iter().chain(ssim);
    let mut table = table(accounts, "screen against source", columns, |one| values(one.psnr, one.ssim));
    let encode = values(accounts.encode_psnr, accounts.encode_ssim);
    table.rows.push([vec!["(no network)".to_owned()], encode].concat());
    table
}

fn paths_table(accounts: &Accounts) -> Table {
    let paths = accounts.schedulers.first().map(|account| &account.paths[..]).unwrap_or_default();
    let columns = paths.iter().map(|path| path.name.as_str()).chain(["on metered paths"]);
    let columns: Vec<Column> = columns.map(|name| Column::number(name, "MB")).collect();
    table(accounts, "carried by each path", columns, |one| {
        let bytes = one.paths.iter().map(|path| path.bytes).chain([one.metered_bytes]);
        bytes.map(|bytes| format!("{:.2}", bytes as f64 / 1e6)).collect()
    })
}

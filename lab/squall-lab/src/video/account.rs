//! A show in numbers: for people as a table, for machines as JSON.

use serde::Serialize;
use squall_media::studio::CodedFrame;
use squall_units::format;

use super::{Figures, Playout, Seen, Show};
use crate::flow::Encoded;
use crate::result::{PathResult, RunResult, round6};
use crate::summary::{Column, Table};
use crate::table::render;

/// What was shown, and how each scheduler fared.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Accounts {
    /// The film.
    pub film: String,
    /// Name of the scenario.
    pub scenario: String,
    /// Seed of the run.
    pub seed: u64,
    /// `h264`, `vp9` or `svc`.
    pub codec: String,
    /// Width and height in pixels.
    pub size: (u32, u32),
    /// Pictures per second.
    pub fps: f64,
    /// Pictures.
    pub pictures: u64,
    /// Rate of the encode, in bits per second.
    pub bitrate_bps: u64,
    /// How long the encoder held frames back, in microseconds.
    pub hold_us: u64,
    /// From taking a picture to showing it, in microseconds.
    pub latency_us: u64,
    /// PSNR in dB of the encode against the source: no network can better it.
    pub encode_psnr: Option<Figures>,
    /// SSIM of the same.
    pub encode_ssim: Option<Figures>,
    /// When the picture was taken at which they differ most, in microseconds.
    pub moment_us: u64,
    /// One entry per scheduler.
    pub schedulers: Vec<Account>,
}

/// How one scheduler fared.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Account {
    /// The scheduler with its options.
    pub scheduler: String,
    /// Frames that were there in time.
    pub in_time: u64,
    /// Pictures that were new on the screen in their turn.
    pub shown: u64,
    /// Of these, pictures that rest on frames that were left out.
    pub damaged: u64,
    /// Share of the pictures in the place of which the one before stayed, 0 to 1.
    pub frozen_ratio: f64,
    /// Longest time for which it did, in microseconds.
    pub longest_freeze_us: u64,
    /// PSNR of luma in dB, screen against source, each picture; 100 for equal ones.
    pub psnr: Option<Figures>,
    /// SSIM of luma.
    pub ssim: Option<Figures>,
    /// One entry per path.
    pub paths: Vec<PathBytes>,
    /// What paths that cost money carried, both ways, in bytes of UDP payload.
    pub metered_bytes: u64,
}

/// What a path carried.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PathBytes {
    /// Its name.
    pub name: String,
    /// Whether its traffic costs money.
    pub metered: bool,
    /// UDP payload of both ends, both ways, in bytes.
    pub bytes: u64,
}

impl From<&PathResult> for PathBytes {
    fn from(path: &PathResult) -> Self {
        Self { name: path.name.clone(), metered: path.metered, bytes: path.wire_bytes() }
    }
}

/// A show that was played, to be told of.
pub(super) struct Played<'a> {
    pub(super) show: &'a Show,
    pub(super) film: &'a Encoded,
    pub(super) frames: &'a [CodedFrame],
    pub(super) runs: &'a [RunResult],
    pub(super) playouts: &'a [Playout],
    pub(super) encode: &'a Seen,
    pub(super) seen: &'a [Seen],
    pub(super) moment: usize,
}

impl Played<'_> {
    pub(super) fn accounts(&self) -> Accounts {
        let (rate, frames) = (self.show.footage.rate, self.frames);
        let bytes: u64 = frames.iter().map(|frame| frame.size).sum();
        let length_us = rate.time_us(frames.len() as u64).max(1);
        let of = |values: &[f64]| self.figures(values);
        Accounts {
            film: self.show.name.clone(),
            scenario: self.show.scenario.name.clone(),
            seed: self.show.seed,
            codec: self.show.coding.to_string(),
            size: self.show.footage.size,
            fps: round6(rate.fps()),
            pictures: frames.len() as u64,
            bitrate_bps: (bytes as f64 * 8e6 / length_us as f64).round() as u64,
            hold_us: super::hold_us(frames, rate),
            latency_us: self.show.latency_us,
            encode_psnr: of(&self.encode.likenesses.psnr),
            encode_ssim: of(&self.encode.likenesses.ssim),
            moment_us: rate.time_us(self.moment as u64),
            schedulers: (0..self.runs.len()).map(|index| self.account(index)).collect(),
        }
    }

    fn account(&self, index: usize) -> Account {
        let (run, playout, seen) = (&self.runs[index], &self.playouts[index], &self.seen[index]);
        let paths: Vec<PathBytes> = run.paths.iter().map(PathBytes::from).collect();
        let damaged = self.film.cues.iter().zip(&playout.intact);
        let damaged = damaged.filter(|(cue, intact)| !**intact && seen.fresh[cue.picture as usize]);
        Account {
            scheduler: run.scheduler.clone(),
            in_time: playout.count(),
            shown: seen.fresh.iter().filter(|fresh| **fresh).count() as u64,
            damaged: damaged.count() as u64,
            frozen_ratio: seen.frozen_ratio(),
            longest_freeze_us: self.show.footage.rate.time_us(seen.longest_freeze()),
            psnr: self.figures(&seen.likenesses.psnr),
            ssim: self.figures(&seen.likenesses.ssim),
            metered_bytes: paths.iter().filter(|path| path.metered).map(|path| path.bytes).sum(),
            paths,
        }
    }

    fn figures(&self, values: &[f64]) -> Option<Figures> {
        Figures::of(values, self.show.footage.rate.fps().round() as usize)
    }
}

/// As a table for a terminal.
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

/// As JSON.
pub fn to_json(accounts: &Accounts) -> String {
    serde_json::to_string_pretty(accounts).expect("numbers and words can be written") + "\n"
}

fn frames_table(accounts: &Accounts) -> Table {
    let columns = vec![
        Column::text("scheduler"),
        Column::number("frames in time", ""),
        Column::number("pictures shown", ""),
        Column::number("damaged", ""),
        Column::number("frozen", "%"),
        Column::number("longest freeze", "ms"),
    ];
    let row = |account: &Account| {
        vec![
            account.scheduler.clone(),
            account.in_time.to_string(),
            account.shown.to_string(),
            account.damaged.to_string(),
            format!("{:.1}", account.frozen_ratio * 100.0),
            format!("{:.0}", account.longest_freeze_us as f64 / 1e3),
        ]
    };
    Table { title: "pictures".into(), columns, rows: accounts.schedulers.iter().map(row).collect() }
}

fn quality_table(accounts: &Accounts) -> Table {
    let mut columns = vec![Column::text("scheduler")];
    columns.extend(["PSNR mean", "p5", "worst second"].map(|name| Column::number(name, "dB")));
    columns.extend(["SSIM mean", "p5", "worst second"].map(|name| Column::number(name, "")));
    let row = |name: &str, psnr: Option<Figures>, ssim: Option<Figures>| {
        let all =
            |figures: Option<Figures>| figures.map_or([0.0; 3], |all| [all.mean, all.p5, all.worst_second]);
        let mut row = vec![name.to_owned()];
        row.extend(all(psnr).map(|value| format!("{value:.2}")));
        row.extend(all(ssim).map(|value| format!("{value:.4}")));
        row
    };
    let mut rows: Vec<Vec<String>> =
        accounts.schedulers.iter().map(|all| row(&all.scheduler, all.psnr, all.ssim)).collect();
    rows.push(row("(no network)", accounts.encode_psnr, accounts.encode_ssim));
    Table { title: "screen against source".into(), columns, rows }
}

fn paths_table(accounts: &Accounts) -> Table {
    let paths = accounts.schedulers.first().map(|account| &account.paths[..]).unwrap_or_default();
    let mut columns = vec![Column::text("scheduler")];
    columns.extend(paths.iter().map(|path| Column::number(&path.name, "MB")));
    columns.push(Column::number("on metered paths", "MB"));
    let mega = |bytes: u64| format!("{:.2}", bytes as f64 / 1e6);
    let row = |account: &Account| {
        let mut row = vec![account.scheduler.clone()];
        row.extend(account.paths.iter().map(|path| mega(path.bytes)));
        row.push(mega(account.metered_bytes));
        row
    };
    Table {
        title: "carried by each path".into(),
        columns,
        rows: accounts.schedulers.iter().map(row).collect(),
    }
}

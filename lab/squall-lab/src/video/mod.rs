//! Real pictures: any film, encoded, sent through a scenario by several schedulers, decoded and compared with its source.
//!
//! A [`Show`] goes these steps, each in a file: `timetable` (frames become blocks of a flow), the run in virtual time,
//! `playout` (what the decoder gets), `screen` and `viewing` (what is to be seen, against the source), `figures` and
//! `account` (in numbers), `still` and `curve` (in pictures). ffmpeg encodes, decodes and compares
//! ([`squall_media::studio`]).

mod account;
mod curve;
mod figures;
mod playout;
mod screen;
mod still;
mod timetable;
mod viewing;

use std::ffi::OsString;
use std::fs::File;
use std::io::{BufReader, BufWriter};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use squall_media::Picture;
use squall_media::studio::{CodedFrame, Coding, Encoding, Footage, StudioError, encode};
use squall_sched::Registry;

use crate::flow::{Encoded, Flow, Multiplexer, Production, Traffic};
use crate::result::Interval;
use crate::runner::{Batch, RunError};
use crate::scenario::Scenario;
use account::Played;
pub use account::{Account, Accounts, PathBytes, text, to_json};
pub use curve::svg;
pub use figures::{Figures, Seen, worst_moment};
pub use playout::Playout;
pub use still::{Panel, png};
pub use timetable::{hold_us, timetable};
use viewing::Viewing;

/// What is shown to whom.
#[derive(Debug)]
pub struct Show {
    /// The source.
    pub footage: Footage,
    /// What people call it.
    pub name: String,
    /// How it is encoded.
    pub coding: Coding,
    /// Bits per second that the encoder aims at.
    pub bitrate_bps: u64,
    /// From taking a picture to showing it, in microseconds.
    pub latency_us: u64,
    /// Longest film in microseconds, if not as long as the scenario lets it be.
    pub length_us: Option<u64>,
    /// Paths, radios and events. Its flows give way to the film, which goes in the direction of most of them.
    pub scenario: Scenario,
    /// Schedulers to compare, as [`Contender`](crate::Contender) takes them.
    pub schedulers: Vec<String>,
    /// Seed of the run.
    pub seed: u64,
    /// The `ffmpeg` program.
    pub ffmpeg: OsString,
}

/// Why there is nothing to see: always one line.
#[derive(Debug, thiserror::Error)]
pub enum VideoError {
    /// ffmpeg failed, or is missing.
    #[error(transparent)]
    Studio(#[from] StudioError),
    /// The run failed.
    #[error(transparent)]
    Run(#[from] RunError),
    /// The film cannot be shown that soon.
    #[error("a latency of {} is too short: the encoder holds frames back, and the last leaves {} after its picture was taken",
        squall_units::format::time(*.latency_us), squall_units::format::time(*.least_us))]
    Latency {
        /// What was asked for, in microseconds.
        latency_us: u64,
        /// What would leave the network no time, in microseconds.
        least_us: u64,
    },
    /// The scenario ends before a picture could be shown.
    #[error("scenario {scenario}: it is over before the first picture can be shown")]
    Short {
        /// Which scenario.
        scenario: String,
    },
    /// A file of the work folder cannot be written or read.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
}

/// What goes on, for who waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// So many pictures are encoded, of at most so many.
    Encoding(u64, u64),
    /// Percent of the runs are done.
    Running(u64),
    /// So many pictures are compared, of so many.
    Watching(u64, u64),
}

/// A show that is over.
#[derive(Debug)]
pub struct Shown {
    /// In numbers.
    pub accounts: Accounts,
    /// Of the encode, as if everything had arrived at once.
    pub encode: Seen,
    /// Of each scheduler.
    pub seen: Vec<Seen>,
    /// The place of the [worst moment](worst_moment).
    pub moment: usize,
    /// The source at that moment, and what was on the screen of each scheduler.
    pub still: Vec<Picture>,
    /// When a path carried nothing, by its name, as the run of the first scheduler had it; the others had the same.
    pub outages: Vec<(String, Interval)>,
    /// The encode, and what each scheduler brought in time, as files in the work folder; none of a scheduler that
    /// brought nothing.
    pub files: Vec<Option<PathBuf>>,
}

impl Show {
    /// Plays it. Files of a length that goes with the film are written into the folder `work`, pictures never.
    ///
    /// # Errors
    /// [`VideoError`] says what is wrong.
    pub fn play(
        &self,
        registry: Arc<Registry>,
        work: &Path,
        progress: &(dyn Fn(Step) + Sync),
    ) -> Result<Shown, VideoError> {
        let encode_file = work.join("encode.ivf");
        let frames = self.encode(&encode_file, progress)?;
        let film = timetable(&frames, self.coding, self.footage.rate, self.latency_us)
            .map_err(|least_us| VideoError::Latency { latency_us: self.latency_us, least_us })?;
        let scenario = self.staged(&film);
        let batch = Batch {
            schedulers: self.schedulers.clone(),
            seeds: vec![self.seed],
            ..Batch::of(&scenario, registry)
        };
        let done = std::sync::atomic::AtomicU64::new(0);
        let runs = batch.run(&|piece| {
            let done = done.fetch_add(piece, std::sync::atomic::Ordering::Relaxed) + piece;
            progress(Step::Running(done * 100 / batch.work_us()));
        })?;
        let playouts: Vec<Playout> =
            runs.iter().map(|run| Playout::of(&film.cues, &run.flows[0].arrivals_us)).collect();
        let mut files = vec![Some(encode_file.clone())];
        for (index, playout) in playouts.iter().enumerate() {
            files.push(copy(playout, &encode_file, work.join(format!("arrived{index}.ivf")))?);
        }
        let pictures = frames.len() as u64;
        let viewing = Viewing { footage: &self.footage, ffmpeg: &self.ffmpeg, files, pictures };
        let mut seen = viewing.watch(work, &|done| progress(Step::Watching(done, pictures)))?;
        let encode = seen.remove(0);
        if let Some(place) = encode.fresh.iter().position(|fresh| !fresh) {
            let complaint = format!("picture {place} of the encode is not there");
            return Err(StudioError::Failed { doing: "decoding", complaint }.into());
        }
        let moment = worst_moment(&encode, &seen.iter().collect::<Vec<_>>()).unwrap_or(0);
        let mut still = viewing.still(moment as u64)?;
        // The encode's own picture, behind the source.
        still.remove(1);
        let played = Played {
            show: self,
            film: &film,
            frames: &frames,
            runs: &runs,
            playouts: &playouts,
            encode: &encode,
            seen: &seen,
            moment,
        };
        let accounts = played.accounts();
        let outages = runs.first().map(|run| &run.paths[..]).unwrap_or_default().iter();
        let outages = outages.flat_map(|path| path.outages.iter().map(|outage| (path.name.clone(), *outage)));
        let outages = outages.collect();
        Ok(Shown { accounts, encode, seen, moment, still, outages, files: viewing.files })
    }

    fn encode(&self, file: &Path, progress: &(dyn Fn(Step) + Sync)) -> Result<Vec<CodedFrame>, VideoError> {
        let rate = self.footage.rate;
        // What the encoder holds back goes from the end, too.
        let hold_us = 2 * rate.time_us(1);
        let longest_us = self.scenario.duration_us.saturating_sub(self.latency_us + hold_us);
        let pictures = rate.pictures_within(self.length_us.unwrap_or(u64::MAX).min(longest_us));
        if pictures == 0 {
            return Err(VideoError::Short { scenario: self.scenario.name.clone() });
        }
        let encoding = Encoding {
            ffmpeg: self.ffmpeg.clone(),
            coding: self.coding,
            bitrate_bps: self.bitrate_bps,
            pictures,
        };
        let out = File::create(file).map_err(|source| VideoError::File { path: file.to_owned(), source })?;
        let told = |done| progress(Step::Encoding(done, pictures));
        Ok(encode(&self.footage, &encoding, BufWriter::new(out), told)?)
    }

    /// The scenario with the film in the place of its flows, until the last picture is shown.
    fn staged(&self, film: &Encoded) -> Scenario {
        let last_us = film.cues.iter().map(|cue| cue.due_us).max().unwrap_or(0);
        let duration_us = (last_us + 1).min(self.scenario.duration_us);
        let mut paths = self.scenario.paths.clone();
        for path in &mut paths {
            // What would happen after the end does not.
            path.events.retain(|event| event.at.micros() < duration_us);
            for link in [&mut path.up, &mut path.down] {
                link.events.retain(|event| event.at.micros() < duration_us);
            }
        }
        let flow = Flow {
            name: "film".to_owned(),
            direction: self.scenario.direction(),
            channel: 0,
            multiplexer: Multiplexer::Unordered,
            weight: 1,
            start_us: 0,
            end_us: duration_us,
            production: Production::default(),
            traffic: Traffic::Encoded(film.clone()),
        };
        Scenario { duration_us, paths, flows: vec![flow], checks: Vec::new(), ..self.scenario.clone() }
    }
}

/// Writes what the decoder gets, if it gets anything.
fn copy(playout: &Playout, encode: &Path, to: PathBuf) -> Result<Option<PathBuf>, VideoError> {
    if playout.count() == 0 {
        return Ok(None);
    }
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source| VideoError::File { path, source }
    };
    let from = BufReader::new(File::open(encode).map_err(failed(encode))?);
    let out = BufWriter::new(File::create(&to).map_err(failed(&to))?);
    playout.copy(from, out).map_err(failed(&to))?;
    Ok(Some(to))
}

//! Real pictures: any film, encoded, sent through a scenario by several schedulers, decoded and compared with its source.
//!
//! A [`Show`] is a run of the scenario with one flow, the frames of an [encode](Encoded). Its steps: `schedule` (when
//! frames are sent), the run in virtual time, `playout` (the frames that the decoder gets), `screen` (the pictures that
//! the viewer sees), `figures` and `account` (in numbers), `still` (the worst moment as a picture). ffmpeg encodes and decodes
//! ([`squall_media::studio`]).

mod account;
mod figures;
mod playout;
mod schedule;
mod screen;
mod still;

use std::fs::File;
use std::io::{BufReader, BufWriter};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use squall_media::Picture;
use squall_media::quality::likeness;
use squall_media::studio::{CodedFrame, Coding, Encoding, Footage, StudioError, encode};
use squall_sched::Registry;
use squall_units::Span;

use crate::file::FileError;
use crate::flow::Flow;
use crate::result::Interval;
use crate::runner::{Batch, RunError};
use crate::scenario::Scenario;
use crate::traffic::{Encoded, Traffic};
pub use account::{Account, Accounts, PathBytes, text, to_json};
pub use figures::{Figures, Seen, worst_moment};
pub use playout::Playout;
pub use schedule::{hold_us, schedule};
use screen::Screen;
pub use still::{Panel, png};

/// A film, and the scenario and schedulers that it is sent with.
#[derive(Debug)]
pub struct Show {
    /// The source.
    pub footage: Footage,
    /// Its name.
    pub name: String,
    /// How it is encoded.
    pub coding: Coding,
    /// Bits per second that the encoder aims at.
    pub bitrate_bps: u64,
    /// From taking a picture to showing it.
    pub latency: Span,
    /// Longest film in microseconds, if not as long as the scenario lets it be.
    pub length_us: Option<u64>,
    /// Paths, radios and events. Its flows give way to the film, which goes in the direction of most of them.
    pub scenario: Scenario,
    /// Schedulers to compare, as [`Variant`](crate::Variant) takes them.
    pub schedulers: Vec<String>,
    /// Seed of the run.
    pub seed: u64,
    /// The `ffmpeg` program.
    pub ffmpeg: std::ffi::OsString,
}

/// Why a show failed: always one line.
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
    #[error(transparent)]
    File(#[from] FileError),
}

/// Progress of a show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Pictures that are encoded, of at most this many.
    Encoding(u64, u64),
    /// Percent of the runs that are done.
    Running(u64),
    /// Pictures that are compared, of this many.
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
    /// Plays it. The files of frames are written into the folder `work`, pictures never.
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
        let latency_us = self.latency.micros();
        let film = schedule(&frames, self.coding, self.footage.rate, self.latency)
            .map_err(|least_us| VideoError::Latency { latency_us, least_us })?;
        let scenario = self.staged(&film);
        let batch = Batch {
            schedulers: self.schedulers.clone(),
            seeds: vec![self.seed],
            ..Batch::of(&scenario, registry)
        };
        let done = AtomicU64::new(0);
        let runs = batch.run(&|piece| {
            let done = done.fetch_add(piece, Ordering::Relaxed) + piece;
            progress(Step::Running(done * 100 / batch.work_us()));
        })?;
        let playouts: Vec<Playout> =
            runs.iter().map(|run| Playout::of(&film.frames, &run.flows[0].arrivals_us)).collect();
        let mut files = vec![Some(encode_file.clone())];
        for (index, playout) in playouts.iter().enumerate() {
            let file = (playout.count() > 0).then(|| work.join(format!("arrived{index}.ivf")));
            file.iter().try_for_each(|file| copy(playout, &encode_file, file))?;
            files.push(file);
        }
        let mut seen = self.watch(&files, frames.len() as u64, progress)?;
        let encode = seen.remove(0);
        if let Some(place) = encode.fresh.iter().position(|fresh| !fresh) {
            let complaint = format!("picture {place} of the encode is not there");
            return Err(StudioError::Failed { doing: "decoding", complaint }.into());
        }
        let moment = worst_moment(&encode, &seen.iter().collect::<Vec<_>>()).unwrap_or(0);
        let schedulers = runs.iter().zip(&playouts).zip(&seen);
        let schedulers = schedulers
            .map(|((run, playout), seen)| Account::of(run, playout, seen, &film, self.footage.rate));
        let accounts =
            Accounts { schedulers: schedulers.collect(), ..Accounts::of(self, &frames, &encode, moment) };
        let outages = runs.first().map(|run| &run.paths[..]).unwrap_or_default().iter();
        let outages = outages.flat_map(|path| path.outages.iter().map(|outage| (path.name.clone(), *outage)));
        let outages = outages.collect();
        // Not the encode's own picture.
        let screens = &files[1..];
        let still = screen::still(&self.footage, &self.ffmpeg, screens, moment as u64)?;
        Ok(Shown { accounts, encode, seen, moment, still, outages, files })
    }

    fn encode(&self, file: &Path, progress: &(dyn Fn(Step) + Sync)) -> Result<Vec<CodedFrame>, VideoError> {
        let rate = self.footage.rate;
        // What the encoder holds back goes from the end, too.
        let hold_us = 2 * rate.time_us(1);
        let longest_us = self.scenario.duration_us.saturating_sub(self.latency.micros() + hold_us);
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
        let out = File::create(file).map_err(FileError::of(file))?;
        let report = |done| progress(Step::Encoding(done, pictures));
        Ok(encode(&self.footage, &encoding, BufWriter::new(out), report)?)
    }

    /// The scenario with the film in the place of its flows, until the last picture is shown.
    fn staged(&self, film: &Encoded) -> Scenario {
        let last_us = film.frames.iter().map(schedule::due_us).max().unwrap_or(0);
        let duration_us = (last_us + 1).min(self.scenario.duration_us);
        let mut paths = self.scenario.paths.clone();
        for path in &mut paths {
            // Events after the end are left out.
            path.events.retain(|event| event.at.micros() < duration_us);
            for link in [&mut path.up, &mut path.down] {
                link.events.retain(|event| event.at.micros() < duration_us);
            }
        }
        let traffic = Traffic::Encoded(film.clone());
        let flow = Flow::new("film", self.scenario.direction(), duration_us, traffic);
        Scenario { duration_us, paths, flows: vec![flow], checks: Vec::new(), ..self.scenario.clone() }
    }

    /// Compares each screen with the source, picture by picture.
    fn watch(
        &self,
        files: &[Option<PathBuf>],
        pictures: u64,
        progress: &(dyn Fn(Step) + Sync),
    ) -> Result<Vec<Seen>, VideoError> {
        let mut seen = vec![Seen::default(); files.len()];
        screen::play(&self.footage, &self.ffmpeg, files, pictures, |place, source, screens| {
            let compare = |picture| likeness(source, picture).expect("they have one size");
            let shown = screens.iter().map(Screen::picture);
            let compared: Vec<_> = std::thread::scope(|scope| {
                let threads: Vec<_> = shown.map(|picture| scope.spawn(move || compare(picture))).collect();
                threads.into_iter().map(|thread| thread.join().expect("it does not panic")).collect()
            });
            for ((seen, screen), likeness) in seen.iter_mut().zip(screens).zip(compared) {
                seen.fresh.push(screen.is_fresh());
                seen.psnr.push(likeness.psnr());
                seen.ssim.push(likeness.ssim);
            }
            progress(Step::Watching(place + 1, pictures));
        })?;
        Ok(seen)
    }
}

/// Writes the frames that the decoder gets.
fn copy(playout: &Playout, encode: &Path, to: &Path) -> Result<(), VideoError> {
    let from = BufReader::new(File::open(encode).map_err(FileError::of(encode))?);
    let out = BufWriter::new(File::create(to).map_err(FileError::of(to))?);
    Ok(playout.copy(from, out).map_err(FileError::of(to))?)
}

//! Real pictures: a film of any kind is encoded, sent through a scenario by several schedulers,
//! decoded and compared with its source.
//!
//! A [`Show`] is a run of the scenario with one flow, the frames of an [encode](Encoded). Its
//! steps: `schedule` (sending times of the frames), the run in virtual time, `playout` (the frames
//! that the decoder gets), `screen` (the pictures that the viewer sees), `figures` and `account`
//! (results in numbers), `still` (the most informative moment as a picture). ffmpeg encodes and
//! decodes ([`squall_media::studio`]).

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

/// A film, and the scenario and schedulers to send it with.
#[derive(Debug)]
pub struct Show {
    /// Source of the film.
    pub footage: Footage,
    /// Name of the film.
    pub name: String,
    /// Codec and structure of the encode.
    pub coding: Coding,
    /// Target bitrate of the encoder in bits per second.
    pub bitrate_bps: u64,
    /// Time from capturing a picture to showing it.
    pub latency: Span,
    /// Maximum length of the film in microseconds. Default: as long as the scenario permits.
    pub length_us: Option<u64>,
    /// Paths, radios and events. The film replaces the flows and has the direction of most of them.
    pub scenario: Scenario,
    /// Schedulers to compare, as labels for [`Variant`](crate::Variant).
    pub schedulers: Vec<String>,
    /// Seed of the run.
    pub seed: u64,
    /// Path of the `ffmpeg` program.
    pub ffmpeg: std::ffi::OsString,
}

/// Errors of a show; the message is always one line.
#[derive(Debug, thiserror::Error)]
pub enum VideoError {
    /// ffmpeg failed or is missing.
    #[error(transparent)]
    Studio(#[from] StudioError),
    /// The run failed.
    #[error(transparent)]
    Run(#[from] RunError),
    /// The requested latency is too short.
    #[error("a latency of {} is too short: the encoder holds frames back, and the last leaves {} after its picture was taken",
        squall_units::format::time(*.latency_us), squall_units::format::time(*.least_us))]
    Latency {
        /// Requested latency in microseconds.
        latency_us: u64,
        /// Latency that would leave no time for the network, in microseconds.
        least_us: u64,
    },
    /// The scenario ends before a picture could be shown.
    #[error("scenario {scenario}: it is over before the first picture can be shown")]
    Short {
        /// Name of the scenario.
        scenario: String,
    },
    /// A file of the work folder cannot be written or read.
    #[error(transparent)]
    File(#[from] FileError),
}

/// Progress of a show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Pictures encoded, out of at most this number.
    Encoding(u64, u64),
    /// Progress of the runs in per cent.
    Running(u64),
    /// Pictures compared, out of this number.
    Watching(u64, u64),
}

/// A completed show.
#[derive(Debug)]
pub struct Shown {
    /// Results in numbers.
    pub accounts: Accounts,
    /// Quality of the encode, as if everything had arrived at once.
    pub encode: Seen,
    /// Quality of each scheduler.
    pub seen: Vec<Seen>,
    /// Index of the [worst moment](worst_moment).
    pub moment: usize,
    /// The source at that moment, followed by the screen of each scheduler.
    pub still: Vec<Picture>,
    /// Outages by path name, from the run of the first scheduler; they are the same for the others.
    pub outages: Vec<(String, Interval)>,
    /// Files in the work folder: the encode, followed by the frames in time of each scheduler, or
    /// `None` if none were in time.
    pub files: Vec<Option<PathBuf>>,
}

impl Show {
    /// Runs the show. Writes frames, but no pictures, to files in the folder `work`.
    ///
    /// # Errors
    /// [`VideoError`] describes the problem.
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
        // Without the encode's own picture.
        let screens = &files[1..];
        let still = screen::still(&self.footage, &self.ffmpeg, screens, moment as u64)?;
        Ok(Shown { accounts, encode, seen, moment, still, outages, files })
    }

    fn encode(&self, file: &Path, progress: &(dyn Fn(Step) + Sync)) -> Result<Vec<CodedFrame>, VideoError> {
        let rate = self.footage.rate;
        // The time for which the encoder holds frames back is lost at the end, too.
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

    /// Returns the scenario with the film in place of its flows, up to the display of the last
    /// picture.
    fn staged(&self, film: &Encoded) -> Scenario {
        let last_us = film.frames.iter().map(schedule::due_us).max().unwrap_or(0);
        let duration_us = (last_us + 1).min(self.scenario.duration_us);
        let mut paths = self.scenario.paths.clone();
        for path in &mut paths {
            // Drop events after the end.
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

//! The source: pictures of a file, or of the generated scene.

use std::ffi::OsString;
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::process::ChildStdout;

use super::child::{Running, read_whole};
use super::{FrameRate, StudioError};
use crate::ffmpeg::{self, FfmpegOptions};
use crate::picture::{Picture, check_size};
use crate::scene::Scene;
use crate::source::SourceError;

pub(super) const READING: &str = "reading the film";

/// Pictures of one size and rate, which can be looked at again and again: the same each time.
#[derive(Clone, Debug)]
pub struct Footage {
    origin: Origin,
    ffmpeg: OsString,
    /// Width and height in pixels, both even.
    pub size: (u32, u32),
    /// Pictures per second.
    pub rate: FrameRate,
}

#[derive(Clone, Debug)]
enum Origin {
    /// Drawn from a seed, without end.
    Scene(u64),
    File(PathBuf),
}

impl Footage {
    /// The [`Scene`] of a seed: 1280×720, 30 pictures a second, without end.
    #[must_use]
    pub fn scene(seed: u64, options: &FfmpegOptions) -> Self {
        let rate = FrameRate { rate: 30, scale: 1 };
        Self { origin: Origin::Scene(seed), ffmpeg: options.ffmpeg.clone(), size: (1280, 720), rate }
    }

    /// The first video of a file, in its own size, made even, and at its own rate.
    ///
    /// # Errors
    /// When the file cannot be opened or holds no video.
    pub fn open(path: &Path, options: &FfmpegOptions) -> Result<Self, SourceError> {
        let failed = |source| SourceError::Open { path: path.to_owned(), source };
        let mut first = [0];
        if std::io::Read::read(&mut File::open(path).map_err(failed)?, &mut first).map_err(failed)? == 0 {
            return Err(SourceError::Empty { path: path.to_owned() });
        }
        let probe = ffmpeg::probe(path, &options.ffprobe)
            .map_err(|source| SourceError::Ffmpeg { path: path.to_owned(), source })?;
        let even = |side: u32| side.max(2) & !1;
        let rate = FrameRate::near(probe.fps.clamp(1.0, 240.0)).expect("it is within its bounds");
        let size = (even(probe.size.0), even(probe.size.1));
        Ok(Self { origin: Origin::File(path.to_owned()), ffmpeg: options.ffmpeg.clone(), size, rate })
    }

    /// Begins with the first picture.
    ///
    /// # Errors
    /// When pictures cannot have that size, or ffmpeg does not start.
    pub fn pictures(&self) -> Result<Pictures, StudioError> {
        check_size(self.size.0, self.size.1)?;
        let from = match &self.origin {
            Origin::Scene(seed) => From::Scene(Box::new(Scene::new(self.size.0, self.size.1, *seed)?), 0),
            Origin::File(path) => self.play(path)?,
        };
        Ok(Pictures { from })
    }

    fn play(&self, path: &Path) -> Result<From, StudioError> {
        let (width, height) = self.size;
        // One matrix and range for all, whatever the file has; pictures as they are stored.
        let filter = format!(
            "fps={},scale={width}:{height}:flags=bicubic:out_color_matrix=bt709:out_range=tv,setsar=1,format=yuv420p",
            self.rate
        );
        let mut args: Vec<OsString> = vec!["-noautorotate".into(), "-i".into(), ffmpeg::as_url(path)];
        args.extend(["-map", "0:v:0", "-vf", &filter, "-f", "rawvideo", "pipe:1"].map(Into::into));
        let mut running = Running::start(&self.ffmpeg, &args, READING, false)?;
        running.listen();
        // Room for a row or two of pixels would do; fewer and larger reads are quicker.
        let output = BufReader::with_capacity(1 << 16, running.output());
        Ok(From::File { running: Some(running), output })
    }
}

/// Pictures of a [`Footage`], one after the other.
#[derive(Debug)]
pub struct Pictures {
    from: From,
}

#[derive(Debug)]
enum From {
    Scene(Box<Scene>, u64),
    File { running: Option<Running>, output: BufReader<ChildStdout> },
}

impl Pictures {
    /// Puts the next picture in the place of `picture`, which has the size of the footage; returns whether there was one.
    ///
    /// # Errors
    /// When ffmpeg cannot read on.
    pub fn next_into(&mut self, picture: &mut Picture) -> Result<bool, StudioError> {
        match &mut self.from {
            From::Scene(scene, index) => {
                *picture = scene.render(*index);
                *index += 1;
                Ok(true)
            }
            From::File { running, output } => {
                let planes = &mut [&mut picture.y[..], &mut picture.u, &mut picture.v];
                let read = read_whole(output, planes).map_err(StudioError::io(READING))?;
                if !read && let Some(running) = running.take() {
                    running.finish()?;
                }
                Ok(read)
            }
        }
    }
}

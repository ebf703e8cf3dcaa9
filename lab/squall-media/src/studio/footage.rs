//! The source: pictures of a file, or of the generated scene.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{ChildStdout, Output};

use super::child::{Running, as_url, complaint, output, read_whole, words};
use super::error::StudioError;
use super::{FrameRate, Programs};
use crate::picture::{Picture, check_size};
use crate::scene::Scene;

pub(super) const READING: &str = "reading the film";

/// Pictures of one size and rate, which can be read repeatedly with the same result.
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
    /// Drawn from a seed, endless.
    Scene(u64),
    File(PathBuf),
}

impl Footage {
    /// Returns the [`Scene`] of a seed: 1280×720, 30 pictures a second, endless.
    #[must_use]
    pub fn scene(seed: u64, programs: &Programs) -> Self {
        let rate = FrameRate { rate: 30, scale: 1 };
        Self { origin: Origin::Scene(seed), ffmpeg: programs.ffmpeg.clone(), size: (1280, 720), rate }
    }

    /// Opens the first video of a file, in its own size, rounded to even numbers, and at its own
    /// rate.
    ///
    /// # Errors
    /// If the file cannot be opened or holds no video.
    pub fn open(path: &Path, programs: &Programs) -> Result<Self, StudioError> {
        let wrong = |problem: String| StudioError::Film { path: path.to_owned(), problem };
        let file = File::open(path).and_then(|mut file| file.read(&mut [0]));
        if file.map_err(|error| wrong(error.to_string()))? == 0 {
            return Err(wrong("the file is empty".into()));
        }
        let output = probe(path, &programs.ffprobe)?;
        let (size, rate) = if output.status.success() {
            parse_probe(&String::from_utf8_lossy(&output.stdout)).map_err(str::to_owned)
        } else {
            Err(complaint(&output.stderr))
        }
        .map_err(|complaint| wrong(format!("no video found in this file ({complaint})")))?;
        Ok(Self { origin: Origin::File(path.to_owned()), ffmpeg: programs.ffmpeg.clone(), size, rate })
    }

    /// Starts reading at the first picture.
    ///
    /// # Errors
    /// If pictures cannot have that size, or ffmpeg does not start.
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
        // One matrix and range for all files; pictures are not rotated.
        let filter = format!(
            "fps={},scale={width}:{height}:flags=bicubic:out_color_matrix=bt709:out_range=tv,setsar=1,format=yuv420p",
            self.rate
        );
        let mut args = words("-noautorotate -i");
        args.push(as_url(path));
        args.extend(words(&format!("-map 0:v:0 -vf {filter} -f rawvideo pipe:1")));
        let (mut running, _) = Running::start(&self.ffmpeg, &args, READING, false, |_| None::<()>)?;
        Ok(From::File { output: running.output(), running: Some(running) })
    }
}

/// Queries the first video of a file.
fn probe(path: &Path, ffprobe: &OsStr) -> Result<Output, StudioError> {
    let mut args = words("-v error -protocol_whitelist file,pipe -select_streams v:0 -show_entries");
    args.extend(words("stream=codec_name,width,height,avg_frame_rate -of default=noprint_wrappers=1"));
    args.push(as_url(path));
    output(ffprobe, args)
}

/// Returns its size, rounded to even numbers, and its rate, or an error.
fn parse_probe(text: &str) -> Result<((u32, u32), FrameRate), &'static str> {
    let value =
        |name: &str| text.lines().find_map(|line| line.split_once('=').filter(|(key, _)| *key == name));
    value("codec_name").ok_or("no video stream")?;
    let side = |name| value(name)?.1.parse::<u32>().ok().filter(|&side| side > 0);
    let (width, height) = side("width").zip(side("height")).ok_or("its picture size is unknown")?;
    let rate = value("avg_frame_rate").and_then(|(_, text)| {
        let (count, seconds) = text.split_once('/')?;
        Some(count.parse::<f64>().ok()? / seconds.parse::<f64>().ok()?)
    });
    // Streams without a known rate report 0/0.
    let fps = rate.filter(|fps| (0.1..=1000.0).contains(fps)).unwrap_or(30.0);
    let even = |side: u32| side.max(2) & !1;
    let rate = FrameRate::near(fps.clamp(1.0, 240.0)).expect("it is within its bounds");
    Ok(((even(width), even(height)), rate))
}

/// Pictures of a [`Footage`], one after another.
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
    /// Stores the next picture in `picture`, which has the size of the footage; returns `false`
    /// after the last.
    ///
    /// # Errors
    /// If ffmpeg cannot continue.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_of_ffprobe_is_parsed() {
        let text = "codec_name=vp9\nwidth=321\nheight=180\navg_frame_rate=30000/1001\n";
        assert_eq!(parse_probe(text), Ok(((320, 180), FrameRate { rate: 30_000, scale: 1001 })));
        let unknown = parse_probe("codec_name=h264\nwidth=2\nheight=2\navg_frame_rate=0/0").unwrap();
        assert_eq!(unknown.1.fps(), 30.0);
        assert_eq!(parse_probe(""), Err("no video stream"));
        assert!(parse_probe("codec_name=sunrast\nwidth=0\nheight=0").is_err());
    }
}

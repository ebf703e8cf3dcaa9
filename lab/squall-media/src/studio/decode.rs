//! Decoding of a stream, complete or with losses.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io::BufReader;
use std::path::Path;
use std::process::ChildStdout;
use std::sync::mpsc::Receiver;

use super::child::{Running, as_url, output, read_whole, words};
use super::error::StudioError;
use crate::ivf::{FRAME_HEADER_BYTES, HEADER_BYTES, IvfReader};
use crate::picture::Picture;

const DECODING: &str = "decoding";

/// Pictures of an IVF file as decoded by ffmpeg, in its output order: that of display, except after
/// a lost key frame.
///
/// Frames whose references are missing are decoded too, as in players: H.264 conceals the loss, VP9
/// continues from older pictures. Missing frames have no pictures.
///
/// The time unit of the file is a picture. Each picture is identified by the position of its frame
/// in the file. Its time is not suitable: once times have gone back ffmpeg guesses them, and all
/// later ones may then be those of a neighbour.
#[derive(Debug)]
pub struct Decoded {
    output: BufReader<ChildStdout>,
    /// Positions of the pictures' frames.
    positions: Receiver<u64>,
    /// Index in display order, by the position of the frame.
    places: HashMap<u64, u64>,
    /// Ends when this is dropped.
    _running: Running,
}

impl Decoded {
    /// Starts decoding at the first picture. One thread: with more, the concealment would depend on
    /// their timing.
    ///
    /// # Errors
    /// If the file is not an IVF file, or ffmpeg does not start. Frames that cannot be decoded
    /// appear as missing pictures.
    pub fn open(ffmpeg: &OsStr, path: &Path) -> Result<Self, StudioError> {
        let places = places(path).map_err(StudioError::io(DECODING))?;
        let mut args = words("-v info -nostats -f ivf -threads 1 -flags +output_corrupt -i");
        args.push(as_url(path));
        args.extend(words("-map 0:v -vf showinfo=checksum=0 -pix_fmt yuv420p"));
        args.extend(words("-vsync passthrough -f rawvideo pipe:1"));
        let (mut running, positions) = Running::start(ffmpeg, &args, DECODING, false, position)?;
        Ok(Self { output: running.output(), positions, places, _running: running })
    }

    /// Stores the next picture in `picture`, which has its size, and returns its index in display
    /// order; `None` after the last.
    ///
    /// # Errors
    /// If a picture is incomplete, or ffmpeg does not report its frame.
    pub fn next_into(&mut self, picture: &mut Picture) -> Result<Option<u64>, StudioError> {
        let planes = &mut [&mut picture.y[..], &mut picture.u, &mut picture.v];
        if !read_whole(&mut self.output, planes).map_err(StudioError::io(DECODING))? {
            return Ok(None);
        }
        let place = self.positions.recv().ok().and_then(|position| self.places.get(&position).copied());
        place.map(Some).ok_or_else(|| StudioError::failed(DECODING, "a picture came without its frame"))
    }
}

/// Returns the position of each frame of the file, with its index in display order.
fn places(path: &Path) -> std::io::Result<HashMap<u64, u64>> {
    let reader = IvfReader::new(BufReader::new(File::open(path)?))?;
    let mut position = HEADER_BYTES as u64;
    reader
        .map(|frame| {
            let frame = frame?;
            let entry = (position, frame.time);
            position += (FRAME_HEADER_BYTES + frame.data.len()) as u64;
            Ok(entry)
        })
        .collect()
}

/// Returns `true` if this ffmpeg reports the positions of pictures' frames; the latest versions do
/// not.
pub(super) fn has_positions(ffmpeg: &OsStr) -> Result<bool, StudioError> {
    let args = "-nostdin -hide_banner -v info -nostats -f lavfi -i color=s=16x16:d=0.04 \
                -vf showinfo=checksum=0 -f null -";
    let output = output(ffmpeg, words(args))?;
    Ok(String::from_utf8_lossy(&output.stderr).lines().any(|line| reported_position(line).is_some()))
}

/// Returns the position of a picture's frame, if a line is a report of ffmpeg's `showinfo`.
fn position(line: &str) -> Option<u64> {
    reported_position(line)?.parse().ok()
}

/// Returns the position in a line of `showinfo`: -1 if the picture does not come from a file.
fn reported_position(line: &str) -> Option<&str> {
    let (_, about) = line.split_once("showinfo")?.1.split_once(" pos:")?;
    about.split_whitespace().next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pictures_are_identified_by_their_frames() {
        let line = "[Parsed_showinfo_0 @ 0x55] n:   1 pts:      1 pts_time:0.03       pos:     9349 fmt:yuv420p s:2x2";
        assert_eq!(position(line), Some(9_349));
        for other in [
            "[Parsed_showinfo_0 @ 0x55] config in time_base: 1/30, frame_rate: 30/1",
            "[h264 @ 0x55] co located POCs pos: 5",
            "",
        ] {
            assert_eq!(position(other), None, "{other}");
        }
    }
}

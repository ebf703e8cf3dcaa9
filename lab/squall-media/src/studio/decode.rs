//! What a decoder makes of a stream, whole or with holes.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::BufReader;
use std::path::Path;
use std::process::{ChildStdout, Command, Stdio};
use std::sync::mpsc::Receiver;

use super::child::{Running, cannot_start, read_whole};
use super::{FrameRate, StudioError};
use crate::ffmpeg::as_url;
use crate::ivf::{FRAME_HEADER_BYTES, HEADER_BYTES, IvfReader};
use crate::picture::Picture;

const DECODING: &str = "decoding";

/// Pictures of an IVF file as ffmpeg decodes what is there, in the order in which it gives them: that of display, but for
/// what follows a lost key frame.
///
/// Frames whose references are missing are decoded all the same, as players do: H.264 conceals the loss, VP9 goes on
/// from older pictures. Nothing is made up for frames that are missing: their pictures are not told of.
///
/// Each picture is known by where its frame is in the file. Its time would not do: ffmpeg guesses times anew once some
/// have gone back, and then all later ones may be those of a neighbour.
#[derive(Debug)]
pub struct Decoded {
    output: BufReader<ChildStdout>,
    /// Where the frame of each picture is.
    told: Receiver<u64>,
    /// The place in the order of display of the frame that is there.
    places: HashMap<u64, u64>,
    /// Ends with this.
    _running: Running,
}

impl Decoded {
    /// Starts with the first picture. One thread: with more, what is concealed would depend on their luck.
    ///
    /// # Errors
    /// When the file is no IVF file, or ffmpeg does not start. Frames that cannot be decoded show as pictures that are
    /// not there.
    pub fn open(ffmpeg: &OsStr, path: &Path) -> Result<Self, StudioError> {
        let places = places(path)?;
        let mut args: Vec<OsString> =
            ["-v", "info", "-nostats", "-f", "ivf", "-threads", "1", "-flags", "+output_corrupt", "-i"]
                .map(Into::into)
                .into();
        args.push(as_url(path));
        args.extend(["-map", "0:v", "-vf", "showinfo=checksum=0", "-pix_fmt", "yuv420p"].map(Into::into));
        args.extend(["-vsync", "passthrough", "-f", "rawvideo", "pipe:1"].map(Into::into));
        let mut running = Running::start(ffmpeg, &args, DECODING, false)?;
        let told = running.told(position);
        let output = BufReader::with_capacity(1 << 16, running.output());
        Ok(Self { output, told, places, _running: running })
    }

    /// Puts the next picture in the place of `picture`, which has its size, and gives its place in the order of display;
    /// `None` after the last.
    ///
    /// # Errors
    /// When a picture is cut off, or ffmpeg does not tell whose it is.
    pub fn next_into(&mut self, picture: &mut Picture) -> Result<Option<u64>, StudioError> {
        let planes = &mut [&mut picture.y[..], &mut picture.u, &mut picture.v];
        if !read_whole(&mut self.output, planes).map_err(StudioError::io(DECODING))? {
            return Ok(None);
        }
        let place = self.told.recv().ok().and_then(|position| self.places.get(&position).copied());
        place.map(Some).ok_or_else(|| StudioError::failed(DECODING, "a picture came without its frame"))
    }
}

/// Where each frame of the file begins, and its place in the order of display.
fn places(path: &Path) -> Result<HashMap<u64, u64>, StudioError> {
    let wrong = |error: crate::ivf::IvfError| StudioError::failed(DECODING, error.to_string());
    let file = File::open(path).map_err(StudioError::io(DECODING))?;
    let reader = IvfReader::new(BufReader::new(file)).map_err(wrong)?;
    let rate = FrameRate { rate: reader.header().rate, scale: reader.header().scale };
    let mut position = HEADER_BYTES as u64;
    reader
        .map(|frame| {
            let frame = frame.map_err(wrong)?;
            let entry = (position, rate.index_at(frame.pts_us));
            position += (FRAME_HEADER_BYTES + frame.data.len()) as u64;
            Ok(entry)
        })
        .collect()
}

/// Whether this ffmpeg tells of pictures where their frames are: the latest do not.
pub(super) fn tells_positions(ffmpeg: &OsStr) -> Result<bool, StudioError> {
    let mut command = Command::new(ffmpeg);
    command.args([
        "-nostdin",
        "-hide_banner",
        "-v",
        "info",
        "-nostats",
        "-f",
        "lavfi",
        "-i",
        "color=s=16x16:d=0.04",
    ]);
    command.args(["-vf", "showinfo=checksum=0", "-f", "null", "-"]).stdin(Stdio::null());
    let output = command.output().map_err(|source| cannot_start(ffmpeg, source))?;
    Ok(String::from_utf8_lossy(&output.stderr).lines().any(|line| told_position(line).is_some()))
}

/// Where the frame of a picture is, if a line is that of ffmpeg's `showinfo` about it.
fn position(line: &str) -> Option<u64> {
    told_position(line)?.parse().ok()
}

/// What `showinfo` says of that: -1 if the picture is of no file.
fn told_position(line: &str) -> Option<&str> {
    let (_, about) = line.split_once("showinfo")?.1.split_once(" pos:")?;
    about.split_whitespace().next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pictures_are_told_by_their_frames() {
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

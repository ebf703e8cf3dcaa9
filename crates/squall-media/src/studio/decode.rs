//! What a decoder makes of a stream, whole or with holes.

use std::ffi::{OsStr, OsString};
use std::io::BufReader;
use std::path::Path;
use std::process::ChildStdout;
use std::sync::mpsc::Receiver;

use super::StudioError;
use super::child::{BESIDE, Running, Told, read_whole};
use crate::ffmpeg::as_url;
use crate::picture::Picture;

const DECODING: &str = "decoding";

/// Pictures of an IVF file in the order of display, as ffmpeg decodes what is there.
///
/// Frames whose references are missing are decoded all the same, as players do: H.264 conceals the loss, VP9 goes on
/// from older pictures. Nothing is made up for frames that are missing: their pictures are not told of.
#[derive(Debug)]
pub struct Decoded {
    running: Running,
    output: BufReader<ChildStdout>,
    told: Receiver<Told>,
}

impl Decoded {
    /// Starts with the first picture. One thread: with more, what is concealed would depend on their luck.
    ///
    /// # Errors
    /// When ffmpeg does not start. What is wrong with the file shows as pictures that are not there.
    pub fn open(ffmpeg: &OsStr, path: &Path) -> Result<Self, StudioError> {
        let tee = format!("[f=framecrc:flush_packets=1]{BESIDE}|[f=rawvideo]pipe:1");
        let mut args: Vec<OsString> =
            ["-f", "ivf", "-threads", "1", "-flags", "+output_corrupt"].map(Into::into).into();
        args.extend(["-i".into(), as_url(path)]);
        args.extend(["-map", "0:v", "-c:v", "rawvideo", "-pix_fmt", "yuv420p", "-copyts"].map(Into::into));
        args.extend(["-vsync", "passthrough", "-enc_time_base", "-1", "-f", "tee", &tee].map(Into::into));
        let mut running = Running::start(ffmpeg, &args, DECODING, false)?;
        let told = running.told();
        let output = BufReader::with_capacity(1 << 16, running.output());
        Ok(Self { running, output, told })
    }

    /// Puts the next picture in the place of `picture`, which has its size, and gives its place in the order of display;
    /// `None` after the last.
    ///
    /// # Errors
    /// When a picture is cut off.
    pub fn next_into(&mut self, picture: &mut Picture) -> Result<Option<u64>, StudioError> {
        let planes = &mut [&mut picture.y[..], &mut picture.u, &mut picture.v];
        if !read_whole(&mut self.output, planes).map_err(StudioError::io(DECODING))? {
            return Ok(None);
        }
        let told = self.told.recv().ok();
        let place = told.and_then(|told| u64::try_from(told.place).ok());
        place.map(Some).ok_or_else(|| StudioError::failed(DECODING, "a picture came without its time"))
    }

    /// After the last picture: whether ffmpeg found nothing wrong with the file.
    ///
    /// # Errors
    /// What it complained of.
    pub fn finish(self) -> Result<(), StudioError> {
        self.running.finish()
    }
}

//! Reading any video file through the `ffmpeg` program, as H.264 on a pipe.
//!
//! H.264 inside a container is copied; any other codec is encoded anew without B frames. The programs are
//! started directly, without a shell, and may open local files only.

use std::ffi::{OsStr, OsString};
use std::io::{self, Read};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::thread::JoinHandle;

use thiserror::Error;

use crate::source::{Codec, Origin, SourceInfo};

/// How much of what a program says about errors is kept.
const MAX_COMPLAINT_BYTES: u64 = 4096;

/// How `ffmpeg` is run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FfmpegOptions {
    /// The `ffmpeg` program: a name to be found in `PATH`, or a path. Default `ffmpeg`.
    pub ffmpeg: OsString,
    /// The `ffprobe` program, which comes with it. Default `ffprobe`.
    pub ffprobe: OsString,
    /// Rate of streams that are encoded anew, in bits per second. Default 8 Mbps.
    pub bitrate_bps: u32,
}

impl Default for FfmpegOptions {
    fn default() -> Self {
        Self { ffmpeg: "ffmpeg".into(), ffprobe: "ffprobe".into(), bitrate_bps: 8_000_000 }
    }
}

/// Why `ffmpeg` gave no video.
#[derive(Debug, Error)]
pub enum FfmpegError {
    /// The program is not installed.
    #[error(
        "neither H.264 nor IVF, and {} to read other formats was not found; install it with: apt-get install ffmpeg",
        .program.display()
    )]
    Missing {
        /// The program.
        program: OsString,
    },
    /// The program could not be started or its output not be read.
    #[error("{}: {source}", .program.display())]
    Run {
        /// The program.
        program: OsString,
        /// What the system said.
        source: io::Error,
    },
    /// The program found no video.
    #[error("no video found in this file ({complaint})")]
    NoVideo {
        /// What it said, or why its answer was no video.
        complaint: String,
    },
    /// The program gave up on the way.
    #[error("ffmpeg stopped: {complaint}")]
    Stopped {
        /// What it said.
        complaint: String,
    },
}

/// H.264 bytes from a running `ffmpeg`, which ends when this is dropped.
///
/// When the program fails, reading gives an [`io::Error`] that holds a [`FfmpegError::Stopped`].
pub(crate) struct FfmpegOutput {
    child: Child,
    stdout: ChildStdout,
    /// Reads what the program says: if nobody did, it would block.
    complaint: Option<JoinHandle<String>>,
}

/// Looks at the video in the file and starts `ffmpeg` on it.
pub(crate) fn open(path: &Path, options: &FfmpegOptions) -> Result<(SourceInfo, FfmpegOutput), FfmpegError> {
    let probe = probe(path, &options.ffprobe)?;
    let origin = if probe.codec == "h264" { Origin::Copied } else { Origin::Transcoded(probe.codec) };
    let mut command = Command::new(&options.ffmpeg);
    command.args(["-nostdin", "-hide_banner", "-v", "error", "-protocol_whitelist", "file,pipe", "-i"]);
    command.arg(as_url(path)).args(["-map", "0:v:0"]);
    if origin == Origin::Copied {
        command.args(["-c:v", "copy", "-bsf:v", "h264_mp4toannexb"]);
    } else {
        let (rate, buffer) = (options.bitrate_bps.to_string(), (options.bitrate_bps / 2).to_string());
        let keys = (probe.fps.round() as u32).max(1).to_string();
        command.args([
            "-c:v",
            "libx264",
            "-preset",
            "veryfast",
            "-tune",
            "zerolatency",
            "-pix_fmt",
            "yuv420p",
        ]);
        command.args(["-b:v", &rate, "-maxrate", &rate, "-bufsize", &buffer, "-g", &keys]);
    }
    command.args(["-f", "h264", "pipe:1"]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|source| cannot_start(&options.ffmpeg, source))?;
    let stdout = child.stdout.take().expect("standard output is a pipe");
    let stderr = child.stderr.take().expect("standard error is a pipe");
    let complaint = Some(std::thread::spawn(move || first_complaint(stderr)));
    let info = SourceInfo { codec: Codec::H264, origin, fps: probe.fps, size: Some(probe.size) };
    Ok((info, FfmpegOutput { child, stdout, complaint }))
}

impl Read for FfmpegOutput {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let read = self.stdout.read(to)?;
        if read == 0 && !to.is_empty() {
            self.check_end()?;
        }
        Ok(read)
    }
}

impl FfmpegOutput {
    fn check_end(&mut self) -> io::Result<()> {
        let status = self.child.wait()?;
        let said = self.complaint.take().map(|thread| thread.join().unwrap_or_default()).unwrap_or_default();
        if status.success() {
            return Ok(());
        }
        let complaint = if said.is_empty() { status.to_string() } else { said };
        Err(io::Error::other(FfmpegError::Stopped { complaint }))
    }
}

impl Drop for FfmpegOutput {
    fn drop(&mut self) {
        // Both fail only when the program has already ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What `ffprobe` says of the first video stream.
#[derive(Debug, PartialEq)]
pub(crate) struct Probe {
    codec: String,
    /// Width and height in pixels, as the pictures are stored.
    pub(crate) size: (u32, u32),
    /// Pictures per second.
    pub(crate) fps: f64,
}

/// Looks at the video in the file.
pub(crate) fn probe(path: &Path, program: &OsStr) -> Result<Probe, FfmpegError> {
    let mut command = Command::new(program);
    command.args(["-v", "error", "-protocol_whitelist", "file,pipe", "-select_streams", "v:0"]);
    command.args(["-show_entries", "stream=codec_name,width,height,avg_frame_rate"]);
    command.args(["-of", "default=noprint_wrappers=1"]).arg(as_url(path)).stdin(Stdio::null());
    let output = command.output().map_err(|source| cannot_start(program, source))?;
    if !output.status.success() {
        return Err(FfmpegError::NoVideo { complaint: first_complaint(&output.stderr[..]) });
    }
    parse_probe(&String::from_utf8_lossy(&output.stdout))
}

fn parse_probe(text: &str) -> Result<Probe, FfmpegError> {
    let value = |name: &str| {
        text.lines().find_map(|line| line.split_once('=').filter(|(key, _)| *key == name)).map(|pair| pair.1)
    };
    let no_video = |complaint: &str| FfmpegError::NoVideo { complaint: complaint.to_owned() };
    let codec = value("codec_name").ok_or_else(|| no_video("no video stream"))?.to_owned();
    let side = |name| value(name).and_then(|text| text.parse::<u32>().ok()).filter(|&side| side > 0);
    let size = side("width").zip(side("height")).ok_or_else(|| no_video("its picture size is unknown"))?;
    let rate = value("avg_frame_rate").and_then(|text| {
        let (count, seconds) = text.split_once('/')?;
        Some(count.parse::<f64>().ok()? / seconds.parse::<f64>().ok()?)
    });
    // Streams without a known rate say 0/0.
    let fps = rate.filter(|fps| (0.1..=1000.0).contains(fps)).unwrap_or(30.0);
    Ok(Probe { codec, size, fps })
}

/// The path as ffmpeg's own name for a local file, so that no path is taken for an option or an address.
pub(crate) fn as_url(path: &Path) -> OsString {
    let mut url = OsString::from("file:");
    url.push(path);
    url
}

fn cannot_start(program: &OsStr, source: io::Error) -> FfmpegError {
    let program = program.to_owned();
    match source.kind() {
        io::ErrorKind::NotFound => FfmpegError::Missing { program },
        _ => FfmpegError::Run { program, source },
    }
}

/// The first line of what a program says; all the rest is read and thrown away.
pub(crate) fn first_complaint(mut from: impl Read) -> String {
    let mut said = Vec::new();
    // What cannot be read is simply not quoted.
    let _ = from.by_ref().take(MAX_COMPLAINT_BYTES).read_to_end(&mut said);
    let _ = io::copy(&mut from, &mut io::sink());
    plain(String::from_utf8_lossy(&said).lines().next().unwrap_or_default()).to_owned()
}

/// Without the part that says who speaks (`[mov @ 0x55d0] `) or which file is meant (`file:name: `).
fn plain(line: &str) -> &str {
    let line = line.trim();
    let line = line.strip_prefix('[').and_then(|rest| rest.split_once("] ")).map_or(line, |(_, text)| text);
    let named = line.strip_prefix("file:").and_then(|rest| rest.rsplit_once(": "));
    named.map_or(line, |(_, text)| text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn complaints_are_reduced_to_what_matters() {
        assert_eq!(
            first_complaint(&b"[mov,mp4 @ 0x55d0] moov atom not found\nfile:x: bad"[..]),
            "moov atom not found"
        );
        assert_eq!(plain("file:a: b.mp4: Invalid data"), "Invalid data");
        assert_eq!(plain("something else: failed"), "something else: failed");
    }

    #[test]
    fn the_answer_of_ffprobe_is_understood() {
        let text = "codec_name=vp9\nwidth=320\nheight=180\navg_frame_rate=30000/1001\n";
        let probe = parse_probe(text).unwrap();
        assert_eq!((probe.codec.as_str(), probe.size), ("vp9", (320, 180)));
        assert!((probe.fps - 29.97).abs() < 0.001);

        let unknown = parse_probe("codec_name=h264\nwidth=2\nheight=2\navg_frame_rate=0/0").unwrap();
        assert_eq!(unknown.fps, 30.0);
        let error = parse_probe("").unwrap_err().to_string();
        assert_eq!(error, "no video found in this file (no video stream)");
        assert!(parse_probe("codec_name=sunrast\nwidth=0\nheight=0").is_err());
    }
}

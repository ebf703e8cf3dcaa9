use std::process::Command;

use super::*;
use crate::annexb::AnnexBWriter;
use crate::clip::{Clip, ClipConfig};
use crate::decoder::Decoder;
use crate::encoder::EncoderConfig;
use crate::frame::FrameKind;
use crate::ivf::{IvfHeader, IvfWriter};
use crate::scene::read_index;

/// A directory that disappears with the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("squall-media-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn file(&self, name: &str, data: &[u8]) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, data).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn clip() -> Clip {
    let encoder = EncoderConfig {
        width: 320,
        height: 180,
        bitrate_bps: 1_000_000,
        key_interval: 6,
        ..Default::default()
    };
    Clip::generate(ClipConfig { encoder, seed: 1 }, 0.6).unwrap()
}

fn h264(clip: &Clip) -> Vec<u8> {
    let mut writer = AnnexBWriter::new(Vec::new());
    clip.frames().iter().for_each(|frame| writer.write(frame).unwrap());
    writer.finish().unwrap()
}

fn failure(path: &Path) -> String {
    let text = match open(path) {
        Err(error) => error.to_string(),
        Ok(mut source) => source.find_map(Result::err).expect("an error").to_string(),
    };
    text.strip_prefix(&format!("{}: ", path.display())).expect("the path first").to_owned()
}

fn have_ffmpeg() -> bool {
    let found = ["ffmpeg", "ffprobe"].iter().all(|name| Command::new(name).arg("-version").output().is_ok());
    if !found {
        squall_testing::skipped("ffmpeg is not installed");
    }
    found
}

fn run_ffmpeg(arguments: &[&str], from: &Path, to: &Path) {
    let mut command = Command::new("ffmpeg");
    let output =
        command.args(["-v", "error", "-y", "-i"]).arg(from).args(arguments).arg(to).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn files_are_recognised_by_content() {
    let (folder, clip) = (Folder::new("content"), clip());
    let path = folder.file("video.mp4", &h264(&clip));
    let source = open_with(&path, &SourceOptions { fps: Some(30.0), ..Default::default() }).unwrap();
    assert_eq!((source.info().codec, &source.info().origin), (Codec::H264, &Origin::AnnexB));
    let frames: Vec<_> = source.map(Result::unwrap).collect();
    assert_eq!(frames, clip.frames());

    let header = IvfHeader { codec: IvfCodec::Vp8, width: 64, height: 48, rate: 90_000, scale: 1, frames: 0 };
    let mut writer = IvfWriter::new(Vec::new(), header).unwrap();
    let data = bytes::Bytes::from(vec![0x10; 700]);
    let frame = EncodedFrame { index: 0, pts_us: 500_000, kind: FrameKind::Key, data };
    writer.write(&frame).unwrap();
    let bytes = writer.finish().unwrap();
    let source = open(folder.file("video.h264", &bytes)).unwrap();
    assert_eq!(
        (source.info().codec, source.info().fps, source.info().size),
        (Codec::Vp8, 30.0, Some((64, 48)))
    );
    assert_eq!(source.map(Result::unwrap).collect::<Vec<_>>(), [frame]);
}

#[test]
fn damaged_files_are_named_with_the_place() {
    let folder = Folder::new("damaged");
    assert_eq!(failure(&folder.file("empty", b"")), "the file is empty");
    let cut = folder.file("cut.ivf", b"DKIF\0\0");
    assert_eq!(failure(&cut), "byte 6: file ends inside the file header that begins at byte 0");
    assert!(failure(&folder.0.join("absent")).contains("No such file"));
    let path = folder.file("rate.h264", &[0, 0, 0, 1, 0x67, 1]);
    let options = SourceOptions { fps: Some(f64::NAN), ..Default::default() };
    let error = open_with(&path, &options).err().unwrap().to_string();
    assert!(error.ends_with("frame rate NaN: must be from 0.1 to 1000"), "{error}");
}

#[test]
fn without_ffmpeg_the_error_says_how_to_get_it() {
    let folder = Folder::new("missing");
    let path = folder.file("video.mp4", b"\0\0\0\x18ftypmp42");
    let ffmpeg = FfmpegOptions { ffprobe: folder.0.join("ffprobe").into(), ..Default::default() };
    let error = open_with(&path, &SourceOptions { ffmpeg, ..Default::default() }).err().unwrap().to_string();
    assert!(error.ends_with("was not found; install it with: apt-get install ffmpeg"), "{error}");
    assert_eq!(error.lines().count(), 1);
}

#[test]
fn h264_in_a_container_is_copied() {
    if !have_ffmpeg() {
        return;
    }
    let (folder, clip) = (Folder::new("copied"), clip());
    let from = folder.file("in.h264", &h264(&clip));
    // A name that a careless call would take for an option.
    let path = folder.0.join("-v.mp4");
    run_ffmpeg(&["-c", "copy"], &from, &path);
    let source = open(&path).unwrap();
    assert_eq!((&source.info().origin, source.info().size), (&Origin::Copied, Some((320, 180))));
    let mut decoder = Decoder::new().unwrap();
    let frames: Vec<_> = source.map(Result::unwrap).collect();
    assert_eq!(frames.len(), clip.frames().len());
    for (frame, sent) in frames.iter().zip(clip.frames()) {
        assert_eq!(frame.kind, sent.kind);
        assert_eq!(read_index(&decoder.decode(&frame.data).unwrap().unwrap()), Some(sent.index));
    }
}

#[test]
fn other_codecs_are_encoded_anew() {
    if !have_ffmpeg() {
        return;
    }
    let (folder, clip) = (Folder::new("anew"), clip());
    let (from, path) = (folder.file("in.h264", &h264(&clip)), folder.0.join("out.mkv"));
    run_ffmpeg(&["-c:v", "mpeg4", "-q:v", "2"], &from, &path);
    let source = open(&path).unwrap();
    assert_eq!(source.info().origin, Origin::Transcoded("mpeg4".to_owned()));
    // What ffmpeg takes for a byte stream without times.
    assert_eq!(source.info().fps, 25.0);
    let frames: Vec<_> = source.map(Result::unwrap).collect();
    assert_eq!(frames[0].kind, FrameKind::Key);
    let mut decoder = Decoder::new().unwrap();
    let pictures = frames.iter().filter(|frame| matches!(decoder.decode(&frame.data), Ok(Some(_)))).count();
    assert!(pictures == frames.len() && pictures == clip.frames().len(), "{pictures} pictures");
}

#[test]
fn what_ffmpeg_cannot_read_is_said_in_one_line() {
    if !have_ffmpeg() {
        return;
    }
    let folder = Folder::new("unreadable");
    let text = failure(&folder.file("notes.txt", b"this is no video at all\n"));
    assert_eq!(text, "no video found in this file (Invalid data found when processing input)");
}

#[test]
fn a_source_can_be_dropped_before_its_end() {
    if !have_ffmpeg() {
        return;
    }
    let folder = Folder::new("dropped");
    let (from, path) = (folder.file("in.h264", &h264(&clip())), folder.0.join("out.mkv"));
    run_ffmpeg(&["-c:v", "mpeg4"], &from, &path);
    let mut source = open(&path).unwrap();
    assert!(source.next().unwrap().is_ok());
}

//! What is sent: a file as it is, or a video frame by frame.

use std::{
    fs::File,
    io::{self, Read},
    path::{Path, PathBuf},
};

use anyhow::{Context as _, bail};
use bytes::Bytes;
use squall_media::{
    EncodedFrame,
    ivf::IvfReader,
    source::{self, Codec, SourceOptions},
};
use tokio::sync::mpsc;

use crate::error::whole;

use super::{
    failure,
    message::{Content, DATA_BYTES, Header, VERSION, Video},
};

/// Pieces that are read ahead.
const AHEAD: usize = 4;

/// The next piece of a source.
pub(super) enum Piece {
    /// Bytes of a file.
    Data(Bytes),
    /// A frame of a video.
    Frame(EncodedFrame),
}

/// Something to send, being read by a thread of its own: pipes and decoders may make it wait.
pub(super) struct Source {
    /// What it is.
    pub(super) header: Header,
    pieces: mpsc::Receiver<anyhow::Result<Piece>>,
}

impl Source {
    /// Opens a file, or standard input for `-`, to be sent as it is.
    pub(super) fn file(path: &Path) -> anyhow::Result<Self> {
        let (name, size, input): (_, _, Box<dyn Read + Send>) = if path == Path::new("-") {
            ("stdin".to_owned(), None, Box::new(io::stdin()))
        } else {
            let file = File::open(path).map_err(|error| failure::on_file("read", path, &error))?;
            let about = file.metadata().map_err(|error| failure::on_file("read", path, &error))?;
            if about.is_dir() {
                bail!("cannot read {}: it is a folder", path.display());
            }
            // Devices and pipes have no length.
            (name_of(path), about.is_file().then_some(about.len()), Box::new(file))
        };
        let shown = path.to_owned();
        let header = Header { version: VERSION, name, content: Content::File { size } };
        Self::start(header, Chunks { input, path: shown }.map(|chunk| chunk.map(Piece::Data)))
    }

    /// Opens a video, to be sent frame by frame.
    pub(super) fn video(path: &Path, fps: Option<f64>, deadline_us: Option<u64>) -> anyhow::Result<Self> {
        let options = SourceOptions { fps, ..Default::default() };
        let frames = source::open_with(path, &options).map_err(whole)?;
        let info = frames.info().clone();
        let ivf = match info.codec {
            Codec::H264 => None,
            _ => {
                let file = File::open(path).map_err(|error| failure::on_file("read", path, &error))?;
                Some(IvfReader::new(file).with_context(|| path.display().to_string())?.header())
            }
        };
        let video = Video { codec: info.codec, fps: info.fps, deadline_us, ivf };
        let header = Header { version: VERSION, name: name_of(path), content: Content::Video(video) };
        Self::start(header, frames.map(|frame| Ok(Piece::Frame(frame.map_err(whole)?))))
    }

    /// The next piece; `None` at the end. Cancel safe.
    pub(super) async fn next(&mut self) -> Option<anyhow::Result<Piece>> {
        self.pieces.recv().await
    }

    fn start(
        header: Header,
        pieces: impl Iterator<Item = anyhow::Result<Piece>> + Send + 'static,
    ) -> anyhow::Result<Self> {
        let (into, out) = mpsc::channel(AHEAD);
        let thread = std::thread::Builder::new().name("squall-read".to_owned());
        thread.spawn(move || {
            for piece in pieces {
                let failed = piece.is_err();
                // Nobody wants more once the session is over.
                if into.blocking_send(piece).is_err() || failed {
                    return;
                }
            }
        })?;
        Ok(Self { header, pieces: out })
    }
}

/// A file in pieces of [`DATA_BYTES`].
struct Chunks {
    input: Box<dyn Read + Send>,
    path: PathBuf,
}

impl Iterator for Chunks {
    type Item = anyhow::Result<Bytes>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut chunk = Vec::with_capacity(DATA_BYTES);
        match self.input.by_ref().take(DATA_BYTES as u64).read_to_end(&mut chunk) {
            Ok(0) => None,
            Ok(_) => Some(Ok(chunk.into())),
            Err(error) => Some(Err(failure::on_file("read", &self.path, &error))),
        }
    }
}

/// The last part of a path, in characters that every system allows in names.
fn name_of(path: &Path) -> String {
    let name = path.file_name().map_or_else(|| "unnamed".into(), |name| name.to_string_lossy());
    name.chars().map(|c| if c.is_control() { '_' } else { c }).take(255).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_no_folders() {
        assert_eq!(name_of(Path::new("/a/b.ivf")), "b.ivf");
        assert_eq!(name_of(Path::new("/")), "unnamed");
        assert_eq!(name_of(Path::new("a\nb")), "a_b");
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        let message =
            |path: &str| Source::file(Path::new(path)).err().map(|e| e.to_string()).unwrap_or_default();
        assert_eq!(message("/nowhere/a"), "cannot read /nowhere/a: no such file or directory");
        assert_eq!(message("/"), "cannot read /: it is a folder");
    }
}

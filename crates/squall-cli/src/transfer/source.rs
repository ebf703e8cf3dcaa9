//! What is sent: a file, a device or standard input, as it is.

use std::{
    fs::File,
    io::{self, Read},
    path::{Path, PathBuf},
};

use anyhow::bail;
use bytes::Bytes;
use tokio::sync::mpsc;

use super::{
    failure,
    message::{DATA_BYTES, MAX_NAME},
};

/// Pieces that are read ahead.
const AHEAD: usize = 4;

/// Something to send, being read by a thread of its own: pipes may make it wait.
pub(super) struct Source {
    /// Its name, without folders.
    pub(super) name: String,
    /// Its bytes, if known before.
    pub(super) size: Option<u64>,
    pieces: mpsc::Receiver<anyhow::Result<Bytes>>,
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
        Self::start(name, size, Chunks { input, buffer: vec![0; DATA_BYTES], path: shown })
    }

    /// The next piece; `None` at the end. Cancel safe.
    pub(super) async fn next(&mut self) -> Option<anyhow::Result<Bytes>> {
        self.pieces.recv().await
    }

    fn start(
        name: String,
        size: Option<u64>,
        pieces: impl Iterator<Item = anyhow::Result<Bytes>> + Send + 'static,
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
        Ok(Self { name, size, pieces: out })
    }
}

/// A file in pieces of at most [`DATA_BYTES`]. A pipe gives what it has at once: its writer may be slow.
struct Chunks {
    input: Box<dyn Read + Send>,
    buffer: Vec<u8>,
    path: PathBuf,
}

impl Iterator for Chunks {
    type Item = anyhow::Result<Bytes>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match self.input.read(&mut self.buffer) {
                Ok(0) => return None,
                Ok(read) => return Some(Ok(Bytes::copy_from_slice(&self.buffer[..read]))),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Some(Err(failure::on_file("read", &self.path, &error))),
            }
        }
    }
}

/// The last part of a path, in characters that every system allows in names.
fn name_of(path: &Path) -> String {
    let name = path.file_name().map_or_else(|| "unnamed".into(), |name| name.to_string_lossy());
    let mut name: String = name.chars().map(|c| if c.is_control() { '_' } else { c }).collect();
    while name.len() > MAX_NAME {
        name.pop();
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_no_folders() {
        assert_eq!(name_of(Path::new("/a/b.iso")), "b.iso");
        assert_eq!(name_of(Path::new("/")), "unnamed");
        assert_eq!(name_of(Path::new("a\nb")), "a_b");
        assert_eq!(name_of(Path::new(&"ü".repeat(200))).len(), MAX_NAME - 1);
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        let message =
            |path: &str| Source::file(Path::new(path)).err().map(|e| e.to_string()).unwrap_or_default();
        assert_eq!(message("/nowhere/a"), "cannot read /nowhere/a: no such file or directory");
        assert_eq!(message("/"), "cannot read /: it is a folder");
    }
}

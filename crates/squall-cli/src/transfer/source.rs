//! Source of a transfer: a file, a device or standard input.

use std::{
    fs::File,
    io::{self, Read},
    path::Path,
};

use anyhow::bail;
use bytes::Bytes;
use tokio::sync::mpsc;

use super::{
    failure,
    message::{DATA_BYTES, plain_name},
};

/// Number of pieces that are read ahead.
const AHEAD: usize = 4;

/// Source of a transfer. A thread reads it, as pipes may block.
pub(super) struct Source {
    /// Name of the source, without folders.
    pub(super) name: String,
    /// Size, if known.
    pub(super) size: Option<u64>,
    pieces: mpsc::Receiver<anyhow::Result<Bytes>>,
}

impl Source {
    /// Opens a file, or standard input for `-`.
    pub(super) fn open(path: &Path) -> anyhow::Result<Self> {
        let (name, size, mut input): (_, _, Box<dyn Read + Send>) = if path == Path::new("-") {
            ("stdin".to_owned(), None, Box::new(io::stdin()))
        } else {
            let file = File::open(path).map_err(|error| failure::on_file("read", path, &error))?;
            let metadata = file.metadata().map_err(|error| failure::on_file("read", path, &error))?;
            if metadata.is_dir() {
                bail!("cannot read {}: it is a folder", path.display());
            }
            // Devices and pipes have no size, and kernel files report 0. A file that grows is sent
            // at its initial size.
            let size = Some(metadata.len()).filter(|size| metadata.is_file() && *size > 0);
            (name_of(path), size, Box::new(file.take(size.unwrap_or(u64::MAX))))
        };
        let (sender, pieces) = mpsc::channel(AHEAD);
        let path = path.to_owned();
        std::thread::Builder::new().name("squall-read".to_owned()).spawn(move || {
            let mut buffer = vec![0; DATA_BYTES];
            loop {
                // A pipe returns the available bytes: its writer may be slow.
                let piece = match input.read(&mut buffer) {
                    Ok(0) => return,
                    Ok(length) => Ok(Bytes::copy_from_slice(&buffer[..length])),
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                    Err(error) => Err(failure::on_file("read", &path, &error)),
                };
                let failed = piece.is_err();
                // Fails once the transfer is over.
                if sender.blocking_send(piece).is_err() || failed {
                    return;
                }
            }
        })?;
        Ok(Self { name, size, pieces })
    }

    /// Returns the next piece; `None` at the end. Cancel safe.
    pub(super) async fn next(&mut self) -> Option<anyhow::Result<Bytes>> {
        self.pieces.recv().await
    }
}

/// Returns the last part of a path, without characters that a receiver would replace.
fn name_of(path: &Path) -> String {
    let name = path.file_name().map_or_else(|| "unnamed".into(), |name| name.to_string_lossy());
    plain_name(&name)
}

#[cfg(test)]
mod tests {
    use super::{super::message::MAX_NAME, *};

    #[test]
    fn names_have_no_folders() {
        assert_eq!(name_of(Path::new("/a/b.iso")), "b.iso");
        assert_eq!(name_of(Path::new("/")), "unnamed");
        assert_eq!(name_of(Path::new("a\nb")), "a_b");
        assert_eq!(name_of(Path::new("./-rf")), "_rf");
        assert_eq!(name_of(Path::new(&"ü".repeat(200))).len(), MAX_NAME - 1);
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        let message =
            |path: &str| Source::open(Path::new(path)).err().map(|e| e.to_string()).unwrap_or_default();
        assert_eq!(message("/nowhere/a"), "cannot read /nowhere/a: no such file or directory");
        assert_eq!(message("/"), "cannot read /: it is a folder");
    }
}

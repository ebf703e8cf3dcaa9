//! Where a transfer is written: a file that gets its name only when it is whole, or standard output.

use std::{
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
    sync::Arc,
    thread::JoinHandle,
    time::Duration,
};

use anyhow::{Context as _, anyhow};
use bytes::Bytes;
use squall_terminal::{error::usage, output::part_of};
use tempfile::NamedTempFile;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use super::{
    failure::{self, Fault},
    message::Header,
};

/// Bytes that may wait to be written; beyond that the sender waits.
const WAITING_BYTES: u32 = 8 << 20;

/// Pieces that may wait to be written, should they be small.
const WAITING: usize = 1024;

/// How long what was received of a failed transfer may take to be written.
const SETTLE: Duration = Duration::from_secs(2);

/// Names that are tried for a file whose own name is taken.
const NAMES: u32 = 1000;

/// What the peer is told when its name for a file cannot be used.
const REFUSED: &str = "a file of this name exists already, or cannot be: send it under another name";

/// Where the user wants it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// Under the sender's name into this folder, where nothing is overwritten.
    Folder(PathBuf),
    /// Into this file; one that exists is replaced.
    File(PathBuf),
    /// To standard output.
    Stdout,
}

/// What to do when the sender's name for a file is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taken {
    /// The transfer is refused.
    Refuse,
    /// The file gets a number after its name: a sender does not learn which names there are.
    Number,
}

/// A file, or standard output, being written by a thread of its own.
pub(super) struct Output {
    pieces: mpsc::Sender<(Bytes, OwnedSemaphorePermit)>,
    room: Arc<Semaphore>,
    thread: JoinHandle<io::Result<()>>,
    part: Option<Part>,
}

/// The unfinished file, of a name of its own, beside the one it will be. It is removed when it is dropped.
struct Part {
    file: NamedTempFile,
    to: PathBuf,
    taken: Option<Taken>,
}

impl Target {
    /// What the command line means.
    pub(super) fn of(out: Option<&Path>) -> Self {
        match out {
            None => Self::Folder(PathBuf::from(".")),
            Some(path) if path == Path::new("-") => Self::Stdout,
            Some(path) if path.is_dir() => Self::Folder(path.to_owned()),
            Some(path) => Self::File(path.to_owned()),
        }
    }

    /// Whether several transfers can be written at a time.
    pub(super) fn takes_several(&self) -> bool {
        matches!(self, Self::Folder(_))
    }

    /// Finds out before anything comes whether it can be written.
    pub(super) fn check(&self) -> anyhow::Result<()> {
        let probe = match self {
            Self::Stdout => return Ok(()),
            Self::File(file) if fs::metadata(file).is_ok_and(|there| !there.is_file()) => {
                let words = "is no regular file, and would be replaced: use --out - and redirect it";
                return Err(usage(format!("--out {}: {words}", file.display())));
            }
            Self::File(file) if file.as_os_str().as_encoded_bytes().ends_with(b"/") => {
                return Err(usage(format!("--out {}: there is no such folder", file.display())));
            }
            Self::File(file) => file.clone(),
            Self::Folder(folder) => folder.join("probe"),
        };
        part_of(&probe).map(drop).map_err(|error| cannot_write(folder_of(&probe), &error))
    }

    /// The file of a transfer, by the sender's name for it if need be.
    fn file_for(&self, name: &str, taken: Taken) -> anyhow::Result<Option<PathBuf>> {
        let folder = match self {
            Self::Stdout => return Ok(None),
            Self::File(file) => return Ok(Some(file.clone())),
            Self::Folder(folder) => folder,
        };
        // The name is the sender's: it must not lead out of the folder, nor hide.
        if name.starts_with('.') || name.contains(['/', '\\', '\0']) {
            let words = format!("the sender's name for it, {name:?}, cannot be used: give a name with --out");
            return Err(Fault::here(words, REFUSED));
        }
        let file = folder.join(name);
        if taken == Taken::Refuse && file.symlink_metadata().is_ok() {
            return Err(exists(&file));
        }
        Ok(Some(file))
    }
}

fn exists(file: &Path) -> anyhow::Error {
    Fault::here(format!("{} exists already: give a name with --out", file.display()), REFUSED)
}

impl Output {
    /// Opens what the transfer of this header is written to.
    pub(super) fn open(target: &Target, header: &Header, taken: Taken) -> anyhow::Result<Self> {
        let part =
            target.file_for(&header.name, taken)?.map(|to| Part::create(target, to, taken)).transpose()?;
        let sink: Sink = match &part {
            None => Box::new(Flushed(io::stdout())),
            Some(part) => Box::new(Synced(part.file.as_file().try_clone()?)),
        };
        let (pieces, waiting) = mpsc::channel(WAITING);
        let thread = std::thread::Builder::new().name("squall-write".to_owned());
        let thread = thread.spawn(move || write_all(sink, waiting))?;
        Ok(Self { pieces, room: Arc::new(Semaphore::new(WAITING_BYTES as usize)), thread, part })
    }

    /// Hands a piece over to be written. Cancel safe, the piece is dropped then. Tells whether writing goes
    /// on; if it does not, [`Self::finish`] tells why.
    pub(super) async fn write(&self, piece: Bytes) -> bool {
        let bytes = u32::try_from(piece.len()).unwrap_or(WAITING_BYTES).min(WAITING_BYTES);
        let Ok(room) = self.room.clone().acquire_many_owned(bytes).await else { return false };
        self.pieces.send((piece, room)).await.is_ok()
    }

    /// Waits until everything is on its disk, and gives the file its name.
    pub(super) async fn finish(self) -> anyhow::Result<Option<PathBuf>> {
        let Self { pieces, thread, part, .. } = self;
        let place = part.as_ref().map_or_else(|| PathBuf::from("standard output"), |part| part.to.clone());
        settle(pieces, thread).await?.map_err(|error| cannot_write(&place, &error))?;
        part.map(Part::name).transpose()
    }

    /// Writes what there is. Keeps it if that is wanted, and tells where it is then.
    pub(super) async fn abandon(self, keep: bool) -> Option<PathBuf> {
        let Self { pieces, thread, part, .. } = self;
        // The transfer has failed already, and why is known. A pipe that nobody reads is not waited for.
        let _ = tokio::time::timeout(SETTLE, settle(pieces, thread)).await;
        let (_, path) = part.filter(|_| keep)?.file.keep().ok()?;
        Some(path)
    }
}

impl Part {
    fn create(target: &Target, to: PathBuf, taken: Taken) -> anyhow::Result<Self> {
        let file = part_of(&to).map_err(|error| cannot_write(&to, &error))?;
        Ok(Self { file, to, taken: target.takes_several().then_some(taken) })
    }

    /// Gives the file its name.
    fn name(self) -> anyhow::Result<PathBuf> {
        let Self { mut file, to, taken } = self;
        let Some(taken) = taken else {
            return match file.persist(&to) {
                Ok(_) => Ok(to),
                Err(error) => Err(kept(error.file, cannot_write(&to, &error.error))),
            };
        };
        for number in 1..=NAMES {
            let name = numbered(&to, number);
            match file.persist_noclobber(&name) {
                Ok(_) => return Ok(name),
                Err(error) if error.error.kind() != io::ErrorKind::AlreadyExists => {
                    return Err(cannot_write(&name, &error.error));
                }
                Err(error) => file = error.file,
            }
            if taken == Taken::Refuse {
                return Err(kept(file, exists(&to)));
            }
        }
        Err(exists(&to))
    }
}

/// Why a whole file did not get its name, and the name that it keeps.
fn kept(file: NamedTempFile, why: anyhow::Error) -> anyhow::Error {
    match file.keep() {
        Ok((_, path)) => why.context(format!("whole, and kept as {}", path.display())),
        Err(_) => why,
    }
}

/// The name, and from the second try on with a number after it.
fn numbered(file: &Path, number: u32) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    if number > 1 {
        name.push(format!(".{number}"));
    }
    name.into()
}

fn folder_of(file: &Path) -> &Path {
    file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

async fn settle<T>(
    pieces: mpsc::Sender<T>,
    thread: JoinHandle<io::Result<()>>,
) -> anyhow::Result<io::Result<()>> {
    drop(pieces);
    let joined = tokio::task::spawn_blocking(move || thread.join()).await;
    joined.context("the writing thread is gone")?.map_err(|_| anyhow!("the writing thread broke off"))
}

fn cannot_write(file: &Path, error: &io::Error) -> anyhow::Error {
    let words = failure::on_file("write", file, error).to_string();
    Fault::here(words, format!("it cannot write the file: {}", failure::plain(error)))
}

/// A file whose flush reaches the disk.
struct Synced(File);

impl Write for Synced {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.sync_all()
    }
}

/// Standard output, of which nothing is held back.
struct Flushed(io::Stdout);

impl Write for Flushed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_all(bytes).map(|()| bytes.len())
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all(bytes)?;
        self.0.flush()
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

type Sink = Box<dyn Write + Send>;

fn write_all(mut sink: Sink, mut waiting: mpsc::Receiver<(Bytes, OwnedSemaphorePermit)>) -> io::Result<()> {
    while let Some((piece, _room)) = waiting.blocking_recv() {
        sink.write_all(&piece)?;
    }
    sink.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_senders_name_stays_in_the_folder() {
        let folder = Target::Folder("/tmp".into());
        let file_for = |name: &str| folder.file_for(name, Taken::Refuse);
        assert_eq!(file_for("squall-none").unwrap(), Some("/tmp/squall-none".into()));
        for name in ["../a", "/etc/passwd", ".bashrc", "a\\b", ".."] {
            assert!(file_for(name).is_err(), "{name}");
        }
    }

    #[test]
    fn what_cannot_be_written_is_said_at_once() {
        let error = Target::of(Some(Path::new("/nowhere/a"))).check().unwrap_err();
        assert_eq!(error.to_string(), "cannot write /nowhere: no such file or directory");
        let error = Target::of(Some(Path::new("/nowhere/"))).check().unwrap_err();
        assert_eq!(error.to_string(), "--out /nowhere/: there is no such folder");
        assert!(Target::of(Some(&std::env::temp_dir())).check().is_ok());
        #[cfg(unix)]
        assert!(
            Target::of(Some(Path::new("/dev/null"))).check().unwrap_err().to_string().contains("--out -")
        );
    }

    #[test]
    fn a_name_that_is_taken_gets_a_number_or_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let to = folder.path().join("a");
        let name = |taken| Part { file: part_of(&to).unwrap(), to: to.clone(), taken: Some(taken) }.name();
        fs::write(&to, "of the user").unwrap();
        assert_eq!(name(Taken::Number).unwrap(), folder.path().join("a.2"));
        assert_eq!(name(Taken::Number).unwrap(), folder.path().join("a.3"));
        let refused = format!("{:#}", name(Taken::Refuse).unwrap_err());
        assert!(
            refused.starts_with("whole, and kept as ") && refused.contains("exists already"),
            "{refused}"
        );
        assert_eq!(fs::read_to_string(&to).unwrap(), "of the user");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 4, "what was received is not lost");
    }
}

//! Output of a transfer: a file that gets its name once it is complete, or standard output.

use std::{
    collections::VecDeque,
    fs, io,
    io::Write,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use anyhow::Context as _;
use bytes::Bytes;
use squall_terminal::{error::usage, output::part_of};
use tempfile::NamedTempFile;

use super::{
    failure::{self, Fault},
    message::Header,
};

/// Number of files of failed transfers that are kept.
const MAX_KEPT: usize = 16;

/// Number of names that are tried for a file whose own name is taken.
const MAX_NAMES: u32 = 1000;

/// Error for the peer if its name for a file cannot be used.
const NAME_REFUSED: &str =
    "the receiver cannot use this name, or has such a file: send it under another name";

/// Destination of the output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// A folder; files get the sender's name, and nothing is overwritten.
    Folder(PathBuf),
    /// A file; an existing one is replaced.
    File(PathBuf),
    /// Standard output.
    Stdout,
}

/// Response to a sender's name for a file that is already taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taken {
    /// Refuse the transfer.
    Refuse,
    /// Append a number to the name, so that a sender cannot detect which files exist.
    Number,
}

/// A file, or standard output, that is being written.
pub(super) struct Output {
    /// `None` while a piece is being written.
    sink: Option<Box<dyn Write + Send>>,
    part: Option<Part>,
}

/// Files of failed transfers, limited so that senders cannot fill the disk or the folder with them.
#[derive(Default)]
pub(super) struct Kept(Mutex<VecDeque<PathBuf>>);

impl Kept {
    /// Keeps a file under its own name, in place of the oldest one if there are too many.
    fn keep(&self, file: NamedTempFile) -> Option<PathBuf> {
        let (_, path) = file.keep().ok()?;
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.push_back(path.clone());
        if kept.len() > MAX_KEPT {
            // The user may have moved it.
            let _ = kept.pop_front().map(fs::remove_file);
        }
        Some(path)
    }
}

/// Incomplete file under a temporary name, in the folder of the final one. Dropping it removes the
/// file.
struct Part {
    file: NamedTempFile,
    to: PathBuf,
    taken: Option<Taken>,
}

impl Target {
    /// Returns the target of the option `--out`.
    pub(super) fn of(out: Option<&Path>) -> Self {
        match out {
            None => Self::Folder(PathBuf::from(".")),
            Some(path) if path == Path::new("-") => Self::Stdout,
            Some(path) if path.is_dir() => Self::Folder(path.to_owned()),
            Some(path) => Self::File(path.to_owned()),
        }
    }

    /// `true` if several transfers can be written at the same time.
    pub(super) fn takes_several(&self) -> bool {
        matches!(self, Self::Folder(_))
    }

    /// Checks that the target can be written.
    pub(super) fn check(&self) -> anyhow::Result<()> {
        let probe = match self {
            Self::Stdout => return Ok(()),
            Self::File(file) if fs::metadata(file).is_ok_and(|there| !there.is_file()) => {
                let words = "is not a regular file and would be replaced: use --out - and redirect it";
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

    /// Returns the file of a transfer. In a folder, the sender chooses its name.
    fn file_for(&self, name: &str, taken: Taken) -> anyhow::Result<Option<PathBuf>> {
        let folder = match self {
            Self::Stdout => return Ok(None),
            Self::File(file) => return Ok(Some(file.clone())),
            Self::Folder(folder) => folder,
        };
        // The name must neither lead out of the folder nor be hidden.
        if name.starts_with('.') || name.contains(['/', '\\', '\0']) {
            let words = format!("the sender's name {name:?} cannot be used: use --out FILE");
            return Err(Fault::here(words, NAME_REFUSED));
        }
        let file = folder.join(name);
        if taken == Taken::Refuse && file.symlink_metadata().is_ok() {
            return Err(exists(&file));
        }
        Ok(Some(file))
    }
}

fn exists(file: &Path) -> anyhow::Error {
    Fault::here(format!("{} exists already: use --out FILE", file.display()), NAME_REFUSED)
}

impl Output {
    /// Opens the output of a transfer.
    pub(super) fn open(target: &Target, header: &Header, taken: Taken) -> anyhow::Result<Self> {
        let part =
            target.file_for(&header.name, taken)?.map(|to| Part::create(target, to, taken)).transpose()?;
        let sink: Box<dyn Write + Send> = match &part {
            None => Box::new(io::stdout()),
            Some(part) => Box::new(part.file.as_file().try_clone()?),
        };
        Ok(Self { sink: Some(sink), part })
    }

    /// Writes a piece in a separate thread, as a pipe may block. If this is cancelled, the output
    /// cannot be completed.
    pub(super) async fn write(&mut self, piece: Bytes) -> anyhow::Result<()> {
        let mut sink = self.sink.take().context("an earlier write did not end")?;
        let writing = tokio::task::spawn_blocking(move || {
            // Standard output must not buffer.
            let written = sink.write_all(&piece).and_then(|()| sink.flush());
            (sink, written)
        });
        let (sink, written) = writing.await.context("the writing thread failed")?;
        self.sink = Some(sink);
        written.map_err(|error| self.failed(&error))
    }

    fn failed(&self, error: &io::Error) -> anyhow::Error {
        cannot_write(self.part.as_ref().map_or(Path::new("standard output"), |part| &part.to), error)
    }

    /// Waits until everything is on disk, and gives the file its name.
    pub(super) async fn finish(mut self, kept: &Kept) -> anyhow::Result<Option<PathBuf>> {
        let Some(part) = &self.part else { return Ok(None) };
        let file = part.file.as_file().try_clone()?;
        let synced = tokio::task::spawn_blocking(move || file.sync_all()).await;
        synced.context("the writing thread failed")?.map_err(|error| self.failed(&error))?;
        self.part.take().map(|part| part.name(kept)).transpose()
    }

    /// Ends an incomplete output. Returns its file if it is kept.
    pub(super) fn abandon(self, kept: Option<&Kept>) -> Option<PathBuf> {
        kept?.keep(self.part?.file)
    }
}

impl Part {
    fn create(target: &Target, to: PathBuf, taken: Taken) -> anyhow::Result<Self> {
        let file = part_of(&to).map_err(|error| cannot_write(&to, &error))?;
        Ok(Self { file, to, taken: target.takes_several().then_some(taken) })
    }

    /// Gives the complete file its name.
    fn name(self, kept: &Kept) -> anyhow::Result<PathBuf> {
        let Self { mut file, to, taken } = self;
        let Some(taken) = taken else {
            return match file.persist(&to) {
                Ok(_) => Ok(to),
                Err(error) => Err(unnamed(kept, error.file, cannot_write(&to, &error.error))),
            };
        };
        for number in 1..=MAX_NAMES {
            let name = numbered(&to, number);
            match file.persist_noclobber(&name) {
                Ok(_) => return Ok(name),
                Err(error) if error.error.kind() != io::ErrorKind::AlreadyExists => {
                    return Err(cannot_write(&name, &error.error));
                }
                Err(error) => file = error.file,
            }
            if taken == Taken::Refuse {
                return Err(unnamed(kept, file, exists(&to)));
            }
        }
        Err(exists(&to))
    }
}

/// Returns the error about a complete file that did not get its name, with the name under which it
/// is kept.
fn unnamed(kept: &Kept, file: NamedTempFile, why: anyhow::Error) -> anyhow::Error {
    match kept.keep(file) {
        Some(path) => why.context(format!("complete, and kept as {}", path.display())),
        None => why,
    }
}

/// Returns the name, with a number from the second attempt on.
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

fn cannot_write(file: &Path, error: &io::Error) -> anyhow::Error {
    let words = failure::on_file("write", file, error).to_string();
    Fault::here(words, format!("it cannot write the file: {}", failure::plain(error)))
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
    fn an_invalid_target_is_reported_at_once() {
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
        let name = |taken| {
            Part { file: part_of(&to).unwrap(), to: to.clone(), taken: Some(taken) }.name(&Kept::default())
        };
        fs::write(&to, "of the user").unwrap();
        assert_eq!(name(Taken::Number).unwrap(), folder.path().join("a.2"));
        assert_eq!(name(Taken::Number).unwrap(), folder.path().join("a.3"));
        let refused = format!("{:#}", name(Taken::Refuse).unwrap_err());
        assert!(
            refused.starts_with("complete, and kept as ") && refused.contains("exists already"),
            "{refused}"
        );
        assert_eq!(fs::read_to_string(&to).unwrap(), "of the user");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 4, "received data is not lost");
    }
}

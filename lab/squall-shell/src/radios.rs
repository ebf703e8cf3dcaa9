//! Radio reports of the links, in files for the programs behind them.

use std::{
    fs::{self, File, Permissions},
    io::{self, Write as _},
    os::unix::fs::{MetadataExt as _, PermissionsExt as _},
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
    time::Duration,
};

use rustix::fs::{FlockOperation, flock};
use squall_net::Live;
use squall_signal::{Time, external};
use tempfile::TempDir;

use crate::{error::ShellError, ports::Packet};

/// Writes the reports of the radios to a folder of its own, until it is dropped.
#[derive(Debug)]
pub(crate) struct Radios {
    #[expect(dead_code, reason = "the folder is there until this is dropped")]
    folder: Folder,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// A folder with an empty file for each interface whose path has a radio.
#[derive(Debug)]
pub(crate) struct ReportFiles {
    folder: Folder,
    /// Files by path.
    files: Vec<Option<File>>,
}

/// A folder that is removed when this is dropped, or by a later shell if this one is killed.
#[derive(Debug)]
struct Folder {
    place: TempDir,
    /// Locked folder. The kernel releases the lock when its owner ends, so that other shells can
    /// detect that.
    #[expect(dead_code, reason = "what counts is that it is open")]
    lock: File,
}

/// Interval at which the radios are polled: far shorter than that of their reports.
const PERIOD: Duration = Duration::from_millis(5);

/// Prefix of the folders' names. The rest is random, so that no other user can create it first.
const NAME: &str = "squall-shell-";

/// Minimum age of a folder that may be removed. A younger one may not be locked yet.
const GROWN: Duration = Duration::from_secs(60);

/// Permissions of the folder: other users may open a file whose name they have, because programs
/// behind the links need not run as the shell's user. Only that user may add or replace files.
const FOLDER_MODE: u32 = 0o711;
const FILE_MODE: u32 = 0o644;

impl ReportFiles {
    /// Creates the folder and the files of these interfaces; an empty name stands for a path
    /// without a radio.
    pub(crate) fn prepare(interfaces: &[&str]) -> Result<Self, ShellError> {
        let base = std::env::temp_dir();
        let failed = |path: &Path| {
            let path = path.display().to_string();
            move |problem| ShellError::Log { path, problem }
        };
        let folder = Folder::new(&base).map_err(failed(&base))?;
        let path = folder.place.path();
        let file = |name: &&str| match *name {
            "" => Ok(None),
            name => readable(&path.join(format!("{name}.jsonl"))).map(Some),
        };
        let files = interfaces.iter().map(file).collect::<io::Result<Vec<_>>>().map_err(failed(path))?;
        Ok(Self { folder, files })
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.place.path()
    }
}

impl Folder {
    fn new(base: &Path) -> io::Result<Self> {
        let private = Permissions::from_mode(0o700);
        let place = tempfile::Builder::new().prefix(NAME).permissions(private).tempdir_in(base)?;
        let lock = File::open(place.path())?;
        // Without locks, no shell can detect a folder as abandoned either.
        let _ = flock(&lock, FlockOperation::NonBlockingLockExclusive);
        // Separately, because the mode at creation is subject to the umask.
        lock.set_permissions(Permissions::from_mode(FOLDER_MODE))?;
        Ok(Self { place, lock })
    }
}

/// Creates a file that every user may read.
fn readable(path: &Path) -> io::Result<File> {
    let file = File::create_new(path)?;
    file.set_permissions(Permissions::from_mode(FILE_MODE))?;
    Ok(file)
}

impl Radios {
    /// Starts the thread that writes the reports.
    pub(crate) fn start(external: ReportFiles, live: Arc<Live<Packet>>) -> Result<Self, ShellError> {
        let ReportFiles { folder, mut files } = external;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::Builder::new().name("squall-radios".to_owned()).spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                while let Some((path, reading)) = live.poll_report() {
                    // A report is available from its arrival; its age counts from then.
                    let now = Time::EPOCH + live.started().elapsed().into();
                    if let Some(file) = &mut files[path] {
                        // A full disk does not stop the links; programs see a silent radio.
                        let _ = writeln!(file, "{}", external::line(&reading, now));
                    }
                }
                std::thread::park_timeout(PERIOD);
            }
        })?;
        Ok(Self { folder, stop, thread: Some(thread) })
    }
}

impl Drop for Radios {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}

/// Removes the folders that killed shells have left behind.
pub(crate) fn tidy() {
    sweep(&std::env::temp_dir(), GROWN);
}

/// Removes this user's folders of killed shells: not locked, and at least `grown` old.
fn sweep(base: &Path, grown: Duration) {
    let Ok(entries) = fs::read_dir(base) else { return };
    let ours = rustix::process::geteuid().as_raw();
    for entry in entries.flatten() {
        let is_named = entry.file_name().to_str().is_some_and(|name| name.starts_with(NAME));
        // Metadata of the entry itself, not of the target of a symbolic link.
        let left = entry.metadata().is_ok_and(|about| {
            let age = about.modified().ok().and_then(|at| at.elapsed().ok());
            about.is_dir() && about.uid() == ours && age.is_some_and(|age| age >= grown)
        });
        if is_named && left && is_unlocked(&entry.path()) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

fn is_unlocked(folder: &Path) -> bool {
    File::open(folder).is_ok_and(|folder| flock(&folder, FlockOperation::NonBlockingLockExclusive).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folders_of_the_dead_are_swept_and_nothing_else() {
        let base = tempfile::tempdir().expect("a folder");
        let make = |name: &str| {
            let path = base.path().join(name);
            fs::create_dir_all(path.join("within")).expect("it is made");
            path
        };
        let (dead, other) = (make("squall-shell-dead"), make("another-program"));
        let link = base.path().join("squall-shell-link");
        std::os::unix::fs::symlink(&other, &link).expect("it is made");
        let living = Folder::new(base.path()).expect("it is made");
        sweep(base.path(), GROWN);
        assert!(dead.exists(), "it is young");
        sweep(base.path(), Duration::ZERO);
        assert!(!dead.exists());
        assert!(other.join("within").exists() && link.exists() && living.place.path().exists());
    }

    #[test]
    fn everybody_can_read_and_only_the_user_can_write() {
        let base = tempfile::tempdir().expect("a folder");
        let folder = Folder::new(base.path()).expect("it is made");
        let path = folder.place.path().to_owned();
        let file = readable(&path.join("lte.jsonl")).expect("it is made");
        let mode = |about: io::Result<fs::Metadata>| about.expect("it is there").mode() & 0o7777;
        assert_eq!((mode(fs::metadata(&path)), mode(file.metadata())), (0o711, 0o644));
        drop(folder);
        assert!(!path.exists());
    }
}

//! What the links' radios say, for the programs behind them.

use std::{
    fs::{self, File},
    io::Write as _,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
    time::Duration,
};

use squall_net::Live;
use squall_signal::told;

use crate::{error::ShellError, ports::Packet};

/// Tells of the radios in a folder of its own, until it is dropped.
#[derive(Debug)]
pub(crate) struct Radios {
    folder: PathBuf,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// How often the radios are asked: far more often than they report.
const PERIOD: Duration = Duration::from_millis(5);

/// What the names of such folders begin with; the process id follows.
const NAME: &str = "squall-shell-";

impl Radios {
    /// A folder with an empty file for each interface whose path has a radio.
    pub(crate) fn prepare(interfaces: &[&str]) -> Result<(PathBuf, Vec<Option<File>>), ShellError> {
        let base = std::env::temp_dir();
        sweep(&base);
        let folder = base.join(format!("{NAME}{}", std::process::id()));
        let failed = |problem| ShellError::Log { path: folder.display().to_string(), problem };
        fs::create_dir_all(&folder).map_err(failed)?;
        let file = |name: &&str| match *name {
            "" => Ok(None),
            name => File::create(folder.join(format!("{name}.jsonl"))).map(Some),
        };
        let files = interfaces.iter().map(file).collect::<Result<Vec<_>, _>>().map_err(failed)?;
        Ok((folder, files))
    }

    /// Begins to tell.
    pub(crate) fn start(
        (folder, mut files): (PathBuf, Vec<Option<File>>),
        live: Arc<Live<Packet>>,
    ) -> Result<Self, ShellError> {
        let stop = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&stop);
        let thread = std::thread::Builder::new().name("squall-radios".to_owned()).spawn(move || {
            while !told.load(Ordering::Relaxed) {
                while let Some((path, reading)) = live.poll_report() {
                    // What the radio says is known from when it is said; how old it is counts from then.
                    let now = live.started().elapsed().as_micros() as u64;
                    if let Some(file) = &mut files[path] {
                        // A full disk does not stop the links; programs see a radio that says nothing.
                        let _ = writeln!(file, "{}", told::line(&reading, now));
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
        // Others may be quicker to tidy up.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Removes the folders of shells that were killed.
fn sweep(base: &Path) {
    let Ok(entries) = fs::read_dir(base) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let owner =
            name.to_str().and_then(|name| name.strip_prefix(NAME)).and_then(|id| id.parse::<u32>().ok());
        if owner.is_some_and(|id| !Path::new(&format!("/proc/{id}")).exists()) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

//! Programs that tests run like users, and a folder for each test.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Output},
    thread,
    time::{Duration, Instant},
};

/// Returns the path of another program of the workspace, in the same folder as this one.
///
/// # Panics
/// If it is not built: `cargo test --workspace` builds it.
pub fn sibling(program: &str, name: &str) -> PathBuf {
    let path = Path::new(program).with_file_name(name);
    assert!(path.exists(), "{} is not built: cargo test --workspace builds it", path.display());
    path
}

/// Returns the standard error output of a program, and its exit code.
pub fn failure(output: &Output) -> (String, Option<i32>) {
    let said = String::from_utf8_lossy(&output.stderr).trim_end().to_owned();
    (said, output.status.code())
}

/// `true` if this process runs as root.
pub fn is_root() -> bool {
    fs::read_to_string("/proc/self/status").is_ok_and(|status| {
        status.lines().any(|line| line.split_whitespace().eq(["Uid:", "0", "0", "0", "0"]))
    })
}

/// A folder that exists while the test runs.
pub struct Scratch(PathBuf);

impl Scratch {
    /// Creates an empty folder.
    ///
    /// # Panics
    ///
    /// If the folder cannot be created.
    pub fn new(test: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("squall-{test}-{}", std::process::id()));
        // An earlier process with the same id may have left one.
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).expect("the folder is made");
        Self(folder)
    }

    /// Returns a path in the folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Writes a file in the folder; returns its path.
    ///
    /// # Panics
    ///
    /// If the file cannot be written.
    pub fn write(&self, name: &str, content: &[u8]) -> PathBuf {
        let file = self.path(name);
        fs::write(&file, content).expect("the file is written");
        file
    }

    /// Returns the files in the folder.
    ///
    /// # Panics
    ///
    /// If the folder cannot be read.
    pub fn files(&self) -> Vec<PathBuf> {
        fs::read_dir(&self.0).expect("is there").map(|entry| entry.expect("is readable").path()).collect()
    }

    /// Returns the unfinished files (`*.part`) in the folder.
    ///
    /// # Panics
    ///
    /// If the folder cannot be read.
    pub fn parts(&self) -> Vec<PathBuf> {
        let is_part = |file: &PathBuf| file.extension().is_some_and(|extension| extension == "part");
        self.files().into_iter().filter(is_part).collect()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Sends a signal to a process, by the signal's name.
///
/// # Panics
///
/// If the signal cannot be sent.
pub fn signal(child: &Child, name: &str) {
    let sent = Command::new("kill").arg(format!("-{name}")).arg(child.id().to_string()).status();
    assert!(sent.expect("kill is there").success());
}

/// Returns the exit code of a process, if it ends within this time.
///
/// # Panics
///
/// If the system does not report the state of the process.
pub fn ends_within(child: &mut Child, time: Duration) -> Option<i32> {
    let begin = Instant::now();
    while begin.elapsed() < time {
        if let Some(status) = child.try_wait().expect("can be asked") {
            return status.code();
        }
        thread::sleep(Duration::from_millis(5));
    }
    None
}

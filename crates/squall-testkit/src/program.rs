//! Programs that tests run as users would, and a folder for each test.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Output},
    thread,
    time::{Duration, Instant},
};

/// Another program of the workspace, which stands beside this one.
///
/// # Panics
/// If it is not built: `cargo test --workspace` builds it.
pub fn sibling(program: &str, name: &str) -> PathBuf {
    let path = Path::new(program).with_file_name(name);
    assert!(path.exists(), "{} is not built: cargo test --workspace builds it", path.display());
    path
}

/// What a program wrote to standard error, and its code.
pub fn failure(output: &Output) -> (String, Option<i32>) {
    let said = String::from_utf8_lossy(&output.stderr).trim_end().to_owned();
    (said, output.status.code())
}

/// Whether this process is root.
pub fn is_root() -> bool {
    fs::read_to_string("/proc/self/status").is_ok_and(|status| {
        status.lines().any(|line| line.split_whitespace().eq(["Uid:", "0", "0", "0", "0"]))
    })
}

/// A folder that is there while the test runs.
pub struct Scratch(PathBuf);

impl Scratch {
    /// An empty folder.
    ///
    /// # Panics
    /// If it cannot be made.
    pub fn new(test: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("squall-{test}-{}", std::process::id()));
        // One of an earlier process of the same number.
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).expect("the folder is made");
        Self(folder)
    }

    /// A path in it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Writes a file in it.
    ///
    /// # Panics
    /// If it cannot be written.
    pub fn write(&self, name: &str, content: &[u8]) -> PathBuf {
        let file = self.path(name);
        fs::write(&file, content).expect("the file is written");
        file
    }

    /// The files in it.
    ///
    /// # Panics
    /// If it cannot be read.
    pub fn files(&self) -> Vec<PathBuf> {
        fs::read_dir(&self.0).expect("is there").map(|entry| entry.expect("is readable").path()).collect()
    }

    /// The unfinished files in it.
    ///
    /// # Panics
    /// If it cannot be read.
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

/// Sends a process a signal, by name.
///
/// # Panics
/// If it cannot be sent.
pub fn signal(child: &Child, name: &str) {
    let sent = Command::new("kill").arg(format!("-{name}")).arg(child.id().to_string()).status();
    assert!(sent.expect("kill is there").success());
}

/// The exit code of a process, should it end within this time.
///
/// # Panics
/// If the system does not say whether it has ended.
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

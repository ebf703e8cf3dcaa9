//! Temporary folder for intermediate files.

use std::{fs, io, path::Path, process, thread};

use tempfile::TempDir;

use squall_terminal::{interrupt, note};

/// Creates a temporary folder. It is removed with its contents when it is dropped, or when a signal
/// that this function listens for ends the program.
///
/// # Errors
/// The system's error.
pub(crate) fn folder() -> io::Result<TempDir> {
    let mut builder = tempfile::Builder::new();
    builder.prefix("squall-video-");
    // The pictures may be private.
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o700));
    let folder = builder.tempdir()?;
    let path = folder.path().to_owned();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    thread::spawn(move || {
        if runtime.block_on(interrupt::interrupted()).is_ok() {
            remove(&path);
            note!("squall-lab: interrupted");
            process::exit(1);
        }
    });
    Ok(folder)
}

/// Removes a folder. Tries several times, because a process may still be writing into it.
fn remove(path: &Path) {
    for _ in 0..5 {
        if fs::remove_dir_all(path).is_ok() || !path.exists() {
            return;
        }
    }
}

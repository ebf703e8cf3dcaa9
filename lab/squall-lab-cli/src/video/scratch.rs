//! A folder for what is only needed on the way.

use std::{fs, io, path::Path, process, thread};

use tempfile::TempDir;

use squall_terminal::{interrupt, note};

/// A folder of our own among the temporary files, which is removed with all that is in it when it is dropped, and when
/// the program is asked to end, for which this listens.
///
/// # Errors
/// What the system says.
pub(crate) fn folder() -> io::Result<TempDir> {
    let mut builder = tempfile::Builder::new();
    builder.prefix("squall-video-");
    // What is shown may be private.
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

/// Removes a folder. Somebody may still be writing into it, so it is tried a few times.
fn remove(path: &Path) {
    for _ in 0..5 {
        if fs::remove_dir_all(path).is_ok() || !path.exists() {
            return;
        }
    }
}

//! A folder for what is only needed on the way.

use std::{
    fs, io,
    path::{Path, PathBuf},
    process, thread,
    time::{SystemTime, UNIX_EPOCH},
};

use crate::interrupt;

/// A folder of our own among the temporary files, which is removed with all that is in it when this is dropped, and when
/// the program is asked to end.
#[derive(Debug)]
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    /// Makes the folder, and listens for Ctrl-C.
    ///
    /// # Errors
    /// What the system says.
    pub(crate) fn new() -> io::Result<Self> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.subsec_nanos());
        let path = std::env::temp_dir().join(format!("squall-video-{}-{now:09}", process::id()));
        let mut maker = fs::DirBuilder::new();
        // What is shown may be private.
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut maker, 0o700);
        maker.create(&path)?;
        let scratch = Self(path.clone());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        thread::spawn(move || {
            if runtime.block_on(interrupt::interrupted()).is_ok() {
                remove(&path);
                eprintln!("squall: interrupted");
                process::exit(1);
            }
        });
        Ok(scratch)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        remove(&self.0);
    }
}

/// Removes a folder. Somebody may still be writing into it, so it is tried a few times.
fn remove(path: &Path) {
    for _ in 0..5 {
        if fs::remove_dir_all(path).is_ok() || !path.exists() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_left() {
        let scratch = Scratch::new().expect("it is made");
        let path = scratch.path().to_owned();
        fs::write(path.join("film"), [0; 10]).expect("it can be written");
        let other = Scratch::new().expect("it is made");
        assert_ne!(other.path(), path);
        drop(scratch);
        assert!(!path.exists() && other.path().exists());
    }
}

//! The server's certificate, in a file that both ends share.

use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use anyhow::Context as _;

/// How long the client waits for it.
const PATIENCE: Duration = Duration::from_secs(5);

/// The name in it.
pub(crate) const NAME: &str = "versus";

/// Makes one; returns the file with its private key.
pub(crate) fn make(file: &Path) -> anyhow::Result<PathBuf> {
    let certified = rcgen::generate_simple_self_signed(vec![NAME.to_owned()])?;
    let key = file.with_extension("key");
    fs::write(&key, certified.signing_key.serialize_pem())?;
    // Whole or not at all: the client looks for it meanwhile.
    let part = file.with_extension("part");
    fs::write(&part, certified.cert.pem())?;
    fs::rename(&part, file)?;
    Ok(key)
}

/// Waits until it is there.
pub(crate) fn wait_for(file: &Path) -> anyhow::Result<()> {
    let start = Instant::now();
    while let Err(error) = fs::metadata(file) {
        if start.elapsed() > PATIENCE {
            return Err(error).context("no certificate");
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}

/// A path as TQUIC takes it.
pub(crate) fn text(file: &Path) -> anyhow::Result<&str> {
    file.to_str().with_context(|| format!("{}: is no UTF-8", file.display()))
}

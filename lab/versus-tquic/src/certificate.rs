//! Server's certificate, in a file that both ends share.

use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use anyhow::Context as _;

/// Time for which the client waits for the certificate.
const PATIENCE: Duration = Duration::from_secs(5);

/// Host name in the certificate.
pub(crate) const NAME: &str = "versus";

/// Creates a certificate; returns the file with its private key.
pub(crate) fn make(file: &Path) -> anyhow::Result<PathBuf> {
    let certified = rcgen::generate_simple_self_signed(vec![NAME.to_owned()])?;
    let key = file.with_extension("key");
    fs::write(&key, certified.signing_key.serialize_pem())?;
    // Written atomically: the client polls for the file.
    let part = file.with_extension("part");
    fs::write(&part, certified.cert.pem())?;
    fs::rename(&part, file)?;
    Ok(key)
}

/// Waits until the certificate is there.
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

/// Returns a path as text, which TQUIC requires.
pub(crate) fn text(file: &Path) -> anyhow::Result<&str> {
    file.to_str().with_context(|| format!("{}: is no UTF-8", file.display()))
}

//! Option `--qlog` of both commands.

use std::path::PathBuf;

use squall::Config;

/// Destination of qlog files.
#[derive(clap::Args, Debug)]
pub(super) struct Qlog {
    /// Folder for a qlog file of each connection; needs a build with the feature qlog
    #[arg(long, value_name = "DIR")]
    qlog: Option<PathBuf>,
}

impl Qlog {
    /// Enables qlog for sessions, if requested.
    #[cfg(feature = "qlog")]
    pub(super) fn apply(&self, config: Config) -> anyhow::Result<Config> {
        if let Some(folder) = &self.qlog {
            std::fs::create_dir_all(folder)
                .map_err(|error| super::failure::on_file("make", folder, &error))?;
        }
        Ok(config.qlog_dir(self.qlog.clone()))
    }

    /// Refuses the option, as this build has no qlog.
    #[cfg(not(feature = "qlog"))]
    pub(super) fn apply(&self, config: Config) -> anyhow::Result<Config> {
        anyhow::ensure!(
            self.qlog.is_none(),
            "--qlog: this build writes no qlog, which makes every packet dearer; \
             `cargo install --locked --path crates/squall-cli --features qlog` makes one that does"
        );
        Ok(config)
    }
}

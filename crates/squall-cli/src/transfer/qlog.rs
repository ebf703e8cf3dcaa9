//! `--qlog` of both commands.

use std::path::PathBuf;

use squall::Config;

/// Where records of connections go.
#[derive(clap::Args, Debug)]
pub(super) struct Qlog {
    /// Folder for a qlog of each connection; takes a build with the feature qlog
    #[arg(long, value_name = "DIR")]
    qlog: Option<PathBuf>,
}

impl Qlog {
    /// Has sessions write them, if they are asked for.
    #[cfg(feature = "qlog")]
    pub(super) fn apply(&self, config: Config) -> anyhow::Result<Config> {
        if let Some(folder) = &self.qlog {
            std::fs::create_dir_all(folder)
                .map_err(|error| super::failure::on_file("make", folder, &error))?;
        }
        Ok(config.qlog_dir(self.qlog.clone()))
    }

    /// Refuses to, if they are asked for.
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

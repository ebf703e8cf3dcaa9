//! What a shell has seen.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use squall_net::LiveReport;

/// What has happened on the links so far.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShellReport {
    /// Of the links, and how late packets were.
    #[serde(flatten)]
    pub live: LiveReport,
    /// Packets that the kernel dropped because the shell was late to read them.
    pub overruns: u64,
}

impl ShellReport {
    /// Why the emulation was not true, if it was not; see [`LiveReport::invalid`].
    pub fn invalid(&self, threshold: Duration) -> Option<String> {
        self.live.invalid(self.overruns, threshold)
    }
}

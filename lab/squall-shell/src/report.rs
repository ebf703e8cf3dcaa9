//! Reports of a running shell.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use squall_net::LiveReport;

/// Counters of the links so far.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShellReport {
    /// Counters of the links, and lateness of packets.
    #[serde(flatten)]
    pub live: LiveReport,
    /// Packets that the kernel dropped because the shell was late to read them.
    pub overruns: u64,
}

impl ShellReport {
    /// Returns the reason why the emulation was not accurate, if it was not; see
    /// [`LiveReport::invalid`].
    pub fn invalid(&self, threshold: Duration) -> Option<String> {
        self.live.invalid(self.overruns, threshold)
    }
}

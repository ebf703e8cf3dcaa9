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
    /// Why the emulation was not true, if it was not: packets were handed over later than `threshold` (more than one of
    /// 100), or the kernel dropped some, or the links have stopped.
    pub fn invalid(&self, threshold: Duration) -> Option<String> {
        let slip = &self.live.slip;
        if let Some(failure) = &self.live.failure {
            return Some(format!("the links have stopped: {failure}"));
        }
        if self.overruns > 0 {
            return Some(format!(
                "the kernel dropped {} packets before they reached their link",
                self.overruns
            ));
        }
        let late = u128::from(slip.p99) > threshold.as_micros();
        late.then(|| {
            format!(
                "1 of 100 packets came more than {:.1} ms late ({:.1} ms are allowed)",
                slip.p99 as f64 / 1e3,
                threshold.as_secs_f64() * 1e3
            )
        })
    }
}

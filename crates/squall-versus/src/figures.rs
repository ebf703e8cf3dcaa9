//! What a run has shown.

use serde::{Deserialize, Serialize};
use squall_shell::ShellReport;

use crate::{
    contender::Contender,
    side::{Far, Near},
    stream::Stream,
};

/// The figures of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// Over which scenario.
    pub scenario: String,
    /// Which stream.
    pub stream: Stream,
    /// Who carried it.
    pub contender: Contender,
    /// Frames that were sent.
    pub frames: u32,
    /// Frames that became complete at all.
    pub complete: u32,
    /// Latencies in microseconds that 50, 95, 99 and 99.9 of 100 frames kept; `None` where so many never came.
    pub latency_us: [Option<u64>; 4],
    /// Share of the frames that were complete within 150 ms.
    pub in_150_ms: f64,
    /// Share of the frames that were complete within 300 ms.
    pub in_300_ms: f64,
    /// Bytes that were given to each link, both directions together: name and number.
    pub link_bytes: Vec<(String, u64)>,
    /// Processor seconds of the carrier at both ends.
    pub cpu_s: f64,
    /// Why the run does not count, if it does not.
    pub invalid: Option<String>,
}

/// Shares of the frames that latencies are given of.
pub(crate) const SHARES: [f64; 4] = [0.5, 0.95, 0.99, 0.999];

impl Figures {
    pub(crate) fn of(
        (scenario, stream, contender): (String, Stream, Contender),
        near: &Near,
        far: &Far,
        report: &ShellReport,
        invalid: Option<String>,
    ) -> Self {
        let mut latencies: Vec<u64> = far
            .frames
            .iter()
            .filter(|(number, _)| *number < near.frames)
            .map(|(_, latency)| *latency)
            .collect();
        latencies.sort_unstable();
        let all = f64::from(near.frames.max(1));
        let within = |us: u64| latencies.partition_point(|latency| *latency <= us) as f64 / all;
        // Of all frames that were sent: one that never came is later than any other.
        let rank = |share: f64| (share * all).ceil().max(1.0) as usize - 1;
        let bytes = |path: &squall_net::PathReport| {
            (path.name.clone(), path.up.pushed.bytes + path.down.pushed.bytes)
        };
        Self {
            scenario,
            stream,
            contender,
            frames: near.frames,
            complete: latencies.len() as u32,
            latency_us: SHARES.map(|share| latencies.get(rank(share)).copied()),
            in_150_ms: within(150_000),
            in_300_ms: within(300_000),
            link_bytes: report.live.paths.iter().map(bytes).collect(),
            cpu_s: (near.cpu_us + far.cpu_us) as f64 / 1e6,
            invalid,
        }
    }
}

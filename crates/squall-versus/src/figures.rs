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
    /// Packets that sockets at both ends dropped because whoever was to read them was late.
    pub overflows: u64,
    /// Why the run does not count, if it does not.
    pub invalid: Option<String>,
}

/// Of how many of 1,000 frames latencies are given.
const OF_1000: [u64; 4] = [500, 950, 990, 999];

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
        let rank = |of_1000: u64| (of_1000 * u64::from(near.frames)).div_ceil(1_000).max(1) as usize - 1;
        let bytes = |path: &squall_net::PathReport| {
            (path.name.clone(), path.up.pushed.bytes + path.down.pushed.bytes)
        };
        Self {
            scenario,
            stream,
            contender,
            frames: near.frames,
            complete: latencies.len() as u32,
            latency_us: OF_1000.map(|share| latencies.get(rank(share)).copied()),
            in_150_ms: within(150_000),
            in_300_ms: within(300_000),
            link_bytes: report.live.paths.iter().map(bytes).collect(),
            cpu_s: (near.cpu_us + far.cpu_us) as f64 / 1e6,
            overflows: near.overflows + far.overflows,
            invalid,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_never_came_counts_as_latest() {
        let near = Near { frames: 10, cpu_us: 1_500_000, overflows: 1 };
        // The last is none of those that were sent.
        let frames = vec![(0, 150_000), (1, 150_001), (2, 300_000), (3, 20_000), (4, 20_000), (99, 1)];
        let far = Far { frames, cpu_us: 500_000, overflows: 2 };
        let report: ShellReport = serde_json::from_str(
            r#"{ "elapsed": 0, "paths": [], "slip": { "count": 0, "p50": 0, "p99": 0, "max": 0 },
                "strays": 0, "refused": 0, "failure": null, "overruns": 0 }"#,
        )
        .expect("a report");
        let stream = Stream { rate_bps: 8_000_000, fps: 30 };
        let one = Figures::of(("calm".to_owned(), stream, Contender::UdpSingle), &near, &far, &report, None);
        assert_eq!((one.complete, one.in_150_ms, one.in_300_ms), (5, 0.3, 0.5));
        assert_eq!(one.latency_us, [Some(300_000), None, None, None]);
        assert_eq!((one.cpu_s, one.overflows), (2.0, 3));
    }
}

//! Results of a run.

use serde::{Deserialize, Serialize};
use squall_shell::ShellReport;
use squall_versus_stream::Stream;

use crate::{
    frames::Best,
    side::{Far, Near},
};

/// Parameters of a run, and its clairvoyant bound.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Run {
    pub(crate) scenario: String,
    pub(crate) stream: Stream,
    pub(crate) transport: String,
    pub(crate) seed: u64,
    pub(crate) best: Best,
}

/// Measured figures of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// Name of the scenario.
    pub scenario: String,
    /// The stream that was carried.
    pub stream: Stream,
    /// Name of the transport.
    #[serde(rename = "contender")]
    pub transport: String,
    /// Seed of the links' random decisions and of the frame sizes.
    pub seed: u64,
    /// Frames sent.
    pub frames: u32,
    /// Frames that became complete.
    pub complete: u32,
    /// Latencies in microseconds within which 50, 95, 99 and 99.9 % of the frames were complete;
    /// `None` if fewer frames were.
    pub latency_us: [Option<u64>; 4],
    /// Share of the frames that were complete within 150 ms.
    pub in_150_ms: f64,
    /// Share of the frames that were complete within 300 ms.
    pub in_300_ms: f64,
    /// Clairvoyant bound for these frames over these links, which no carrier can exceed.
    pub best: Best,
    /// Name of each link, and the bytes sent into it, both directions together.
    pub link_bytes: Vec<(String, u64)>,
    /// Processor time of the carrier at both ends, in seconds.
    pub cpu_s: f64,
    /// Packets that sockets at both ends dropped because their reader was late.
    pub overflows: u64,
    /// Reason why the run is not valid, if it is not.
    pub invalid: Option<String>,
    /// Number of runs needed to have a valid one, this one included.
    pub attempts: u32,
}

impl Figures {
    /// Repeats a run until it is valid, at most `attempts` times, and returns the last result;
    /// `again` is called before each repetition.
    ///
    /// # Errors
    ///
    /// Errors of `run`; after an error it is not repeated.
    pub fn that_count<E>(
        attempts: u32,
        mut run: impl FnMut() -> Result<Self, E>,
        mut again: impl FnMut(&Self),
    ) -> Result<Self, E> {
        let mut attempt = 1;
        loop {
            let figures = Self { attempts: attempt, ..run()? };
            if figures.invalid.is_none() || attempt >= attempts {
                return Ok(figures);
            }
            again(&figures);
            attempt += 1;
        }
    }
}

impl Figures {
    /// Returns the ratio of one of the latencies to the bound's; `None` if too few frames were
    /// complete.
    pub(crate) fn latency_over_bound(&self, index: usize) -> Option<f64> {
        Some(self.latency_us[index]? as f64 / self.best.latency_us[index]? as f64)
    }

    /// Returns the shares of frames within 150 and 300 ms, relative to those of the bound; 1 if the
    /// bound is 0.
    pub(crate) fn of_bound(&self) -> [f64; 2] {
        let of = |share: f64, best: f64| if best > 0.0 { share / best } else { 1.0 };
        [of(self.in_150_ms, self.best.in_150_ms), of(self.in_300_ms, self.best.in_300_ms)]
    }
}

/// Shares of the frames, in thousandths, for which latencies are reported.
const OF_1000: [u64; 4] = [500, 950, 990, 999];

impl Figures {
    pub(crate) fn of(
        Run { scenario, stream, transport, seed, best }: Run,
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
        // Index among all frames that were sent: a frame that never arrived is later than any
        // other.
        let rank = |of_1000: u64| (of_1000 * u64::from(near.frames)).div_ceil(1_000).max(1) as usize - 1;
        let bytes = |path: &squall_net::PathReport| {
            (path.name.clone(), path.up.pushed.bytes + path.down.pushed.bytes)
        };
        Self {
            scenario,
            stream,
            transport,
            seed,
            frames: near.frames,
            complete: latencies.len() as u32,
            latency_us: OF_1000.map(|share| latencies.get(rank(share)).copied()),
            in_150_ms: within(150_000),
            in_300_ms: within(300_000),
            best,
            link_bytes: report.live.paths.iter().map(bytes).collect(),
            cpu_s: (near.cpu_us + far.cpu_us) as f64 / 1e6,
            overflows: near.overflows + far.overflows,
            invalid,
            attempts: 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn calm() -> Run {
        Run {
            scenario: "calm".to_owned(),
            stream: Stream { rate_bps: 8_000_000, fps: 30 },
            transport: "udp-single".to_owned(),
            seed: 1,
            best: Best { latency_us: [Some(10_000); 4], in_150_ms: 1.0, in_300_ms: 1.0 },
        }
    }

    fn figures(invalid: Option<&str>) -> Figures {
        let near = Near { frames: 0, started_us: 0, cpu_us: 0, overflows: 0 };
        let far = Far { frames: Vec::new(), cpu_us: 0, overflows: 0 };
        Figures::of(calm(), &near, &far, &report(), invalid.map(ToOwned::to_owned))
    }

    fn report() -> ShellReport {
        serde_json::from_str(
            r#"{ "elapsed_us": 0, "paths": [], "slip": { "count": 0, "p50_us": 0, "p99_us": 0, "max_us": 0 },
                "strays": 0, "refused": 0, "failure": null, "overruns": 0 }"#,
        )
        .expect("a report")
    }

    /// Returns the reason of the kept run, its number of attempts, and how often `again` was
    /// called, for runs with these reasons.
    fn kept(attempts: u32, runs: &[Option<&str>]) -> (Option<String>, u32, u32) {
        let (mut left, mut repeated) = (runs.iter(), 0);
        let run = || left.next().map(|invalid| figures(*invalid)).ok_or(());
        let kept = Figures::that_count(attempts, run, |_| repeated += 1).expect("a run");
        (kept.invalid, kept.attempts, repeated)
    }

    #[test]
    fn a_run_that_does_not_count_is_made_again_so_often() {
        let (late, later) = (Some("late"), Some("later"));
        assert_eq!(kept(3, &[None, late]), (None, 1, 0));
        assert_eq!(kept(3, &[late, None]), (None, 2, 1));
        assert_eq!(kept(3, &[late, late, later, None]), (later.map(ToOwned::to_owned), 3, 2));
        assert_eq!(kept(1, &[late, None]), (late.map(ToOwned::to_owned), 1, 0));
    }

    #[test]
    fn a_run_that_fails_is_not_made_again() {
        let mut made = 0;
        let run = || {
            made += 1;
            Err("no links")
        };
        assert_eq!(Figures::that_count(3, run, |_| ()), Err("no links"));
        assert_eq!(made, 1);
    }

    #[test]
    fn what_never_came_counts_as_latest() {
        let near = Near { frames: 10, started_us: 0, cpu_us: 1_500_000, overflows: 1 };
        // The last frame is not one of those sent.
        let frames = vec![(0, 150_000), (1, 150_001), (2, 300_000), (3, 20_000), (4, 20_000), (99, 1)];
        let far = Far { frames, cpu_us: 500_000, overflows: 2 };
        let one = Figures::of(calm(), &near, &far, &report(), None);
        assert_eq!((one.complete, one.in_150_ms, one.in_300_ms), (5, 0.3, 0.5));
        assert_eq!(one.latency_us, [Some(300_000), None, None, None]);
        assert_eq!((one.cpu_s, one.overflows), (2.0, 3));
    }
}

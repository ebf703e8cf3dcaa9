//! Assertions about results: what makes a scenario file a test.

use serde::{Deserialize, Serialize};

use crate::flow::{Direction, word};
use crate::result::{FlowResult, PathResult, Percentiles, RunResult};
use crate::table::format;

/// What a check looks at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// The path of this name.
    Path(String),
    /// The flow of this name.
    Flow(String),
}

/// What a check measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Measure {
    /// New data to the receiver's application, in bits per second; path or flow, whole run or a part of it.
    Goodput,
    /// UDP payload sent by both ends, in bytes; path.
    WireBytes,
    /// Packets declared lost / packets sent; path.
    LossRatio,
    /// Completion rate, in time / offered; flow.
    InTimeRatio,
    /// Delivered / offered; flow.
    DeliveredRatio,
    /// Median latency of the delivered blocks, in microseconds; flow.
    P50Latency,
    /// 95th percentile likewise.
    P95Latency,
    /// 99th percentile likewise.
    P99Latency,
    /// 99.9th percentile likewise.
    P999Latency,
    /// The largest likewise.
    MaxLatency,
    /// 99th percentile of the packets' delays, in microseconds; flow.
    P99PacketDelay,
    /// The largest likewise.
    MaxPacketDelay,
    /// Longest time without a delivery, in microseconds; flow.
    LongestGap,
}

/// The unit of a measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Bits per second.
    Rate,
    /// Bytes.
    Size,
    /// A share from 0 to 1.
    Ratio,
    /// Microseconds.
    Time,
}

impl Measure {
    /// Its name in scenario files.
    pub fn as_str(self) -> &'static str {
        match self {
            Measure::Goodput => "goodput",
            Measure::WireBytes => "wire_bytes",
            Measure::LossRatio => "loss_ratio",
            Measure::InTimeRatio => "in_time_ratio",
            Measure::DeliveredRatio => "delivered_ratio",
            Measure::P50Latency => "p50_latency",
            Measure::P95Latency => "p95_latency",
            Measure::P99Latency => "p99_latency",
            Measure::P999Latency => "p999_latency",
            Measure::MaxLatency => "max_latency",
            Measure::P99PacketDelay => "p99_packet_delay",
            Measure::MaxPacketDelay => "max_packet_delay",
            Measure::LongestGap => "longest_gap",
        }
    }

    /// Its unit.
    pub fn unit(self) -> Unit {
        match self {
            Measure::Goodput => Unit::Rate,
            Measure::WireBytes => Unit::Size,
            Measure::LossRatio | Measure::InTimeRatio | Measure::DeliveredRatio => Unit::Ratio,
            Measure::P50Latency
            | Measure::P95Latency
            | Measure::P99Latency
            | Measure::P999Latency
            | Measure::MaxLatency
            | Measure::P99PacketDelay
            | Measure::MaxPacketDelay
            | Measure::LongestGap => Unit::Time,
        }
    }

    /// Whether a path has it.
    pub fn is_of_path(self) -> bool {
        matches!(self, Measure::Goodput | Measure::WireBytes | Measure::LossRatio)
    }

    /// Whether a flow has it.
    pub fn is_of_flow(self) -> bool {
        !matches!(self, Measure::WireBytes | Measure::LossRatio)
    }

    /// Whether it can be taken over a part of the run.
    pub fn is_over_time(self) -> bool {
        self == Measure::Goodput
    }
}

/// One assertion: a measure stays within its limits.
#[derive(Debug, Clone, PartialEq)]
pub struct Check {
    /// What it looks at.
    pub target: Target,
    /// What it measures.
    pub measure: Measure,
    /// Direction, for the goodput of a path; without it, the one that the run is about.
    pub direction: Option<Direction>,
    /// The part of the run, in microseconds; `None`: all of it.
    pub window_us: Option<(u64, u64)>,
    /// Lower limit in the unit of the measure.
    pub at_least: Option<f64>,
    /// Upper limit likewise.
    pub at_most: Option<f64>,
    /// Schedulers it is about, as the scenario names them; empty: all.
    pub schedulers: Vec<String>,
}

/// What a check found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// The check in words: target, measure and part of the run.
    pub check: String,
    /// What was measured.
    pub measured: String,
    /// What was asked for.
    pub limit: String,
    /// Whether the measure was within its limits.
    pub pass: bool,
}

impl Check {
    /// Judges a run; `None` if the check is not about its scheduler. A measure that the run lacks fails.
    pub fn judge(&self, run: &RunResult) -> Option<Verdict> {
        if !self.schedulers.is_empty() && !self.schedulers.contains(&run.scheduler) {
            return None;
        }
        let measured = self.measure(run);
        let within = |value: f64| {
            self.at_least.is_none_or(|limit| value >= limit)
                && self.at_most.is_none_or(|limit| value <= limit)
        };
        Some(Verdict {
            check: self.describe(),
            measured: measured.map_or_else(|| "nothing".into(), |value| self.show(value)),
            limit: self.limit(),
            pass: measured.is_some_and(within),
        })
    }

    fn measure(&self, run: &RunResult) -> Option<f64> {
        match &self.target {
            Target::Path(name) => {
                let path = run.paths.iter().find(|path| path.name == *name)?;
                self.measure_path(path, run)
            }
            Target::Flow(name) => {
                let flow = run.flows.iter().find(|flow| flow.name == *name)?;
                self.measure_flow(flow, run)
            }
        }
    }

    fn measure_path(&self, path: &PathResult, run: &RunResult) -> Option<f64> {
        let totals = &path.totals;
        match self.measure {
            Measure::Goodput => {
                let rates = path.series.rate_bps(self.direction.unwrap_or(run.direction));
                let window = self.window_us.unwrap_or((0, run.duration_us));
                mean_rate(&path.series.at_us, rates, window)
            }
            Measure::WireBytes => Some((totals.wire_bytes_down + totals.wire_bytes_up) as f64),
            Measure::LossRatio => {
                (totals.packets > 0).then(|| totals.lost_packets as f64 / totals.packets as f64)
            }
            _ => None,
        }
    }

    fn measure_flow(&self, flow: &FlowResult, run: &RunResult) -> Option<f64> {
        let latency = |pick: fn(&Percentiles) -> u64| flow.latency.as_ref().map(|all| pick(all) as f64);
        let packets = |pick: fn(&Percentiles) -> u64| flow.packet_delay.as_ref().map(|all| pick(all) as f64);
        match self.measure {
            Measure::Goodput => {
                let window = self.window_us.unwrap_or((0, run.duration_us));
                Some(flow.goodput_within(window))
            }
            Measure::InTimeRatio => Some(flow.completion_rate),
            Measure::DeliveredRatio => Some(flow.total.delivered_ratio()),
            Measure::P50Latency => latency(|all| all.p50_us),
            Measure::P95Latency => latency(|all| all.p95_us),
            Measure::P99Latency => latency(|all| all.p99_us),
            Measure::P999Latency => latency(|all| all.p999_us),
            Measure::MaxLatency => latency(|all| all.max_us),
            Measure::P99PacketDelay => packets(|all| all.p99_us),
            Measure::MaxPacketDelay => packets(|all| all.max_us),
            Measure::LongestGap => Some(flow.longest_gap_us as f64),
            Measure::WireBytes | Measure::LossRatio => None,
        }
    }

    fn describe(&self) -> String {
        let target = match &self.target {
            Target::Path(name) => format!("path {name}"),
            Target::Flow(name) => format!("flow {name}"),
        };
        let direction = self.direction.map(|direction| format!(" {}", word(direction))).unwrap_or_default();
        let window = self
            .window_us
            .map(|(from, to)| format!(" from {} to {}", format::time(from), format::time(to)))
            .unwrap_or_default();
        format!("{target}: {}{direction}{window}", self.measure.as_str())
    }

    fn limit(&self) -> String {
        let least = self.at_least.map(|limit| format!("at least {}", self.show(limit)));
        let most = self.at_most.map(|limit| format!("at most {}", self.show(limit)));
        [least, most].into_iter().flatten().collect::<Vec<_>>().join(", ")
    }

    fn show(&self, value: f64) -> String {
        match self.measure.unit() {
            Unit::Rate => format::rate(value),
            Unit::Size => format::size(value),
            Unit::Ratio => format!("{:.3} %", value * 100.0),
            Unit::Time => format::time(value as u64),
        }
    }
}

/// Mean over the samples that end within the window, each weighted by the time it covers.
fn mean_rate(at_us: &[u64], rates: &[u64], (from_us, to_us): (u64, u64)) -> Option<f64> {
    let starts = std::iter::once(0).chain(at_us.iter().copied());
    let (mut weighted, mut covered) = (0.0, 0u64);
    for ((&end, start), &rate) in at_us.iter().zip(starts).zip(rates) {
        let overlap = end.min(to_us).saturating_sub(start.max(from_us));
        weighted += rate as f64 * overlap as f64;
        covered += overlap;
    }
    (covered > 0).then(|| weighted / covered as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::sample::run;

    fn check(target: Target, measure: Measure) -> Check {
        Check {
            target,
            measure,
            direction: None,
            window_us: None,
            at_least: None,
            at_most: None,
            schedulers: Vec::new(),
        }
    }

    #[test]
    fn rates_are_means_over_the_window() {
        let (at, rates) = ([0, 100, 200, 300], [0, 10, 20, 30]);
        assert_eq!(mean_rate(&at, &rates, (0, 300)), Some(20.0));
        assert_eq!(mean_rate(&at, &rates, (100, 200)), Some(20.0));
        assert_eq!(mean_rate(&at, &rates, (50, 150)), Some(15.0));
        assert_eq!(mean_rate(&at, &rates, (300, 400)), None);
    }

    #[test]
    fn a_limit_decides() {
        let run = run("minrtt", 1);
        let flow = Target::Flow(run.flows[0].name.clone());
        let measured = run.flows[0].completion_rate;
        let holds = Check {
            at_least: Some(measured),
            at_most: Some(measured),
            ..check(flow.clone(), Measure::InTimeRatio)
        };
        assert!(holds.judge(&run).unwrap().pass);
        let fails = Check { at_least: Some(measured + 0.01), ..check(flow, Measure::InTimeRatio) };
        let verdict = fails.judge(&run).unwrap();
        assert!(!verdict.pass);
        assert!(verdict.check.ends_with(": in_time_ratio") && verdict.limit.starts_with("at least "));
    }

    #[test]
    fn another_scheduler_is_not_judged() {
        let run = run("minrtt", 1);
        let target = Target::Path(run.paths[0].name.clone());
        let mut check = Check { schedulers: vec!["redundant".into()], ..check(target, Measure::Goodput) };
        assert_eq!(check.judge(&run), None);
        check.schedulers.push("minrtt".into());
        check.window_us = Some((1_000_000, 2_000_000));
        check.at_least = Some(1_000_000.0);
        assert!(check.judge(&run).unwrap().pass);
    }

    #[test]
    fn what_was_not_measured_fails() {
        let run = run("minrtt", 1);
        let check = Check { at_most: Some(1.0), ..check(Target::Path("none".into()), Measure::LossRatio) };
        let verdict = check.judge(&run).unwrap();
        assert!(!verdict.pass && verdict.measured == "nothing");
    }
}

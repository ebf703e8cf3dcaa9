//! What is measured of a run, and what many seeds say of it.

use serde::Serialize;

use crate::result::{RunResult, Tally};

/// One number of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Measure {
    /// 99th percentile of the delay of all packets with new data, from the offering of the block, in ms.
    P99,
    /// The largest, in ms.
    Max,
    /// Blocks in time of all that were offered, all flows together, in per cent.
    InTime,
    /// Packets that either end declared lost.
    Lost,
    /// Block bytes sent again of all bytes sent, in per cent.
    Again,
}

/// The numbers of one run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Measures {
    /// Seed of the run.
    pub seed: u64,
    /// 99th percentile of the packets' delay in ms; none if no packet arrived. Packets that never arrived are not
    /// in it: see `in_time_percent`.
    pub p99_ms: Option<f64>,
    /// Largest delay of a packet in ms.
    pub max_ms: Option<f64>,
    /// Blocks in time, in per cent; none if no block was due.
    pub in_time_percent: Option<f64>,
    /// Packets declared lost.
    pub lost_packets: u64,
    /// Block bytes sent again, in per cent of all bytes; none if nothing was sent.
    pub again_percent: Option<f64>,
}

impl Measures {
    /// Takes them from a result.
    pub fn of(run: &RunResult) -> Self {
        let blocks = run.flows.iter().fold(Tally::default(), |sum, flow| sum.plus(&flow.total));
        let delay = run.packet_delay.as_ref();
        Self {
            seed: run.seed,
            p99_ms: delay.map(|all| all.p99_us as f64 / 1e3),
            max_ms: delay.map(|all| all.max_us as f64 / 1e3),
            in_time_percent: blocks.in_time_ratio().map(percent),
            lost_packets: run.lost_packets(),
            again_percent: run.retransmission_ratio().map(percent),
        }
    }

    /// One of them; none if there was nothing to measure.
    pub fn get(&self, measure: Measure) -> Option<f64> {
        match measure {
            Measure::P99 => self.p99_ms,
            Measure::Max => self.max_ms,
            Measure::InTime => self.in_time_percent,
            Measure::Lost => Some(self.lost_packets as f64),
            Measure::Again => self.again_percent,
        }
    }
}

/// A share as per cent without what the multiplication leaves behind.
fn percent(share: f64) -> f64 {
    (share * 1e8).round() / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::sample::run;

    #[test]
    fn numbers_are_those_of_the_run() {
        let run = run("minrtt", 3);
        let measures = Measures::of(&run);
        assert_eq!((measures.seed, measures.lost_packets), (3, run.lost_packets()));
        assert_eq!(measures.in_time_percent.map(|percent| percent / 100.0), run.flows[0].completion_rate);
        assert_eq!(measures.get(Measure::P99).is_some(), run.packet_delay.is_some());
    }
}

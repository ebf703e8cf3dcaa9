//! Lateness of the emulation.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use squall_trace::Micros;

/// Distribution of the time from when a packet was due to when it was handed to the kernel.
#[derive(Debug, Clone)]
pub(super) struct Slip {
    histogram: Histogram<u64>,
}

/// Lateness of packets handed to the kernel, in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SlipReport {
    /// Packets measured.
    pub count: u64,
    /// Median.
    #[serde(rename = "p50_us")]
    pub p50: Micros,
    /// 99th percentile.
    #[serde(rename = "p99_us")]
    pub p99: Micros,
    /// Maximum.
    #[serde(rename = "max_us")]
    pub max: Micros,
}

/// Longest slip that is measured: a minute. Longer ones count as a minute.
const LONGEST: Micros = 60_000_000;

impl Slip {
    pub(super) fn new() -> Self {
        let histogram =
            Histogram::new_with_max(LONGEST, 3).expect("three digits up to a minute are valid bounds");
        Self { histogram }
    }

    pub(super) fn record(&mut self, late: Micros) {
        self.histogram.saturating_record(late);
    }

    pub(super) fn report(&self) -> SlipReport {
        SlipReport {
            count: self.histogram.len(),
            p50: self.histogram.value_at_quantile(0.5),
            p99: self.histogram.value_at_quantile(0.99),
            max: self.histogram.max(),
        }
    }
}

//! Percentiles of times, and of which times.

use std::fmt;

use crate::result::Percentiles;

/// Which value stands for all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Quantile {
    /// The mean.
    Mean,
    /// The median.
    P50,
    /// 90th percentile.
    P90,
    /// 95th percentile.
    P95,
    /// 99th percentile.
    P99,
    /// 99.9th percentile.
    P999,
    /// 99.99th percentile.
    P9999,
    /// The largest.
    Max,
}

const QUANTILES: [(Quantile, &str); 8] = [
    (Quantile::Mean, "mean"),
    (Quantile::P50, "p50"),
    (Quantile::P90, "p90"),
    (Quantile::P95, "p95"),
    (Quantile::P99, "p99"),
    (Quantile::P999, "p999"),
    (Quantile::P9999, "p9999"),
    (Quantile::Max, "max"),
];

/// Which times, in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Times {
    /// Block offered → delivered, of the delivered ones; flow, class.
    Latency,
    /// Block offered → last byte sent for the first time, of the delivered ones; flow, class.
    Waiting,
    /// Block offered → packet with new bytes of it arrived; run, flow.
    PacketDelay,
    /// Picture offered → it can be decoded; flow.
    PictureLatency,
    /// The least time from offering a block to its delivery, each with the network to itself (the clairvoyant
    /// bound); flow, class.
    LeastLatency,
    /// Smoothed round-trip time, one value each 100 ms; path.
    Rtt,
}

const TIMES: [(Times, &str); 6] = [
    (Times::Latency, "latency"),
    (Times::Waiting, "waiting"),
    (Times::PacketDelay, "packet_delay"),
    (Times::PictureLatency, "picture_latency"),
    (Times::LeastLatency, "least_latency"),
    (Times::Rtt, "rtt"),
];

impl Quantile {
    /// The value, in microseconds.
    pub fn of(self, all: &Percentiles) -> u64 {
        match self {
            Quantile::Mean => all.mean_us,
            Quantile::P50 => all.p50_us,
            Quantile::P90 => all.p90_us,
            Quantile::P95 => all.p95_us,
            Quantile::P99 => all.p99_us,
            Quantile::P999 => all.p999_us,
            Quantile::P9999 => all.p9999_us,
            Quantile::Max => all.max_us,
        }
    }

    /// Every one.
    pub fn all() -> impl Iterator<Item = Self> {
        QUANTILES.iter().map(|row| row.0)
    }

    pub(super) fn named(name: &str) -> Option<Self> {
        QUANTILES.iter().find(|row| row.1 == name).map(|row| row.0)
    }

    pub(super) fn names() -> String {
        QUANTILES.map(|row| row.1).join("_, ") + "_"
    }
}

impl Times {
    /// Every one.
    pub fn all() -> impl Iterator<Item = Self> {
        TIMES.iter().map(|row| row.0)
    }

    pub(super) fn named(name: &str) -> Option<Self> {
        TIMES.iter().find(|row| row.1 == name).map(|row| row.0)
    }

    pub(super) fn names() -> String {
        TIMES.map(|row| row.1).join(", ")
    }
}

impl fmt::Display for Quantile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(QUANTILES.iter().find(|row| row.0 == *self).expect("every quantile has a name").1)
    }
}

impl fmt::Display for Times {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(TIMES.iter().find(|row| row.0 == *self).expect("all times have a name").1)
    }
}

//! The measures of a run, by name: what checks assert, claims compare and figures show.

mod limit;
mod pictures;
mod quantile;
mod subject;

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

pub use quantile::{Quantile, Times};
pub(crate) use subject::BY_RELIABILITY;
pub use subject::{Subject, View};

use squall_units::format;

/// One number of a run, a path, a flow or a class of one. Its text is its name in scenario files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Measure {
    /// A mean or percentile of times, in microseconds: `p99_latency`, `max_waiting`, `mean_packet_delay`.
    Time(Quantile, Times),
    /// Any other.
    Count(Count),
}

/// The measures that are not percentiles.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Count {
    /// New data to the receiver's application in bits per second; the whole run or a part of it.
    Goodput,
    /// UDP payload sent by both ends, in bytes.
    WireBytes,
    /// UDP payload of a path / that of all paths.
    WireRatio,
    /// UDP payload sent over metered paths / that of all paths.
    MeteredRatio,
    /// New data that arrived over a path / that of all paths; of a flow or class, its own data.
    PathRatio,
    /// Packets declared lost.
    LostPackets,
    /// Packets declared lost / packets sent.
    LossRatio,
    /// Block bytes sent again after they were declared lost.
    RetransmittedBytes,
    /// Block bytes sent again, or on a further path, while the first copy was in flight.
    ReinjectedBytes,
    /// Block bytes that arrived when they were already there.
    DuplicateBytes,
    /// Block bytes sent again, for whatever reason / all bytes of the sender.
    RetransmissionRatio,
    /// Completion rate: blocks in time / offered, undecided ones left out.
    InTimeRatio,
    /// Stall rate: blocks that were late or never came / offered, undecided ones left out.
    LateRatio,
    /// The same by packets: bytes that arrived in time / bytes offered.
    InTimeBytesRatio,
    /// Bytes of blocks in time over the run, in bits per second.
    InTimeBitrate,
    /// The highest completion rate that any scheduler could have had (the clairvoyant bound).
    BoundInTimeRatio,
    /// The same by packets.
    BoundInTimeBytesRatio,
    /// The highest in-time bitrate that any scheduler could have had, in bits per second.
    BoundInTimeBitrate,
    /// Completion rate / the highest possible.
    InTimeOfBound,
    /// The same by packets.
    InTimeBytesOfBound,
    /// Blocks delivered / offered.
    DeliveredRatio,
    /// Efficiency: blocks in time / blocks delivered (DAMS §V-A).
    Efficiency,
    /// Blocks that were given up.
    CancelledBlocks,
    /// Blocks that never came, though some of their data did.
    WastedBlocks,
    /// Bytes that the application handed over, in bits per second: the bitrate of an encoder.
    OfferedBitrate,
    /// Longest time without a delivery, in microseconds.
    LongestGap,
    /// Pictures shown a second.
    MeanFps,
    /// Share of seconds with fewer than 24 pictures.
    BelowSmoothRatio,
    /// Pictures shown / pictures.
    ShownRatio,
    /// Times at which the film stood still.
    Stalls,
    /// The same in a minute.
    StallsPerMinute,
    /// Time for which it did, in microseconds.
    StallTime,
    /// The longest of these, in microseconds.
    LongestStall,
    /// Rebuffering time, in microseconds.
    RebufferingTime,
    /// Recoveries of radios that the sender heard of.
    Recoveries,
    /// Mean distance between the level that a radio reported last and the true one / the true one in dBm.
    MeanSignalBias,
    /// The median of the same.
    MedianSignalBias,
    /// Real time that schedulers took for a block, in microseconds; only of scenarios that are timed.
    SchedulingTime,
    /// User-perceived ratio of 360° video: bytes in front of the viewer that were in time / all of them.
    PerceivedRatio,
    /// PSNR in dB of the pictures that were shown against their sources, the mean over the pictures.
    Psnr,
    /// The median.
    MedianPsnr,
    /// A twentieth of the pictures have less.
    P5Psnr,
    /// PSNR of the mean squared error of all pictures.
    TotalPsnr,
    /// How much higher the mean would be if everything had arrived in time.
    PsnrLoss,
    /// Structural similarity of the pictures that were shown to their sources, the mean over the pictures.
    Ssim,
    /// The median.
    MedianSsim,
    /// A twentieth of the pictures have less.
    P5Ssim,
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
    /// Decibels.
    Level,
    /// A likeness, 1 for equal pictures.
    Likeness,
    /// None.
    Number,
}

impl Unit {
    /// A value with its unit, as people write it.
    pub fn show(self, value: f64) -> String {
        match self {
            Unit::Rate => format::rate(value),
            Unit::Size => format::size(value),
            Unit::Ratio => format!("{:.3} %", value * 100.0),
            Unit::Time => format::time(value as u64),
            Unit::Level => format!("{value:.2} dB"),
            Unit::Likeness => format!("{value:.4}"),
            Unit::Number => format::digits(value),
        }
    }
}

/// Every [`Count`] with its name and unit.
const COUNTS: [(Count, &str, Unit); 47] = [
    (Count::Goodput, "goodput", Unit::Rate),
    (Count::WireBytes, "wire_bytes", Unit::Size),
    (Count::WireRatio, "wire_ratio", Unit::Ratio),
    (Count::MeteredRatio, "metered_ratio", Unit::Ratio),
    (Count::PathRatio, "path_ratio", Unit::Ratio),
    (Count::LostPackets, "lost_packets", Unit::Number),
    (Count::LossRatio, "loss_ratio", Unit::Ratio),
    (Count::RetransmittedBytes, "retransmitted_bytes", Unit::Size),
    (Count::ReinjectedBytes, "reinjected_bytes", Unit::Size),
    (Count::DuplicateBytes, "duplicate_bytes", Unit::Size),
    (Count::RetransmissionRatio, "retransmission_ratio", Unit::Ratio),
    (Count::InTimeRatio, "in_time_ratio", Unit::Ratio),
    (Count::LateRatio, "late_ratio", Unit::Ratio),
    (Count::InTimeBytesRatio, "in_time_bytes_ratio", Unit::Ratio),
    (Count::InTimeBitrate, "in_time_bitrate", Unit::Rate),
    (Count::BoundInTimeRatio, "bound_in_time_ratio", Unit::Ratio),
    (Count::BoundInTimeBytesRatio, "bound_in_time_bytes_ratio", Unit::Ratio),
    (Count::BoundInTimeBitrate, "bound_in_time_bitrate", Unit::Rate),
    (Count::InTimeOfBound, "in_time_of_bound", Unit::Ratio),
    (Count::InTimeBytesOfBound, "in_time_bytes_of_bound", Unit::Ratio),
    (Count::DeliveredRatio, "delivered_ratio", Unit::Ratio),
    (Count::Efficiency, "efficiency", Unit::Ratio),
    (Count::CancelledBlocks, "cancelled_blocks", Unit::Number),
    (Count::WastedBlocks, "wasted_blocks", Unit::Number),
    (Count::OfferedBitrate, "offered_bitrate", Unit::Rate),
    (Count::LongestGap, "longest_gap", Unit::Time),
    (Count::MeanFps, "mean_fps", Unit::Number),
    (Count::BelowSmoothRatio, "below_smooth_ratio", Unit::Ratio),
    (Count::ShownRatio, "shown_ratio", Unit::Ratio),
    (Count::Stalls, "stalls", Unit::Number),
    (Count::StallsPerMinute, "stalls_per_minute", Unit::Number),
    (Count::StallTime, "stall_time", Unit::Time),
    (Count::LongestStall, "longest_stall", Unit::Time),
    (Count::RebufferingTime, "rebuffering_time", Unit::Time),
    (Count::Recoveries, "recoveries", Unit::Number),
    (Count::MeanSignalBias, "mean_signal_bias", Unit::Ratio),
    (Count::MedianSignalBias, "median_signal_bias", Unit::Ratio),
    (Count::SchedulingTime, "scheduling_time", Unit::Time),
    (Count::PerceivedRatio, "perceived_ratio", Unit::Ratio),
    (Count::Psnr, "psnr", Unit::Level),
    (Count::MedianPsnr, "median_psnr", Unit::Level),
    (Count::P5Psnr, "p5_psnr", Unit::Level),
    (Count::TotalPsnr, "total_psnr", Unit::Level),
    (Count::PsnrLoss, "psnr_loss", Unit::Level),
    (Count::Ssim, "ssim", Unit::Likeness),
    (Count::MedianSsim, "median_ssim", Unit::Likeness),
    (Count::P5Ssim, "p5_ssim", Unit::Likeness),
];

impl Measure {
    /// Its unit.
    pub fn unit(self) -> Unit {
        match self {
            Measure::Time(..) => Unit::Time,
            Measure::Count(count) => row(count).2,
        }
    }

    /// The measure of what no scheduler can surpass in this one, if there is a bound for it. A limit for the
    /// subject alone: with others on the same network it may be out of reach. Latencies are of the blocks that
    /// were delivered, so a scheduler that gives up the slow ones can come below the bound of all.
    pub fn bound(self) -> Option<Self> {
        Some(match self {
            Measure::Time(quantile, Times::Latency) => Measure::Time(quantile, Times::LeastLatency),
            Measure::Count(Count::InTimeRatio) => Measure::Count(Count::BoundInTimeRatio),
            Measure::Count(Count::InTimeBytesRatio) => Measure::Count(Count::BoundInTimeBytesRatio),
            Measure::Count(Count::InTimeBitrate) => Measure::Count(Count::BoundInTimeBitrate),
            _ => return None,
        })
    }

    /// Every measure.
    pub fn all() -> impl Iterator<Item = Self> {
        let times =
            Times::all().flat_map(|times| Quantile::all().map(move |quantile| Self::Time(quantile, times)));
        COUNTS.iter().map(|row| Self::Count(row.0)).chain(times)
    }

    /// Whether it can be taken over a part of the run.
    pub fn is_over_time(self) -> bool {
        self == Measure::Count(Count::Goodput)
    }
}

fn row(count: Count) -> &'static (Count, &'static str, Unit) {
    COUNTS.iter().find(|row| row.0 == count).expect("every count has a row")
}

impl fmt::Display for Measure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Measure::Time(quantile, times) => write!(f, "{quantile}_{times}"),
            Measure::Count(count) => f.write_str(row(*count).1),
        }
    }
}

impl From<Measure> for String {
    fn from(measure: Measure) -> Self {
        measure.to_string()
    }
}

impl FromStr for Measure {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let counted = COUNTS.iter().find(|row| row.1 == name).map(|row| Measure::Count(row.0));
        let timed = || {
            let (quantile, times) = name.split_once('_')?;
            Some(Measure::Time(Quantile::named(quantile)?, Times::named(times)?))
        };
        counted.or_else(timed).ok_or_else(|| {
            if let Some(meant) = meant(name) {
                return format!(
                    "unknown measure {name:?}; did you mean {meant}? docs/scenarios.md lists all"
                );
            }
            let counts = COUNTS.iter().map(|row| row.1).collect::<Vec<_>>().join(", ");
            format!(
                "unknown measure {name:?}; there are {counts}, and {} with {} before it",
                Times::names(),
                Quantile::names()
            )
        })
    }
}

/// The measure that is written nearly so.
fn meant(name: &str) -> Option<String> {
    let all = || Measure::all().map(|measure| measure.to_string());
    let begins = all().find(|known| name.len() > 2 && known.starts_with(name));
    let nearest = || {
        let near = all().map(|known| (strsim::jaro_winkler(name, &known), known));
        near.max_by(|a, b| a.0.total_cmp(&b.0)).filter(|(near, _)| *near > NEAR).map(|(_, known)| known)
    };
    begins.or_else(nearest)
}

/// How like a name must be to another one to be taken for a slip, from 0 to 1 (Jaro-Winkler).
const NEAR: f64 = 0.88;

impl TryFrom<String> for Measure {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        name.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        for (_, name, _) in COUNTS {
            assert_eq!(name.parse::<Measure>().map(|measure| measure.to_string()), Ok(name.to_owned()));
        }
        for name in ["p50_latency", "p9999_packet_delay", "max_waiting", "mean_picture_latency", "p99_rtt"] {
            assert_eq!(name.parse::<Measure>().map(|measure| measure.to_string()), Ok(name.to_owned()));
        }
        let error = "p98_latency".parse::<Measure>().unwrap_err();
        assert!(error.contains("did you mean p99_latency?"), "{error}");
        let slips = ["in_time", "p99", "goodputs", "p99_latncy"].map(|name| meant(name).unwrap_or_default());
        assert_eq!(slips, ["in_time_ratio", "p99_latency", "goodput", "p99_latency"]);
        let error = "speed".parse::<Measure>().unwrap_err();
        assert!(error.contains("in_time_ratio") && error.contains("p999"), "{error}");
    }
}

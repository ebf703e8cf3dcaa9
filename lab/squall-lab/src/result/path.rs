//! Results of one path.

use serde::{Deserialize, Serialize};
use squall_net::Direction;
use squall_proto::signal::AlertKind;

use super::{Percentiles, inputs::PathTotals};

/// Measurements of one path.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct PathResult {
    /// Name of the path.
    pub name: String,
    /// The path is metered.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub metered: bool,
    /// Totals over the run.
    #[serde(flatten)]
    pub totals: PathTotals,
    /// New data received by the client's application, in bits per second over the length of the
    /// run.
    pub goodput_down_bps: u64,
    /// New data received by the server's application, in bits per second over the length of the
    /// run.
    pub goodput_up_bps: u64,
    /// Round-trip times.
    pub rtt: Option<Percentiles>,
    /// State changes over time, from the sender's view. Each state lasts until the next.
    pub states: Vec<StateChange>,
    /// Times at which the emulated link carried nothing, by script or, as with a radio, according
    /// to the samples.
    pub outages: Vec<Interval>,
    /// Reports of the radios at both ends to the sender; empty for sessions that do not use
    /// signals.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub alerts: Vec<PathAlert>,
    /// Number of recoveries that a radio reported to the sender.
    #[serde(default)]
    pub recoveries: u64,
    /// Deviation of the radio's reports from the truth, if the path has a radio.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal_bias: Option<SignalBias>,
    /// Samples over time.
    pub series: PathSeries,
}

impl PathResult {
    /// Bytes of UDP payload that both ends sent.
    pub fn wire_bytes(&self) -> u64 {
        self.totals.wire_bytes_down + self.totals.wire_bytes_up
    }

    /// Bytes of UDP payload that the sender of this direction sent.
    pub fn sent_bytes(&self, direction: Direction) -> u64 {
        match direction {
            Direction::Down => self.totals.wire_bytes_down,
            Direction::Up => self.totals.wire_bytes_up,
        }
    }
}

/// State of a path from the sender's view.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PathState {
    /// Not yet validated.
    Opening,
    /// In use.
    Active,
    /// Usable, but in reserve.
    Standby,
    /// Silent for too long.
    Suspect,
    /// Taken out of use by the signal layer or the application.
    Deactivated,
    /// Carries no data until probes confirm it.
    Down,
    /// Confirmed by probes, but not yet at full rate.
    Recovering,
    /// Closed for good.
    Closed,
}

impl PathState {
    /// Lower-case name.
    pub fn as_str(self) -> &'static str {
        match self {
            PathState::Opening => "opening",
            PathState::Active => "active",
            PathState::Standby => "standby",
            PathState::Suspect => "suspect",
            PathState::Deactivated => "deactivated",
            PathState::Down => "down",
            PathState::Recovering => "recovering",
            PathState::Closed => "closed",
        }
    }
}

/// A path's transition to a state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct StateChange {
    /// Time in microseconds.
    pub at_us: u64,
    /// The new state.
    pub state: PathState,
}

/// A radio's report to the sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathAlert {
    /// Time in microseconds.
    pub at_us: u64,
    /// Kind of the report.
    pub kind: AlertWord,
}

/// States of a radio's watermarks (STORM §3.2.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AlertWord {
    /// The signal is weak, or weaker than at the last warning.
    Warning,
    /// The link is practically lost.
    Outage,
    /// The path can be used as before.
    Recovery,
}

impl From<AlertKind> for AlertWord {
    fn from(kind: AlertKind) -> Self {
        match kind {
            AlertKind::Warning => AlertWord::Warning,
            AlertKind::Outage => AlertWord::Outage,
            AlertKind::Recovery => AlertWord::Recovery,
        }
    }
}

/// Deviation of a radio's latest reported levels from the true ones, sampled every 100 ms:
/// |reported − true| / |true|, of RSRP in dBm, or of RSSI if there is no RSRP (STORM Fig. 12).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct SignalBias {
    /// Mean; not negative.
    pub mean: f64,
    /// Median; not negative.
    pub median: f64,
}

/// A time interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interval {
    /// Start in microseconds.
    pub from_us: u64,
    /// End in microseconds.
    pub to_us: u64,
}

/// Samples of a path in columns of equal length. Rates are averages since the previous sample.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathSeries {
    /// Times in microseconds.
    pub at_us: Vec<u64>,
    /// New data to the client's application, in bits per second.
    pub down_bps: Vec<u64>,
    /// New data to the server's application, in bits per second.
    pub up_bps: Vec<u64>,
    /// Smoothed round-trip time in microseconds.
    pub srtt_us: Vec<u64>,
    /// Bytes in flight.
    pub in_flight: Vec<u64>,
    /// Congestion window in bytes.
    pub window: Vec<u64>,
    /// Bytes in the queue of the emulated link.
    pub queue: Vec<u64>,
    /// Rate of the emulated link in bits per second, where known.
    pub link_bps: Vec<Option<u64>>,
    /// Quality index of the client's radio in thousandths, where the client uses it. Empty if it
    /// never did.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub quality: Vec<Option<u16>>,
    /// Signal factor F by which the sender weights the path, in thousandths (STORM Eq. 4). Empty if
    /// it was never below 1,000.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub factor: Vec<u16>,
}

impl PathSeries {
    /// The rate column of one direction.
    pub fn rate_bps(&self, direction: Direction) -> &[u64] {
        match direction {
            Direction::Down => &self.down_bps,
            Direction::Up => &self.up_bps,
        }
    }
}

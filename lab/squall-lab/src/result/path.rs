//! What is recorded of one path.

use serde::{Deserialize, Serialize};
use squall_net::Direction;
use squall_proto::signal::AlertKind;

use super::{Percentiles, inputs::PathTotals};

/// What one path did.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct PathResult {
    /// Its name.
    pub name: String,
    /// Whether its traffic costs money.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub metered: bool,
    /// Totals over the run.
    #[serde(flatten)]
    pub totals: PathTotals,
    /// New data that the client's application got over it, in bits per second over the length of the run.
    pub goodput_down_bps: u64,
    /// New data that the server's application got over it, in bits per second over the length of the run.
    pub goodput_up_bps: u64,
    /// Round-trip times.
    pub rtt: Option<Percentiles>,
    /// Its states over time, as the sending end saw them; each lasts until the next.
    pub states: Vec<StateChange>,
    /// Times at which the emulated link carried nothing: by script, or where samples found it so, as by a radio.
    pub outages: Vec<Interval>,
    /// What the radios at both ends of the path reported to the sending end; empty for a session that does not
    /// use signals.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub alerts: Vec<PathAlert>,
    /// How often a radio reported its recovery to the sending end.
    #[serde(default)]
    pub recoveries: u64,
    /// How far what the radio reported was from the truth, if the path has a radio.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal_bias: Option<SignalBias>,
    /// Samples over time.
    pub series: PathSeries,
}

impl PathResult {
    /// UDP payload that both ends sent.
    pub fn wire_bytes(&self) -> u64 {
        self.totals.wire_bytes_down + self.totals.wire_bytes_up
    }

    /// UDP payload of the end that sends in this direction.
    pub fn sent_bytes(&self, direction: Direction) -> u64 {
        match direction {
            Direction::Down => self.totals.wire_bytes_down,
            Direction::Up => self.totals.wire_bytes_up,
        }
    }
}

/// State of a path as the sending end sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PathState {
    /// Not yet validated.
    Opening,
    /// In use.
    Active,
    /// Usable, but held back.
    Standby,
    /// Silent for too long.
    Suspect,
    /// Taken out of use by the signal layer or the application.
    Deactivated,
    /// Carries no data until it proves itself.
    Down,
    /// Proved itself, not yet at full rate.
    Recovering,
    /// Closed for good.
    Closed,
}

impl PathState {
    /// The word for it.
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

/// A path enters a state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct StateChange {
    /// When, in microseconds.
    pub at_us: u64,
    /// The new state.
    pub state: PathState,
}

/// A radio reported to the sending end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathAlert {
    /// When, in microseconds.
    pub at_us: u64,
    /// What.
    pub kind: AlertWord,
}

/// What a radio's watermarks say (STORM §3.2.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AlertWord {
    /// The signal is weak, or weaker than when it was said last.
    Warning,
    /// The link is as good as gone.
    Outage,
    /// The path may be used as before.
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

/// How far the levels that a radio reported last are from the true ones, each 100 ms: |reported − true| / |true|, of
/// RSRP in dBm, or of RSSI where there is none (STORM Fig. 12).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct SignalBias {
    /// The mean, 0 and up.
    pub mean: f64,
    /// The median, 0 and up.
    pub median: f64,
}

/// A stretch of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interval {
    /// Start in microseconds.
    pub from_us: u64,
    /// End in microseconds.
    pub to_us: u64,
}

/// Samples of a path in columns of equal length; the rates of a sample are over the time since the one before.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathSeries {
    /// When, in microseconds.
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
    /// What the emulated link could carry, in bits per second, where known.
    pub link_bps: Vec<Option<u64>>,
    /// Quality index of the radio at the client's end, in thousandths, where the client uses it. Empty if it
    /// never did.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub quality: Vec<Option<u16>>,
    /// Signal factor F by which the sending end weighs the path, in thousandths (STORM Eq. 4). Empty if it never
    /// was below 1,000.
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

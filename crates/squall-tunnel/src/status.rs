//! What a tunnel is doing, for people and machines: the answer to `/status`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use squall::{Capacity, PathCapacity};

/// All of it. Numbers count since the program began.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// `entry` or `exit`.
    pub role: String,
    /// Where it connects to, or listens.
    pub address: String,
    /// Who decides what goes where, from the next session on; a session has its own.
    pub scheduler: String,
    /// Seconds since the program began.
    pub uptime_s: f64,
    /// Memory of the process in bytes, where the system tells.
    pub memory_bytes: u64,
    /// Sessions that came up.
    pub sessions_opened: u64,
    /// Attempts to connect that failed, or sessions turned away.
    pub sessions_failed: u64,
    /// What became of connections that have not presented the token; all 0 at an entry.
    pub strangers: StrangersStatus,
    /// Tasks of the process that failed, and were started again unless they belonged to a session.
    pub task_failures: u64,
    /// Sessions that are up.
    pub sessions: Vec<SessionStatus>,
    /// The flows that begin or end here, by name.
    pub flows: Vec<FlowStatus>,
    /// What happened lately, oldest first.
    pub events: Vec<EventStatus>,
}

/// Connections to an exit that have not presented the token.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StrangersStatus {
    /// Handshakes and silent connections now.
    pub pending: u64,
    /// Handshakes that had to prove their address first.
    pub retried: u64,
    /// Connections that made room for others.
    pub displaced: u64,
    /// Connections that said nothing in time.
    pub expired: u64,
    /// Handshakes refused for want of a place.
    pub refused: u64,
}

/// A session with the other end.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SessionStatus {
    /// Number since the program began.
    pub id: u64,
    /// Address of the other end on one of the paths.
    pub peer: String,
    /// Who decides what goes where in it.
    pub scheduler: String,
    /// Whether both ends have agreed on the token.
    pub agreed: bool,
    /// Seconds since it came up.
    pub age_s: f64,
    /// Bytes that were handed over and did not arrive yet.
    pub queued_bytes: u64,
    /// Blocks that were handed over and did not end yet.
    pub open_blocks: u64,
    /// What it can carry.
    #[serde(default)]
    pub capacity: CapacityStatus,
    /// Its paths.
    pub paths: Vec<PathStatus>,
}

/// What a session or a path can carry towards the other end: [`squall::Capacity`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CapacityStatus {
    /// Bits per second of blocks, at present.
    pub now_bps: u64,
    /// Bits per second of blocks, over the next second with a probability of nine in ten.
    pub safe_bps: u64,
    /// Share of the forecasts of the last minute that held.
    pub confidence: f64,
    /// What keeps it from carrying more: `application`, `network`, `budget`, `radio` or `out-of-use`.
    pub limit: String,
}

impl From<&Capacity> for CapacityStatus {
    fn from(capacity: &Capacity) -> Self {
        let Capacity { now, safe, confidence, limit, .. } = *capacity;
        Self { now_bps: now, safe_bps: safe, confidence, limit: limit.name().to_owned() }
    }
}

impl From<&PathCapacity> for CapacityStatus {
    fn from(capacity: &PathCapacity) -> Self {
        let PathCapacity { now, safe, confidence, limit, .. } = *capacity;
        Self { now_bps: now, safe_bps: safe, confidence, limit: limit.name().to_owned() }
    }
}

/// A path of a session. Bytes are those of UDP payload.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PathStatus {
    /// The interface, or the local address.
    pub name: String,
    /// Address of the other end.
    pub remote: String,
    /// `active`, `suspect` or `deactivated`.
    pub state: String,
    /// Whether its bytes cost money.
    pub metered: bool,
    /// Bits per second sent, over the last second.
    pub sent_bps: u64,
    /// Bits per second received, over the last second.
    pub received_bps: u64,
    /// Bytes sent.
    pub sent_bytes: u64,
    /// Bytes received.
    pub received_bytes: u64,
    /// Smoothed round-trip time in microseconds.
    pub srtt_us: u64,
    /// Smallest round-trip time in microseconds.
    pub min_rtt_us: u64,
    /// Share of packets lost over the last two seconds.
    pub loss: f64,
    /// Bytes in flight.
    pub in_flight: u64,
    /// Congestion window in bytes.
    pub window: u64,
    /// Packets with data that were lost.
    pub lost_packets: u64,
    /// Bytes of blocks that were sent again.
    pub repair_bytes: u64,
    /// Times that it was suspected.
    pub suspicions: u64,
    /// What it can carry.
    #[serde(default)]
    pub capacity: CapacityStatus,
}

/// One end of a flow.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FlowStatus {
    /// Its name.
    pub name: String,
    /// `in` or `out`: which end is here.
    pub end: String,
    /// Where datagrams come in, or go out to.
    pub address: String,
    /// What it carries; for `auto`, what that turned out to be.
    pub media: String,
    /// Whether a session carries it.
    pub attached: bool,
    /// From coming in to being of no use, in milliseconds.
    pub latency_ms: u64,
    /// Datagrams that came in here.
    pub datagrams_in: u64,
    /// Of these, datagrams that were too late when they were read, as the process had not run for a while.
    pub datagrams_stale: u64,
    /// Datagrams dropped because they came from others than `from`.
    pub datagrams_foreign: u64,
    /// Datagrams that went out here.
    pub datagrams_out: u64,
    /// Datagrams that the system would not send.
    pub unwritten: u64,
    /// Blocks on their way.
    pub pending: u64,
    /// What was sent, by class.
    pub sent: BTreeMap<String, SentStatus>,
    /// What came from the other end.
    pub received: ReceivedStatus,
    /// From coming in at the other end to going out here.
    pub latency: LatencyStatus,
}

/// Blocks and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Amount {
    /// Frames or single datagrams.
    pub blocks: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// What became of what was sent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SentStatus {
    /// By fate: `delivered`, `expired`, `lost`, `cancelled`, `refused`, `closed`, `unsent`, `overflow`.
    pub fates: BTreeMap<String, Amount>,
}

/// What came.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ReceivedStatus {
    /// By class.
    pub classes: BTreeMap<String, Amount>,
    /// Blocks that came when those after them had left.
    pub late: u64,
    /// Blocks that were waited for in vain.
    pub missing: u64,
    /// Blocks that waited for others before them.
    pub waits: u64,
    /// How long, in all, in microseconds.
    pub waited_us: u64,
}

/// How long datagrams were under way. Percentiles are those of the last 10 to 20 seconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LatencyStatus {
    /// Half of them were at most so many microseconds under way.
    pub p50_us: Option<u64>,
    /// 95 %.
    pub p95_us: Option<u64>,
    /// 99 %.
    pub p99_us: Option<u64>,
    /// The slowest.
    pub max_us: Option<u64>,
    /// Datagrams since the beginning.
    pub count: u64,
    /// Their latencies together, in microseconds.
    pub sum_us: u64,
    /// How many fall in each bucket of the metrics' histogram; the last has no bound.
    pub buckets: Vec<u64>,
}

/// Something that happened.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct EventStatus {
    /// Seconds since the program began.
    pub at_s: f64,
    /// `info` or `warn`.
    pub level: String,
    /// What it is about: `path`, `session`, `flow`, `config`, `task`.
    pub kind: String,
    /// What happened, and why.
    pub words: String,
}

/// Fit for a log and a terminal: a peer's words neither end a line nor change how others are shown.
pub fn printable(words: String) -> String {
    let hidden = |c: char| c.is_control() || is_directional(c);
    if words.contains(hidden) { words.replace(hidden, "\u{fffd}") } else { words }
}

/// Marks that reorder what is around them (Unicode Standard Annex 9, 2.1 to 2.6).
fn is_directional(c: char) -> bool {
    matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

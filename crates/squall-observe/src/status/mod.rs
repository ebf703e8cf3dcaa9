//! The status of a tunnel: the answers to `/status` and `/why`.

mod why;

use std::{collections::BTreeMap, time::UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use squall::{Capacity, PathCapacity, QuotaState, SessionStats};
use squall_units::{Rate, Size, format::is_hidden};

pub use self::why::{ShareStatus, StepStatus, StoryStatus, WhyStatus};

/// Status of one end of a tunnel. Counters begin with the program.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// `entry` or `exit`.
    pub role: String,
    /// The address that it connects to, or listens on.
    pub address: String,
    /// Scheduler of the next session.
    pub scheduler: String,
    /// The arms of an exit, of which each session has one in place of that scheduler.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub arms: Vec<ArmStatus>,
    /// Seconds since the start of the program.
    pub uptime_s: f64,
    /// Resident memory of the process in bytes; 0 if the system does not report it.
    pub memory_bytes: u64,
    /// Sessions that came up.
    pub sessions_opened: u64,
    /// Failed attempts to connect, or rejected sessions.
    pub sessions_failed: u64,
    /// Connections without a token; all 0 at an entry.
    #[serde(rename = "strangers")]
    pub unauthenticated: UnauthenticatedStatus,
    /// Failed tasks of the process. They were restarted unless they belonged to a session.
    pub task_failures: u64,
    /// Whether this exit drains: it accepts no more sessions, and ends when the last one is over.
    #[serde(default)]
    pub draining: bool,
    /// At an exit: sessions that were asked to move to another exit. At an entry: requests to move that it followed.
    #[serde(default)]
    pub redirects: u64,
    /// Sessions that are up.
    pub sessions: Vec<SessionStatus>,
    /// The flows that begin or end here, by name.
    pub flows: Vec<FlowStatus>,
    /// The quotas of interfaces, at an entry.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub quotas: Vec<QuotaStatus>,
    /// The TUN device, if there is one; the traffic classes of its packets are flows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tun: Option<TunStatus>,
    /// The tenants of an exit, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tenants: Vec<TenantStatus>,
    /// Recent events, oldest first.
    pub events: Vec<EventStatus>,
    /// Counters of paths over all sessions, for the metrics.
    #[serde(skip)]
    pub totals: Sums,
}

impl Status {
    /// Whether an exit accepts sessions, or an entry has one.
    ///
    /// # Errors
    /// Why not.
    pub fn ready(&self) -> Result<(), &'static str> {
        match self.role.as_str() {
            "entry" if !self.sessions.iter().any(|session| session.agreed) => Err("no session"),
            "exit" if self.draining => Err("draining"),
            _ => Ok(()),
        }
    }
}

/// Counters of a path, in the order of [`metrics::PATH_COUNTERS`](crate::metrics::PATH_COUNTERS).
pub type PathCounts = [u64; 9];

/// Sums since the start of the program. They never fall. As many as there ever were paths at the same time, at an entry by the names
/// of its interfaces.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    /// By slot and label of the path.
    pub paths: BTreeMap<(u64, String), PathCounts>,
    /// How often another path carried most data than before, by slot.
    pub switches: BTreeMap<u64, u64>,
    /// By name of the arm.
    pub arms: BTreeMap<String, ArmCounts>,
}

/// The quota of an interface. Bytes are those of IP packets, sent and received.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct QuotaStatus {
    /// Name or local address of the interface.
    pub interface: String,
    /// Bytes in each period.
    pub bytes: u64,
    /// Bytes used in this one.
    pub used: u64,
    /// Bytes left of it.
    pub left: u64,
    /// Bits per second that may be used now and last to the end of the period.
    pub pace_bps: u64,
    /// Whether it is ahead of its pace, and a backup meanwhile.
    pub is_held: bool,
    /// When the next period begins, in seconds since the Unix epoch.
    pub ends_s: u64,
}

impl From<QuotaState> for QuotaStatus {
    fn from(quota: QuotaState) -> Self {
        let QuotaState { interface, bytes, used, left, pace, is_held, ends, .. } = quota;
        let ends_s = ends.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        Self { interface, bytes, used, left, pace_bps: (8.0 * pace) as u64, is_held, ends_s }
    }
}

/// A tenant. Bytes are those of the datagrams of its flows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TenantStatus {
    /// Its name.
    pub name: String,
    /// Its sessions.
    pub sessions: u64,
    /// Sessions that were refused because of a limit.
    pub sessions_refused: u64,
    /// The names of its flows.
    pub flows: Vec<String>,
    /// Its limits.
    pub limits: TenantLimits,
    /// Bytes from its entries since the start of the program.
    pub received_bytes: u64,
    /// Bytes to its entries.
    pub sent_bytes: u64,
    /// Bytes from its entries that were dropped because of a limit.
    pub dropped_in_bytes: u64,
    /// Bytes to its entries that were dropped because of a limit.
    pub dropped_out_bytes: u64,
    /// The period: `2026-11` or `2026-11-26`.
    pub period: String,
    /// Bytes in the period, both directions together; they outlive a restart.
    pub period_bytes: u64,
    /// Whether the bytes of the period are used up.
    pub used_up: bool,
}

/// The limits of a tenant. Bytes and rates are those of the datagrams of its flows, each with 28 bytes for UDP and IPv4, without
/// repairs. Packets of a TUN device count with their own headers alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TenantLimits {
    /// Most sessions at a time. Default: `max_sessions` of the exit, less a place for each other tenant without a session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_sessions: Option<usize>,
    /// Largest rate from the tenant's entries to the exit. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_in: Option<Rate>,
    /// Largest rate from the exit to the tenant's entries. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_out: Option<Rate>,
    /// Most bytes per period, both directions together. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<Size>,
    /// The period. Default: a month.
    pub period: Period,
}

/// A period of the calendar, in UTC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Period {
    /// A day.
    Day,
    /// A month.
    #[default]
    Month,
}

impl Period {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Day => "day",
            Self::Month => "month",
        }
    }
}

/// The TUN device.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TunStatus {
    /// Its name.
    pub device: String,
    /// Its addresses, with prefix.
    pub addresses: Vec<String>,
    /// Largest packet in bytes.
    pub mtu: u16,
    /// Packets of this machine that were dropped because no entry owns their destination.
    pub unrouted: u64,
    /// Packets of the tunnel itself that a route sent into the device; they were dropped.
    pub looped: u64,
}

/// Connections to an exit that have not presented a token.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnauthenticatedStatus {
    /// Handshakes and silent connections now.
    pub pending: u64,
    /// Handshakes that had to prove their address first.
    pub retried: u64,
    /// Connections that were displaced by newer ones.
    pub displaced: u64,
    /// Connections that did not present a token in time.
    pub expired: u64,
    /// Handshakes that were refused because too many were pending.
    pub refused: u64,
}

/// A session with the other end.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SessionStatus {
    /// Its number, from 1.
    pub id: u64,
    /// Once both ends have agreed: the lowest number, from 1, that no other session had, the label `slot` of its metrics.
    #[serde(default)]
    pub slot: Option<u64>,
    /// Address of the other end on one of the paths.
    pub peer: String,
    /// At an entry: the exit, as `HOST:PORT` of the configuration, an SRV record or a redirect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit: Option<String>,
    /// At an entry: whether another session takes over from this one, which ends what is in flight.
    #[serde(default)]
    pub leaving: bool,
    /// Its tenant, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// Its scheduler.
    pub scheduler: String,
    /// Its arm, at an exit that compares schedulers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arm: Option<String>,
    /// Blocks that this end sends.
    #[serde(default)]
    pub blocks: BlockCounts,
    /// Whether both ends have agreed on the token.
    pub agreed: bool,
    /// Seconds since it came up.
    pub age_s: f64,
    /// Bytes that were sent and are not acknowledged.
    pub queued_bytes: u64,
    /// Blocks that have not ended.
    pub open_blocks: u64,
    /// Its capacity.
    #[serde(default)]
    pub capacity: CapacityStatus,
    /// How often another path carried most data than before.
    #[serde(default)]
    pub switches: u64,
    /// Its paths.
    pub paths: Vec<PathStatus>,
    /// At an entry: interfaces that it does not run over, at most 32.
    #[serde(default)]
    pub unused_interfaces: Vec<UnusedStatus>,
}

/// Blocks that this end handed over in a session, those of the tunnel's own messages included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockCounts {
    /// Of these, delivered whole.
    pub delivered: u64,
    /// Of these, ended by their deadline.
    pub expired: u64,
    /// Of these, not repaired and lost in part.
    pub lost: u64,
}

impl From<&SessionStats> for BlockCounts {
    fn from(stats: &SessionStats) -> Self {
        let &SessionStats { blocks_delivered, blocks_expired, blocks_lost, .. } = stats;
        Self { delivered: blocks_delivered, expired: blocks_expired, lost: blocks_lost }
    }
}

/// An arm of an exit: a scheduler, and figures of all sessions that had it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ArmStatus {
    /// Its name.
    pub name: String,
    /// Its scheduler.
    pub scheduler: String,
    /// Share of the clients, relative to the other arms.
    pub weight: u32,
    /// The figures since the start of the program.
    #[serde(flatten)]
    pub counts: ArmCounts,
}

/// Figures of an arm.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArmCounts {
    /// Sessions.
    pub sessions: u64,
    /// Their time in milliseconds.
    pub time_ms: u64,
    /// Blocks that this end sent and that were delivered whole.
    pub delivered: u64,
    /// Blocks that their deadline ended.
    pub expired: u64,
    /// Blocks that were not repaired and lost in part.
    pub lost: u64,
    /// Bytes of UDP payload sent.
    pub sent_bytes: u64,
    /// Of these, on paths whose bytes cost money.
    pub metered_bytes: u64,
    /// Lost packets with data.
    pub lost_packets: u64,
}

/// An interface that a session does not run over.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnusedStatus {
    /// Its name.
    pub name: String,
    /// Why: no carrier, no route, no address.
    pub why: String,
}

impl From<squall::UnusedInterface> for UnusedStatus {
    fn from(unused: squall::UnusedInterface) -> Self {
        Self { name: unused.name, why: unused.why }
    }
}

/// Capacity of a session or a path towards the other end: [`squall::Capacity`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CapacityStatus {
    /// Bits per second of blocks, at present.
    pub now_bps: u64,
    /// Bits per second of blocks, over the next second with a probability of nine in ten.
    pub safe_bps: u64,
    /// Share of the forecasts of the last minute that held.
    pub confidence: f64,
    /// What limits it: `application`, `network`, `budget`, `radio` or `out-of-use`.
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
    /// The interface or the local address.
    pub name: String,
    /// The label `path` of its metrics: at an entry its name, at an exit a number that later paths use again.
    #[serde(default)]
    pub label: String,
    /// Address of the other end.
    pub remote: String,
    /// `opening` until the other end has answered on it, `active`, `suspect` or `deactivated`.
    pub state: String,
    /// Why no answer will come on it, by what the system says (`rp_filter`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
    /// Whether its bytes cost money.
    pub metered: bool,
    /// `primary`, `backup` or `repair`, as both ends have it; `backup` while a quota is ahead of its pace.
    #[serde(default)]
    pub role: String,
    /// Bits per second that this end sends on it at most, if there is a limit.
    #[serde(default)]
    pub rate_limit_bps: Option<u64>,
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
    /// One-way delay to the other end in microseconds; differences between paths are exact.
    #[serde(default)]
    pub one_way_us: u64,
    /// Bits per second that arrived at the other end while there was enough to send.
    #[serde(default)]
    pub delivery_bps: u64,
    /// Share of its capacity that is used: below 1 while a radio at either end warns.
    #[serde(default)]
    pub signal_factor: f64,
    /// Quality index of the radio at this end from 0 to 1, if it is read.
    #[serde(default)]
    pub signal_quality: Option<f64>,
    /// Bytes that its budget leaves, if it has one.
    #[serde(default)]
    pub budget: Option<u64>,
    /// Share of packets lost over the last two seconds.
    pub loss: f64,
    /// Bytes in flight.
    pub in_flight: u64,
    /// Congestion window in bytes.
    pub window: u64,
    /// Packets with data that were lost.
    pub lost_packets: u64,
    /// Retransmitted bytes of blocks.
    pub repair_bytes: u64,
    /// Bytes sent as a copy of what was in flight on another path.
    #[serde(default)]
    pub copy_bytes: u64,
    /// Bytes of parity sent.
    #[serde(default)]
    pub parity_bytes: u64,
    /// How often it was suspected.
    pub suspicions: u64,
    /// Arrivals of data that were predicted with bounds.
    #[serde(default)]
    pub predicted_arrivals: u64,
    /// Of these, arrivals within the bounds; 9 of 10 should be.
    #[serde(default)]
    pub kept_arrivals: u64,
    /// Its capacity.
    #[serde(default)]
    pub capacity: CapacityStatus,
}

/// One end of a flow.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FlowStatus {
    /// Its name; after `TENANT/` if it belongs to a tenant.
    pub name: String,
    /// The end on this machine: `in` or `out`.
    pub end: String,
    /// The address where datagrams enter, or where they are sent to.
    pub address: String,
    /// Its media; for `auto` the detected one.
    pub media: String,
    /// Why no video is found in it, and the remedy, if that has been so for a second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub media_problem: Option<String>,
    /// Whether a session carries it.
    pub attached: bool,
    /// Its latency in milliseconds.
    pub latency_ms: u64,
    /// Datagrams that entered here.
    pub datagrams_in: u64,
    /// Of these, datagrams that waited in the socket for longer than the latency.
    pub datagrams_stale: u64,
    /// Datagrams that found no room in the socket, beside those that entered. Linux reports them with the next one that has room.
    #[serde(default)]
    pub datagrams_overflowed: u64,
    /// Datagrams that were dropped because of `from`.
    pub datagrams_foreign: u64,
    /// Datagrams that left here.
    pub datagrams_out: u64,
    /// Datagrams that the system did not send.
    pub unwritten: u64,
    /// Bytes of null packets of transport streams that entered here and were not sent: the other end restores them.
    #[serde(default)]
    pub null_bytes_deleted: u64,
    /// Blocks in transit.
    pub pending: u64,
    /// Sent blocks, by class.
    pub sent: BTreeMap<String, SentStatus>,
    /// Received blocks.
    pub received: ReceivedStatus,
    /// Time from the arrival of a datagram at the other end to its departure here.
    pub latency: LatencyStatus,
    /// Seconds since a datagram last entered or left.
    #[serde(default)]
    pub idle_s: f64,
    /// Bytes by path and reason over the last five minutes, largest first. Empty without an address for the status.
    #[serde(default)]
    pub shares: Vec<ShareStatus>,
    /// Blocks so far that were slow, late or not delivered, of which [`WhyStatus`] has the latest.
    #[serde(default)]
    pub stories: u64,
}

/// A number of blocks and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Amount {
    /// Frames or single datagrams.
    pub blocks: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// Sent blocks by outcome.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SentStatus {
    /// By outcome: `delivered`, `expired`, `lost`, `cancelled`, `refused`, `closed`, `unsent`, `overflow`.
    pub outcomes: BTreeMap<String, Amount>,
}

/// Received blocks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ReceivedStatus {
    /// By class.
    pub classes: BTreeMap<String, Amount>,
    /// Blocks that arrived when later ones had left.
    pub late: u64,
    /// Blocks that did not arrive in time.
    pub missing: u64,
    /// Blocks that waited for earlier ones.
    pub waits: u64,
    /// Their total waiting time in microseconds.
    pub waited_us: u64,
}

/// Upper bounds of the buckets of [`LatencyStatus`], in microseconds.
pub const LATENCY_BUCKETS: [u64; 16] = [
    500, 1_000, 2_000, 5_000, 10_000, 20_000, 30_000, 50_000, 75_000, 100_000, 150_000, 200_000, 300_000,
    500_000, 1_000_000, 2_000_000,
];

/// Latencies of datagrams. Percentiles cover the last 10 to 20 seconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LatencyStatus {
    /// Median in microseconds.
    pub p50_us: Option<u64>,
    /// 95th percentile.
    pub p95_us: Option<u64>,
    /// 99th percentile.
    pub p99_us: Option<u64>,
    /// Maximum.
    pub max_us: Option<u64>,
    /// Datagrams since the start.
    pub count: u64,
    /// Sum of their latencies in microseconds.
    pub sum_us: u64,
    /// Datagrams in each bucket of [`LATENCY_BUCKETS`], and in one above the last.
    pub buckets: Vec<u64>,
}

/// An event.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct EventStatus {
    /// Seconds since the start of the program.
    pub at_s: f64,
    /// `info` or `warn`.
    pub level: String,
    /// Its subject: `path`, `session`, `flow`, `config`, `task`, `tenant`, `main` (another path carries most data).
    pub kind: String,
    /// Description and reason.
    pub words: String,
}

/// Makes a text from a peer safe for logs and terminals: it can neither end a line nor change the display.
pub fn printable(words: String) -> String {
    if words.contains(is_hidden) { words.replace(is_hidden, "\u{fffd}") } else { words }
}

//! Status of a tunnel: the answers to `/status` and `/why`.

mod why;

use std::{collections::BTreeMap, time::UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use squall::{Capacity, PathCapacity, QuotaState, SessionStats};
use squall_units::{Rate, Size, format::is_hidden};

pub use self::why::{ShareStatus, StepStatus, StoryStatus, WhyStatus};

/// Status of one end of a tunnel. Counters start with the program.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// `entry` or `exit`.
    pub role: String,
    /// Address that it connects to, or listens on.
    pub address: String,
    /// Scheduler of the next session.
    pub scheduler: String,
    /// Arms of an exit. Each session has the scheduler of an arm in place of `scheduler`.
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
    /// This exit drains: it accepts no more sessions, and ends with the last one.
    #[serde(default)]
    pub draining: bool,
    /// At an exit: sessions that were requested to move to another exit. At an entry: requests to
    /// move that it followed.
    #[serde(default)]
    pub redirects: u64,
    /// Established sessions.
    pub sessions: Vec<SessionStatus>,
    /// Flows that begin or end here, by name.
    pub flows: Vec<FlowStatus>,
    /// Quotas of interfaces, at an entry.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub quotas: Vec<QuotaStatus>,
    /// TUN device, if there is one; the traffic classes of its packets are flows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tun: Option<TunStatus>,
    /// Tenants of an exit, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tenants: Vec<TenantStatus>,
    /// Recent events, oldest first.
    pub events: Vec<EventStatus>,
    /// Counters of paths over all sessions, for the metrics.
    #[serde(skip)]
    pub totals: Sums,
}

impl Status {
    /// Checks that an exit accepts sessions, or that an entry has one.
    ///
    /// # Errors
    /// The reason why not.
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

/// Sums since the start of the program. They never fall. Their number is bounded by the largest
/// number of simultaneous paths, at an entry by the names of its interfaces.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    /// Counters by slot and label of the path.
    pub paths: BTreeMap<(u64, String), PathCounts>,
    /// Changes of the path that carries most data, by slot.
    pub switches: BTreeMap<u64, u64>,
    /// Counts by name of the arm.
    pub arms: BTreeMap<String, ArmCounts>,
}

/// Quota of an interface. Bytes are those of IP packets, sent and received.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct QuotaStatus {
    /// Name or local address of the interface.
    pub interface: String,
    /// Bytes per period.
    pub bytes: u64,
    /// Bytes used in this period.
    pub used: u64,
    /// Bytes left in this period.
    pub left: u64,
    /// Bits per second at which the rest lasts until the end of the period.
    pub pace_bps: u64,
    /// The interface is ahead of its pace, and a backup meanwhile.
    pub is_held: bool,
    /// Start of the next period, in seconds since the Unix epoch.
    pub ends_s: u64,
}

impl From<QuotaState> for QuotaStatus {
    fn from(quota: QuotaState) -> Self {
        let QuotaState { interface, bytes, used, left, pace, is_held, ends, .. } = quota;
        let ends_s = ends.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        Self { interface, bytes, used, left, pace_bps: (8.0 * pace) as u64, is_held, ends_s }
    }
}

/// Status of a tenant. Bytes are those of the datagrams of its flows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TenantStatus {
    /// Name of the tenant.
    pub name: String,
    /// Number of its sessions.
    pub sessions: u64,
    /// Number of sessions refused because of a limit.
    pub sessions_refused: u64,
    /// Names of its flows.
    pub flows: Vec<String>,
    /// Limits of the tenant.
    pub limits: TenantLimits,
    /// Bytes from its entries since the start of the program.
    pub received_bytes: u64,
    /// Bytes to its entries.
    pub sent_bytes: u64,
    /// Bytes from its entries that were dropped because of a limit.
    pub dropped_in_bytes: u64,
    /// Bytes to its entries that were dropped because of a limit.
    pub dropped_out_bytes: u64,
    /// Current period: `2026-11` or `2026-11-26`.
    pub period: String,
    /// Bytes in the period, both directions together; kept over a restart.
    pub period_bytes: u64,
    /// The bytes of the period are used up.
    pub used_up: bool,
}

/// Limits of a tenant. Bytes and rates are those of the datagrams of its flows, each with 28 bytes
/// for UDP and IPv4, without repairs. Packets of a TUN device count with their own headers only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TenantLimits {
    /// Maximum number of simultaneous sessions. Default: `max_sessions` of the exit, less a place
    /// for each other tenant without a session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_sessions: Option<usize>,
    /// Maximum rate from the tenant's entries to the exit. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_in: Option<Rate>,
    /// Maximum rate from the exit to the tenant's entries. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_out: Option<Rate>,
    /// Maximum bytes per period, both directions together. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<Size>,
    /// Period of `bytes`. Default: a month.
    pub period: Period,
}

/// A calendar period in UTC.
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
    /// Returns the name of the period.
    pub fn name(self) -> &'static str {
        match self {
            Self::Day => "day",
            Self::Month => "month",
        }
    }
}

/// Status of the TUN device.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TunStatus {
    /// Name of the device.
    pub device: String,
    /// Addresses of the device, with prefix.
    pub addresses: Vec<String>,
    /// Largest packet in bytes.
    pub mtu: u16,
    /// Packets of this machine that were dropped because no entry owns their destination.
    pub unrouted: u64,
    /// Packets of the tunnel itself that a route directed into the device. They were dropped.
    pub looped: u64,
}

/// Counters of connections to an exit that have not presented a token.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnauthenticatedStatus {
    /// Current number of handshakes and silent connections.
    pub pending: u64,
    /// Handshakes that had to validate their address first (Retry).
    pub retried: u64,
    /// Connections displaced by newer ones.
    pub displaced: u64,
    /// Connections that did not present a token in time.
    pub expired: u64,
    /// Handshakes refused because too many were pending.
    pub refused: u64,
}

/// A session with the other end.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SessionStatus {
    /// Number of the session, from 1.
    pub id: u64,
    /// Lowest number, from 1, that no other session had when both ends agreed: the label `slot` of
    /// its metrics.
    #[serde(default)]
    pub slot: Option<u64>,
    /// Address of the other end on one of the paths.
    pub peer: String,
    /// At an entry: the exit, as `HOST:PORT` of the configuration, an SRV record or a redirect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit: Option<String>,
    /// At an entry: another session is replacing this one, which only delivers data in flight.
    #[serde(default)]
    pub leaving: bool,
    /// Tenant of the session, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// Scheduler of the session.
    pub scheduler: String,
    /// Arm of the session, at an exit that compares schedulers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arm: Option<String>,
    /// Counts of blocks that this end sends.
    #[serde(default)]
    pub blocks: BlockCounts,
    /// Both ends have agreed on the token.
    pub agreed: bool,
    /// Seconds since the session came up.
    pub age_s: f64,
    /// Sent bytes that are not acknowledged.
    pub queued_bytes: u64,
    /// Number of blocks that have not ended.
    pub open_blocks: u64,
    /// Capacity of the session.
    #[serde(default)]
    pub capacity: CapacityStatus,
    /// Number of changes of the path that carries most data.
    #[serde(default)]
    pub switches: u64,
    /// Paths of the session.
    pub paths: Vec<PathStatus>,
    /// At an entry: interfaces that the session does not run over, at most 32.
    #[serde(default)]
    pub unused_interfaces: Vec<UnusedStatus>,
}

/// Blocks that this end handed over in a session, including those of the tunnel's own messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockCounts {
    /// Blocks delivered whole.
    pub delivered: u64,
    /// Blocks ended by their deadline.
    pub expired: u64,
    /// Unreliable blocks that were lost in part.
    pub lost: u64,
}

impl From<&SessionStats> for BlockCounts {
    fn from(stats: &SessionStats) -> Self {
        let &SessionStats { blocks_delivered, blocks_expired, blocks_lost, .. } = stats;
        Self { delivered: blocks_delivered, expired: blocks_expired, lost: blocks_lost }
    }
}

/// An arm of an exit: a scheduler, and counters of all sessions that had it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ArmStatus {
    /// Name of the arm.
    pub name: String,
    /// Scheduler of the arm.
    pub scheduler: String,
    /// Share of the clients, relative to the other arms.
    pub weight: u32,
    /// Counters since the start of the program.
    #[serde(flatten)]
    pub counts: ArmCounts,
}

/// Counters of an arm.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArmCounts {
    /// Number of sessions.
    pub sessions: u64,
    /// Total duration of the sessions in milliseconds.
    pub time_ms: u64,
    /// Blocks sent by this end and delivered whole.
    pub delivered: u64,
    /// Blocks ended by their deadline.
    pub expired: u64,
    /// Unreliable blocks that were lost in part.
    pub lost: u64,
    /// Bytes of UDP payload sent.
    pub sent_bytes: u64,
    /// Bytes of UDP payload sent on metered paths.
    pub metered_bytes: u64,
    /// Lost packets with data.
    pub lost_packets: u64,
}

/// An interface that a session does not run over.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnusedStatus {
    /// Name of the interface.
    pub name: String,
    /// Reason: no carrier, no route, no address.
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
    /// Current rate in bits per second of blocks.
    pub now_bps: u64,
    /// Rate in bits per second of blocks over the next second with probability 0.9.
    pub safe_bps: u64,
    /// Share of the forecasts of the last minute that held.
    pub confidence: f64,
    /// Limiting factor: `application`, `network`, `budget`, `radio` or `out-of-use`.
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

/// Status of a path of a session. Bytes are those of UDP payload.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PathStatus {
    /// Interface or local address.
    pub name: String,
    /// Label `path` of its metrics: at an entry its name, at an exit a number that later paths
    /// reuse.
    #[serde(default)]
    pub label: String,
    /// Address of the other end.
    pub remote: String,
    /// `opening` until the other end has answered on it, `active`, `suspect` or `deactivated`.
    pub state: String,
    /// Reason why no answer can arrive, according to the system (`rp_filter`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
    /// Its bytes cost money.
    pub metered: bool,
    /// Role at both ends: `primary`, `backup` or `repair`; `backup` while a quota is ahead of its
    /// pace.
    #[serde(default)]
    pub role: String,
    /// Rate limit of this end in bits per second, if there is one.
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
    /// Delivery rate in bits per second, measured at the other end while enough data was available.
    #[serde(default)]
    pub delivery_bps: u64,
    /// Factor for the bandwidth: below 1 while a radio at either end warns.
    #[serde(default)]
    pub signal_factor: f64,
    /// Quality index of the radio at this end from 0 to 1, if it is read.
    #[serde(default)]
    pub signal_quality: Option<f64>,
    /// Bytes left in its budget, if it has one.
    #[serde(default)]
    pub budget: Option<u64>,
    /// Share of packets lost over the last two seconds.
    pub loss: f64,
    /// Bytes in flight.
    pub in_flight: u64,
    /// Congestion window in bytes.
    pub window: u64,
    /// Lost packets with data.
    pub lost_packets: u64,
    /// Retransmitted bytes of blocks.
    pub repair_bytes: u64,
    /// Bytes sent as a copy of data in flight on another path.
    #[serde(default)]
    pub copy_bytes: u64,
    /// Bytes of parity sent.
    #[serde(default)]
    pub parity_bytes: u64,
    /// Number of times it was suspected.
    pub suspicions: u64,
    /// Arrivals of data that were predicted with bounds.
    #[serde(default)]
    pub predicted_arrivals: u64,
    /// Predicted arrivals within the bounds; 9 of 10 should be.
    #[serde(default)]
    pub kept_arrivals: u64,
    /// Capacity of the path.
    #[serde(default)]
    pub capacity: CapacityStatus,
}

/// Status of one end of a flow.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FlowStatus {
    /// Name; `TENANT/NAME` for a flow of a tenant.
    pub name: String,
    /// End on this machine: `in` or `out`.
    pub end: String,
    /// Address where datagrams enter, or destination of those that leave.
    pub address: String,
    /// Media format; for `auto` the detected one.
    pub media: String,
    /// Reason why no video is found in it, and the remedy, once that has lasted a second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub media_problem: Option<String>,
    /// A session carries the flow.
    pub attached: bool,
    /// Latency in milliseconds.
    pub latency_ms: u64,
    /// Datagrams that entered here.
    pub datagrams_in: u64,
    /// Datagrams that entered, but waited in the socket for longer than the latency.
    pub datagrams_stale: u64,
    /// Datagrams dropped because the socket buffer was full, in addition to those that entered.
    /// Linux reports them with the next datagram that has room.
    #[serde(default)]
    pub datagrams_overflowed: u64,
    /// Datagrams dropped because of `from`.
    pub datagrams_foreign: u64,
    /// Datagrams that left here.
    pub datagrams_out: u64,
    /// Datagrams that the system did not send.
    pub unwritten: u64,
    /// Bytes of null packets of transport streams that entered here and were not sent: the other
    /// end restores them.
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
    /// Bytes by path and reason over the last five minutes, largest first. Empty without an address
    /// for the status.
    #[serde(default)]
    pub shares: Vec<ShareStatus>,
    /// Number of slow, late or undelivered blocks so far; [`WhyStatus`] has the latest.
    #[serde(default)]
    pub stories: u64,
}

/// A number of blocks and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Amount {
    /// Number of frames or single datagrams.
    pub blocks: u64,
    /// Bytes of these blocks.
    pub bytes: u64,
}

/// Sent blocks by outcome.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SentStatus {
    /// Amounts by outcome: `delivered`, `expired`, `lost`, `cancelled`, `refused`, `closed`,
    /// `unsent`, `overflow`.
    pub outcomes: BTreeMap<String, Amount>,
}

/// Received blocks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ReceivedStatus {
    /// Amounts by class.
    pub classes: BTreeMap<String, Amount>,
    /// Blocks that arrived after later ones had left.
    pub late: u64,
    /// Blocks that did not arrive in time.
    pub missing: u64,
    /// Blocks that waited for earlier ones.
    pub waits: u64,
    /// Total waiting time of these blocks in microseconds.
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
    /// 95th percentile in microseconds.
    pub p95_us: Option<u64>,
    /// 99th percentile in microseconds.
    pub p99_us: Option<u64>,
    /// Maximum in microseconds.
    pub max_us: Option<u64>,
    /// Number of datagrams since the start.
    pub count: u64,
    /// Sum of their latencies in microseconds.
    pub sum_us: u64,
    /// Number of datagrams in each bucket of [`LATENCY_BUCKETS`], and in one above the last.
    pub buckets: Vec<u64>,
}

/// An event.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct EventStatus {
    /// Seconds since the start of the program.
    pub at_s: f64,
    /// `info` or `warn`.
    pub level: String,
    /// Subject: `path`, `session`, `flow`, `config`, `task`, `tenant`, `main` (another path carries
    /// most data).
    pub kind: String,
    /// Description and reason.
    pub words: String,
}

/// Makes a text from a peer safe for logs and terminals: it can neither end a line nor change the
/// display.
pub fn printable(words: String) -> String {
    if words.contains(is_hidden) { words.replace(is_hidden, "\u{fffd}") } else { words }
}

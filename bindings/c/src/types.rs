//! Types of the header.
//!
//! Structs begin with `size`, so that later releases can append fields. For C, all zero is the default of every option.

use std::ffi::{c_char, c_void};

pub use squall_bindings::{Cause, Code, EventKind};

/// Size in bytes for any address with its port as text, including the final zero.
pub const SQUALL_ADDRESS_SIZE: usize = 72;

/// Size in bytes for a fingerprint as text, including the final zero.
pub const SQUALL_FINGERPRINT_SIZE: usize = 65;

/// Size in bytes for the name of an interface, including the final zero. Longer names are
/// truncated.
pub const SQUALL_INTERFACE_SIZE: usize = 32;

/// Maximum number of paths of a session.
pub const SQUALL_MAX_PATHS: usize = 8;

/// As a time: wait without end. As a number of bytes or a time left: no limit.
pub const SQUALL_NO_LIMIT: u64 = u64::MAX;

/// Number of a listening endpoint; always above 0. It is not reused after squall_endpoint_free.
pub type Endpoint = i64;

/// Number of a session; always above 0. It is not reused after squall_session_free.
pub type Session = i64;

/// Dependencies of a block of a video, for schedulers that select among blocks. Default: none.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depends {
    /// None.
    Nothing = 0,
    /// None, and it starts a group of pictures on its channel.
    Key = 1,
    /// The key or reference before it on its channel; later blocks need it.
    Reference = 2,
    /// The key or reference before it on its channel; no block needs it.
    Disposable = 3,
    /// The one or two blocks in depends_on.
    On = 4,
}

/// Use of the paths in hint_path by a block. Default: no hint.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hint {
    /// No hint.
    None = 0,
    /// Prefer these paths, while one of them is usable.
    Prefer = 1,
    /// Prefer other paths, while one of those is usable.
    Avoid = 2,
    /// Only these paths: if there are none, the block ends.
    Only = 3,
}

/// Role of the paths of an interface. Default: primary.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Everything.
    Primary = 0,
    /// Data only while no primary path is usable.
    Backup = 1,
    /// Retransmissions, parity and copies; data only while no other path is usable.
    Repair = 2,
}

/// State of a path.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathState {
    /// In use.
    Active = 0,
    /// Silent, and only probed.
    Suspect = 1,
    /// Disabled by a radio alert.
    Deactivated = 2,
    /// Opened by this side, and not answered by the peer yet.
    Opening = 3,
}

/// Cause that limits the capacity.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// No path is in use.
    OutOfUse = 0,
    /// A radio.
    Radio = 1,
    /// A budget.
    Budget = 2,
    /// The network.
    Network = 3,
    /// The application: there is spare capacity.
    Application = 4,
    /// The receiver, by squall_request_bitrate.
    Receiver = 5,
}

/// A local and a remote address, each with a port: "192.0.2.1:0", "198.51.100.7:4433". Local port 0
/// uses any.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Pair {
    /// Local address.
    pub local: *const c_char,
    /// Address of the peer.
    pub remote: *const c_char,
}

/// Interfaces of a session. All zero: every interface with a route to the server, including those
/// that appear later. Otherwise exactly one of the three lists.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Interfaces {
    /// sizeof(squall_interfaces).
    pub size: usize,
    /// Names of interfaces, used whenever they are available: "wlan0".
    pub names: *const *const c_char,
    /// Number of names.
    pub name_count: usize,
    /// Local IP addresses: "192.0.2.1".
    pub addresses: *const *const c_char,
    /// Number of addresses.
    pub address_count: usize,
    /// Exact pairs of addresses, one for each path.
    pub pairs: *const Pair,
    /// Number of pairs.
    pub pair_count: usize,
}

/// Settings of sessions. 0 and NULL mean the default.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Config {
    /// sizeof(squall_config).
    pub size: usize,
    /// Scheduler by name, with options: "minrtt", "sp(path=1)". Default: "squall".
    pub scheduler: *const c_char,
    /// Congestion control by name: "steady", "cubic", "bbr3". Default: "steady".
    pub congestion: *const c_char,
    /// Timeout of the handshake in microseconds. Default: 10 s.
    pub connect_timeout_us: u64,
    /// Time without received packets after which a session ends, in microseconds. Default: 30 s.
    pub idle_timeout_us: u64,
    /// Maximum size of a block in bytes, sent or received. Default and maximum: 16 MiB.
    pub max_block: u64,
    /// Maximum of bytes sent and not known to have arrived. Default: 64 MiB.
    pub max_queued_bytes: u64,
    /// Maximum of bytes in arriving blocks that were not taken; beyond it the sender waits.
    /// Default: 64 MiB.
    pub max_received_bytes: u64,
    /// Maximum of open blocks, in each direction. Default: 65,536; maximum: 1,048,576.
    pub max_open_blocks: u64,
    /// Maximum of paths of a session. Default and maximum: 8.
    pub max_paths: u64,
    /// Maximum of sessions of a listening endpoint. Default: 4,096.
    pub max_sessions: u64,
    /// Maximum of handshakes in progress at a listening endpoint. Default: 1,024.
    pub max_handshakes: u64,
}

/// A server to connect to. Its certificate is trusted if an authority of the operating system
/// signed it, unless fingerprint, authorities_file or insecure is set; at most one of these.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ConnectOptions {
    /// sizeof(squall_connect_options).
    pub size: usize,
    /// "host:port"; the host is a name, an IPv4 address, or an IPv6 address in brackets. Required.
    pub host: *const c_char,
    /// Name that the certificate must have. Default: the host.
    pub server_name: *const c_char,
    /// Addresses with ports to try instead of those to which the host resolves, the preferred
    /// first.
    pub addresses: *const *const c_char,
    /// Number of addresses.
    pub address_count: usize,
    /// Interfaces to connect over. NULL: every interface.
    pub interfaces: *const Interfaces,
    /// SHA-256 of the certificate of the server, as squall_endpoint_fingerprint writes it.
    pub fingerprint: *const c_char,
    /// PEM file with authorities.
    pub authorities_file: *const c_char,
    /// Settings. NULL: the defaults.
    pub config: *const Config,
    /// Not 0: trust any server. The session is encrypted, but vulnerable to a man in the middle.
    /// For tests.
    pub insecure: u64,
}

/// Addresses and certificate of a listening endpoint.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ListenOptions {
    /// sizeof(squall_listen_options).
    pub size: usize,
    /// Addresses with ports. "[::]:4433" accepts IPv4 too; port 0 uses a free port, see
    /// squall_endpoint_address. Required.
    pub addresses: *const *const c_char,
    /// Number of addresses.
    pub address_count: usize,
    /// PEM file with the certificate chain, and with the key unless key_file is given.
    pub certificate_file: *const c_char,
    /// PEM file with the key.
    pub key_file: *const c_char,
    /// Host name for a self-signed certificate. It is written to certificate_file if that file is
    /// missing, and read from there otherwise; if certificate_file is NULL, it is used only by this
    /// endpoint.
    pub self_signed_name: *const c_char,
    /// Settings. NULL: the defaults.
    pub config: *const Config,
}

/// A block to send.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Block {
    /// sizeof(squall_block).
    pub size: usize,
    /// The bytes; copied before squall_send returns.
    pub data: *const u8,
    /// Number of bytes, 1 to squall_max_block.
    pub len: usize,
    /// Microseconds from now after which the block is worthless, at most a year; both ends then cancel it. 0 and
    /// SQUALL_NO_LIMIT: none.
    pub deadline_us: u64,
    /// Blocks without which the block is useless, for SQUALL_DEPENDS_ON.
    pub depends_on: [u64; 2],
    /// Number of these blocks, 1 or 2.
    pub depends_count: u32,
    /// One of squall_depends.
    pub depends: u32,
    /// 0 (sent first) to 7 (sent last).
    pub priority: u32,
    /// 0 to 1023.
    pub channel: u32,
    /// Loss if only this block is missing, relative to other blocks, 1 to 65535. 0: 4 to the power
    /// of (7 - priority).
    pub value: u32,
    /// Not 0: lost bytes are not sent again.
    pub unreliable: u32,
    /// Not 0: delivered after the previous ordered block on the same channel.
    pub ordered: u32,
    /// Not 0: the outcome of the block becomes an event.
    pub report_outcome: u32,
    /// One of squall_hint.
    pub hint: u32,
    /// Paths, by the name or the local address of their interface, or "#2" for the path with that
    /// number. NULL without a hint.
    pub hint_path: *const c_char,
    /// Not 0: if the block ends incomplete, by its deadline or by losses, the peer gets the part
    /// that arrived.
    pub partial: u32,
}

/// Bytes of a block: from start to before end. An end of 16777216 beyond the data: the length was
/// never received.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Range {
    /// First byte.
    pub start: u32,
    /// One past the last byte.
    pub end: u32,
}

/// An event, filled in by squall_next. Fields not listed for its kind are 0; text is never NULL.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Event {
    /// sizeof(squall_event), set before squall_next.
    pub size: usize,
    /// One of squall_event_kind.
    pub kind: u32,
    /// Path, as in squall_path.
    pub path: u32,
    /// Block: numbered by squall_send if it is of this side, otherwise by the peer.
    pub block: u64,
    /// Bytes of a block, until squall_event_free.
    pub data: *const u8,
    /// Number of bytes.
    pub len: usize,
    /// One-line description of the event, valid until squall_event_free.
    pub text: *const c_char,
    /// Channel of a block.
    pub channel: u32,
    /// Priority of a block.
    pub priority: u32,
    /// Bytes of a block that arrived.
    pub bytes: u64,
    /// A duration in microseconds.
    pub elapsed_us: u64,
    /// Microseconds left; INT64_MAX without a deadline.
    pub remaining_us: i64,
    /// Code with which the peer closed the session; 0 is a normal end.
    pub code: u64,
    /// One of squall_cause.
    pub cause: u32,
    /// Always 0.
    pub reserved: u32,
    /// Memory that squall_event_free releases.
    pub owner: *mut c_void,
    /// Ranges of a partial block that did not arrive, ascending, valid until squall_event_free;
    /// data has zeros there. NULL if it is complete.
    pub missing: *const Range,
    /// Number of ranges.
    pub missing_count: usize,
}

/// A path of a session and its counters since it was opened. Bytes are UDP payload, including QUIC
/// headers.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Path {
    /// sizeof(squall_path), set in the first element before squall_get_paths.
    pub size: usize,
    /// Number of the path, as in events.
    pub id: u32,
    /// One of squall_path_state.
    pub state: u32,
    /// 1 if its bytes cost money, as declared by either side.
    pub metered: u32,
    /// Cause that limits its capacity: one of squall_limit.
    pub limit: u32,
    /// Name of the interface, if the path was opened over a named one.
    pub interface_name: [c_char; SQUALL_INTERFACE_SIZE],
    /// Local address.
    pub local: [c_char; SQUALL_ADDRESS_SIZE],
    /// Address of the peer.
    pub remote: [c_char; SQUALL_ADDRESS_SIZE],
    /// 1, or less (but above 0) while a radio at either end reports a fade.
    pub signal_factor: f64,
    /// Quality of the radio at this end, 0 to 1; NaN if there is no reading.
    pub signal_quality: f64,
    /// Share of packets lost over the last two seconds.
    pub loss: f64,
    /// Remaining bytes of its budget; SQUALL_NO_LIMIT without one.
    pub budget: u64,
    /// Smoothed round-trip time in microseconds.
    pub srtt_us: u64,
    /// Smallest round-trip time in microseconds.
    pub min_rtt_us: u64,
    /// Mean deviation of the round-trip time in microseconds.
    pub rtt_deviation_us: u64,
    /// One-way delay to the peer in microseconds; differences between paths are exact.
    pub one_way_delay_us: u64,
    /// Capacity now, in bits per second of blocks.
    pub capacity_now: u64,
    /// Capacity over the next second, reached with probability 0.9, in bits per second of blocks.
    pub capacity_safe: u64,
    /// Delivery rate in bits per second.
    pub delivery_rate: u64,
    /// Congestion window in bytes.
    pub window: u64,
    /// Bytes in flight.
    pub in_flight: u64,
    /// Bytes sent.
    pub sent_bytes: u64,
    /// UDP datagrams sent.
    pub sent_packets: u64,
    /// Bytes received.
    pub received_bytes: u64,
    /// UDP datagrams received.
    pub received_packets: u64,
    /// Packets with data that were acknowledged.
    pub acked_packets: u64,
    /// Packets with data that were declared lost.
    pub lost_packets: u64,
    /// Block bytes sent for the first time.
    pub fresh_bytes: u64,
    /// Block bytes sent again after a loss.
    pub repair_bytes: u64,
    /// Block bytes sent as a copy of bytes in flight on another path.
    pub copy_bytes: u64,
    /// Bytes of parity sent.
    pub parity_bytes: u64,
    /// Block bytes received, duplicates included.
    pub data_received: u64,
    /// Bytes of data_received that had been received before.
    pub duplicate_bytes: u64,
    /// Times the path was suspected.
    pub suspicions: u64,
}

/// Capacity of a session, for an encoder to follow. All 0 before the session is connected and after
/// it has ended.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Capacity {
    /// sizeof(squall_capacity), set before squall_get_capacity.
    pub size: usize,
    /// Bits per second of blocks now, if the application sends enough.
    pub now: u64,
    /// Bits per second of blocks over the next second, reached with probability 0.9.
    pub safe: u64,
    /// Bits per second of UDP payload: now, with headers.
    pub link: u64,
    /// Bytes queued and not yet sent.
    pub waiting: u64,
    /// Share of the last minute's forecasts that were met, 0 to 1.
    pub confidence: f64,
    /// One of squall_limit.
    pub limit: u32,
    /// Always 0.
    pub reserved: u32,
}

/// Counters of a session since it began.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Stats {
    /// sizeof(squall_stats), set before squall_get_stats.
    pub size: usize,
    /// Blocks sent by the application.
    pub blocks_offered: u64,
    /// Blocks offered and delivered whole.
    pub blocks_delivered: u64,
    /// Blocks offered and ended by their deadline.
    pub blocks_expired: u64,
    /// Unreliable blocks offered and lost in part.
    pub blocks_lost: u64,
    /// Blocks offered and cancelled by the application or the scheduler.
    pub blocks_cancelled: u64,
    /// Blocks offered and still open when the session ended.
    pub blocks_closed: u64,
    /// Blocks offered and refused by the peer.
    pub blocks_refused: u64,
    /// Blocks of the peer received whole.
    pub blocks_received: u64,
    /// Blocks received that were completed with parity.
    pub blocks_rebuilt: u64,
    /// Blocks of the peer that did not arrive.
    pub blocks_missed: u64,
    /// Bytes of blocks sent by the application.
    pub bytes_offered: u64,
    /// Bytes of blocks delivered whole.
    pub bytes_delivered: u64,
    /// Bytes of blocks received whole.
    pub bytes_received: u64,
    /// Bytes received more than once.
    pub duplicates: u64,
    /// Bytes that the peer received more than once.
    pub peer_duplicates: u64,
    /// Bytes sent by the application and not known to have arrived.
    pub queued_bytes: u64,
    /// Blocks sent by the application that are still open.
    pub open_blocks: u64,
    /// Memory of incoming blocks, in bytes.
    pub held_bytes: u64,
    /// Path events dropped because they were not taken; the latest 256 are kept in addition to
    /// those in the queue.
    pub path_events_dropped: u64,
}

/// Levels of a radio. A level that is not reported is NaN.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Reading {
    /// sizeof(squall_reading).
    pub size: usize,
    /// 0 unknown, 1 Wi-Fi, 2 GSM, 3 UMTS, 4 LTE, 5 5G with LTE (non-standalone), 6 5G.
    pub technology: u32,
    /// Not 0: the radio is in no network; the levels are then ignored.
    pub disconnected: u32,
    /// Microseconds since the radio measured.
    pub age_us: u64,
    /// Reference signal received power in dBm.
    pub rsrp: f64,
    /// Reference signal received quality in dB.
    pub rsrq: f64,
    /// Signal to interference and noise ratio in dB.
    pub sinr: f64,
    /// Received signal strength in dBm; the only level of Wi-Fi.
    pub rssi: f64,
}

//! The types of the header.
//!
//! Structs begin with `size`, so that later releases can append fields. For C, all zero is the default of every option.

use std::ffi::{c_char, c_void};

pub use squall_bindings::{Cause, Code, EventKind};

/// Bytes that hold any address with its port as text, the final zero included.
pub const SQUALL_ADDRESS_SIZE: usize = 72;

/// Bytes that hold a fingerprint as text, the final zero included.
pub const SQUALL_FINGERPRINT_SIZE: usize = 65;

/// Bytes that hold the name of an interface, the final zero included. Longer names are cut.
pub const SQUALL_INTERFACE_SIZE: usize = 32;

/// Most paths that a session can have.
pub const SQUALL_MAX_PATHS: usize = 8;

/// As a time: wait without end. As a number of bytes or a time left: no limit.
pub const SQUALL_NO_LIMIT: u64 = u64::MAX;

/// Number of an endpoint that listens; always above 0. It is not used again after squall_endpoint_free.
pub type Endpoint = i64;

/// Number of a session; always above 0. It is not used again after squall_session_free.
pub type Session = i64;

/// What a block of a video needs, for schedulers that choose between blocks. Default: nothing.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depends {
    /// Nothing.
    Nothing = 0,
    /// Nothing, and it starts a group of pictures on its channel.
    Key = 1,
    /// The key or reference before it on its channel; those that follow need it.
    Reference = 2,
    /// The same one, and nothing needs it.
    Disposable = 3,
    /// The one or two blocks in depends_on.
    On = 4,
}

/// Whether a block is to take the paths that hint_path names. Default: no hint.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hint {
    /// No hint.
    None = 0,
    /// These, while one of them is usable.
    Prefer = 1,
    /// Others, while one of those is usable.
    Avoid = 2,
    /// These or none: if there are none, the block ends.
    Only = 3,
}

/// What the paths of an interface are used for. Default: primary.
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

/// Whether a path is used.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathState {
    /// It is.
    Active = 0,
    /// It is silent, and only probed.
    Suspect = 1,
    /// A radio alert disabled it.
    Deactivated = 2,
    /// It was opened here, and the peer has not answered on it yet.
    Opening = 3,
}

/// What limits the capacity.
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

/// A local and a remote address, each with a port: "192.0.2.1:0", "198.51.100.7:4433". Local port 0 takes any.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Pair {
    /// Local address.
    pub local: *const c_char,
    /// Address of the peer.
    pub remote: *const c_char,
}

/// Over what a session runs. All zero: every interface with a route to the server, also those that appear later. Otherwise
/// exactly one of the three lists.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Interfaces {
    /// sizeof(squall_interfaces).
    pub size: usize,
    /// Names of interfaces, used whenever they are there: "wlan0".
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

/// How sessions behave. 0 and NULL mean the default.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Config {
    /// sizeof(squall_config).
    pub size: usize,
    /// Scheduler by name, with options: "minrtt", "sp(path=1)". Default: "squall".
    pub scheduler: *const c_char,
    /// Congestion control by name: "steady", "cubic", "bbr3". Default: "steady".
    pub congestion: *const c_char,
    /// Longest handshake in microseconds. Default: 10 s.
    pub connect_timeout_us: u64,
    /// A session that receives nothing for this long is over, in microseconds. Default: 30 s.
    pub idle_timeout_us: u64,
    /// Largest block in bytes, sent or received. Default, and most: 16 MiB.
    pub max_block: u64,
    /// Bytes that were sent and are not known to have arrived. Default: 64 MiB.
    pub max_queued_bytes: u64,
    /// Bytes of blocks that arrive and were not taken; the sender waits beyond. Default: 64 MiB.
    pub max_received_bytes: u64,
    /// Blocks open at a time, in each direction. Default: 65,536; most: 1,048,576.
    pub max_open_blocks: u64,
    /// Paths of a session. Default, and most: 8.
    pub max_paths: u64,
    /// Sessions of an endpoint that listens. Default: 4,096.
    pub max_sessions: u64,
    /// Handshakes in progress of an endpoint that listens. Default: 1,024.
    pub max_handshakes: u64,
}

/// A server to connect to. The certificate of the server is trusted if an authority of the operating system signed it, unless
/// fingerprint, authorities_file or insecure says otherwise; at most one of these.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ConnectOptions {
    /// sizeof(squall_connect_options).
    pub size: usize,
    /// "host:port"; the host is a name, an IPv4 address, or an IPv6 address in brackets. Required.
    pub host: *const c_char,
    /// Name that the certificate must bear. Default: the host.
    pub server_name: *const c_char,
    /// Addresses with ports to try instead of those that the host resolves to, the preferred first.
    pub addresses: *const *const c_char,
    /// Number of addresses.
    pub address_count: usize,
    /// Over what to connect. NULL: every interface.
    pub interfaces: *const Interfaces,
    /// SHA-256 of the certificate of the server, as squall_endpoint_fingerprint writes it.
    pub fingerprint: *const c_char,
    /// PEM file with authorities.
    pub authorities_file: *const c_char,
    /// Settings. NULL: the defaults.
    pub config: *const Config,
    /// Not 0: trust any server. The session is encrypted, but open to a man in the middle. For tests.
    pub insecure: u64,
}

/// Where to listen, and with which certificate.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ListenOptions {
    /// sizeof(squall_listen_options).
    pub size: usize,
    /// Addresses with ports. "[::]:4433" takes IPv4 too; port 0 takes a free port, see squall_endpoint_address. Required.
    pub addresses: *const *const c_char,
    /// Number of addresses.
    pub address_count: usize,
    /// PEM file with the certificate chain, and with the key unless key_file is given.
    pub certificate_file: *const c_char,
    /// PEM file with the key.
    pub key_file: *const c_char,
    /// Host name for a self-signed certificate. It is written to certificate_file if that is missing, read from there if it is
    /// not, and lasts as long as the endpoint if certificate_file is NULL.
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
    /// Blocks that the block is useless without, for SQUALL_DEPENDS_ON.
    pub depends_on: [u64; 2],
    /// How many of these there are, 1 or 2.
    pub depends_count: u32,
    /// One of squall_depends.
    pub depends: u32,
    /// 0 (sent first) to 7 (sent last).
    pub priority: u32,
    /// 0 to 1023.
    pub channel: u32,
    /// What is lost if only this block is missing, relative to other blocks, 1 to 65535. 0: 4 to the power of (7 - priority).
    pub value: u32,
    /// Not 0: lost bytes are not sent again.
    pub unreliable: u32,
    /// Not 0: delivered after the ordered block before it on the same channel.
    pub ordered: u32,
    /// Not 0: the outcome of the block becomes an event.
    pub report_outcome: u32,
    /// One of squall_hint.
    pub hint: u32,
    /// Paths, by the name or the local address of their interface, or "#2" for the path of that number. NULL without a hint.
    pub hint_path: *const c_char,
    /// Not 0: if the block ends incomplete, by its deadline or by losses, the peer gets what arrived of it.
    pub partial: u32,
}

/// Bytes of a block: from start to before end. An end of 16777216 beyond the data: the length never became known.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Range {
    /// First byte.
    pub start: u32,
    /// One past the last byte.
    pub end: u32,
}

/// An event, filled in by squall_next. Fields that the kind does not name are 0; text is never NULL.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Event {
    /// sizeof(squall_event), set before squall_next.
    pub size: usize,
    /// One of squall_event_kind.
    pub kind: u32,
    /// Path, as in squall_path.
    pub path: u32,
    /// Block: of this side as squall_send numbered it, of the peer as the peer did.
    pub block: u64,
    /// Bytes of a block, until squall_event_free.
    pub data: *const u8,
    /// Number of bytes.
    pub len: usize,
    /// What happened in one line, until squall_event_free.
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
    /// What squall_event_free releases.
    pub owner: *mut c_void,
    /// Ranges of a partial block that did not arrive, ascending, until squall_event_free; data has zeros there. NULL if it is whole.
    pub missing: *const Range,
    /// Number of ranges.
    pub missing_count: usize,
}

/// A path of a session and its counters since it was opened. Bytes are UDP payload, headers of QUIC included.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Path {
    /// sizeof(squall_path), set in the first element before squall_get_paths.
    pub size: usize,
    /// Number of the path, as in events.
    pub id: u32,
    /// One of squall_path_state.
    pub state: u32,
    /// 1 if its bytes cost money, as either side says.
    pub metered: u32,
    /// What limits its capacity: one of squall_limit.
    pub limit: u32,
    /// Name of the interface, if the path was opened over a named one.
    pub interface_name: [c_char; SQUALL_INTERFACE_SIZE],
    /// Local address.
    pub local: [c_char; SQUALL_ADDRESS_SIZE],
    /// Address of the peer.
    pub remote: [c_char; SQUALL_ADDRESS_SIZE],
    /// 1, unless a radio at either end warns: then less, above 0.
    pub signal_factor: f64,
    /// Quality of the radio at this end, 0 to 1; NaN if it is not read.
    pub signal_quality: f64,
    /// Share of packets lost over the last two seconds.
    pub loss: f64,
    /// Bytes that its budget leaves; SQUALL_NO_LIMIT without one.
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
    /// Capacity over the next second that is reached with probability 0.9, in bits per second of blocks.
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
    /// Block bytes sent as a copy of what was in flight on another path.
    pub copy_bytes: u64,
    /// Bytes of parity sent.
    pub parity_bytes: u64,
    /// Block bytes received, duplicates included.
    pub data_received: u64,
    /// Of these, bytes that were here already.
    pub duplicate_bytes: u64,
    /// Times the path was suspected.
    pub suspicions: u64,
}

/// What a session can carry, for an encoder to follow. All 0 before the session is up and when it is over.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Capacity {
    /// sizeof(squall_capacity), set before squall_get_capacity.
    pub size: usize,
    /// Bits per second of blocks now, if the application sends enough.
    pub now: u64,
    /// Bits per second of blocks over the next second that are reached with probability 0.9.
    pub safe: u64,
    /// Bits per second of UDP payload: now with headers.
    pub link: u64,
    /// Bytes that are queued and not yet sent.
    pub waiting: u64,
    /// Share of the last minute's forecasts that held, 0 to 1.
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
    /// Of these, delivered whole.
    pub blocks_delivered: u64,
    /// Of these, ended by their deadline.
    pub blocks_expired: u64,
    /// Of these, unreliable and lost in part.
    pub blocks_lost: u64,
    /// Of these, cancelled by the application or the scheduler.
    pub blocks_cancelled: u64,
    /// Of these, not ended when the session did.
    pub blocks_closed: u64,
    /// Of these, refused by the peer.
    pub blocks_refused: u64,
    /// Blocks of the peer's that arrived whole.
    pub blocks_received: u64,
    /// Of these, completed with parity.
    pub blocks_rebuilt: u64,
    /// Blocks of the peer's that did not arrive.
    pub blocks_missed: u64,
    /// Bytes of blocks sent by the application.
    pub bytes_offered: u64,
    /// Bytes of blocks delivered whole.
    pub bytes_delivered: u64,
    /// Bytes of blocks received whole.
    pub bytes_received: u64,
    /// Bytes received although they were here already.
    pub duplicates: u64,
    /// Bytes the peer received although it had them.
    pub peer_duplicates: u64,
    /// Bytes sent by the application and not known to have arrived.
    pub queued_bytes: u64,
    /// Blocks sent by the application and not ended.
    pub open_blocks: u64,
    /// Memory that incoming blocks take, in bytes.
    pub held_bytes: u64,
    /// Path events that were not taken, and dropped: the latest 256 are kept beside those that wait.
    pub path_events_dropped: u64,
}

/// Levels of a radio. A level that it does not report is NaN.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Reading {
    /// sizeof(squall_reading).
    pub size: usize,
    /// 0 unknown, 1 Wi-Fi, 2 GSM, 3 UMTS, 4 LTE, 5 5G beside LTE, 6 5G.
    pub technology: u32,
    /// Not 0: out of every network; the levels then count for nothing.
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

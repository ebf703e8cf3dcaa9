//! What can be set, with defaults and bounds.

use std::{fmt, net::SocketAddr, sync::Arc, time::Duration};

use squall_sched::{MAX_BLOCK, MAX_PATHS, Scheduler, StreamScheduler, schedulers::squall::Squall};
use squall_signal::WatermarkConfig;

use crate::{congestion::CongestionControl, quic_lb::QuicLbServer};

/// Near end of paths: a network interface, or one of the addresses of a host that is reached at several.
///
/// The driver numbers them. Two interfaces may have the same address (two LTE sticks often do), so an address is not enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Interface(pub u32);

/// The two ends that packets run between.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NetPath<L = Interface> {
    /// Our side.
    pub local: L,
    /// The peer's side.
    pub remote: SocketAddr,
}

/// Makes the scheduler of each new session.
pub type SchedulerFactory = Arc<dyn Fn() -> Box<dyn Scheduler> + Send + Sync>;

/// Says of the address of a peer whether it may begin a handshake.
pub type AcceptFilter = Arc<dyn Fn(SocketAddr) -> bool + Send + Sync>;

/// How sessions behave. One for all sessions of an endpoint.
#[derive(Clone)]
pub struct Config {
    /// Who decides what goes where. Default: [`Squall`].
    pub scheduler: SchedulerFactory,
    /// Which channel's data is next when several wait. Default: the oldest block's, whatever its channel.
    pub streams: StreamScheduler,
    /// Congestion controller of every path. Default: Steady.
    pub congestion: CongestionControl,
    /// Bounds of memory and counts.
    pub limits: Limits,
    /// Tasks that an endpoint of the `squall` crate divides its sessions among, each of which keeps one core busy at most: 1
    /// to [`MAX_WORKERS`](crate::MAX_WORKERS). A session lives on one of them. Listening with several needs Linux; elsewhere
    /// there is one whatever the number. See `docs/scaling.md`. Default: 1.
    pub workers: usize,
    /// Has the connection ids of a server name it, for load balancers; see [`quic_lb`](crate::quic_lb). Default: not.
    pub quic_lb: Option<QuicLbServer>,
    /// A session that receives nothing for this long is over. Time in which the process did not run does not count. Default: 30 s.
    pub idle_timeout: Duration,
    /// A path that is silent for this long is closed; a client opens it again, and tries until it comes up. Default: 30 s.
    pub path_idle_timeout: Duration,
    /// How often an idle path is probed, so that NATs keep it and its round-trip time stays fresh. Default: 5 s, which
    /// costs less than 1 kbit/s.
    pub keep_alive: Duration,
    /// How long a handshake may take, over all interfaces. Default: 10 s.
    pub connect_timeout: Duration,
    /// How long after its first packet a connection to a server must have announced itself, which Squall does with the
    /// handshake. Default: 10 s.
    pub announce_timeout: Duration,
    /// Which peers get an answer when they begin a handshake. An address may be forged: a filter keeps load away, and
    /// takes the place of no token. Default: all.
    pub accept: Option<AcceptFilter>,
    /// Whether a session that comes in is limited until [`Session::trust`](crate::Session::trust) is called: 64 KiB and
    /// 64 blocks wait for the application at most, and the peer's radio alerts have no effect. Further blocks are refused; 128 refusals that
    /// the application has not taken end the session. Default: no.
    pub distrust: bool,
    /// Pause before the handshake is tried over the next interface too. Default: 100 ms, the smallest
    /// that RFC 8305 §5 allows.
    pub race_delay: Duration,
    /// Silence after which a path with packets in flight is suspected, counted from when an
    /// acknowledgement was due; two probe timeouts if those are sooner. Default: 200 ms.
    pub silence: Duration,
    /// Whether all offsets of a block take as many bytes as the longest, so that its packets have one size and the system can
    /// cut a batch of them (GSO): a byte or three more in each packet. `squall` switches it on. Default: no.
    pub even_offsets: bool,
    /// How readings of this side's radios ([`Session::on_signal`](crate::Session::on_signal)) become alerts;
    /// `None` ignores the readings, and the peer's alerts too. Default: STORM's watermarks.
    pub signal: Option<WatermarkConfig>,
    /// Switches for comparisons.
    #[cfg(feature = "lab")]
    pub lab: LabConfig,
    /// Where to write qlog files of every connection, if anywhere. Needs the feature `qlog`.
    #[cfg(feature = "qlog")]
    pub qlog_dir: Option<std::path::PathBuf>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            scheduler: Arc::new(|| Box::<Squall>::default()),
            streams: StreamScheduler::default(),
            congestion: CongestionControl::default(),
            limits: Limits::default(),
            workers: 1,
            quic_lb: None,
            idle_timeout: Duration::from_secs(30),
            path_idle_timeout: Duration::from_secs(30),
            keep_alive: Duration::from_secs(5),
            connect_timeout: Duration::from_secs(10),
            announce_timeout: Duration::from_secs(10),
            accept: None,
            distrust: false,
            race_delay: Duration::from_millis(100),
            silence: Duration::from_millis(200),
            even_offsets: false,
            signal: Some(WatermarkConfig::default()),
            #[cfg(feature = "lab")]
            lab: LabConfig::default(),
            #[cfg(feature = "qlog")]
            qlog_dir: None,
        }
    }
}

/// Switches that make a session like the systems it is compared with (feature `lab`).
#[cfg_attr(not(feature = "lab"), expect(unreachable_pub, reason = "public with the feature"))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LabConfig {
    /// Whether unreliable blocks are sent as reliable ones. The peer sees no difference. Default: no.
    pub all_reliable: bool,
    /// Whether a block ends at its deadline. Without it only the scheduler uses deadlines, and a late block is sent to its end:
    /// the peer receives no deadline ([`Received::deadline`](crate::Received::deadline) is `None`). Default: yes.
    pub expire: bool,
    /// Whether a packet counts as lost by the reordering that its path shows (`docs/congestion.md`), and is taken for
    /// delivered when it arrives later. Without it, after 3 packets or 9/8 of a round trip, as RFC 9002 §6.1 has it.
    /// Default: yes.
    pub track_reordering: bool,
    /// Whether silent paths are suspected, probed, repaired on other paths and readmitted (`docs/liveness.md`). Without it a
    /// path that fails keeps its data until it returns, or for [`Config::path_idle_timeout`], and the losses of an outage
    /// reduce its window, as in standard multipath QUIC. Default: yes.
    pub liveness: bool,
    /// Whether the receiver reports on the path that delivers best, and acknowledgements leave with the reports; else on
    /// the path with the lowest id, as noq does. Default: yes.
    pub steer_acks: bool,
}

impl LabConfig {
    /// Sessions as they are without the feature.
    const OFF: Self =
        Self { all_reliable: false, expire: true, track_reordering: true, liveness: true, steer_acks: true };

    /// Loss recovery as RFC 9002 has it, on every path by itself: no [`Self::liveness`], and thresholds of 3 packets and 9/8
    /// of a round trip (§6.1). The multipath QUIC that the papers compared with.
    #[cfg(feature = "lab")]
    pub fn standard() -> Self {
        Self { liveness: false, track_reordering: false, ..Self::OFF }
    }
}

impl Default for LabConfig {
    fn default() -> Self {
        Self::OFF
    }
}

impl Config {
    /// The switches for comparisons.
    pub(crate) fn lab(&self) -> LabConfig {
        #[cfg(feature = "lab")]
        return self.lab;
        #[cfg(not(feature = "lab"))]
        LabConfig::OFF
    }
}

/// The longest duration: sums of times stay far from the end of every clock.
pub(crate) const FOREVER: Duration = Duration::from_secs(100 * 365 * 86_400);

impl Config {
    /// The same with durations of at most [`FOREVER`], so that `Duration::MAX` can stand for "never".
    pub(crate) fn bounded(self) -> Self {
        let bounded = |duration: Duration| duration.min(FOREVER);
        Self {
            idle_timeout: bounded(self.idle_timeout),
            path_idle_timeout: bounded(self.path_idle_timeout),
            keep_alive: bounded(self.keep_alive),
            connect_timeout: bounded(self.connect_timeout),
            announce_timeout: bounded(self.announce_timeout),
            race_delay: bounded(self.race_delay),
            silence: bounded(self.silence),
            ..self
        }
    }
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config")
            .field("streams", &self.streams)
            .field("congestion", &self.congestion)
            .field("limits", &self.limits)
            .field("idle_timeout", &self.idle_timeout)
            .finish_non_exhaustive()
    }
}

/// Bounds of what a session, or its peer, can make grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Largest block in bytes, sent or received; at most 16 MiB, which is the default.
    pub block: u32,
    /// Bytes handed over and not yet known to have arrived. Default: 64 MiB.
    pub queued_bytes: u64,
    /// Bytes of blocks that are being put together, or wait to be taken by the application.
    /// Default: 64 MiB.
    pub reassembly: u64,
    /// Blocks open at a time, in each direction. Default: 65,536.
    pub open_blocks: usize,
    /// Paths at a time. Default, and most: 8.
    pub paths: usize,
    /// Handshakes in progress, and connections that have not announced themselves, at a time, on a server. Those from where the
    /// most attempts came lately make room for more, the oldest first. When a quarter are handshakes of unproven addresses, more must prove theirs first (Retry,
    /// RFC 9000 §8.1.2). Default: 1,024.
    pub handshakes: usize,
    /// Of these, those of one host: an IPv4 address, or 64 bits of one of IPv6. Default: 256.
    pub handshakes_per_host: usize,
    /// Sessions at a time, on a server; further handshakes are refused. Default: 4,096.
    pub sessions: usize,
}

impl Limits {
    /// What is held for a peer that is not trusted: enough to say who it is.
    pub(crate) fn of_a_stranger(self) -> Self {
        Self { reassembly: self.reassembly.min(64 << 10), open_blocks: self.open_blocks.min(64), ..self }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            block: MAX_BLOCK,
            queued_bytes: 64 << 20,
            reassembly: 64 << 20,
            open_blocks: 65_536,
            paths: MAX_PATHS,
            handshakes: 1024,
            handshakes_per_host: 256,
            sessions: 4096,
        }
    }
}

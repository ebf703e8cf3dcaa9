//! What can be set, with defaults and bounds.

use std::{fmt, net::SocketAddr, sync::Arc, time::Duration};

use squall_sched::{Fifo, MAX_BLOCK, MAX_PATHS, Scheduler, StreamScheduler, schedulers::squall::Squall};
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

/// Makes the stream schedulers of sessions.
pub type StreamsFactory = Arc<dyn Fn() -> Box<dyn StreamScheduler> + Send + Sync>;

/// Says of the address of a peer whether it may begin a handshake.
pub type AcceptFilter = Arc<dyn Fn(SocketAddr) -> bool + Send + Sync>;

/// Settings of sessions, and of the endpoint that accepts them. Each is set by the method of its name; some can be read.
///
/// ```
/// use std::time::Duration;
///
/// use squall_proto::Config;
///
/// let config = Config::default().silence(Duration::from_millis(100)).max_sessions(100);
/// ```
#[derive(Clone)]
#[non_exhaustive]
#[must_use]
pub struct Config {
    /// See [`Self::scheduler()`].
    pub scheduler: SchedulerFactory,
    pub(crate) streams: StreamsFactory,
    pub(crate) congestion: CongestionControl,
    /// Bounds of memory and counts, each set by the method of its name.
    pub limits: Limits,
    pub(crate) quic_lb: Option<QuicLbServer>,
    /// See [`Self::idle_timeout()`].
    pub idle_timeout: Duration,
    /// See [`Self::path_idle_timeout()`].
    pub path_idle_timeout: Duration,
    pub(crate) keep_alive: Duration,
    /// See [`Self::connect_timeout()`].
    pub connect_timeout: Duration,
    pub(crate) announce_timeout: Duration,
    pub(crate) accept: Option<AcceptFilter>,
    pub(crate) distrust: bool,
    pub(crate) race_delay: Duration,
    pub(crate) silence: Duration,
    /// See [`Endpoint::set_even_offsets`](crate::Endpoint::set_even_offsets).
    pub(crate) even_offsets: bool,
    /// See [`Self::signal()`].
    pub signal: Option<WatermarkConfig>,
    /// See [`Self::lab()`].
    #[cfg(feature = "lab")]
    pub lab: LabConfig,
    #[cfg(feature = "qlog")]
    pub(crate) qlog_dir: Option<std::path::PathBuf>,
}

impl Config {
    /// Scheduler of each session: decides what goes where. Default: [`Squall`].
    pub fn scheduler(mut self, scheduler: SchedulerFactory) -> Self {
        self.scheduler = scheduler;
        self
    }

    /// Stream scheduler of each session: decides which channel's data is next when several wait. Default: [`Fifo`], the oldest
    /// block's, whatever its channel.
    pub fn streams(mut self, streams: StreamsFactory) -> Self {
        self.streams = streams;
        self
    }

    /// Congestion controller of every path. Default: Steady.
    pub fn congestion(mut self, congestion: CongestionControl) -> Self {
        self.congestion = congestion;
        self
    }

    /// Has the connection ids of a server name it, for load balancers; see [`quic_lb`](crate::quic_lb). Default: not.
    pub fn quic_lb(mut self, quic_lb: impl Into<Option<QuicLbServer>>) -> Self {
        self.quic_lb = quic_lb.into();
        self
    }

    /// A session that receives nothing for this long is over. Time in which the process did not run does not count. Default: 30 s.
    pub fn idle_timeout(mut self, idle_timeout: Duration) -> Self {
        self.idle_timeout = idle_timeout;
        self
    }

    /// A path that is silent for this long is closed; a client opens it again, and tries until it comes up. Default: 30 s.
    pub fn path_idle_timeout(mut self, path_idle_timeout: Duration) -> Self {
        self.path_idle_timeout = path_idle_timeout;
        self
    }

    /// How often an idle path is probed, so that NATs keep it and its round-trip time stays fresh. Default: 5 s, which
    /// costs less than 1 kbit/s.
    pub fn keep_alive(mut self, keep_alive: Duration) -> Self {
        self.keep_alive = keep_alive;
        self
    }

    /// How long a handshake may take, over all interfaces. Default: 10 s.
    pub fn connect_timeout(mut self, connect_timeout: Duration) -> Self {
        self.connect_timeout = connect_timeout;
        self
    }

    /// How long after its first packet a connection to a server must have announced itself, which Squall does with the
    /// handshake. Default: 10 s.
    pub fn announce_timeout(mut self, announce_timeout: Duration) -> Self {
        self.announce_timeout = announce_timeout;
        self
    }

    /// Which peers get an answer when they begin a handshake. An address may be forged: a filter keeps load away, and
    /// takes the place of no token. Default: all.
    pub fn accept(mut self, accept: AcceptFilter) -> Self {
        self.accept = Some(accept);
        self
    }

    /// Whether a session that comes in is limited until [`Session::trust`](crate::Session::trust) is called: 64 KiB and
    /// 64 blocks wait for the application at most, and the peer's radio alerts have no effect. Further blocks are refused; 128 refusals that
    /// the application has not taken end the session. Default: no.
    pub fn distrust(mut self, distrust: bool) -> Self {
        self.distrust = distrust;
        self
    }

    /// Pause before the handshake is tried over the next interface too. Default: 100 ms, the smallest
    /// that RFC 8305 §5 allows.
    pub fn race_delay(mut self, race_delay: Duration) -> Self {
        self.race_delay = race_delay;
        self
    }

    /// Silence after which a path with packets in flight is suspected, counted from when an
    /// acknowledgement was due; two probe timeouts if those are sooner. Default: 200 ms.
    pub fn silence(mut self, silence: Duration) -> Self {
        self.silence = silence;
        self
    }

    /// How readings of this side's radios become alerts; `None` ignores the readings, and the peer's alerts too. Default: STORM's watermarks.
    pub fn signal(mut self, signal: impl Into<Option<WatermarkConfig>>) -> Self {
        self.signal = signal.into();
        self
    }

    /// Largest block in bytes, sent or received; at most 16 MiB, which is the default.
    pub fn max_block(mut self, max_block: u32) -> Self {
        self.limits.max_block = max_block;
        self
    }

    /// Bytes handed over and not yet known to have arrived. Default: 64 MiB.
    pub fn queued_bytes(mut self, queued_bytes: u64) -> Self {
        self.limits.queued_bytes = queued_bytes;
        self
    }

    /// Bytes of blocks that are being put together, or wait to be taken by the application.
    /// Default: 64 MiB.
    pub fn reassembly(mut self, reassembly: u64) -> Self {
        self.limits.reassembly = reassembly;
        self
    }

    /// Blocks open at a time, in each direction. Default: 65,536.
    pub fn open_blocks(mut self, open_blocks: usize) -> Self {
        self.limits.open_blocks = open_blocks;
        self
    }

    /// Paths at a time. Default, and most: 8.
    pub fn max_paths(mut self, max_paths: usize) -> Self {
        self.limits.max_paths = max_paths;
        self
    }

    /// Handshakes in progress, and connections that have not announced themselves, at a time, on a server. Those from where the
    /// most attempts came lately make room for more, the oldest first. When a quarter are handshakes of unproven addresses, more must prove theirs first (Retry,
    /// RFC 9000 §8.1.2). Default: 1,024.
    pub fn handshakes(mut self, handshakes: usize) -> Self {
        self.limits.handshakes = handshakes;
        self
    }

    /// Of these, those of one host: an IPv4 address, or 64 bits of one of IPv6. Default: 256.
    pub fn handshakes_per_host(mut self, handshakes_per_host: usize) -> Self {
        self.limits.handshakes_per_host = handshakes_per_host;
        self
    }

    /// Sessions at a time, on a server; further handshakes are refused. Default: 4,096.
    pub fn max_sessions(mut self, max_sessions: usize) -> Self {
        self.limits.max_sessions = max_sessions;
        self
    }

    /// Switches for comparisons.
    #[cfg(feature = "lab")]
    pub fn lab(mut self, lab: LabConfig) -> Self {
        self.lab = lab;
        self
    }

    /// Where to write qlog files of every connection, if anywhere.
    #[cfg(feature = "qlog")]
    pub fn qlog_dir(mut self, qlog_dir: impl Into<Option<std::path::PathBuf>>) -> Self {
        self.qlog_dir = qlog_dir.into();
        self
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            scheduler: Arc::new(|| Box::<Squall>::default()),
            streams: Arc::new(|| Box::new(Fifo)),
            congestion: CongestionControl::default(),
            limits: Limits::default(),
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
    /// Whether the probe after a timeout of QUIC has the oldest reliable bytes of its path once more, if they left more than
    /// a round trip ago (RFC 9002 §6.2.4); else it is a PING, and they are sent again when that is acknowledged. Default: no.
    pub probe_with_data: bool,
}

impl LabConfig {
    /// Sessions as they are without the feature.
    const OFF: Self = Self {
        all_reliable: false,
        expire: true,
        track_reordering: true,
        liveness: true,
        steer_acks: true,
        probe_with_data: false,
    };

    /// Loss recovery as RFC 9002 has it, on every path by itself: no [`Self::liveness`], thresholds of 3 packets and 9/8
    /// of a round trip (§6.1), and [probes with data](Self::probe_with_data). The multipath QUIC that the papers compared with.
    #[cfg(feature = "lab")]
    pub fn standard() -> Self {
        Self { liveness: false, track_reordering: false, probe_with_data: true, ..Self::OFF }
    }
}

impl Default for LabConfig {
    fn default() -> Self {
        Self::OFF
    }
}

impl Config {
    /// The switches for comparisons.
    pub(crate) fn switches(&self) -> LabConfig {
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
            .field("congestion", &self.congestion)
            .field("limits", &self.limits)
            .field("idle_timeout", &self.idle_timeout)
            .finish_non_exhaustive()
    }
}

/// Bounds of what a session, or its peer, can make grow; [`Config`] has a method of the name of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// See [`Config::max_block`].
    pub max_block: u32,
    /// See [`Config::queued_bytes`].
    pub queued_bytes: u64,
    /// See [`Config::reassembly`].
    pub reassembly: u64,
    /// See [`Config::open_blocks`].
    pub open_blocks: usize,
    /// See [`Config::max_paths`].
    pub max_paths: usize,
    /// See [`Config::handshakes`].
    pub handshakes: usize,
    /// See [`Config::handshakes_per_host`].
    pub handshakes_per_host: usize,
    /// See [`Config::max_sessions`].
    pub max_sessions: usize,
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
            max_block: MAX_BLOCK,
            queued_bytes: 64 << 20,
            reassembly: 64 << 20,
            open_blocks: 65_536,
            max_paths: MAX_PATHS,
            handshakes: 1024,
            handshakes_per_host: 256,
            max_sessions: 4096,
        }
    }
}

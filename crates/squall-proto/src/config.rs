//! Settings, with defaults and bounds.

use std::{fmt, net::SocketAddr, sync::Arc, time::Duration};

use squall_sched::{Fifo, MAX_BLOCK, MAX_PATHS, Scheduler, StreamScheduler, schedulers::squall::Squall};
use squall_signal::WatermarkConfig;

use crate::{congestion::CongestionControl, quic_lb::QuicLbServer};

/// Local end of paths: a network interface, or one of the addresses of a host with several.
///
/// The driver numbers them. Two interfaces may have the same address (two LTE sticks often do), so
/// an address is not enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Interface(pub u32);

/// The two ends of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NetPath<L = Interface> {
    /// Local end.
    pub local: L,
    /// Address of the peer.
    pub remote: SocketAddr,
}

/// Creates the scheduler of each new session.
pub type SchedulerFactory = Arc<dyn Fn() -> Box<dyn Scheduler> + Send + Sync>;

/// Creates the stream scheduler of each new session.
pub type StreamsFactory = Arc<dyn Fn() -> Box<dyn StreamScheduler> + Send + Sync>;

/// Returns `true` if the peer with this address may begin a handshake.
pub type AcceptFilter = Arc<dyn Fn(SocketAddr) -> bool + Send + Sync>;

/// Settings of sessions, and of the endpoint that accepts them. Each is set by the method of its
/// name; some can be read.
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
    /// Limits of memory and counts, each set by the method of its name.
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
    /// Sets the packet scheduler of each session. Default: [`Squall`].
    pub fn scheduler(mut self, scheduler: SchedulerFactory) -> Self {
        self.scheduler = scheduler;
        self
    }

    /// Sets the stream scheduler of each session, which picks the next channel when several have
    /// data. Default: [`Fifo`], the channel of the oldest block.
    pub fn streams(mut self, streams: StreamsFactory) -> Self {
        self.streams = streams;
        self
    }

    /// Sets the congestion controller of every path. Default: Steady.
    pub fn congestion(mut self, congestion: CongestionControl) -> Self {
        self.congestion = congestion;
        self
    }

    /// Encodes the server in its connection ids, for load balancers; see
    /// [`quic_lb`](crate::quic_lb). Default: off.
    pub fn quic_lb(mut self, quic_lb: impl Into<Option<QuicLbServer>>) -> Self {
        self.quic_lb = quic_lb.into();
        self
    }

    /// Sets the time without a packet from the peer after which a session ends. Time in which the
    /// process did not run does not count. Default: 30 s.
    pub fn idle_timeout(mut self, idle_timeout: Duration) -> Self {
        self.idle_timeout = idle_timeout;
        self
    }

    /// Sets the time of silence after which a path is closed. A client opens it again, and retries
    /// until it is up. Default: 30 s.
    pub fn path_idle_timeout(mut self, path_idle_timeout: Duration) -> Self {
        self.path_idle_timeout = path_idle_timeout;
        self
    }

    /// Sets the interval of probes on an idle path, which keep its NAT bindings and its round-trip
    /// time fresh. Default: 5 s, which costs less than 1 kbit/s.
    pub fn keep_alive(mut self, keep_alive: Duration) -> Self {
        self.keep_alive = keep_alive;
        self
    }

    /// Sets the timeout of a handshake, over all interfaces. Default: 10 s.
    pub fn connect_timeout(mut self, connect_timeout: Duration) -> Self {
        self.connect_timeout = connect_timeout;
        self
    }

    /// Sets the time after its first packet within which a connection to a server must have
    /// announced itself. Squall does so with the handshake. Default: 10 s.
    pub fn announce_timeout(mut self, announce_timeout: Duration) -> Self {
        self.announce_timeout = announce_timeout;
        self
    }

    /// Sets the filter of peers whose handshakes are answered. An address may be forged: a filter
    /// reduces load, and does not replace a token. Default: all peers.
    pub fn accept(mut self, accept: AcceptFilter) -> Self {
        self.accept = Some(accept);
        self
    }

    /// Limits accepted sessions until [`Session::trust`](crate::Session::trust) is called: at most
    /// 64 KiB and 64 blocks wait for the application, and the peer's radio alerts have no effect.
    /// Further blocks are refused; 128 refusals that the application has not taken end the session.
    /// Default: `false`.
    pub fn distrust(mut self, distrust: bool) -> Self {
        self.distrust = distrust;
        self
    }

    /// Sets the pause before the handshake is also tried over the next interface. Default: 100 ms,
    /// the smallest value that RFC 8305 §5 allows.
    pub fn race_delay(mut self, race_delay: Duration) -> Self {
        self.race_delay = race_delay;
        self
    }

    /// Sets the silence after which a path with packets in flight is suspected, counted from the
    /// due time of an acknowledgement; two probe timeouts if those are sooner. Default: 200 ms.
    pub fn silence(mut self, silence: Duration) -> Self {
        self.silence = silence;
        self
    }

    /// Sets the map from readings of the local radios to alerts; `None` ignores the readings, and
    /// the peer's alerts too. Default: STORM's watermarks.
    pub fn signal(mut self, signal: impl Into<Option<WatermarkConfig>>) -> Self {
        self.signal = signal.into();
        self
    }

    /// Sets the largest block in bytes, sent or received. Default and maximum: 16 MiB.
    pub fn max_block(mut self, max_block: u32) -> Self {
        self.limits.max_block = max_block;
        self
    }

    /// Limits the bytes that are handed over and not acknowledged. Default: 64 MiB.
    pub fn queued_bytes(mut self, queued_bytes: u64) -> Self {
        self.limits.queued_bytes = queued_bytes;
        self
    }

    /// Limits the bytes of blocks that are being reassembled, or wait for the application. Default:
    /// 64 MiB.
    pub fn reassembly(mut self, reassembly: u64) -> Self {
        self.limits.reassembly = reassembly;
        self
    }

    /// Limits the number of open blocks, in each direction. Default: 65,536.
    pub fn open_blocks(mut self, open_blocks: usize) -> Self {
        self.limits.open_blocks = open_blocks;
        self
    }

    /// Limits the number of paths. Default and maximum: 8.
    pub fn max_paths(mut self, max_paths: usize) -> Self {
        self.limits.max_paths = max_paths;
        self
    }

    /// Limits the handshakes in progress, and connections that have not announced themselves, on a
    /// server. When the table is full, connections from the source of the most recent attempts are
    /// dropped, the oldest first. When a quarter are handshakes of unvalidated addresses, more of
    /// them must validate theirs first (Retry, RFC 9000 §8.1.2). Default: 1,024.
    pub fn handshakes(mut self, handshakes: usize) -> Self {
        self.limits.handshakes = handshakes;
        self
    }

    /// Limits the part of [`Self::handshakes`] from one host: an IPv4 address, or 64 bits of an
    /// IPv6 one. Default: 256.
    pub fn handshakes_per_host(mut self, handshakes_per_host: usize) -> Self {
        self.limits.handshakes_per_host = handshakes_per_host;
        self
    }

    /// Limits the sessions on a server; further handshakes are refused. Default: 4,096.
    pub fn max_sessions(mut self, max_sessions: usize) -> Self {
        self.limits.max_sessions = max_sessions;
        self
    }

    /// Sets switches for comparisons.
    #[cfg(feature = "lab")]
    pub fn lab(mut self, lab: LabConfig) -> Self {
        self.lab = lab;
        self
    }

    /// Sets the folder for qlog files of every connection; `None` writes none. Default: `None`.
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
    /// Unreliable blocks are sent as reliable ones. The peer sees no difference. Default: `false`.
    pub all_reliable: bool,
    /// Blocks end at their deadline. Otherwise only the scheduler uses deadlines, and a late block
    /// is sent to its end: the peer receives no deadline
    /// ([`Received::deadline`](crate::Received::deadline) is `None`). Default: `true`.
    pub expire: bool,
    /// The loss threshold follows the reordering of the path (`docs/congestion.md`), and a packet
    /// that arrives after it was declared lost counts as delivered. Otherwise the thresholds are 3
    /// packets and 9/8 of a round trip, as in RFC 9002 §6.1. Default: `true`.
    pub track_reordering: bool,
    /// Silent paths are suspected, probed, repaired on other paths and readmitted
    /// (`docs/liveness.md`). Otherwise a path that fails keeps its data until it returns, or for
    /// [`Config::path_idle_timeout`], and the losses of an outage reduce its window, as in standard
    /// multipath QUIC. Default: `true`.
    pub liveness: bool,
    /// The receiver reports on the path that delivers best, and acknowledgements leave with the
    /// reports; otherwise on the path with the lowest id, as in noq. Default: `true`.
    pub steer_acks: bool,
    /// The probe after a timeout of QUIC repeats the oldest reliable bytes of its path, if they
    /// left more than a round trip ago (RFC 9002 §6.2.4); otherwise it is a PING, and the bytes are
    /// sent again when that is acknowledged. Default: `false`.
    pub probe_with_data: bool,
}

impl LabConfig {
    /// Values for sessions without the feature.
    const OFF: Self = Self {
        all_reliable: false,
        expire: true,
        track_reordering: true,
        liveness: true,
        steer_acks: true,
        probe_with_data: false,
    };

    /// Loss recovery by RFC 9002, on every path by itself: no [`Self::liveness`], thresholds of 3
    /// packets and 9/8 of a round trip (§6.1), and [probes with data](Self::probe_with_data). This
    /// is the multipath QUIC that the papers compared with.
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
    /// Returns the switches for comparisons.
    pub(crate) fn switches(&self) -> LabConfig {
        #[cfg(feature = "lab")]
        return self.lab;
        #[cfg(not(feature = "lab"))]
        LabConfig::OFF
    }
}

/// Longest duration: sums of times stay far from the end of every clock.
pub(crate) const FOREVER: Duration = Duration::from_secs(100 * 365 * 86_400);

impl Config {
    /// Limits durations to [`FOREVER`], so that `Duration::MAX` can stand for "never".
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

/// Limits of the memory and counts that a session, or its peer, can increase; [`Config`] has a
/// method of the name of each.
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
    /// Returns the limits for a peer that is not trusted: enough to identify itself.
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

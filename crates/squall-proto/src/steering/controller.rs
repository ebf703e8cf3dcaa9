//! The congestion controller that steers: a gate in front of the window, and a ledger of packets.
//!
//! noq asks its controller how large the window is before it puts anything that is congestion
//! controlled on a path, and reports the number of every packet that was sent, acknowledged or lost to it.
//! So a controller that answers 0 keeps a path closed, and one that keeps these reports has the fate of
//! every packet. The real controller sits inside and never learns of the gate.

use std::{
    any::Any,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use noq_proto::{
    RttEstimator,
    congestion::{Bbr3Config, Controller, ControllerFactory, ControllerMetrics, CubicConfig, NewRenoConfig},
};
use squall_sched::Micros;

use super::{
    cubic::Cubic,
    marks::Marks,
    media::{Estimate, Media},
    tolerant::Tolerance,
};
use crate::{
    Config, CongestionControl,
    congestion::{Group, Salsify, SalsifyConfig, Sqp, SqpConfig, Steady, SteadyConfig},
};

/// What became of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fate {
    /// Packet number on its path.
    pub(crate) packet: u64,
    /// Acknowledged, or declared lost.
    pub(crate) acked: bool,
    /// When this became known.
    pub(crate) at: Instant,
}

/// A packet that left: its number on the path, and its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Departure {
    pub(crate) packet: u64,
    pub(crate) bytes: u16,
}

/// What the controller of one path shares with the session.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    open: AtomicBool,
    entries: Mutex<Entries>,
    /// The controller inside, if it wants to know when packets arrived.
    media: Option<Media>,
    /// Of the connection: see [`Controllers::changes`].
    changes: Arc<AtomicUsize>,
}

/// What is in a ledger.
#[derive(Debug, Default)]
pub(crate) struct Entries {
    /// Packets sent since the session last looked, in order.
    pub(crate) sent: Vec<Departure>,
    /// Fates learnt since the session last looked.
    pub(crate) fates: Vec<Fate>,
    /// Window of the controller inside, in bytes.
    pub(crate) window: u64,
    /// Pacing rate the controller inside asks for, in bytes per second.
    pub(crate) pacing_rate: Option<u64>,
    /// What the path carries, as the controller inside estimates it, in bits per second.
    pub(crate) capacity: Option<u64>,
    /// Queue of our own that stands on the path, in microseconds, if the controller inside estimates it.
    pub(crate) queue: Option<Micros>,
    /// Time for which it has held packets, in microseconds, as that controller estimates it.
    pub(crate) held: Micros,
    /// Whether the controller inside is in slow start.
    pub(crate) slow_start: bool,
    /// Set by the session: the window is the limit, so acknowledgements may open it. Not so at the start: the handshake is
    /// no reason to, and the sizes of its packets are random.
    pub(crate) window_limited: bool,
    /// Set by the session: congestion signals of packets below this number are an outage's, and kept
    /// from the controller inside.
    pub(crate) forgive_below: u64,
    /// ECN of the path.
    pub(crate) marks: Marks,
    /// Congestion events that were passed on.
    pub(crate) congestion_events: u64,
    /// Congestion events that noq found out to have been mere reordering.
    pub(crate) spurious_events: u64,
}

impl Ledger {
    /// The peer has reported the delay of a packet, in ticks modulo 2²⁴ and up to the offset of its clock, which is another
    /// one from now on with `is_step`. Times are noq's.
    pub(crate) fn on_arrival(&self, now: Instant, packet: u64, sent: Instant, delay: u32, is_step: bool) {
        if let Some(media) = &self.media {
            self.take(media.on_arrival(now, packet, sent, delay, is_step));
        }
    }

    /// Whether data waits for the path's pacer or window, and the session has no other path.
    pub(crate) fn on_waiting(&self, now: Instant, waits: bool, is_alone: bool) {
        if let Some(media) = &self.media {
            self.take(media.on_waiting(now, waits, is_alone));
        }
    }

    fn take(&self, estimate: Estimate) {
        let mut entries = self.lock();
        entries.window = estimate.window;
        entries.pacing_rate = estimate.pacing_rate;
        entries.capacity = estimate.capacity;
        entries.queue = estimate.queue;
        entries.held = estimate.held;
    }

    pub(crate) fn open(&self, open: bool) {
        self.open.store(open, Ordering::Relaxed);
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Entries> {
        // A panic while the lock was held is already on its way out of the session.
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The controller noq sees.
#[derive(Debug)]
pub(crate) struct SteeringController {
    inner: Box<dyn Controller>,
    ledger: Arc<Ledger>,
    metrics: Metrics,
    /// Keeps losses of the medium from a controller that would answer them.
    pub(super) tolerance: Option<Tolerance>,
}

/// What the controller inside reported last: noq asks at every poll for every path.
#[derive(Clone, Copy, Debug, Default)]
struct Metrics {
    window: u64,
    ssthresh: Option<u64>,
    bandwidth: Option<u64>,
}

impl SteeringController {
    pub(super) fn new(inner: Box<dyn Controller>, ledger: Ledger, tolerance: Option<Tolerance>) -> Self {
        let (ledger, metrics) = (Arc::new(ledger), Metrics::default());
        let mut controller = Self { inner, ledger, metrics, tolerance };
        controller.refresh();
        controller
    }

    pub(crate) fn ledger(&self) -> &Arc<Ledger> {
        &self.ledger
    }

    fn refresh(&mut self) {
        let metrics = self.inner.metrics();
        let mut entries = self.ledger.lock();
        entries.window = self.inner.window();
        entries.pacing_rate = metrics.pacing_rate;
        entries.slow_start = metrics.ssthresh.is_some_and(|t| entries.window < t);
        let (window, bandwidth) = (entries.window, metrics.bandwidth_estimate);
        self.metrics = Metrics { window, ssthresh: metrics.ssthresh, bandwidth };
    }
}

impl Controller for SteeringController {
    fn on_sent(&mut self, now: Instant, bytes: u64, largest_pn: u64) {
        self.inner.on_sent(now, bytes, largest_pn);
    }

    fn on_packet_sent(&mut self, now: Instant, bytes: u16, pn: u64) {
        {
            let mut entries = self.ledger.lock();
            entries.sent.push(Departure { packet: pn, bytes });
            entries.marks.on_sent(now);
        }
        self.inner.on_packet_sent(now, bytes, pn);
    }

    fn on_ack(&mut self, now: Instant, sent: Instant, bytes: u64, pn: u64, _: bool, rtt: &RttEstimator) {
        let (app_limited, revokes_marks) = {
            let mut entries = self.ledger.lock();
            entries.fates.push(Fate { packet: pn, acked: true, at: now });
            let window = entries.window;
            (!entries.window_limited, entries.marks.on_ack(now, rtt.get(), rtt.min(), window))
        };
        if revokes_marks {
            self.inner.on_spurious_congestion_event();
        }
        if let Some(tolerance) = &mut self.tolerance {
            tolerance.on_ack(now, sent);
        }
        self.inner.on_ack(now, sent, bytes, pn, app_limited, rtt);
    }

    fn on_end_acks(&mut self, now: Instant, in_flight: u64, _: bool, largest: Option<u64>) {
        let app_limited = {
            let mut entries = self.ledger.lock();
            entries.marks.on_end_acks();
            !entries.window_limited
        };
        if !app_limited {
            self.inner.on_cwnd_limited();
        }
        self.inner.on_end_acks(now, in_flight, app_limited, largest);
        self.refresh();
    }

    fn on_congestion_event(
        &mut self,
        now: Instant,
        sent: Instant,
        persistent: bool,
        is_ecn: bool,
        lost_bytes: u64,
        largest_lost_pn: u64,
    ) {
        {
            let mut entries = self.ledger.lock();
            let counts = !is_ecn || entries.marks.on_mark();
            if largest_lost_pn < entries.forgive_below || !counts {
                return;
            }
        }
        if self.tolerance.as_mut().is_none_or(|tolerance| tolerance.passes_on(persistent, is_ecn)) {
            self.inner.on_congestion_event(now, sent, persistent, is_ecn, lost_bytes, largest_lost_pn);
        }
        self.ledger.lock().congestion_events += 1;
        self.refresh();
    }

    fn on_packet_lost(&mut self, lost_bytes: u16, pn: u64, now: Instant) {
        let forgiven = {
            let mut entries = self.ledger.lock();
            entries.fates.push(Fate { packet: pn, acked: false, at: now });
            pn < entries.forgive_below
        };
        if !forgiven {
            if let Some(tolerance) = &mut self.tolerance {
                tolerance.on_packet_lost();
            }
            self.inner.on_packet_lost(lost_bytes, pn, now);
        }
    }

    fn on_spurious_congestion_event(&mut self) {
        if self.tolerance.as_ref().is_none_or(Tolerance::passes_on_revocation) {
            self.inner.on_spurious_congestion_event();
        }
        self.ledger.lock().spurious_events += 1;
        self.refresh();
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        self.ledger.changes.fetch_add(1, Ordering::Relaxed);
        self.inner.on_mtu_update(new_mtu);
        self.refresh();
    }

    fn on_ack_frequency_update(&mut self, threshold: u64, max_ack_delay: Duration) {
        self.inner.on_ack_frequency_update(threshold, max_ack_delay);
    }

    // noq calls this only through `path_congestion_check`, and there the true window plays no part:
    // the session applies it itself before it opens the gate.
    fn window(&self) -> u64 {
        if self.ledger.open.load(Ordering::Relaxed) { u64::MAX / 2 } else { 0 }
    }

    fn metrics(&self) -> ControllerMetrics {
        let mut metrics = ControllerMetrics::default();
        metrics.congestion_window = self.metrics.window;
        metrics.ssthresh = self.metrics.ssthresh;
        metrics.bandwidth_estimate = self.metrics.bandwidth;
        // So high that noq's own pacer never holds a packet; the session paces.
        metrics.pacing_rate = Some(1 << 40);
        metrics
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        let Self { inner, ledger, metrics, tolerance } = self;
        let (inner, ledger) = (inner.clone_box(), ledger.clone());
        Box::new(Self { inner, ledger, metrics: *metrics, tolerance: tolerance.clone() })
    }

    fn initial_window(&self) -> u64 {
        self.inner.initial_window()
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

/// Builds the controllers of a connection's paths.
///
/// noq does not say for which path it wants one; the session finds out from
/// `congestion_state(path)` afterwards, whenever [`Self::built`] has grown.
#[derive(Debug)]
pub(crate) struct Controllers {
    control: CongestionControl,
    sqp: SqpConfig,
    salsify: SalsifyConfig,
    steady: SteadyConfig,
    /// The paths that [`Steady`] governs.
    group: Group,
    /// When the first was built.
    first: OnceLock<Instant>,
    built: AtomicUsize,
    changes: Arc<AtomicUsize>,
}

impl Controllers {
    pub(crate) fn new(config: &Config) -> Arc<Self> {
        let Config { congestion: control, sqp, salsify, steady, .. } = *config;
        Arc::new(Self {
            control,
            sqp,
            salsify,
            steady,
            group: Group::default(),
            first: OnceLock::new(),
            built: AtomicUsize::new(0),
            changes: Arc::default(),
        })
    }

    /// How many controllers there have been so far.
    pub(crate) fn built(&self) -> usize {
        self.built.load(Ordering::Relaxed)
    }

    /// Grows when a controller is built, and when the largest packet of a path changes.
    pub(crate) fn changes(&self) -> usize {
        self.changes.load(Ordering::Relaxed)
    }
}

impl ControllerFactory for Controllers {
    fn build(self: Arc<Self>, now: Instant, current_mtu: u16) -> Box<dyn Controller> {
        self.built.fetch_add(1, Ordering::Relaxed);
        self.changes.fetch_add(1, Ordering::Relaxed);
        let first = *self.first.get_or_init(|| now);
        let age = now.saturating_duration_since(first).as_micros() as Micros;
        let mtu = current_mtu.into();
        let own = |controller| {
            let media = Media::new(now, current_mtu, controller);
            (Box::new(media.clone()) as Box<dyn Controller>, Some(media))
        };
        let (inner, media) = match self.control {
            CongestionControl::Cubic | CongestionControl::CubicTolerant => {
                (Arc::new(CubicConfig::default()).build(now, current_mtu), None)
            }
            CongestionControl::CubicConnections(connections) => {
                (Box::new(Cubic::new(connections, current_mtu)) as Box<dyn Controller>, None)
            }
            CongestionControl::NewReno => (Arc::new(NewRenoConfig::default()).build(now, current_mtu), None),
            CongestionControl::Bbr3 => (Arc::new(Bbr3Config::default()).build(now, current_mtu), None),
            CongestionControl::Sqp => own(Box::new(Sqp::new(self.sqp, mtu))),
            CongestionControl::Salsify => own(Box::new(Salsify::new(self.salsify, mtu))),
            CongestionControl::Steady => own(Box::new(Steady::new(self.steady, mtu, &self.group, age))),
        };
        let ledger = Ledger { media, changes: self.changes.clone(), ..Ledger::default() };
        ledger.open(true);
        let tolerance = (self.control == CongestionControl::CubicTolerant).then(|| Tolerance::new(now));
        Box::new(SteeringController::new(inner, ledger, tolerance))
    }
}

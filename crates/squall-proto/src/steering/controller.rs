//! The congestion controller that steers: a gate in front of the window, and a ledger of packets.
//!
//! noq asks its controller for the window before it puts anything that is congestion controlled on
//! a path, and reports the number of every packet that was sent, acknowledged or lost to it.
//! Therefore a controller that returns 0 keeps a path closed, and one that records these reports
//! has the fate of every packet. The real controller is inside, and the gate is invisible to it.

use std::{
    any::Any,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use noq_proto::{
    RttEstimator,
    congestion::{Bbr3Config, Controller, ControllerFactory, ControllerMetrics, CubicConfig, NewRenoConfig},
};
use squall_sched::Span;

use super::{
    governor::{Declared, Governor, Lost},
    marks::Marks,
    media::{Estimate, Media},
    mtu::Sizes,
    tolerant::Tolerance,
};
use crate::{
    Config,
    congestion::{CongestionControl, Group, Kind, NewPath},
};

/// The fate of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fate {
    /// Packet number on its path.
    pub(crate) packet: u64,
    /// Acknowledged; otherwise declared lost.
    pub(crate) acked: bool,
    /// Time of the report.
    pub(crate) at: Instant,
}

/// A packet that left: its number on the path, and its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Departure {
    pub(crate) packet: u64,
    pub(crate) bytes: u16,
}

/// State that the controller of one path shares with the session.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    open: AtomicBool,
    entries: Mutex<Entries>,
    /// The controller inside, to which the session passes its verdicts.
    governor: Option<Arc<Mutex<Governor>>>,
    /// The controller inside, if it uses the times of arrivals.
    media: Option<Media>,
    /// The session declares losses, not noq.
    tracks: bool,
    /// See [`Self::lead`]: the lead that the path needs.
    lead: AtomicU64,
    /// Lead of the packets that leave now.
    lead_now: AtomicU64,
    /// Counter of the connection: see [`Controllers::changes`].
    changes: Arc<AtomicUsize>,
}

/// Contents of a ledger.
#[derive(Debug, Default)]
pub(crate) struct Entries {
    /// Packets sent since the session last read them, in order.
    pub(crate) sent: Vec<Departure>,
    /// Fates reported since the session last read them.
    pub(crate) fates: Vec<Fate>,
    /// Window of the controller inside, in bytes.
    pub(crate) window: u64,
    /// Pacing rate of the controller inside, in bytes per second.
    pub(crate) pacing_rate: Option<u64>,
    /// Rate of the path as the controller inside estimates it, in bits per second.
    pub(crate) capacity: Option<u64>,
    /// Delay of our own queue on the path, if the controller inside estimates it.
    pub(crate) queue: Option<Span>,
    /// Time for which the path has held packets, as the controller inside estimates it.
    pub(crate) held: Span,
    /// The controller inside is in slow start.
    pub(crate) slow_start: bool,
    /// Set by the session: the window is the limit, so acknowledgements may open it. Not at the
    /// start: the handshake is no reason to, and the sizes of its packets are random.
    pub(crate) window_limited: bool,
    /// Set by the session: congestion signals of packets below this number belong to an outage, and
    /// are kept from the controller inside.
    pub(crate) forgive_below: u64,
    /// ECN of the path.
    pub(crate) marks: Marks,
    /// Sizes of its packets.
    pub(crate) sizes: Sizes,
    /// Congestion events that were passed on.
    pub(crate) congestion_events: u64,
    /// Congestion events that were caused by reordering.
    pub(crate) spurious_events: u64,
    /// Packets that the session has declared lost.
    declared: Declared,
}

impl Ledger {
    /// Processes the peer's report of the delay of a packet, in ticks modulo 2²⁴ and up to the
    /// offset of its clock. With `is_step` that clock is another one from now on. Times are noq's.
    pub(crate) fn on_arrival(&self, now: Instant, packet: u64, sent: Instant, delay: u32, is_step: bool) {
        if let Some(media) = &self.media {
            self.take(media.on_arrival(now, packet, sent, delay, is_step));
        }
    }

    /// Declares packets lost, by ascending number; the next one on the path will have the number
    /// `next`. With `is_final` noq has done so already, and will report no acknowledgement.
    pub(crate) fn lose(&self, now: Instant, lost: &[Lost], next: u64, is_final: bool) {
        let Some(governor) = &self.governor else { return };
        let mut governor = lock(governor);
        let (mut bytes, mut last) = (0, None);
        for packet in lost {
            let mut entries = self.lock();
            if packet.packet < entries.forgive_below {
                self.on_forgiven(packet.bytes);
                continue;
            }
            entries.declared.insert(*packet, next);
            if is_final {
                entries.declared.confirm(packet.packet);
            }
            drop(entries);
            governor.on_packet_lost(packet.bytes, packet.packet, now);
            bytes += u64::from(packet.bytes);
            last = Some(packet);
        }
        if let Some(last) = last {
            governor.on_congestion_event(now, last.sent, false, false, bytes, last.packet);
            self.lock().congestion_events += 1;
            self.refresh(&governor);
        }
    }

    fn on_forgiven(&self, bytes: u16) {
        if let Some(media) = &self.media {
            media.on_forgiven(bytes);
        }
    }

    /// Copies the results of the controller inside.
    fn refresh(&self, governor: &Governor) -> Metrics {
        let (window, metrics) = (governor.inner.window(), governor.inner.metrics());
        let mut entries = self.lock();
        entries.window = window;
        entries.pacing_rate = metrics.pacing_rate;
        entries.slow_start = metrics.ssthresh.is_some_and(|t| window < t);
        Metrics { window, ssthresh: metrics.ssthresh, bandwidth: metrics.bandwidth_estimate }
    }

    /// Records whether data waits for the path's pacer or window; `is_alone` if the session has no
    /// other path.
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

    /// Returns the time by which departures are dated back for noq. Its round trips grow by that,
    /// and it waits for three of them before it declares a packet lost: on a path with more
    /// reordering, it would do so before the session.
    pub(crate) fn lead(&self) -> Span {
        Span::from_micros(self.lead.load(Ordering::Relaxed))
    }

    /// Returns the departure of a packet that was dated back by `lead`.
    fn left_at(sent: Instant, lead: &AtomicU64) -> Instant {
        sent + Duration::from_micros(lead.load(Ordering::Relaxed))
    }

    pub(crate) fn set_lead(&self, lead: Span) {
        self.lead.store(lead.micros(), Ordering::Relaxed);
    }

    /// Opens or closes the gate, for packets whose departure is dated back by `lead`.
    pub(crate) fn open(&self, open: bool, lead: Span) {
        self.open.store(open, Ordering::Relaxed);
        self.lead_now.store(lead.micros(), Ordering::Relaxed);
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Entries> {
        lock(&self.entries)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic that poisoned the lock already unwinds through the session.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The controller that noq uses.
#[derive(Debug)]
pub(crate) struct SteeringController {
    /// Shared with the ledger, and with clones that noq makes when the path moves.
    governor: Arc<Mutex<Governor>>,
    ledger: Arc<Ledger>,
    metrics: Metrics,
    /// noq's round trips before packets had a lead.
    rtt: Option<RttEstimator>,
}

/// Latest values of the controller inside: noq reads them at every poll for every path.
#[derive(Clone, Copy, Debug, Default)]
struct Metrics {
    window: u64,
    ssthresh: Option<u64>,
    bandwidth: Option<u64>,
}

impl SteeringController {
    pub(super) fn new(inner: Box<dyn Controller>, ledger: Ledger, tolerance: Option<Tolerance>) -> Self {
        let governor = Arc::new(Mutex::new(Governor { inner, tolerance }));
        let ledger = Arc::new(Ledger { governor: Some(governor.clone()), ..ledger });
        let metrics = ledger.refresh(&lock(&governor));
        Self { governor, ledger, metrics, rtt: None }
    }

    pub(crate) fn ledger(&self) -> &Arc<Ledger> {
        &self.ledger
    }

    pub(super) fn governor(&self) -> MutexGuard<'_, Governor> {
        lock(&self.governor)
    }

    fn refresh(&mut self) {
        self.metrics = self.ledger.refresh(&lock(&self.governor));
    }
}

impl Controller for SteeringController {
    fn on_sent(&mut self, now: Instant, bytes: u64, largest_pn: u64) {
        let now = Ledger::left_at(now, &self.ledger.lead_now);
        self.governor().inner.on_sent(now, bytes, largest_pn);
    }

    fn on_packet_sent(&mut self, now: Instant, bytes: u16, pn: u64) {
        {
            let mut entries = self.ledger.lock();
            entries.sent.push(Departure { packet: pn, bytes });
            entries.marks.on_sent(now);
            entries.sizes.on_sent(pn, bytes);
        }
        let now = Ledger::left_at(now, &self.ledger.lead_now);
        self.governor().inner.on_packet_sent(now, bytes, pn);
    }

    fn on_ack(&mut self, now: Instant, sent: Instant, bytes: u64, pn: u64, _: bool, rtt: &RttEstimator) {
        if self.ledger.lead().is_zero() {
            self.rtt = Some(*rtt);
        }
        let (sent, rtt) = (Ledger::left_at(sent, &self.ledger.lead), self.rtt.unwrap_or(*rtt));
        let (app_limited, late, revokes_marks) = {
            let mut entries = self.ledger.lock();
            entries.fates.push(Fate { packet: pn, acked: true, at: now });
            let late = entries.declared.arrives(pn);
            entries.spurious_events += u64::from(late == Some(true));
            entries.sizes.on_ack(pn);
            let window = entries.window;
            (!entries.window_limited, late, entries.marks.on_ack(now, rtt.get(), rtt.min(), window))
        };
        if revokes_marks {
            self.governor().inner.on_spurious_congestion_event();
        }
        match late {
            // The controller was notified of a loss, which stands if others were lost with it.
            Some(false) => {}
            Some(true) => self.governor().on_spurious_loss(),
            None => self.governor().on_ack(now, sent, bytes, pn, app_limited, &rtt),
        }
    }

    fn on_end_acks(&mut self, now: Instant, in_flight: u64, _: bool, largest: Option<u64>) {
        let app_limited = {
            let mut entries = self.ledger.lock();
            entries.marks.on_end_acks();
            !entries.window_limited
        };
        if !app_limited {
            self.governor().inner.on_cwnd_limited();
        }
        self.governor().inner.on_end_acks(now, in_flight, app_limited, largest);
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
        // The session reports losses itself, but leaves persistent congestion to noq.
        let is_known = self.ledger.tracks && !is_ecn && !persistent;
        {
            let mut entries = self.ledger.lock();
            let counts = !is_ecn || entries.marks.on_mark();
            if is_known || largest_lost_pn < entries.forgive_below || !counts {
                return;
            }
        }
        let sent = Ledger::left_at(sent, &self.ledger.lead);
        self.governor().on_congestion_event(now, sent, persistent, is_ecn, lost_bytes, largest_lost_pn);
        self.ledger.lock().congestion_events += 1;
        self.refresh();
    }

    fn on_packet_lost(&mut self, lost_bytes: u16, pn: u64, now: Instant) {
        let forgiven = {
            let mut entries = self.ledger.lock();
            entries.fates.push(Fate { packet: pn, acked: false, at: now });
            entries.declared.confirm(pn);
            entries.sizes.on_loss(now);
            pn < entries.forgive_below
        };
        if self.ledger.tracks {
            return;
        }
        if forgiven {
            self.ledger.on_forgiven(lost_bytes);
        } else {
            self.governor().on_packet_lost(lost_bytes, pn, now);
        }
    }

    fn on_spurious_congestion_event(&mut self) {
        if self.ledger.tracks {
            return;
        }
        self.governor().on_spurious_loss();
        self.ledger.lock().spurious_events += 1;
        self.refresh();
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        self.ledger.changes.fetch_add(1, Ordering::Relaxed);
        self.ledger.lock().sizes.on_mtu(new_mtu);
        self.governor().inner.on_mtu_update(new_mtu);
        self.refresh();
    }

    fn on_ack_frequency_update(&mut self, threshold: u64, max_ack_delay: Duration) {
        self.governor().inner.on_ack_frequency_update(threshold, max_ack_delay);
    }

    // noq calls this only through `path_congestion_check`, where the true window is not needed: the
    // session applies it before it opens the gate.
    fn window(&self) -> u64 {
        if self.ledger.open.load(Ordering::Relaxed) { u64::MAX / 2 } else { 0 }
    }

    fn metrics(&self) -> ControllerMetrics {
        let mut metrics = ControllerMetrics::default();
        metrics.congestion_window = self.metrics.window;
        metrics.ssthresh = self.metrics.ssthresh;
        metrics.bandwidth_estimate = self.metrics.bandwidth;
        // High enough that noq's own pacer never holds a packet; the session paces.
        metrics.pacing_rate = Some(1 << 40);
        metrics
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        let Self { governor, ledger, metrics, rtt } = self;
        let (governor, ledger) = (governor.clone(), ledger.clone());
        Box::new(Self { governor, ledger, metrics: *metrics, rtt: *rtt })
    }

    fn initial_window(&self) -> u64 {
        self.governor().inner.initial_window()
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

/// Builds the controllers of a connection's paths.
///
/// noq does not name the path of a new controller; the session determines it from
/// `congestion_state(path)` afterwards, whenever [`Self::built`] has grown.
#[derive(Debug)]
pub(crate) struct Controllers {
    control: CongestionControl,
    /// Paths that share bottlenecks.
    group: Group,
    /// Time at which the first controller was built.
    first: OnceLock<Instant>,
    built: AtomicUsize,
    changes: Arc<AtomicUsize>,
    /// [`LabConfig::track_reordering`](crate::config::LabConfig::track_reordering).
    tracks: bool,
}

impl Controllers {
    pub(crate) fn new(config: &Config) -> Arc<Self> {
        Arc::new(Self {
            control: config.congestion.clone(),
            group: Group::default(),
            first: OnceLock::new(),
            built: AtomicUsize::new(0),
            changes: Arc::default(),
            tracks: config.switches().track_reordering,
        })
    }

    /// Returns the number of controllers built so far.
    pub(crate) fn built(&self) -> usize {
        self.built.load(Ordering::Relaxed)
    }

    /// Returns a counter that grows when a controller is built, and when the largest packet of a
    /// path changes.
    pub(crate) fn changes(&self) -> usize {
        self.changes.load(Ordering::Relaxed)
    }
}

impl ControllerFactory for Controllers {
    fn build(self: Arc<Self>, now: Instant, current_mtu: u16) -> Box<dyn Controller> {
        self.built.fetch_add(1, Ordering::Relaxed);
        self.changes.fetch_add(1, Ordering::Relaxed);
        let first = *self.first.get_or_init(|| now);
        let age = now.saturating_duration_since(first).into();
        let kind = self.control.kind();
        let (inner, media) = match kind {
            Kind::Cubic | Kind::CubicTolerant => {
                (Arc::new(CubicConfig::default()).build(now, current_mtu), None)
            }
            Kind::NewReno => (Arc::new(NewRenoConfig::default()).build(now, current_mtu), None),
            Kind::Bbr3 => (Arc::new(Bbr3Config::default()).build(now, current_mtu), None),
            Kind::Own(factory) => {
                let path = NewPath { mtu: current_mtu.into(), age, group: &self.group };
                let media = Media::new(now, current_mtu, factory.build(&path));
                (Box::new(media.clone()) as Box<dyn Controller>, Some(media))
            }
        };
        let ledger =
            Ledger { media, tracks: self.tracks, changes: self.changes.clone(), ..Ledger::default() };
        ledger.open(true, Span::ZERO);
        ledger.lock().sizes = Sizes::new(current_mtu);
        let tolerance = matches!(kind, Kind::CubicTolerant).then(|| Tolerance::new(now));
        Box::new(SteeringController::new(inner, ledger, tolerance))
    }
}

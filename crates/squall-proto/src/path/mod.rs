//! A path of a session: its life, packets in flight, delays, losses, rates, and its state in QUIC.

mod arrivals;
mod backlog;
mod delay;
mod flight;
mod life;
mod losses;
mod prediction;
mod rate;
mod reordering;
mod sizes;
mod way_back;

use std::collections::VecDeque;

use squall_sched::{PathId, PathView, Span, Time};

use crate::{
    Role,
    capacity::Forecast,
    limiter::{Limiter, MAX_PACKET},
    metering::Allowance,
    pacer::Pacer,
    stats::PathStats,
    steering::{Entry, QuicPath},
};

use arrivals::Arrivals;
use backlog::Backlog;
pub(crate) use delay::{Delay, Level, Quickest, Reported, Rtt, Sample, one_way_delays};
pub(crate) use flight::{Chunk, Control, Flight, InFlight, Payload};
pub(crate) use life::{Change, Expectation, FULL_SIZE, Life, Packet, RadioState};
pub(crate) use losses::{Fates, Losses};
pub(crate) use prediction::Predictions;
pub(crate) use rate::RateMeter;
use rate::{Bottleneck, LossWindow};
use reordering::Reordering;
use way_back::WayBack;

/// QUIC and UDP overhead of a packet beyond the payload of its chunk, rounded up: short header,
/// packet number, frame header and tag. The header of the chunk is reserved separately.
pub(crate) const PACKET_OVERHEAD: u32 = 40;

/// Changes of the addresses of a path, counted from `since` on.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Moves {
    pub(crate) since: Time,
    pub(crate) count: u32,
    /// The last move was back to an address that noq will never validate.
    pub(crate) is_back: bool,
}

/// A path of a session.
#[derive(Debug)]
pub(crate) struct Path {
    pub(crate) id: PathId,
    pub(crate) quic: QuicPath,
    pub(crate) life: Life,
    /// Either side declares that it costs money.
    pub(crate) metered: bool,
    /// Its role, from the declarations of both sides.
    pub(crate) role: Role,
    /// Rate limit of this side, if any.
    pub(crate) limiter: Option<Limiter>,
    /// Rest of its budget, if it has one.
    pub(crate) allowance: Option<Allowance>,
    pub(crate) flight: Flight,
    /// Data that a scheduler assigned to the path and that waits for the pacer.
    pub(crate) committed: VecDeque<Chunk>,
    /// Bytes of the packets for `committed`.
    pub(crate) committed_bytes: u64,
    pub(crate) pacer: Pacer,
    pub(crate) rtt: Rtt,
    pub(crate) delay: Delay,
    pub(crate) way_back: WayBack,
    /// Queue of own packets.
    backlog: Backlog,
    /// Latest arrival report from the peer whose packet is not yet acknowledged.
    pub(crate) reported: Option<Reported>,
    pub(crate) reordering: Reordering,
    pub(crate) loss: LossWindow,
    /// Quality of the predictions of arrivals.
    pub(crate) predictions: Predictions,
    pub(crate) losses: Losses,
    pub(crate) delivery: RateMeter,
    pub(crate) bottleneck: Bottleneck,
    /// Bottleneck by flights of four packets and more, for predictions.
    pub(crate) bottleneck_of_flights: Bottleneck,
    /// Window of the controller.
    pub(crate) window: u64,
    /// The controller doubles the window within a round trip.
    pub(crate) slow_start: bool,
    /// Rate in bits per second that the controller estimates.
    pub(crate) capacity: Option<u64>,
    /// Delay of our own queue on the path, if the controller estimates it.
    pub(crate) queue: Option<Span>,
    /// Time for which it has held packets.
    pub(crate) held: Span,
    /// Forecast of its rate.
    pub(crate) forecast: Forecast,
    /// Packets acknowledged at the last forecast.
    pub(crate) forecast_at: u64,
    pub(crate) arrivals: Arrivals,
    /// Quickest data that arrived on it.
    pub(crate) quickest: Quickest,
    /// Time of the last arrival on it.
    pub(crate) received_at: Time,
    /// Recent changes of its addresses.
    pub(crate) moves: Moves,
    /// The path is to be closed as soon as another one is up.
    pub(crate) is_leaving: bool,
    /// Time of the last probe for lack of traffic.
    pub(crate) probed_at: Time,
    /// Time of the last departure of a packet with data.
    pub(crate) departed_at: Time,
    pub(crate) stats: PathStats,
    /// Span of its log messages.
    pub(crate) span: tracing::Span,
}

impl Path {
    pub(crate) fn new(id: PathId, quic: QuicPath, now: Time) -> Self {
        Self {
            id,
            quic,
            life: Life::new(now),
            metered: false,
            role: Role::Primary,
            limiter: None,
            allowance: None,
            flight: Flight::default(),
            committed: VecDeque::new(),
            committed_bytes: 0,
            pacer: Pacer::default(),
            rtt: Rtt::default(),
            delay: Delay::default(),
            backlog: Backlog::default(),
            way_back: WayBack::default(),
            reported: None,
            reordering: Reordering::default(),
            loss: LossWindow::default(),
            predictions: Predictions::default(),
            losses: Losses::default(),
            delivery: RateMeter::default(),
            bottleneck: Bottleneck::default(),
            bottleneck_of_flights: Bottleneck::of_samples_from(4 * MAX_PACKET),
            window: 0,
            slow_start: false,
            capacity: None,
            queue: None,
            held: Span::ZERO,
            forecast: Forecast::default(),
            forecast_at: 0,
            arrivals: Arrivals::default(),
            quickest: Quickest::default(),
            received_at: now,
            moves: Moves::default(),
            is_leaving: false,
            probed_at: now,
            departed_at: now,
            stats: PathStats::default(),
            span: tracing::Span::none(),
        }
    }

    /// Sets the rest of its budget, if it has one.
    pub(crate) fn set_allowance(&mut self, allowance: Option<Allowance>) {
        self.allowance = allowance;
        self.life.set_spent(allowance.is_some_and(|allowance| allowance.data < MAX_PACKET));
    }

    /// Returns the packets of data that its budget leaves.
    pub(crate) fn affordable(&self) -> usize {
        self.allowance.map_or(usize::MAX, |a| usize::try_from(a.data / MAX_PACKET).unwrap_or(usize::MAX))
    }

    /// Returns the budget in the view of schedulers. It is counted in the largest possible packets
    /// and expressed in bytes of the window, less assigned data that has not left.
    fn budget(&self, chunk: u32) -> Option<u64> {
        let packets = self.allowance?.data / MAX_PACKET;
        Some((packets * u64::from(chunk + PACKET_OVERHEAD)).saturating_sub(self.committed_bytes))
    }

    /// Returns the expected time of proof by its round trips; `silence` as in the configuration.
    pub(crate) fn expectation(&self, silence: Span) -> Expectation {
        Expectation {
            rtt: self.rtt.smoothed,
            deviation: self.rtt.deviation,
            probe_timeout: self.rtt.probe_timeout(),
            silence,
        }
    }

    /// Returns when a probe is due because proof of delivery is overdue.
    pub(crate) fn challenge_at(&self, silence: Span) -> Option<Time> {
        self.life.challenge_at(self.flight.waiting_since(), &self.expectation(silence))
    }

    /// Returns when the path will be suspected, without proof of delivery until then.
    pub(crate) fn suspect_at(&self, silence: Span) -> Option<Time> {
        self.life.suspect_at(self.flight.waiting_since(), &self.expectation(silence))
    }

    /// Returns the time for which proof of delivery has been due.
    fn overdue(&self, now: Time) -> Span {
        let due = self.life.due(self.flight.waiting_since(), self.rtt.smoothed);
        due.map_or(Span::ZERO, |due| now - due)
    }

    /// Returns the oldest packet in flight that a later one has overtaken.
    pub(crate) fn overtaken(&self) -> Option<(u64, &InFlight)> {
        self.flight
            .oldest()
            .filter(|(packet, _)| self.reordering.newest().is_some_and(|newest| *packet < newest))
    }

    /// Returns when the packet at [`Self::overtaken`] is lost. Packets that left before the process
    /// stopped count as in flight since `resumed`.
    pub(crate) fn lost_at(&self, resumed: Time) -> Option<Time> {
        let (packet, entry) = self.overtaken()?;
        let ahead = self.reordering.newest()? - packet;
        let at_once = ahead >= self.reordering.packets();
        Some(if at_once { Time::EPOCH } else { entry.sent_at.max(resumed) + self.reordering.patience() })
    }

    /// Returns when the first of challenge and suspicion is due.
    pub(crate) fn judged_at(&self, silence: Span) -> Option<Time> {
        let oldest = self.flight.waiting_since()?;
        let expected = self.expectation(silence);
        let challenge = self.life.challenge_at(Some(oldest), &expected)?;
        Some(
            self.life.suspect_at(Some(oldest), &expected).map_or(challenge, |suspect| challenge.min(suspect)),
        )
    }

    /// Returns when an idle path is probed next, to keep its NAT bindings and its round-trip time
    /// fresh; `wanted` is the interval of a path that carries no data though some waits.
    pub(crate) fn idle_probe_at(&self, keep_alive: Span, wanted: Option<Span>) -> Option<Time> {
        let measured = self.rtt.sampled_at.unwrap_or_default().max(self.probed_at);
        let wanted = wanted.map_or(Time::MAX, |interval| measured.max(self.departed_at) + interval);
        let due = wanted.min(measured + keep_alive);
        Some(due).filter(|_| !self.life.is_suspect() && !self.life.is_spent())
    }

    /// Returns the window, reduced on probation after an outage, or by a rate limit.
    pub(crate) fn effective_window(&self) -> u64 {
        self.life.cap(self.window).min(self.limit_window())
    }

    /// Returns the window that its rate limit allows.
    fn limit_window(&self) -> u64 {
        self.limiter.map_or(u64::MAX, |limiter| limiter.window(self.rtt.smoothed))
    }

    /// Returns `true` if the controller makes data wait, rather than a rate limit below the path's
    /// rate.
    pub(crate) fn waits_for_window(&self) -> bool {
        self.limiter.is_none() || self.life.cap(self.window) < self.limit_window()
    }

    /// Returns the rate, limited to its rate limit.
    pub(crate) fn within_limit(&self, rate: u64) -> u64 {
        self.limiter.map_or(rate, |limiter| rate.min(limiter.bits_per_second()))
    }

    pub(crate) fn in_flight(&self) -> u64 {
        self.flight.bytes() + self.committed_bytes
    }

    /// Returns `true` if the window leaves no room for a packet of `size`.
    pub(crate) fn is_full(&self, size: u64) -> bool {
        self.in_flight() + size > self.effective_window()
    }

    /// Returns the controller's estimate; else window over smoothed RTT, unless the path delivered
    /// less when it was given more.
    pub(crate) fn bandwidth(&self, now: Time) -> u64 {
        if let Some(capacity) = self.capacity {
            return self.within_limit(capacity);
        }
        self.within_limit(self.window_within(self.bottleneck.rate(now)))
    }

    /// Returns the bandwidth for predictions of arrivals if the controller estimates none.
    pub(crate) fn bandwidth_of_flights(&self, now: Time) -> u64 {
        self.within_limit(self.window_within(self.bottleneck_of_flights.rate(now)))
    }

    /// Returns window over smoothed RTT, up to the observed limit.
    fn window_within(&self, limit: Option<u64>) -> u64 {
        let by_window =
            (self.effective_window() * 8_000_000).checked_div(self.rtt.steady.micros()).unwrap_or(0);
        limit.map_or(by_window, |limit| by_window.min(limit))
    }

    /// Records the departure of a part of a block, in a packet of this size, on a path of this rate
    /// in bits per second. A queue that was measured before a pause has drained since; a queue of
    /// others has not drained between consecutive frames.
    pub(crate) fn on_departure(&mut self, at: Time, bytes: u64, rate: u64) {
        let takes = (8_000_000 * bytes).checked_div(rate).unwrap_or(0);
        self.backlog.on_departure(at, Span::from_micros(takes));
        let pause = at - self.departed_at;
        if pause > self.rtt.min * delay::OBSOLETE_ROUND_TRIPS {
            self.delay = self.delay.after_pause(pause);
        }
        self.departed_at = at;
    }

    /// Shortens the measured one-way delay.
    pub(crate) fn shorten_delay(&mut self, at: Time, by: Span) {
        if !by.is_zero() {
            self.delay = self.delay.after_pause(at - self.departed_at).shortened(by);
        }
    }

    /// Returns the one-way delay of a packet of this size that leaves now: bytes in flight arrive
    /// before it, at the rate of the path, and their acknowledgement takes half a round trip.
    fn owd_behind(&self, bytes: u64) -> Option<Span> {
        let rate = self.within_limit(self.capacity.filter(|rate| *rate > 0)?);
        let time = Span::from_micros(8_000_000 * (self.in_flight() + bytes) / rate);
        Some(time - (self.rtt.min / 2 + self.held))
    }

    /// Returns the time for which the window has no room for a packet, if it has none.
    fn opens_in(&self, now: Time, chunk: u32) -> Span {
        let is_full = self.in_flight() + u64::from(chunk + PACKET_OVERHEAD) > self.effective_window();
        let oldest = self.flight.waiting_since().filter(|_| is_full);
        oldest.map_or(Span::ZERO, |oldest| oldest + self.rtt.smoothed - now)
    }

    /// Returns the view for schedulers. `owd` is the measured delay, over all paths, `rate` that of
    /// the path.
    pub(crate) fn view(&self, now: Time, chunk: u32, owd: Span, rate: u64) -> PathView {
        let window = self.effective_window();
        PathView {
            id: self.id,
            state: self.life.state(),
            usable: self.life.is_usable(now),
            srtt: self.rtt.smoothed,
            latest_rtt: self.rtt.latest,
            rtt_dev: self.rtt.deviation,
            owd: self.owd_behind((chunk + PACKET_OVERHEAD).into()).map_or(owd, |behind| behind.max(owd)),
            delay: owd,
            back: self.rtt.min / 2,
            backlog: self.backlog.after(now),
            late: self.predictions.late(),
            overdue: self.overdue(now),
            loss: self.loss.ratio(),
            window,
            opens_in: self.opens_in(now, chunk),
            in_flight: self.in_flight(),
            waiting: self.committed_bytes,
            chunk,
            overhead: PACKET_OVERHEAD,
            bandwidth: self.bandwidth(now),
            rate,
            rate_grows: self.slow_start,
            is_unmeasured: false,
            queue: self.queue,
            held: self.held,
            factor: self.life.factor(),
            metered: self.metered,
            budget: self.budget(chunk),
        }
    }
}

impl Entry for Path {
    fn quic(&self) -> &QuicPath {
        &self.quic
    }

    fn quic_mut(&mut self) -> &mut QuicPath {
        &mut self.quic
    }
}

//! Steady: high rates with short queues for real-time media, and a fair share beside others.
//!
//! Loss-based controllers keep the queue of a link full: 50 to 100 ms on every path that is used
//! up, and schedulers plan by delays that their own traffic caused. Controllers that keep a rate
//! (C4) hold it too long where a radio fades. Steady limits the bytes in flight to those that
//! arrive within a bounded delay at the present rate.
//!
//! **Delay bound.** With the present rate `r` of arrivals (`rate.rs`), the mean round trip `R` of a
//! path without excess delay, but with the mean lateness of overtaken packets (`delays.rs`), and
//! the excess delay `J` of the path itself (`own_delay.rs`),
//!
//! ```text
//! W = r · (R + J + T)          T = 30 ms · (10 Mbps / r)^0.1, half of it for a queue of more than a second
//! ```
//!
//! The queue is the one-way delay beyond the smallest of ten seconds, so the way back has no
//! influence on it; it has on `R`, and changes when acknowledgements take another path.
//!
//! A burst such as a key frame may use the whole of `T`, a transfer gets half. Since `W` over the
//! round trip is `r` only with a queue of `T`, the rate grows until there is one, and shrinks as
//! soon as less arrives. Where rounds end without a queue the room doubles, from `R`/20 to `R`/2,
//! so that long paths are filled within some rounds too.
//!
//! **Loss bound.** A queue shorter than `T` is visible by losses alone: then CUBIC (RFC 9438)
//! bounds the window (`loss_bound.rs`, `losses.rs`). A loss counts as congestion if packets that
//! met a queue are lost clearly more often than others, or if more than a tenth of all is lost in
//! three rounds in a row. All other losses are the medium's, and change nothing. An ECN mark is
//! congestion in any case.
//!
//! **Whose queue is it?** A queue that stands although the window fell is tested by a dip: half a
//! pipe in flight for three rounds. If the queue falls as the missing bytes explain, it was ours.
//! If it falls by less, others keep it, and a delay bound would leave them everything: CUBIC alone
//! governs then, and dips determine whether the others are gone, the first ones each eight seconds,
//! later ones after half of the time for which the others have been present, up to 16 seconds. A
//! flow that others have squeezed to a few packets cannot test this way, as it has nothing to leave
//! out: it sends twice as much for a while, and if its share grows while the queue does not, the
//! link was not its own.
//!
//! **Is it a queue at all?** If the delay does not follow the flight, the earlier flight is
//! restored. A path that only delays carries the same rate as before, at the same delay: the delay
//! is then a part of `J` for ten seconds.
//!
//! A radio that loses its rate during a dip leaves the queue as high as others do. The way back
//! distinguishes them: the queue of a link that is all ours grows by all that is in flight again.
//! So does a queue that doubles while the rate halves.
//!
//! **Paths that share a bottleneck** are detected by delays that rise and fall together
//! (`group.rs`). Where CUBIC governs, `n` of them together grow as slowly as one flow.
//!
//! **Jitter.** `J` is the median over ten seconds of the lateness of packets that met no queue of
//! ours, up to 50 ms, or the delay that a dip has shown, without a limit. Those are the first
//! packets after a pause in which all before them arrived. On a path that reorders it is at least
//! twice the mean difference of consecutive delays (`delays.rs`).
//!
//! **Holds.** A path on which nothing arrives while data waits, and which is the only one, is
//! assumed to hold its packets: for the length of the hold the rate before it counts, and as much
//! more may be in flight (`holds.rs`).
//!
//! **Policers.** Many losses at once without a queue, that end below the rate that passed
//! meanwhile, are a policer's. Its rate bounds window, pacing and capacity, and is exceeded seldom
//! and by little to test whether it still applies (`policer.rs`).
//!
//! **Start.** The flight may be up to three times the bytes that the window has delivered, leaves
//! within a third of a round trip, and is limited to the arrivals in `R + 2·T` at the present rate;
//! the start ends with a queue of `R`/8 (12 to 25 ms), a loss by congestion, or a rate that no
//! longer grows.
//!
//! | symbol | meaning | in the code |
//! | --- | --- | --- |
//! | `W` | delay bound | `Steady::delay_bound` |
//! | `r` | present rate of arrivals | `ArrivalRate::get` |
//! | `R + J` | round trip without a queue | `Delays::round_trip` |
//! | `J` | excess delay of the path itself | `Delays::own` |
//! | `T` | queueing delay that is allowed | `Steady::target` |
//! | `n` | paths in one bottleneck | `Member::sharing` |
//!
//! The phases for the questions above are in `phase/`, the measurements in a file each. At the end
//! of a round, which is about a round trip, the phase evaluates the measurements.
//!
//! Findings, and the variants that were tried and left out: `docs/congestion.md`.

mod bursts;
mod delays;
mod flight;
mod group;
mod holds;
mod loss_bound;
mod losses;
mod own_delay;
mod phase;
mod policer;
mod queue;
mod rate;
mod target;
mod units;

use squall_units::{Span, Time};

pub use self::group::Group;
use self::{
    delays::Delays,
    flight::Flight,
    group::Member,
    holds::Holds,
    loss_bound::LossBound,
    losses::Losses,
    phase::{Finding, Phase, QueueDelay, Round, Start, Step},
    policer::Policer,
    queue::QueueHistory,
    rate::ArrivalRate,
    target::Target,
    units::{ByteRate, Delay},
};
use super::{Ack, Arrival, Controller, MAX_WINDOW};

/// Smallest window in packets: fewer give no report for each of the receiver's pairs, and a rate
/// that is measured over pairs alone does not change.
const MIN_WINDOW: u64 = 6;
/// Smallest window in packets while a queue stands: on a path of 300 kbps six packets take a fifth
/// of a second.
const MIN_WINDOW_QUEUED: u64 = 2;
/// Pacing rate over the present rate, so that a key frame leaves as soon as the window allows:
/// pacing by the window over the round trip holds it for a round trip, with 1.5 some of the pairs
/// of recorded networks lose frames.
const PACING: f64 = 2.0;
/// Pacing rate over the window and round trip, where losses bound the window: bursts of a key frame
/// would overflow the queue.
const LOSS_PACING: f64 = 1.1;
/// Smallest pacing rate where the present rate determines it, 1 Mbps: less would keep packets for
/// seconds.
const MIN_PACING: ByteRate = ByteRate::new(125e3);
/// Assumed rate of departures where the window over the round trip paces them.
const UNPACED: ByteRate = ByteRate::new(1e6);
/// Number of delivered packets before which no queue or loss may end the start: fewer are a burst
/// of ten and its echo.
const FIRST_PACKETS: u64 = 20;
/// Number of packets in flight that are next to nothing: an acknowledgement, and a report.
const FEW_PACKETS: u64 = 3;
/// Weights of the present rate in the capacity, if it is higher and if it is lower. A higher rate
/// was carried; a lower one may have been all the data, unless the path limited the rate.
const CAPACITY_WEIGHTS: (f64, f64) = (0.3, 0.1);

/// Settings of [`Steady`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SteadyConfig {
    /// `T` at 10 Mbps: queueing delay that a burst may cause; a standing queue gets half of it.
    /// Default: 30 ms. With 15 to 25 ms fewer frames of recorded networks arrive in time (by 1 to 2
    /// %), since a radio that grants its rate late needs bytes that wait for it.
    pub target: Span,
}

impl Default for SteadyConfig {
    fn default() -> Self {
        Self { target: Span::from_millis(30) }
    }
}

/// The Steady controller of one path.
#[derive(Debug, Default)]
pub struct Steady {
    mtu: u64,
    phase: Phase,
    flight: Flight,
    rate: ArrivalRate,
    /// Present rate, smoothed while the path is used up.
    capacity: ByteRate,
    delays: Delays,
    target: Target,
    queue: QueueHistory,
    holds: Holds,
    losses: Losses,
    loss_bound: LossBound,
    policer: Policer,
    /// The path in the group of its session.
    member: Member,
    /// Packets below this number have had their response to congestion.
    answered: u64,
}

impl Steady {
    /// Creates a controller for a path whose packets are up to `mtu` bytes, and which began
    /// `offset` after the `group` of all paths of its session.
    pub fn new(config: SteadyConfig, mtu: u64, group: &Group, offset: Span) -> Self {
        Self {
            mtu,
            member: group.join(offset),
            rate: ArrivalRate::new(mtu),
            target: Target::new(config.target),
            ..Self::default()
        }
    }

    /// Returns `r`; zero before it is measured.
    fn present(&self) -> ByteRate {
        self.rate.get().unwrap_or_default()
    }

    /// Returns `T`.
    fn target(&self, rate: ByteRate) -> Delay {
        self.target.at(rate) * self.queue.share()
    }

    /// Returns `W`, plus the bytes that a hold of the path adds to it.
    fn delay_bound(&self) -> f64 {
        let Some(rate) = self.rate.get() else { return f64::INFINITY };
        let rate = self.holds.at_least(rate);
        let (round_trip, target) = (self.delays.round_trip(), self.target(rate));
        let is_free = self.delays.standing() < target / 3.0;
        let room = if is_free { target.max(self.queue.room(round_trip)) } else { target };
        rate * (round_trip + room + self.holds.length())
    }

    fn start_bound(&self, start: &Start) -> u64 {
        let expected = self.present() * (self.delays.round_trip() + self.target.at_reference() * 2.0);
        start.window(expected as u64, self.mtu)
    }

    /// Returns the bytes that a policer lets pass in a round trip and the target.
    fn policed_window(&self) -> u64 {
        (self.policer.ceiling() * (self.delays.round_trip() + self.target.at_reference())) as u64
    }

    fn min_window(&self) -> u64 {
        let stands = |rate| self.phase.is_alone() && self.delays.standing() > self.target(rate);
        self.mtu * if self.rate.get().is_some_and(stands) { MIN_WINDOW_QUEUED } else { MIN_WINDOW }
    }

    fn measure_capacity(&mut self, now: Time) {
        let rate = self.present();
        if rate > self.capacity {
            self.capacity.approach(rate, CAPACITY_WEIGHTS.0);
        } else if self.flight.is_limited(now) {
            self.capacity.approach(rate, CAPACITY_WEIGHTS.1);
        }
    }

    /// Returns `true` if enough was delivered at the start to judge the path by.
    fn is_known(&self) -> bool {
        self.rate.get().is_some() && self.flight.delivered() >= FIRST_PACKETS * self.mtu
    }

    fn end_round(&mut self, now: Time) {
        self.member.end_round();
        self.losses.end_round();
        let (is_limited, in_flight) = (self.flight.is_limited(now), self.flight.in_flight());
        let target = self.rate.get().map_or(self.target.at_reference(), |rate| self.target(rate));
        let queue = QueueDelay { latest: self.delays.queue(), own: self.delays.own(), target };
        self.queue.end_round(now, queue, in_flight, is_limited, &self.phase);
        self.policer.end_round(now, self.flight.smoothed_rtt());
        let round = Round {
            now,
            queue,
            round_trip: self.delays.round_trip(),
            rate: self.present(),
            in_flight,
            window: self.window(),
            calm: self.queue.calm(),
            emptied: self.queue.emptied(),
            is_limited,
            is_known: self.is_known(),
            is_shared: self.member.is_shared(),
        };
        if let Some(step) = self.phase.end_round(&round) {
            self.transition_to(now, step);
        }
        if self.phase.is_alone() && is_limited {
            self.loss_bound.probe(self.delay_bound());
        }
    }

    fn transition_to(&mut self, now: Time, step: Step) {
        let next = Phase::from(step.next);
        debug_assert!(self.phase.may_become(&next), "{} to {}", self.phase.name(), next.name());
        match step.finding {
            Some(Finding::Own) => self.delays.set_own(now),
            Some(Finding::Queue) => self.delays.forget_own(),
            None => {}
        }
        if let Some(bound) = step.loss_bound {
            self.loss_bound = bound;
        }
        if matches!(self.phase, Phase::Dip(_)) {
            self.queue.on_dip(now);
        }
        if next.is_alone() || next.is_beside() {
            self.queue.restart(now);
        }
        self.phase = next;
        self.log(now, step.why);
    }

    /// Responds to congestion that a packet met: the first one of a round trip cuts the window.
    fn answer(&mut self, now: Time, packet: u64) {
        if packet < self.answered {
            return;
        }
        let in_flight = self.flight.in_flight().max(MIN_WINDOW * self.mtu) as f64;
        match self.phase {
            Phase::Start(_) if self.is_known() => {
                self.transition_to(now, Start::end("packets met congestion"));
            }
            // The delay bound has responded already.
            Phase::Alone(_) if self.delay_bound() < in_flight => return,
            Phase::Alone(_) | Phase::Beside(_) => {
                self.loss_bound.cut(now, in_flight, self.mtu);
                self.log(now, "packets met congestion: the loss bound is cut");
            }
            Phase::Start(_) | Phase::Dip(_) | Phase::Restore(_) | Phase::Lift(_) => return,
        }
        self.answered = self.flight.next();
    }

    /// Logs one line for each decision: milliseconds since the path was opened, Mbps, bytes, and
    /// delays in milliseconds.
    fn log(&self, now: Time, why: &str) {
        let ms = |delay: Delay| delay.micros() / 1e3;
        tracing::debug!(
            at = now.micros() / 1_000,
            phase = self.phase.name(),
            rate = format_args!("{:.1}", 1e-6 * self.present().bits_per_second() as f64),
            window = self.window(),
            in_flight = self.flight.in_flight(),
            round_trip = format_args!("{:.1}", ms(self.delays.round_trip())),
            own = format_args!("{:.1}", ms(self.delays.own())),
            queue = format_args!("{:.1}", ms(self.delays.queue())),
            "{why}"
        );
    }
}

impl Controller for Steady {
    fn on_sent(&mut self, now: Time, packet: u64, bytes: u64) {
        let pacing = self.pacing_rate().map_or(UNPACED, |rate| ByteRate::new(rate as f64 / 8.0));
        self.rate.on_sent(now, packet, pacing.time_for(bytes as f64));
        self.delays.on_sent(now, packet);
        self.holds.on_sent(now, packet, self.flight.in_flight() < FEW_PACKETS * self.mtu);
        self.flight.on_sent(packet, bytes);
    }

    fn on_waiting(&mut self, now: Time, waits: bool, is_alone: bool) {
        if waits {
            self.flight.on_waiting(now);
        }
        if waits && is_alone {
            self.holds.on_waiting(now, self.capacity, self.flight.smoothed_rtt());
        }
        self.rate.on_waiting(now, waits);
    }

    fn on_ack(&mut self, now: Time, ack: &Ack) {
        let Ack { packet, sent, bytes, .. } = *ack;
        self.delays.on_ack(packet, now - sent, self.flight.smoothed_rtt());
        self.rate.on_ack(bytes);
        self.policer.on_ack(packet, sent, bytes);
        if let Phase::Start(mut start) = self.phase {
            start.on_ack(bytes, self.flight.in_flight(), self.start_bound(&start));
            self.phase = Phase::Start(start);
        }
        self.flight.on_ack(packet, sent, bytes);
        self.losses.on_packet(self.delays.met_queue());
    }

    fn on_end_acks(&mut self, now: Time, _in_flight: u64) {
        let Some(acked) = self.flight.on_end_acks(now) else { return };
        let bounds = self.phase.is_beside() || self.loss_bound.window() < self.delay_bound();
        if bounds && self.flight.is_limited(now) {
            self.loss_bound.grow(now, acked, self.flight.smoothed_rtt(), self.mtu, self.member.sharing());
        }
    }

    fn on_arrival(&mut self, now: Time, arrival: Arrival) {
        let smoothed_rtt = self.flight.smoothed_rtt();
        self.rate.on_arrival(arrival, self.delays.jitter());
        self.measure_capacity(now);
        let takes = self.rate.get().map_or(Delay::MAX, |rate| rate.time_for(self.mtu as f64));
        self.delays.on_arrival(now, arrival, smoothed_rtt, takes);
        self.holds.on_arrival(now, arrival, self.flight.next(), self.flight.in_flight());
        self.delays.set_shared(self.member.is_shared() && self.loss_bound.is_finite());
        self.member.add(arrival.sent, arrival.delay());
        if self.flight.ends_round(arrival.packet) {
            self.end_round(now);
        }
        if matches!(self.phase, Phase::Start(_))
            && self.is_known()
            && self.flight.is_limited(now)
            && Start::is_ended_by(self.delays.standing(), self.delays.round_trip())
        {
            self.transition_to(now, Start::end("a queue ends the start"));
        }
    }

    fn on_loss(&mut self, now: Time, packet: u64, bytes: u64) {
        let met_queue = self.delays.met_queue();
        self.losses.on_loss(packet, met_queue);
        self.policer.on_loss(now, packet, bytes, met_queue, self.flight.smoothed_rtt());
        if self.losses.is_congestion(met_queue) {
            self.answer(now, packet);
        }
        self.flight.remove(bytes);
    }

    fn on_forgiven(&mut self, bytes: u64) {
        self.flight.remove(bytes);
    }

    fn on_mark(&mut self, now: Time, packet: u64) {
        self.answer(now, packet);
    }

    fn on_spurious_loss(&mut self) {
        self.loss_bound.undo();
    }

    fn on_persistent_congestion(&mut self, _now: Time) {
        self.rate.halve();
    }

    fn on_mtu(&mut self, bytes: u64) {
        self.mtu = bytes;
        self.rate.on_mtu(bytes);
    }

    fn window(&self) -> u64 {
        let window = match &self.phase {
            Phase::Start(start) => self.start_bound(start),
            Phase::Alone(_) => self.delay_bound().min(self.loss_bound.window()) as u64,
            Phase::Dip(dip) => dip.window(self.present(), self.delays.round_trip()),
            Phase::Restore(restore) => restore.window(self.delay_bound() as u64),
            Phase::Lift(lift) => lift.window(),
            Phase::Beside(_) => self.loss_bound.window() as u64,
        };
        window.min(self.policed_window()).clamp(self.min_window(), MAX_WINDOW)
    }

    fn capacity(&self) -> Option<u64> {
        let is_known = self.capacity > ByteRate::default() && !matches!(self.phase, Phase::Start(_));
        is_known.then(|| self.capacity.min(self.policer.ceiling()).bits_per_second())
    }

    fn queue(&self) -> Option<Span> {
        Some(self.delays.standing().span())
    }

    fn held(&self) -> Span {
        self.holds.length().span()
    }

    fn pacing_rate(&self) -> Option<u64> {
        let smoothed_rtt = self.flight.smoothed_rtt();
        let asked = match &self.phase {
            Phase::Start(start) if smoothed_rtt > Delay::ZERO => {
                Some(Start::pacing_rate(self.start_bound(start), smoothed_rtt))
            }
            Phase::Alone(_) if self.loss_bound.is_finite() => {
                Some(ByteRate::of(LOSS_PACING * self.loss_bound.window(), smoothed_rtt))
            }
            Phase::Alone(_) | Phase::Dip(_) => self.rate.get().map(|rate| (rate * PACING).max(MIN_PACING)),
            _ => None,
        };
        let policed = Some(self.policer.ceiling()).filter(|rate| rate.is_finite());
        asked.into_iter().chain(policed).map(ByteRate::bits_per_second).min()
    }
}

#[cfg(test)]
mod tests;

//! Steady: high rates with short queues for real-time media, and a fair share beside others.
//!
//! Loss-based controllers keep the queue of a link full: 50 to 100 ms on every path that is used up, and schedulers
//! plan by delays that their own traffic made. Controllers that keep a rate (C4) hold it too long where a
//! radio fades. This one keeps in flight no more than arrives within a bounded delay at the present rate.
//!
//! **Delay bound.** With the present rate `r` of arrivals (`rate.rs`), the mean round trip `R` of a path without excess delay, but
//! with the mean lateness of what was overtaken, and the excess delay `J` of the path itself (`delays.rs`),
//!
//! ```text
//! W = r · (R + J + T)          T = 30 ms · (10 Mbps / r)^0.1, half of it for a queue that stands for longer than a second
//! ```
//!
//! The queue is the one-way delay beyond the smallest of ten seconds, so the way back plays no part in it; it does in `R`,
//! and changes when acknowledgements take another path.
//!
//! A burst such as a key frame may use the whole of `T`, a transfer gets half. Since `W` over the round trip is `r` only
//! when `T` of queue stands, the rate grows until it does, and shrinks as soon as less arrives. Where rounds end without a
//! queue the room doubles, from `R`/20 to `R`/2, so that long paths are filled within some rounds too.
//!
//! **Loss bound.** A queue shorter than `T` shows itself by losses alone: then CUBIC (RFC 9438) bounds the window
//! (`loss.rs`). A loss counts as congestion if packets that met a queue are lost clearly more often than others, or if more
//! than a tenth of all is lost in three rounds in a row. All other losses are the medium's, and change nothing. An ECN mark is
//! congestion in any case.
//!
//! **Whose queue is it?** A queue that stands although the window fell is tested by a dip: half a pipe in flight for three
//! rounds. If the queue falls as the missing bytes explain, it was ours. If it falls by less, others keep it, and a delay bound
//! would leave them everything: CUBIC alone governs then, and dips find out whether the others are gone, the first ones each eight
//! seconds, later ones after half as long as the others have been there, up to 16 seconds. A flow that others have squeezed to a
//! few packets cannot test this way, as it has nothing to leave out: it sends twice as much for a while, and if its share grows while
//! the queue does not, the link was not its own.
//!
//! **Is it a queue at all?** If the delay does not follow the flight, as much as before is sent again. A path that only delays
//! carries what it carried, and no later: the delay is then a part of `J` for ten seconds.
//!
//! A radio that loses its rate during a dip leaves the queue as high as others do. On the way back it shows: the queue of a
//! link that is all ours grows by all that is in flight again. So does a queue that doubles while the rate halves.
//!
//! **Paths that share a bottleneck** are detected by delays that go up and down together (`group.rs`). Where CUBIC governs, `n` of them
//! grow as slowly as takes one flow's share.
//!
//! **Jitter.** `J` is the median over ten seconds of what packets are late that met no queue of ours, up to 50 ms, or the delay
//! that a dip has shown, without a bound. Those are the first packets after a pause in which all before them arrived.
//!
//! **Holds.** A path on which nothing arrives while data waits, and which is the only one, is taken to hold what left: for its
//! length the rate before it counts, and as much more may be in flight (`holds.rs`).
//!
//! **Policers.** Many losses at once without a queue, that end below the rate that passed meanwhile, are a policer's. Its rate bounds
//! window, pacing and capacity, and is exceeded seldom and by little to see whether it still holds (`policer.rs`).
//!
//! **Start.** Up to three times what the window has delivered may be in flight, leaves within a third of a round trip, and is
//! no more than arrives in `R + 2·T` at the present rate; the start ends with a queue of `R`/8 (12 to 25 ms), a loss by
//! congestion, or a rate that no longer grows.
//!
//! Findings, and what was tried and left out: `docs/congestion.md`.

mod delays;
mod group;
mod holds;
mod loss;
#[cfg(test)]
mod net;
mod others;
mod policer;
mod rate;
#[cfg(test)]
mod tests;

use std::cell::Cell;

use squall_sched::Micros;

pub use self::group::Group;
use self::{
    delays::{Delays, MEMORY},
    group::Member,
    holds::Holds,
    loss::{LossBound, Losses},
    others::{Before, Beside, DIP},
    policer::Policer,
    rate::ArrivalRate,
};
use super::{Ack, Arrival, Controller, INITIAL_PACKETS, MAX_WINDOW, minimum::Maximum};

/// Smallest window in packets: fewer give no report for each of the receiver's pairs, and a rate that is measured over
/// pairs alone stays where it is.
const MIN_WINDOW: u64 = 6;
/// The same while a queue stands: on a path of 300 kbps six packets are one of a fifth of a second.
const MIN_WINDOW_QUEUED: u64 = 2;
/// The target is as configured at this rate, in bytes per second, and falls slowly with it: at high rates the same delay is
/// many more packets than a scheduler or a burst has use for.
const TARGET_RATE: f64 = 1.25e6;
/// How slowly: 1 Mbps has 38 ms, 100 Mbps 24. Exponents of 0.25 and 0.5 cost frames on recorded networks.
const TARGET_EXPONENT: f64 = 0.1;
/// A queue that stands for this long is not a burst's; from then on the target falls to a half within a second.
const BURST: Micros = 500_000;
/// Share of the target that is left to a queue that stands.
const STANDING_SHARE: f64 = 0.5;
/// Room beyond the round trip while no queue is seen, as a share of it: at first …
const FIRST_ROOM: f64 = 0.05;
/// … doubled with each round, up to CUBIC's factor of 1.5.
const MOST_ROOM: f64 = 0.5;
/// Doublings from the first to the most.
const DOUBLINGS: i32 = 4;
/// Pacing rate over the present rate, so that a key frame leaves as soon as the window lets it: pacing by the window over
/// the round trip holds it for a round trip, with 1.5 some of the pairs of recorded networks lose frames.
const PACING: f64 = 2.0;
/// Pacing over the window and round trip, where losses bound the window: bursts of a key frame would overflow the queue.
const LOSS_PACING: f64 = 1.1;
/// The start: the window over what was delivered, and pacing over the window and round trip. Were it paced more slowly, the rate
/// of arrivals would be that of the pacer, which bounds the window too.
const START_GROWTH: u64 = 3;
/// Packets whose delivery must be known before a queue or a loss may end the start: fewer are a burst of ten and its echo.
const FIRST_PACKETS: u64 = 20;
/// Rounds without growth of a quarter that end the start: a radio may take as many to grant its rate.
const FLAT_ROUNDS: u8 = 12;
/// After a dip the queue says nothing of what stood before, for this long in microseconds.
const AFTER_DIP: Micros = 500_000;
/// Packets in flight that are next to nothing: an acknowledgement, and a report.
const FEW_PACKETS: u64 = 3;
/// What can be set of Steady.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SteadyConfig {
    /// `T` at 10 Mbps: queueing delay that a burst may cause, in microseconds; a queue that stands gets half of it. Default:
    /// 30,000. With 15,000 to 25,000 the frames of recorded networks arrive more rarely in time (by 1 to 2 %), since a radio
    /// that grants its rate late needs bytes that wait for it.
    pub target: Micros,
}

impl Default for SteadyConfig {
    fn default() -> Self {
        Self { target: 30_000 }
    }
}

/// What governs the window, and what is known since it does.
#[derive(Clone, Copy, Debug)]
enum Phase {
    /// Nothing is known of the path yet.
    Start(Start),
    /// The delay bound, and the loss bound if there is one. A queue has stood beyond the target for `standing` rounds in a row, since
    /// `first`.
    Alone { standing: u8, first: Before },
    /// Half a pipe is in flight, for `rounds` more, to learn whose queue it is; with the time since which others were there before it.
    Dip { rounds: u8, before: Before, beside: Option<Micros> },
    /// As much is in flight as before a dip, for `rounds` more, to learn whether the path alone delays.
    Restore { rounds: u8, before: Before, bottom: Before },
    /// Twice as much is in flight, for `rounds` more, to learn the same; `again` if it has been twice as much already.
    Lift { rounds: u8, before: Before, again: bool },
    /// The loss bound: others keep a queue.
    Beside(Beside),
}

/// How far the start has come.
#[derive(Clone, Copy, Debug, Default)]
struct Start {
    /// Bytes that were delivered while at least half of the window was in use.
    delivered: u64,
    /// Rounds in a row without growth, and the rate before them.
    flat: (u8, f64),
}

impl Default for Phase {
    fn default() -> Self {
        Self::Start(Start::default())
    }
}

impl Phase {
    /// Its name in the log.
    fn name(&self) -> &'static str {
        match self {
            Self::Start(_) => "start",
            Self::Alone { .. } => "alone",
            Self::Dip { .. } => "dip",
            Self::Restore { .. } => "restore",
            Self::Lift { .. } => "lift",
            Self::Beside(_) => "beside",
        }
    }
}

/// Steady on one path.
#[derive(Debug, Default)]
pub struct Steady {
    config: SteadyConfig,
    mtu: u64,
    /// The path among those of its session.
    member: Member,
    phase: Phase,
    /// The round, about a round trip, ends when this packet arrives: the first that left after it began.
    round_end: u64,
    loss: LossBound,
    losses: Losses,
    /// Paths of the session that share the bottleneck.
    sharing: f64,
    rate: ArrivalRate,
    /// What the path carries in bytes per second: the present rate, smoothed while the path is used up.
    capacity: f64,
    smoothed_rtt: f64,
    delays: Delays,
    holds: Holds,
    policer: Policer,
    /// Rounds in a row without a queue.
    free: i32,
    /// When a queue was last seen to be gone, and when it began to stand for the target.
    empty: Micros,
    stands_since: Micros,
    /// Share of the target that is left.
    share: f64,
    power: Power,
    /// When the last dip was judged.
    judged: Micros,
    /// Most in flight of ten seconds while the queue was within the target, in bytes.
    calm: Maximum,
    /// When data last waited for the window or the pacer.
    waited: Option<Micros>,
    /// Number of the packet that leaves next.
    next: u64,
    /// Losses of packets below this have been answered.
    answered: u64,
    in_flight: u64,
    delivered: u64,
    /// Of the acknowledgements that are coming in: newest packet and when it left, and bytes.
    newest: Option<(u64, Micros)>,
    acked: u64,
}

/// How `T` depends on the rate: the last one, since the window is asked for several times at each.
#[derive(Debug, Default)]
struct Power(Cell<Option<(f64, f64)>>);

impl Power {
    fn of(&self, rate: f64) -> f64 {
        if let Some((_, power)) = self.0.get().filter(|(last, _)| *last == rate) {
            return power;
        }
        let power = (TARGET_RATE / rate).powf(TARGET_EXPONENT);
        self.0.set(Some((rate, power)));
        power
    }
}

impl Steady {
    /// A controller for a path whose packets are up to `mtu` bytes, and which began `offset` microseconds after the `group`
    /// of all paths of its session.
    pub fn new(config: SteadyConfig, mtu: u64, group: &Group, offset: Micros) -> Self {
        Self {
            config,
            mtu,
            member: group.join(offset),
            sharing: 1.0,
            rate: ArrivalRate::new(mtu),
            share: 1.0,
            ..Self::default()
        }
    }

    /// Whether the path, not the application, limited the rate within the last two round trips.
    fn is_limited(&self, now: Micros) -> bool {
        self.waited.is_some_and(|at| now < at + (2.0 * self.smoothed_rtt) as Micros)
    }

    /// Bytes per second at present; nothing before there is a rate.
    fn present(&self) -> f64 {
        self.rate.get().unwrap_or(0.0)
    }

    /// `T` at a rate, in microseconds.
    fn target(&self, rate: f64) -> f64 {
        self.config.target as f64 * self.power.of(rate) * self.share
    }

    fn delay_bound(&self) -> f64 {
        let Some(rate) = self.rate.get() else { return f64::INFINITY };
        let rate = self.holds.at_least(rate);
        let target = self.target(rate);
        let growth = (FIRST_ROOM * 2f64.powi(self.free)).min(MOST_ROOM) * self.delays.round_trip();
        let room = if self.delays.standing() < target / 3.0 { target.max(growth) } else { target };
        rate * (self.delays.round_trip() + room + self.holds.length()) / 1e6
    }

    /// At the start the present rate is a guess, which the bytes that it has carried keep within bounds.
    fn start_bound(&self, start: Start) -> u64 {
        let delay = self.delays.round_trip() + 2.0 * self.config.target as f64;
        let present = (self.present() * delay / 1e6) as u64;
        present.clamp(start.delivered / 2, START_GROWTH * start.delivered) + INITIAL_PACKETS * self.mtu
    }

    /// What a policer lets pass in a round trip, and the target.
    fn policed_window(&self) -> u64 {
        (self.policer.ceiling() * (self.delays.round_trip() + self.config.target as f64) / 1e6) as u64
    }

    fn min_window(&self) -> u64 {
        let stands =
            |rate| matches!(self.phase, Phase::Alone { .. }) && self.delays.standing() > self.target(rate);
        self.mtu * if self.rate.get().is_some_and(stands) { MIN_WINDOW_QUEUED } else { MIN_WINDOW }
    }

    fn measure_capacity(&mut self, now: Micros) {
        let rate = self.present();
        // What arrives faster was carried; what arrives more slowly may have been all there was.
        let weight = match (rate > self.capacity, self.is_limited(now)) {
            (true, _) => 0.3,
            (false, true) => 0.1,
            (false, false) => 0.0,
        };
        self.capacity += weight * (rate - self.capacity);
    }

    fn end_round(&mut self, now: Micros) {
        self.round_end = self.next;
        self.sharing = self.member.sharing();
        self.losses.end_round();
        let queue = self.delays.queue();
        let limited = self.is_limited(now);
        let target = self.rate.get().map_or(self.config.target as f64, |rate| self.target(rate));
        self.note_queue(now, queue, target, limited);
        self.policer.end_round(now, self.smoothed_rtt);
        match self.phase {
            Phase::Start(start) => self.end_flat_start(now, start, limited),
            Phase::Alone { standing, first } => {
                self.look_for_others(now, queue, target, limited, (standing, first));
            }
            Phase::Dip { rounds: 0, before, beside } => self.judge_dip(now, queue, target, before, beside),
            Phase::Restore { rounds: 0, before, bottom } => {
                self.judge_restored(now, queue, target, before, bottom);
            }
            Phase::Lift { rounds: 0, before, again } => self.judge_lift(now, queue, before, again),
            Phase::Dip { ref mut rounds, .. }
            | Phase::Restore { ref mut rounds, .. }
            | Phase::Lift { ref mut rounds, .. } => *rounds -= 1,
            Phase::Beside(beside) => self.look_beside(now, queue, target, limited, beside),
        }
        if matches!(self.phase, Phase::Alone { .. }) && limited {
            self.loss.probe(self.delay_bound());
        }
    }

    fn note_queue(&mut self, now: Micros, queue: f64, target: f64, limited: bool) {
        let is_empty = queue - self.delays.jitter() < target / 3.0;
        // Beside others it is measured from the bottom of CUBIC's cycle, as soon as a dip is ten seconds ago.
        if !limited || is_empty && !matches!(self.phase, Phase::Beside(_)) {
            self.empty = now;
        }
        let dipped = !matches!(self.phase, Phase::Alone { .. }) || now < self.judged + AFTER_DIP;
        if !limited || is_empty && !dipped {
            self.stands_since = now;
        }
        let over = (now - self.stands_since).saturating_sub(BURST) as f64 / 1e6;
        self.share = 1.0 - (1.0 - STANDING_SHARE) * over.min(1.0);
        if queue <= target + self.delays.jitter() {
            self.calm.add(now, self.in_flight as i64, MEMORY);
        }
        self.free = if limited && is_empty { (self.free + 1).min(DOUBLINGS) } else { 0 };
    }

    /// Whether enough was delivered at the start to judge the path by.
    fn is_known(&self) -> bool {
        self.rate.get().is_some() && self.delivered >= FIRST_PACKETS * self.mtu
    }

    fn end_flat_start(&mut self, now: Micros, mut start: Start, limited: bool) {
        let (rounds, from) = start.flat;
        let rate = self.present();
        if limited {
            start.flat = if rate > 1.25 * from { (0, rate) } else { (rounds + 1, from) };
        }
        self.phase = Phase::Start(start);
        if start.flat.0 >= FLAT_ROUNDS && self.is_known() {
            self.go_alone(now, "the rate no longer grows");
        }
    }

    /// A packet met congestion: the first one of a round trip cuts the window.
    fn answer(&mut self, now: Micros, packet: u64) {
        if packet < self.answered {
            return;
        }
        let in_flight = self.in_flight.max(MIN_WINDOW * self.mtu) as f64;
        match self.phase {
            Phase::Start(_) if !self.is_known() => return,
            Phase::Start(_) => self.go_alone(now, "packets met congestion"),
            // The delay bound has reacted already.
            Phase::Alone { .. } if self.delay_bound() < in_flight => return,
            Phase::Alone { .. } | Phase::Beside(_) => {
                self.loss.cut(now, in_flight, self.mtu);
                self.log(now, "packets met congestion: the loss bound is cut");
            }
            Phase::Dip { .. } | Phase::Lift { .. } | Phase::Restore { .. } => return,
        }
        self.answered = self.next;
    }

    fn go_alone(&mut self, now: Micros, why: &str) {
        self.empty = now;
        self.enter(now, Phase::Alone { standing: 0, first: Before::default() }, why);
    }

    fn enter(&mut self, now: Micros, phase: Phase, why: &str) {
        self.phase = phase;
        self.log(now, why);
    }

    /// One line of the log for each decision: milliseconds since the path was made, Mbps, bytes, and delays in milliseconds.
    fn log(&self, now: Micros, why: &str) {
        tracing::debug!(
            at = now / 1_000,
            phase = self.phase.name(),
            rate = format_args!("{:.1}", 8e-6 * self.present()),
            window = self.window(),
            in_flight = self.in_flight,
            round_trip = format_args!("{:.1}", self.delays.round_trip() / 1e3),
            own = format_args!("{:.1}", self.delays.jitter() / 1e3),
            queue = format_args!("{:.1}", self.delays.queue() / 1e3),
            "{why}"
        );
    }
}

impl Controller for Steady {
    fn on_sent(&mut self, now: Micros, packet: u64, bytes: u64) {
        let pacing = self.pacing_rate().map_or(1e6, |rate| rate as f64 / 8.0);
        self.rate.on_sent(now, packet, bytes as f64 * 1e6 / pacing);
        self.delays.on_sent(now, packet);
        self.holds.on_sent(now, packet, self.in_flight < FEW_PACKETS * self.mtu);
        self.next = packet + 1;
        self.in_flight += bytes;
    }

    fn on_waiting(&mut self, now: Micros, waits: bool, is_alone: bool) {
        if waits {
            self.waited = Some(now);
        }
        if waits && is_alone {
            self.holds.on_waiting(now, self.capacity, self.smoothed_rtt);
        }
        self.rate.on_waiting(now, waits);
    }

    fn on_ack(&mut self, now: Micros, ack: &Ack) {
        let Ack { packet, sent, bytes, .. } = *ack;
        self.delays.on_ack(packet, now.saturating_sub(sent), self.smoothed_rtt);
        self.rate.on_ack(bytes);
        self.policer.on_ack(packet, sent, bytes);
        self.delivered += bytes;
        self.acked += bytes;
        // As with slow start (RFC 9002 §7.8): what did not use the window does not open it.
        if let Phase::Start(start) = self.phase
            && 2 * self.in_flight >= self.start_bound(start)
        {
            self.phase = Phase::Start(Start { delivered: start.delivered + bytes, ..start });
        }
        self.in_flight = self.in_flight.saturating_sub(bytes);
        self.losses.on_packet(self.delays.met_queue());
        if self.newest.is_none_or(|(newest, _)| packet > newest) {
            self.newest = Some((packet, sent));
        }
    }

    fn on_end_acks(&mut self, now: Micros, _in_flight: u64) {
        let Some((_, sent)) = self.newest.take() else { return };
        let rtt = now.saturating_sub(sent) as f64;
        let weight = if self.smoothed_rtt == 0.0 { 1.0 } else { 1.0 / 8.0 };
        self.smoothed_rtt += weight * (rtt - self.smoothed_rtt);
        let acked = std::mem::take(&mut self.acked);
        let bounds = matches!(self.phase, Phase::Beside(_)) || self.loss.window() < self.delay_bound();
        if bounds && self.is_limited(now) {
            self.loss.grow(now, acked, self.smoothed_rtt, self.mtu, self.sharing);
        }
    }

    fn on_arrival(&mut self, now: Micros, arrival: Arrival) {
        self.rate.on_arrival(arrival, self.delays.jitter().max(2.0 * self.delays.late()));
        self.measure_capacity(now);
        let takes = self.rate.get().map_or(f64::MAX, |rate| self.mtu as f64 * 1e6 / rate);
        self.delays.add(now, arrival, self.smoothed_rtt, takes);
        self.holds.on_arrival(now, arrival, self.next, self.in_flight);
        self.delays.set_shared(self.sharing > 1.0 && self.loss.window().is_finite());
        self.member.add(arrival.sent, arrival.delay());
        if arrival.packet >= self.round_end {
            self.end_round(now);
        }
        let queue = (self.delays.round_trip() / 8.0).clamp(12e3, 25e3);
        if matches!(self.phase, Phase::Start(_))
            && self.is_known()
            && self.is_limited(now)
            && self.delays.standing() > queue
        {
            self.go_alone(now, "a queue ends the start");
        }
    }

    fn on_loss(&mut self, now: Micros, packet: u64, bytes: u64) {
        let met_queue = self.delays.met_queue();
        self.losses.on_loss(packet, met_queue);
        self.policer.on_loss(now, packet, bytes, met_queue, self.smoothed_rtt);
        if self.losses.is_congestion(met_queue) {
            self.answer(now, packet);
        }
        self.in_flight = self.in_flight.saturating_sub(bytes);
    }

    fn on_forgiven(&mut self, bytes: u64) {
        self.in_flight = self.in_flight.saturating_sub(bytes);
    }

    fn on_mark(&mut self, now: Micros, packet: u64) {
        self.answer(now, packet);
    }

    fn on_spurious_loss(&mut self) {
        self.loss.undo();
    }

    fn on_persistent_congestion(&mut self, _now: Micros) {
        self.rate.halve();
    }

    fn on_mtu(&mut self, bytes: u64) {
        self.mtu = bytes;
        self.rate.on_mtu(bytes);
    }

    fn window(&self) -> u64 {
        let window = match self.phase {
            Phase::Start(start) => self.start_bound(start),
            Phase::Alone { .. } => self.delay_bound().min(self.loss.window()) as u64,
            // What is left out halves the rate. If that falls further, the others take it.
            Phase::Dip { before, .. } => {
                (DIP * self.present().max(DIP * before.rate) * self.delays.round_trip() / 1e6) as u64
            }
            Phase::Lift { before, .. } => 2 * before.window,
            Phase::Restore { before, .. } => (self.delay_bound() as u64).max(before.window),
            Phase::Beside(_) => self.loss.window() as u64,
        };
        window.min(self.policed_window()).clamp(self.min_window(), MAX_WINDOW)
    }

    fn capacity(&self) -> Option<u64> {
        (self.capacity > 0.0 && !matches!(self.phase, Phase::Start(_)))
            .then_some((8.0 * self.capacity.min(self.policer.ceiling())) as u64)
    }

    fn queue(&self) -> Option<Micros> {
        Some(self.delays.standing().max(0.0) as Micros)
    }

    fn held(&self) -> Micros {
        self.holds.length() as Micros
    }

    fn pacing_rate(&self) -> Option<u64> {
        let policed =
            Some(self.policer.ceiling()).filter(|rate| rate.is_finite()).map(|rate| (8.0 * rate) as u64);
        let over_a_round_trip = |window: f64| (8e6 * window / self.smoothed_rtt) as u64;
        let asked = match self.phase {
            Phase::Start(start) if self.smoothed_rtt > 0.0 => {
                Some(over_a_round_trip((START_GROWTH * self.start_bound(start)) as f64))
            }
            Phase::Alone { .. } if self.loss.window().is_finite() => {
                Some(over_a_round_trip(LOSS_PACING * self.loss.window()))
            }
            // A rate that is too small would keep packets for seconds.
            Phase::Alone { .. } | Phase::Dip { .. } => {
                self.rate.get().map(|rate| (8.0 * PACING * rate).max(1e6) as u64)
            }
            _ => None,
        };
        asked.into_iter().chain(policed).min()
    }
}

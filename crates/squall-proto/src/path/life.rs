//! The life of a path, as one state machine.
//!
//! ```text
//! (free) ──opened──▶ Opened ──validated──▶ InUse
//!
//! InUse, Readmitted, Narrow ──silent, or unreachable──────▶ Suspected
//! InUse, Readmitted ──only small packets arrive───────────▶ Narrow
//! InUse, Readmitted ──data of one size is lost────────────▶ Narrow
//! Suspected ──recent packet acknowledged──────────────────▶ Readmitted ──a round trip──▶ InUse
//! Suspected ──only small packets arrive, again────────────▶ Narrow
//! Narrow ──packet of that size acknowledged───────────────▶ Readmitted
//! InUse, Readmitted ──budget used──▶ Spent ──budget raised▶ as before
//! any but Opened ──outage of a radio──▶ Out ──it is over──▶ Suspected
//! any ──closed──▶ (free) ──by a client, after a pause─────▶ Opened, under another number (`session/reopen.rs`)
//! ```
//!
//! Only [`Stage::InUse`] and [`Stage::Readmitted`] carry data. A spent path can be silent, narrow or out as well.
//! `session/paths.rs` carries out what a transition brings about ([`Change`]).
//!
//! A path is judged by proof of delivery, never by the RTT, which stays at its last good value when a path dies.
//! `docs/liveness.md` gives the reasoning. Proof is an acknowledgement of a packet that left on the path, or the answer to a
//! probe that did. When proof is overdue the path is *challenged*: a probe leaves on it, which the peer answers on the same
//! path. Only a path that stays silent through a challenge is suspected, because the acknowledgement that is missing may
//! have left on another path, which is the dead one. A suspected path carries probes only. The first probe that is
//! acknowledged in reasonable time readmits it, on probation: with half the window it had, for a round trip (the way of
//! Careful Resume, draft-ietf-tsvwg-careful-resume), then with all of it. If it falls silent again on probation, the window
//! it may resume with is halved.
//!
//! A path whose latest proof is old is *in doubt*: the session sends a copy of what it carries on another path.

use squall_sched::{PathState, Span, Time};
use squall_signal::AlertKind;

use super::sizes::Sizes;

/// Where a path is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    /// Not validated yet.
    Opened,
    /// Carries data.
    InUse,
    /// Carries data again, on probation.
    Readmitted,
    /// Its budget leaves nothing for data, nor for what can take another path.
    Spent,
    /// Silent: carries probes only.
    Suspected,
    /// Packets of other sizes pass, but not full-size ones, or those of the size of its data. Whether they do is asked with
    /// probes of that size.
    Narrow,
    /// A radio at one of its ends reports an outage.
    Out,
}

/// What a transition brings about, for `session/paths.rs` to carry out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// It is silent, for so long by now.
    Suspected(Span),
    /// It is used again, after so long.
    Readmitted(Span),
    /// It was in use, and loses full-size packets.
    Narrowed,
    /// It was in use, and has lost most data of one size for so long.
    Picky(Span),
    /// It was suspected, and passes small packets; it is not used until a full-size one has passed.
    StillNarrow,
    /// A radio takes it out of use.
    Out,
    /// The outage of its radio is over.
    RadioBack,
}

/// The life of a path.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Life {
    opened: Time,
    /// Silence and losses change nothing: only radios and the budget take the path out of use.
    unwatched: bool,
    state: State,
    /// What the radios at this end and at the peer's reported last.
    radios: [Option<RadioState>; 2],
    spent: bool,
    /// The peer has marked the path: it receives nothing from us there, or we receive nothing from it.
    pub(crate) remote_suspects: bool,
    /// noq is expected to send no data before this: the path has moved and is being validated again.
    pub(crate) blocked_until: Time,
    /// When proof of delivery last came.
    last_proof: Time,
    /// When the newest packet left that is known to have arrived.
    proven: Time,
    challenge: Option<Challenge>,
    /// Bytes that were copied since proof last came, because the path was in doubt.
    hedged: u64,
    /// When the path was readmitted; the epoch for never.
    readmitted: Time,
    /// Since then, no full-size packet is known to have arrived.
    only_small: bool,
    /// When the newest full-size packet left that is known to have arrived, or when the path was readmitted.
    full_proven: Time,
    /// Full-size packets that left later and are lost.
    full_lost: u32,
    /// Fates of smaller ones with data.
    sizes: Sizes,
}

#[derive(Clone, Copy, Debug, Default)]
enum State {
    #[default]
    Opened,
    InUse,
    Suspected {
        since: Time,
        /// Window to come back with.
        window: u64,
        next_probe: Time,
        probes: u32,
        /// The path fell silent again before a full-size packet had passed: small ones do not readmit it.
        wary: bool,
    },
    Narrow {
        since: Time,
        window: u64,
        next_probe: Time,
        probes: u32,
        /// Bytes of the packets that have to pass: [`FULL_SIZE`], or those of data.
        size: u16,
    },
    Readmitted {
        window: u64,
        until: Time,
        /// What it delivered first had left before it was suspected: it holds packets, and loses none.
        held: bool,
    },
}

/// What a radio reported last, and what it makes of the path.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RadioState {
    pub(crate) kind: AlertKind,
    /// F of STORM's Eq. 4.
    pub(crate) factor: f64,
}

/// Probes that left because proof was overdue.
#[derive(Clone, Copy, Debug)]
struct Challenge {
    first: Time,
    next: Time,
}

/// What the path's round trips say of the time that proof takes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Expectation {
    /// Smoothed round-trip time.
    pub(crate) rtt: Span,
    /// Mean deviation of the round-trip time.
    pub(crate) deviation: Span,
    /// Probe timeout (RFC 9002 §6.2.1).
    pub(crate) probe_timeout: Span,
    /// [`Config::silence`](crate::Config::silence).
    pub(crate) silence: Span,
}

impl Expectation {
    /// How long after a round trip proof is overdue: the time that a receiver may wait before it reports, and the
    /// deviation.
    fn patience(&self) -> Span {
        crate::feedback::MAX_DELAY + self.deviation.max(Span::from_millis(1)) * 2
    }

    /// How long the answer to a probe takes at most, by the measured round trips.
    fn answer(&self) -> Span {
        self.rtt + (self.deviation * 4).max(Span::from_millis(1))
    }
}

/// A packet whose fate is known.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Packet {
    /// When it left.
    pub(crate) sent_at: Time,
    pub(crate) bytes: u16,
    pub(crate) has_data: bool,
}

impl Packet {
    /// One without data.
    pub(crate) fn without_data(sent_at: Time, bytes: u16) -> Self {
        Self { sent_at, bytes, has_data: false }
    }

    /// Whether it shows, by its arrival, that the path carries what QUIC needs.
    fn is_full_size(&self) -> bool {
        self.bytes >= FULL_SIZE
    }

    /// Whether it shows, by its arrival, that packets of this size pass.
    fn shows(&self, size: u16) -> bool {
        if size < FULL_SIZE { self.bytes.abs_diff(size) <= SAME_SIZE } else { self.is_full_size() }
    }
}

/// Smallest UDP payload that every QUIC path must carry (RFC 9000 §14).
pub(crate) const FULL_SIZE: u16 = 1200;
/// Bytes by which a probe may differ from the packets that it stands for: headers differ in length.
const SAME_SIZE: u16 = 24;

/// Shortest silence that counts, so that a pause of the peer's machine does not.
const MIN_SILENCE: Span = Span::from_millis(50);
/// An acknowledgement later than this proves nothing about the present.
const STALE: Span = Span::from_secs(1);
/// Pause between two probes of a challenge at least. A single one may be lost by chance.
const CHALLENGE_INTERVAL: Span = Span::from_millis(20);
/// A path is in doubt when the newest packet that is known to have arrived left longer ago than this. Below the 300 ms
/// within which a failure must cost nothing more.
const DOUBT_AFTER: Span = Span::from_millis(250);
/// On a long path, traffic of 20 packets a second leaves this much between the newest proof and the age at which it is
/// overdue.
const DOUBT_MARGIN: Span = Span::from_millis(50);
/// Bytes that are copied while no proof comes: QUIC's initial window (RFC 9002 §7.2).
const MAX_HEDGED: u64 = 14_720;
/// Interval of probes in the first seconds of a suspicion; later ones come ever more rarely.
const PROBE_INTERVAL: Span = Span::from_millis(25);
/// At this interval a path that stays dead costs less than 1 kbit/s.
const MAX_PROBE_INTERVAL: Span = Span::from_secs(1);
/// Probes at the shortest interval: five seconds.
const QUICK_PROBES: u32 = 200;
/// Full-size packets lost in a row, beside smaller ones that arrive, after which the path's MTU is in question. With
/// 30 % of random loss that happens to one packet in 170,000, and then costs a round trip.
const FULL_LOST: u32 = 10;
/// Pause after the first full-size probe of a narrow path, doubled after each further one up to 8 s.
const NARROW_INTERVAL: Span = Span::from_millis(250);
/// A path comes back with at least this window.
const MIN_WINDOW: u64 = 4 * 1200;

impl Life {
    /// The life of a path that is opened now.
    pub(crate) fn new(now: Time) -> Self {
        Self { opened: now, ..Self::default() }
    }

    /// The same without suspicion, as in standard multipath QUIC ([`LabConfig::liveness`](crate::config::LabConfig::liveness)).
    pub(crate) fn unwatched(now: Time) -> Self {
        Self { unwatched: true, ..Self::new(now) }
    }

    pub(crate) fn stage(&self) -> Stage {
        match self.state {
            State::Opened => Stage::Opened,
            _ if self.is_out() => Stage::Out,
            State::Suspected { .. } => Stage::Suspected,
            State::Narrow { .. } => Stage::Narrow,
            _ if self.spent => Stage::Spent,
            State::InUse => Stage::InUse,
            State::Readmitted { .. } => Stage::Readmitted,
        }
    }

    /// Whether it was validated.
    pub(crate) fn is_up(&self) -> bool {
        !matches!(self.state, State::Opened)
    }

    /// Whether it carries data.
    pub(crate) fn is_in_use(&self) -> bool {
        matches!(self.stage(), Stage::InUse | Stage::Readmitted)
    }

    /// Whether the network and its radios allow schedulers to give it data now; its budget does not count here.
    pub(crate) fn is_usable(&self, now: Time) -> bool {
        self.is_up() && self.state() == PathState::Active && self.blocked_until <= now
    }

    /// Whether it is silent, whatever its radios report.
    pub(crate) fn is_suspect(&self) -> bool {
        matches!(self.state, State::Suspected { .. })
    }

    /// Whether only small packets are known to pass, whatever its radios report.
    pub(crate) fn is_narrow(&self) -> bool {
        matches!(self.state, State::Narrow { .. })
    }

    /// Whether a radio at either end reports that the link is as good as gone.
    pub(crate) fn is_out(&self) -> bool {
        self.radios.iter().flatten().any(|radio| radio.kind == AlertKind::Outage)
    }

    /// What the radio at this end, or at the peer's, reported last.
    pub(crate) fn radio(&self, by_peer: bool) -> Option<AlertKind> {
        self.radios[usize::from(by_peer)].map(|radio| radio.kind)
    }

    /// Whether silence suspends it.
    pub(crate) fn is_watched(&self) -> bool {
        !self.unwatched
    }

    /// Whether its budget leaves nothing for data, nor for what can take another path.
    pub(crate) fn is_spent(&self) -> bool {
        self.spent
    }

    /// Whether transport and radios trust it: noq may send on it of its own, and its losses count as congestion.
    pub(crate) fn is_trusted(&self) -> bool {
        !self.is_suspect() && !self.is_out()
    }

    /// What schedulers and applications see.
    pub(crate) fn state(&self) -> PathState {
        match self.state {
            _ if self.is_out() => PathState::Deactivated,
            State::Opened => PathState::Opening,
            State::Suspected { .. } | State::Narrow { .. } => PathState::Suspect,
            _ => PathState::Active,
        }
    }

    /// F of STORM's Eq. 4: by what its bandwidth counts when data is divided.
    pub(crate) fn factor(&self) -> f64 {
        self.radios.iter().flatten().map(|radio| radio.factor).fold(1.0, f64::min)
    }

    /// Since when it delivers nothing: silent, or opened and not validated.
    pub(crate) fn idle_since(&self) -> Option<Time> {
        match self.state {
            State::Opened => Some(self.opened),
            State::Suspected { since, .. } => Some(since),
            _ => None,
        }
    }

    /// It was validated, which takes a round trip.
    pub(crate) fn on_validated(&mut self, now: Time, rtt: Span) {
        self.state = State::InUse;
        self.on_proof(now, Packet::without_data(now - rtt, FULL_SIZE), rtt);
    }

    /// Whether its budget is spent now.
    pub(crate) fn set_spent(&mut self, spent: bool) {
        self.spent = spent;
    }

    /// A radio at this end, or at the peer's, reports something new. `window` is the path's.
    pub(crate) fn on_radio(
        &mut self,
        now: Time,
        by_peer: bool,
        radio: RadioState,
        window: u64,
    ) -> Option<Change> {
        let was_out = self.is_out();
        self.radios[usize::from(by_peer)] = Some(radio);
        match (was_out, self.is_out()) {
            (false, true) => Some(Change::Out),
            // As in STORM: used at once, with the window that it had.
            (true, false) if self.unwatched => Some(Change::RadioBack),
            (true, false) => {
                // The radio may be ahead of the link on the way up, too: the path is probed at once, and used when it
                // answers. What carries data is proof of delivery, which takes a round trip.
                match &mut self.state {
                    State::Suspected { next_probe, probes, .. } => (*next_probe, *probes) = (now, 0),
                    _ => {
                        // It was not used, which says nothing of the size of what passes.
                        self.only_small = false;
                        self.enter_suspicion(now, window);
                    }
                }
                Some(Change::RadioBack)
            }
            _ => None,
        }
    }

    /// When proof is due; `oldest` is when the oldest packet in flight left, `rtt` the smoothed round-trip time.
    pub(crate) fn due(&self, oldest: Option<Time>, rtt: Span) -> Option<Time> {
        let oldest = oldest.filter(|_| !self.is_suspect() && !self.unwatched)?;
        Some(self.last_proof.max(oldest + rtt))
    }

    /// When the next probe of a challenge is due, if no proof comes until then.
    pub(crate) fn challenge_at(&self, oldest: Option<Time>, expected: &Expectation) -> Option<Time> {
        let due = self.due(oldest, expected.rtt)?;
        Some(self.challenge.map_or(due + expected.patience(), |challenge| challenge.next))
    }

    /// A probe of a challenge leaves.
    pub(crate) fn on_challenge(&mut self, now: Time, expected: &Expectation) {
        let first = self.challenge.map_or(now, |challenge| challenge.first);
        let next = now + CHALLENGE_INTERVAL.max(expected.rtt / 2);
        self.challenge = Some(Challenge { first, next });
    }

    /// When the path will be suspected, if no proof comes until then.
    pub(crate) fn suspect_at(&self, oldest: Option<Time>, expected: &Expectation) -> Option<Time> {
        let due = self.due(oldest, expected.rtt)?;
        let silence = (expected.probe_timeout * 2).min(expected.silence).max(MIN_SILENCE);
        Some((due + silence).max(self.challenge?.first + expected.answer()))
    }

    /// Whether nothing proves that the path delivers what leaves now. `overdue` is the age at which an acknowledgement
    /// is overdue.
    pub(crate) fn is_in_doubt(&self, now: Time, overdue: Span) -> bool {
        !self.unwatched && now - self.proven > DOUBT_AFTER.max(overdue + DOUBT_MARGIN)
    }

    /// Whether a block of this size may be copied to another path.
    pub(crate) fn may_hedge(&self, len: u64) -> bool {
        self.hedged + len <= MAX_HEDGED
    }

    /// This many bytes were copied.
    pub(crate) fn on_hedged(&mut self, bytes: u64) {
        self.hedged += bytes;
    }

    /// When proof of delivery last came; the epoch for never.
    pub(crate) fn last_proof(&self) -> Time {
        self.last_proof
    }

    /// The path is silent: no proof came in time, or the system reports that it cannot send. `oldest` is when the oldest
    /// packet in flight left: a path that had nothing to carry was idle, not silent.
    pub(crate) fn suspect(&mut self, now: Time, oldest: Option<Time>, window: u64) -> Change {
        let silent = now - self.last_proof.max(oldest.unwrap_or_default());
        self.enter_suspicion(now, window);
        Change::Suspected(silent)
    }

    fn enter_suspicion(&mut self, now: Time, window: u64) {
        let window = match self.state {
            State::Readmitted { window, .. } => window / 2,
            State::Narrow { window, .. } => window,
            _ => window,
        };
        self.challenge = None;
        self.sizes = Sizes::default();
        let window = window.max(MIN_WINDOW);
        self.state =
            State::Suspected { since: now, window, next_probe: now, probes: 0, wary: self.only_small };
    }

    /// A packet is known to have arrived.
    pub(crate) fn on_proof(&mut self, now: Time, packet: Packet, srtt: Span) -> Option<Change> {
        self.last_proof = now;
        self.proven = self.proven.max(packet.sent_at);
        self.challenge = None;
        self.hedged = 0;
        self.only_small &= !packet.is_full_size();
        if self.is_judged_by(packet) {
            self.sizes.on_ack(now, packet.bytes);
        }
        if packet.is_full_size() {
            self.full_proven = self.full_proven.max(packet.sent_at);
            self.full_lost = 0;
        }
        let fresh = now - packet.sent_at <= STALE;
        match self.state {
            State::Suspected { since, window, wary: true, .. } if fresh && !packet.is_full_size() => {
                self.state = State::Narrow { since, window, next_probe: now, probes: 0, size: FULL_SIZE };
                Some(Change::StillNarrow)
            }
            State::Suspected { since, window, .. } if fresh => {
                Some(self.readmit(now, since, window, srtt, packet))
            }
            State::Narrow { since, window, size, .. } if packet.shows(size) => {
                Some(self.readmit(now, since, window, srtt, packet))
            }
            State::Readmitted { until, .. } if now >= until => {
                self.state = State::InUse;
                None
            }
            _ => None,
        }
    }

    /// Whether the round trip of a packet says nothing of the present: it is long, and the path was silent since it left.
    pub(crate) fn is_stale(&self, now: Time, sent_at: Time) -> bool {
        now - sent_at > STALE && (self.is_suspect() || sent_at < self.readmitted)
    }

    /// A packet is lost. `has_others` says whether other paths are in use: the last one carries data of any size as well as it can.
    pub(crate) fn on_loss(
        &mut self,
        now: Time,
        packet: Packet,
        window: u64,
        has_others: bool,
    ) -> Option<Change> {
        self.full_lost += u32::from(packet.is_full_size() && packet.sent_at > self.full_proven);
        let carried = matches!(self.state, State::InUse | State::Readmitted { .. });
        if self.unwatched || !carried {
            return None;
        }
        let judged = self.is_judged_by(packet);
        let lossy = judged.then(|| self.sizes.on_loss(now, packet.bytes)).flatten();
        let (change, size) = match lossy {
            _ if self.full_lost >= FULL_LOST && self.proven > packet.sent_at => (Change::Narrowed, FULL_SIZE),
            Some(time) if has_others => (Change::Picky(time), packet.bytes),
            _ => return None,
        };
        self.state = State::Narrow { since: now, window, next_probe: now, probes: 0, size };
        Some(change)
    }

    /// Whether the fate of a packet says what the path makes of data. What left before a readmission, or an outage of a radio, was lost
    /// with the path.
    fn is_judged_by(&self, packet: Packet) -> bool {
        packet.has_data && packet.sent_at >= self.readmitted && !self.is_out()
    }

    fn readmit(&mut self, now: Time, since: Time, window: u64, srtt: Span, packet: Packet) -> Change {
        self.readmitted = now;
        self.only_small = !packet.is_full_size();
        self.sizes = Sizes::default();
        // What left before was lost with the path, whatever its size.
        (self.full_proven, self.full_lost) = (now, 0);
        self.state = State::Readmitted { window, until: now + srtt, held: packet.sent_at < since };
        Change::Readmitted(now - since)
    }

    /// The part of the window that may be used.
    pub(crate) fn cap(&self, window: u64) -> u64 {
        match self.state {
            State::Readmitted { window: resumed, held: false, .. } => {
                window.min((resumed / 2).max(MIN_WINDOW))
            }
            _ => window,
        }
    }

    /// When the next probe of a suspected path is due; a path that can carry nothing is not probed.
    pub(crate) fn probe_at(&self) -> Option<Time> {
        match self.state {
            State::Suspected { next_probe, .. } if !self.spent => Some(next_probe),
            _ => None,
        }
    }

    /// A probe of the suspected path leaves.
    pub(crate) fn on_probe(&mut self, now: Time) {
        if let State::Suspected { next_probe, probes, .. } = &mut self.state {
            *probes += 1;
            let doublings = probes.saturating_sub(QUICK_PROBES).div_ceil(20).min(6);
            *next_probe = now + (PROBE_INTERVAL * (1 << doublings)).min(MAX_PROBE_INTERVAL);
        }
    }

    /// When a narrow path is probed with a packet of the size that it loses next; one that can carry nothing is not probed.
    pub(crate) fn full_probe_at(&self) -> Option<Time> {
        match self.state {
            State::Narrow { next_probe, .. } if !self.spent && !self.is_out() => Some(next_probe),
            _ => None,
        }
    }

    /// Such a probe leaves. Returns its size, and whether it is the second full-size one: the first was not answered.
    pub(crate) fn on_full_probe(&mut self, now: Time) -> Option<(u16, bool)> {
        let State::Narrow { next_probe, probes, size, .. } = &mut self.state else { return None };
        *next_probe = now + NARROW_INTERVAL * (1 << (*probes).min(5));
        *probes += 1;
        Some((*size, *probes == 2 && *size >= FULL_SIZE))
    }
}

#[cfg(test)]
mod tests;

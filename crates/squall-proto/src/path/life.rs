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
//! Only [`Stage::InUse`] and [`Stage::Readmitted`] carry data. A spent path can be silent, narrow
//! or out as well. `session/paths.rs` applies the effects of a transition ([`Change`]).
//!
//! A path is judged by proof of delivery, never by the RTT, which stays at its last good value when
//! a path dies. `docs/liveness.md` gives the reasoning. Proof is an acknowledgement of a packet
//! that left on the path, or the answer to a probe that did. When proof is overdue the path is
//! *challenged*: a probe leaves on it, which the peer answers on the same path. Only a path that
//! stays silent through a challenge is suspected, because the missing acknowledgement may have left
//! on another path, which is the dead one. A suspected path carries probes only. The first probe
//! that is acknowledged in reasonable time readmits it, on probation: with half of its earlier
//! window, for a round trip (as in Careful Resume, draft-ietf-tsvwg-careful-resume), then with all
//! of it. If it becomes silent again on probation, the window it may resume with is halved.
//!
//! A path whose latest proof is old is *in doubt*: the session sends a copy of its data on another
//! path.

use squall_sched::{PathState, Span, Time};
use squall_signal::AlertKind;

use super::sizes::Sizes;

/// Stage of a path in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    /// Not validated yet.
    Opened,
    /// Carries data.
    InUse,
    /// Carries data again, on probation.
    Readmitted,
    /// Its budget leaves nothing for data, nor for packets that can take another path.
    Spent,
    /// Silent: carries probes only.
    Suspected,
    /// Packets of other sizes pass, but not full-size ones, or those of the size of its data.
    /// Probes of that size test it.
    Narrow,
    /// A radio at one of its ends reports an outage.
    Out,
}

/// Effect of a transition, carried out by `session/paths.rs`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// The path is silent, for this long by now.
    Suspected(Span),
    /// The path is used again, after this long.
    Readmitted(Span),
    /// It was in use, and loses full-size packets.
    Narrowed,
    /// It was in use, and has lost most data of one size for this long.
    Picky(Span),
    /// It was suspected, and passes small packets; it is not used until a full-size one has passed.
    StillNarrow,
    /// A radio deactivates it.
    Out,
    /// The outage of its radio is over.
    RadioBack,
}

/// The life of a path.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Life {
    opened: Time,
    /// Silence and losses have no effect: only radios and the budget take the path out of use.
    unwatched: bool,
    state: State,
    /// Latest reports of the radios at this end and at the peer's.
    radios: [Option<RadioState>; 2],
    spent: bool,
    /// The peer has marked the path: it receives nothing from us there, or we receive nothing from
    /// it.
    pub(crate) remote_suspects: bool,
    /// Time before which noq is expected to send no data: the path has moved and is being validated
    /// again.
    pub(crate) blocked_until: Time,
    /// Time of the last proof of delivery.
    last_proof: Time,
    /// Departure of the newest packet that is proven to have arrived.
    proven: Time,
    challenge: Option<Challenge>,
    /// Bytes copied since the last proof, because the path was in doubt.
    hedged: u64,
    /// Time of the readmission; the epoch for never.
    readmitted: Time,
    /// No full-size packet has arrived since the readmission.
    only_small: bool,
    /// Departure of the newest full-size packet that has arrived, or time of the readmission.
    full_proven: Time,
    /// Number of lost full-size packets that left later.
    full_lost: u32,
    /// Fates of smaller packets with data.
    sizes: Sizes,
}

#[derive(Clone, Copy, Debug, Default)]
enum State {
    #[default]
    Opened,
    InUse,
    Suspected {
        since: Time,
        /// Window to resume with.
        window: u64,
        next_probe: Time,
        probes: u32,
        /// The path became silent again before a full-size packet had passed: small ones do not
        /// readmit it.
        wary: bool,
    },
    Narrow {
        since: Time,
        window: u64,
        next_probe: Time,
        probes: u32,
        /// Size in bytes of the packets that have to pass: [`FULL_SIZE`], or that of data.
        size: u16,
    },
    Readmitted {
        window: u64,
        until: Time,
        /// Its first delivery had left before it was suspected: it holds packets, and loses none.
        held: bool,
    },
}

/// Latest report of a radio, and its effect on the path.
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

/// Expected time of proof, by the path's round trips.
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
    /// Returns the time after a round trip at which proof is overdue: the time that a receiver may
    /// wait before it reports, and the deviation.
    fn patience(&self) -> Span {
        crate::feedback::MAX_DELAY + self.deviation.max(Span::from_millis(1)) * 2
    }

    /// Returns the longest time for the answer to a probe, by the measured round trips.
    fn answer(&self) -> Span {
        self.rtt + (self.deviation * 4).max(Span::from_millis(1))
    }
}

/// A packet with a fate.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Packet {
    /// Time of departure.
    pub(crate) sent_at: Time,
    pub(crate) bytes: u16,
    pub(crate) has_data: bool,
}

impl Packet {
    /// Creates a packet without data.
    pub(crate) fn without_data(sent_at: Time, bytes: u16) -> Self {
        Self { sent_at, bytes, has_data: false }
    }

    /// Returns `true` if its arrival proves that the path carries the size that QUIC needs.
    fn is_full_size(&self) -> bool {
        self.bytes >= FULL_SIZE
    }

    /// Returns `true` if its arrival proves that packets of this size pass.
    fn shows(&self, size: u16) -> bool {
        if size < FULL_SIZE { self.bytes.abs_diff(size) <= SAME_SIZE } else { self.is_full_size() }
    }
}

/// Smallest UDP payload that every QUIC path must carry (RFC 9000 §14).
pub(crate) const FULL_SIZE: u16 = 1200;
/// Bytes by which a probe may differ from the packets that it represents: headers differ in length.
const SAME_SIZE: u16 = 24;

/// Shortest silence that counts, so that a pause of the peer's machine does not.
const MIN_SILENCE: Span = Span::from_millis(50);
/// Age above which an acknowledgement proves nothing about the present.
const STALE: Span = Span::from_secs(1);
/// Shortest pause between two probes of a challenge. A single one may be lost by chance.
const CHALLENGE_INTERVAL: Span = Span::from_millis(20);
/// Age of the newest proven packet above which a path is in doubt. Below the 300 ms within which a
/// failure must cost nothing more.
const DOUBT_AFTER: Span = Span::from_millis(250);
/// Margin on a long path between the newest proof and the age at which it is overdue, for traffic
/// of 20 packets a second.
const DOUBT_MARGIN: Span = Span::from_millis(50);
/// Largest number of bytes copied without proof: QUIC's initial window (RFC 9002 §7.2).
const MAX_HEDGED: u64 = 14_720;
/// Interval of probes in the first seconds of a suspicion; it grows afterwards.
const PROBE_INTERVAL: Span = Span::from_millis(25);
/// Longest interval of probes, at which a dead path costs less than 1 kbit/s.
const MAX_PROBE_INTERVAL: Span = Span::from_secs(1);
/// Probes at the shortest interval: five seconds.
const QUICK_PROBES: u32 = 200;
/// Consecutive losses of full-size packets, beside smaller ones that arrive, after which the path's
/// MTU is in question. With 30 % of random loss that happens to one packet in 170,000, and then
/// costs a round trip.
const FULL_LOST: u32 = 10;
/// Pause after the first full-size probe of a narrow path, doubled after each further one up to 8
/// s.
const NARROW_INTERVAL: Span = Span::from_millis(250);
/// Smallest window of a readmitted path.
const MIN_WINDOW: u64 = 4 * 1200;

impl Life {
    /// Creates the life of a path that is opened now.
    pub(crate) fn new(now: Time) -> Self {
        Self { opened: now, ..Self::default() }
    }

    /// Creates a life without suspicion, as in standard multipath QUIC
    /// ([`LabConfig::liveness`](crate::config::LabConfig::liveness)).
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

    /// Returns `true` if the path was validated.
    pub(crate) fn is_up(&self) -> bool {
        !matches!(self.state, State::Opened)
    }

    /// Returns `true` if the path carries data.
    pub(crate) fn is_in_use(&self) -> bool {
        matches!(self.stage(), Stage::InUse | Stage::Readmitted)
    }

    /// Returns `true` if the network and its radios allow schedulers to use the path now; its
    /// budget does not count here.
    pub(crate) fn is_usable(&self, now: Time) -> bool {
        self.is_up() && self.state() == PathState::Active && self.blocked_until <= now
    }

    /// Returns `true` if the path is silent, whatever its radios report.
    pub(crate) fn is_suspect(&self) -> bool {
        matches!(self.state, State::Suspected { .. })
    }

    /// Returns `true` if only small packets are proven to pass, whatever its radios report.
    pub(crate) fn is_narrow(&self) -> bool {
        matches!(self.state, State::Narrow { .. })
    }

    /// Returns `true` if a radio at either end reports an outage.
    pub(crate) fn is_out(&self) -> bool {
        self.radios.iter().flatten().any(|radio| radio.kind == AlertKind::Outage)
    }

    /// Returns the latest report of the radio at this end, or at the peer's.
    pub(crate) fn radio(&self, by_peer: bool) -> Option<AlertKind> {
        self.radios[usize::from(by_peer)].map(|radio| radio.kind)
    }

    /// Returns `true` if silence suspends the path.
    pub(crate) fn is_watched(&self) -> bool {
        !self.unwatched
    }

    /// Returns `true` if the budget leaves nothing for data, nor for packets that can take another
    /// path.
    pub(crate) fn is_spent(&self) -> bool {
        self.spent
    }

    /// Returns `true` if transport and radios trust the path: noq may send on it on its own, and
    /// its losses count as congestion.
    pub(crate) fn is_trusted(&self) -> bool {
        !self.is_suspect() && !self.is_out()
    }

    /// Returns the state for schedulers and applications.
    pub(crate) fn state(&self) -> PathState {
        match self.state {
            _ if self.is_out() => PathState::Deactivated,
            State::Opened => PathState::Opening,
            State::Suspected { .. } | State::Narrow { .. } => PathState::Suspect,
            _ => PathState::Active,
        }
    }

    /// Returns F of STORM's Eq. 4: the factor of its bandwidth when data is divided.
    pub(crate) fn factor(&self) -> f64 {
        self.radios.iter().flatten().map(|radio| radio.factor).fold(1.0, f64::min)
    }

    /// Returns the time since which the path delivers nothing: silent, or opened and not validated.
    pub(crate) fn idle_since(&self) -> Option<Time> {
        match self.state {
            State::Opened => Some(self.opened),
            State::Suspected { since, .. } => Some(since),
            _ => None,
        }
    }

    /// Handles the validation, which takes a round trip.
    pub(crate) fn on_validated(&mut self, now: Time, rtt: Span) {
        self.state = State::InUse;
        self.on_proof(now, Packet::without_data(now - rtt, FULL_SIZE), rtt);
    }

    /// Sets whether the budget is spent.
    pub(crate) fn set_spent(&mut self, spent: bool) {
        self.spent = spent;
    }

    /// Handles a report of a radio at this end, or at the peer's. `window` is the path's.
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
            // As in STORM: used at once, with its earlier window.
            (true, false) if self.unwatched => Some(Change::RadioBack),
            (true, false) => {
                // The radio may be ahead of the link on the way up, too: the path is probed at
                // once, and used when it answers. Data needs proof of delivery, which takes a round
                // trip.
                match &mut self.state {
                    State::Suspected { next_probe, probes, .. } => (*next_probe, *probes) = (now, 0),
                    _ => {
                        // The path was not used, which is no sign of the sizes that pass.
                        self.only_small = false;
                        self.enter_suspicion(now, window);
                    }
                }
                Some(Change::RadioBack)
            }
            _ => None,
        }
    }

    /// Returns when proof is due; `oldest` is the departure of the oldest packet in flight, `rtt`
    /// the smoothed round-trip time.
    pub(crate) fn due(&self, oldest: Option<Time>, rtt: Span) -> Option<Time> {
        let oldest = oldest.filter(|_| !self.is_suspect() && !self.unwatched)?;
        Some(self.last_proof.max(oldest + rtt))
    }

    /// Returns when the next probe of a challenge is due, without proof until then.
    pub(crate) fn challenge_at(&self, oldest: Option<Time>, expected: &Expectation) -> Option<Time> {
        let due = self.due(oldest, expected.rtt)?;
        Some(self.challenge.map_or(due + expected.patience(), |challenge| challenge.next))
    }

    /// Records that a probe of a challenge leaves.
    pub(crate) fn on_challenge(&mut self, now: Time, expected: &Expectation) {
        let first = self.challenge.map_or(now, |challenge| challenge.first);
        let next = now + CHALLENGE_INTERVAL.max(expected.rtt / 2);
        self.challenge = Some(Challenge { first, next });
    }

    /// Returns when the path will be suspected, without proof until then.
    pub(crate) fn suspect_at(&self, oldest: Option<Time>, expected: &Expectation) -> Option<Time> {
        let due = self.due(oldest, expected.rtt)?;
        let silence = (expected.probe_timeout * 2).min(expected.silence).max(MIN_SILENCE);
        Some((due + silence).max(self.challenge?.first + expected.answer()))
    }

    /// Returns `true` if nothing proves that the path delivers packets that leave now. `overdue` is
    /// the age at which an acknowledgement is overdue.
    pub(crate) fn is_in_doubt(&self, now: Time, overdue: Span) -> bool {
        !self.unwatched && now - self.proven > DOUBT_AFTER.max(overdue + DOUBT_MARGIN)
    }

    /// Returns `true` if a block of this size may be copied to another path.
    pub(crate) fn may_hedge(&self, len: u64) -> bool {
        self.hedged + len <= MAX_HEDGED
    }

    /// Records copied bytes.
    pub(crate) fn on_hedged(&mut self, bytes: u64) {
        self.hedged += bytes;
    }

    /// Returns the time of the last proof of delivery; the epoch for never.
    pub(crate) fn last_proof(&self) -> Time {
        self.last_proof
    }

    /// Suspects the path: no proof arrived in time, or the system reports that it cannot send.
    /// `oldest` is the departure of the oldest packet in flight: a path without packets in flight
    /// was idle, not silent.
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

    /// Handles proof that a packet has arrived.
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

    /// Returns `true` if the round trip of a packet is no measurement of the present: it is long,
    /// and the path was silent since its departure.
    pub(crate) fn is_stale(&self, now: Time, sent_at: Time) -> bool {
        now - sent_at > STALE && (self.is_suspect() || sent_at < self.readmitted)
    }

    /// Handles the loss of a packet. `has_others` is set if other paths are in use: the last one
    /// carries data of any size as well as it can.
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

    /// Returns `true` if the fate of a packet shows how the path treats data. Packets that left
    /// before a readmission, or an outage of a radio, were lost with the path.
    fn is_judged_by(&self, packet: Packet) -> bool {
        packet.has_data && packet.sent_at >= self.readmitted && !self.is_out()
    }

    fn readmit(&mut self, now: Time, since: Time, window: u64, srtt: Span, packet: Packet) -> Change {
        self.readmitted = now;
        self.only_small = !packet.is_full_size();
        self.sizes = Sizes::default();
        // Packets that left before were lost with the path, whatever their size.
        (self.full_proven, self.full_lost) = (now, 0);
        self.state = State::Readmitted { window, until: now + srtt, held: packet.sent_at < since };
        Change::Readmitted(now - since)
    }

    /// Returns the usable part of the window.
    pub(crate) fn cap(&self, window: u64) -> u64 {
        match self.state {
            State::Readmitted { window: resumed, held: false, .. } => {
                window.min((resumed / 2).max(MIN_WINDOW))
            }
            _ => window,
        }
    }

    /// Returns when the next probe of a suspected path is due; a path that can carry nothing is not
    /// probed.
    pub(crate) fn probe_at(&self) -> Option<Time> {
        match self.state {
            State::Suspected { next_probe, .. } if !self.spent => Some(next_probe),
            _ => None,
        }
    }

    /// Records that a probe of the suspected path leaves.
    pub(crate) fn on_probe(&mut self, now: Time) {
        if let State::Suspected { next_probe, probes, .. } = &mut self.state {
            *probes += 1;
            let doublings = probes.saturating_sub(QUICK_PROBES).div_ceil(20).min(6);
            *next_probe = now + (PROBE_INTERVAL * (1 << doublings)).min(MAX_PROBE_INTERVAL);
        }
    }

    /// Returns when a narrow path is next probed with a packet of the size that it loses; one that
    /// can carry nothing is not probed.
    pub(crate) fn full_probe_at(&self) -> Option<Time> {
        match self.state {
            State::Narrow { next_probe, .. } if !self.spent && !self.is_out() => Some(next_probe),
            _ => None,
        }
    }

    /// Records that such a probe leaves. Returns its size, and `true` if it is the second full-size
    /// one: the first was not answered.
    pub(crate) fn on_full_probe(&mut self, now: Time) -> Option<(u16, bool)> {
        let State::Narrow { next_probe, probes, size, .. } = &mut self.state else { return None };
        *next_probe = now + NARROW_INTERVAL * (1 << (*probes).min(5));
        *probes += 1;
        Some((*size, *probes == 2 && *size >= FULL_SIZE))
    }
}

#[cfg(test)]
mod tests;

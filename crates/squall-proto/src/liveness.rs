//! Is the path alive? Judged by proof of delivery, never by the RTT, which stays at its last good value when a path
//! dies. `docs/liveness.md` gives the reasoning.
//!
//! Proof is an acknowledgement of a packet that left on the path, or the answer to a probe that did. When proof is
//! overdue the path is *challenged*: a probe leaves on it, which the peer answers on the same path. Only a path that
//! stays silent through a challenge is suspected, because the acknowledgement that is missing may have left on
//! another path, which is the dead one. A suspected path carries probes only. The first probe that is acknowledged in
//! reasonable time readmits it, on probation: with half the window it had, for a round trip (the way of Careful
//! Resume, draft-ietf-tsvwg-careful-resume), then with all of it. If it falls silent again on probation, the window it
//! may resume with is halved.
//!
//! A path whose latest proof is old is *in doubt*: the session sends a copy of what it carries on another path.

use squall_sched::Micros;

/// The state of a path's health.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Liveness {
    state: State,
    /// When proof of delivery last came.
    last_proof: Micros,
    /// When the newest packet left that is known to have arrived.
    proven: Micros,
    challenge: Option<Challenge>,
    /// Bytes that were copied since proof last came, because the path was in doubt.
    hedged: u64,
    /// Since the path was readmitted, no full-size packet is known to have arrived.
    only_small: bool,
    /// When the newest full-size packet left that is known to have arrived.
    full_proven: Micros,
    /// Full-size packets that left later and are lost.
    full_lost: u32,
}

/// Probes that left because proof was overdue.
#[derive(Clone, Copy, Debug)]
struct Challenge {
    first: Micros,
    next: Micros,
}

/// What the path's round trips say of the time that proof takes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Expectation {
    /// Smoothed round-trip time.
    pub(crate) rtt: Micros,
    /// Mean deviation of the round-trip time.
    pub(crate) deviation: Micros,
    /// Probe timeout (RFC 9002 §6.2.1).
    pub(crate) probe_timeout: Micros,
    /// [`Config::silence`](crate::Config::silence).
    pub(crate) silence: Micros,
}

impl Expectation {
    /// How long after a round trip proof is overdue: the time that a receiver may wait before it reports, and the
    /// deviation.
    fn patience(&self) -> Micros {
        crate::feedback::MAX_DELAY + 2 * self.deviation.max(1_000)
    }

    /// How long the answer to a probe takes at most, as far as the round trips tell.
    fn answer(&self) -> Micros {
        self.rtt + (4 * self.deviation).max(1_000)
    }
}

#[derive(Clone, Copy, Debug, Default)]
enum State {
    #[default]
    Trusted,
    Suspect {
        since: Micros,
        /// Window to come back with.
        window: u64,
        next_probe: Micros,
        probes: u32,
        /// The path fell silent again before a full-size packet had passed: small ones do not readmit it.
        wary: bool,
    },
    /// Small packets pass. Whether full-size ones do is asked with probes of that size.
    Narrow {
        since: Micros,
        window: u64,
        next_probe: Micros,
        probes: u32,
    },
    Probation {
        window: u64,
        until: Micros,
    },
}

/// A packet whose fate is known.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Packet {
    /// When it left.
    pub(crate) sent_at: Micros,
    /// Whether it had the size that QUIC needs at least (RFC 9000 §14).
    pub(crate) full_size: bool,
}

/// What proof changes about a path that was out of use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Recovery {
    /// It is used again, after this time.
    Readmitted(Micros),
    /// It passes small packets; it is not used until a full-size one has passed.
    Narrow,
}

/// Shortest silence that counts, so that a pause of the peer's machine does not.
const MIN_SILENCE: Micros = 50_000;
/// An acknowledgement later than this proves nothing about the present.
const STALE: Micros = 1_000_000;
/// Pause between two probes of a challenge at least. A single one may be lost by chance.
const CHALLENGE_INTERVAL: Micros = 20_000;
/// A path is in doubt when the newest packet that is known to have arrived left longer ago than this. Below the 300 ms
/// within which a failure must cost nothing more.
const DOUBT_AFTER: Micros = 250_000;
/// On a long path, traffic of 20 packets a second leaves this much between the newest proof and the age at which it is
/// overdue.
const DOUBT_MARGIN: Micros = 50_000;
/// Bytes that are copied while no proof comes: QUIC's initial window (RFC 9002 §7.2).
const MAX_HEDGED: u64 = 14_720;
/// Interval of probes in the first seconds of a suspicion; later ones come ever more rarely.
const PROBE_INTERVAL: Micros = 25_000;
/// At this interval a path that stays dead costs less than 1 kbit/s.
const MAX_PROBE_INTERVAL: Micros = 1_000_000;
/// Probes at the shortest interval: five seconds.
const QUICK_PROBES: u32 = 200;
/// Full-size packets lost in a row, beside smaller ones that arrive, after which the path's MTU is in question. With
/// 30 % of random loss that happens to one packet in 170,000, and then costs a round trip.
const FULL_LOST: u32 = 10;
/// Pause after the first full-size probe of a narrow path, doubled after each further one up to 8 s.
const NARROW_INTERVAL: Micros = 250_000;
/// A path comes back with at least this window.
const MIN_WINDOW: u64 = 4 * 1200;

impl Liveness {
    pub(crate) fn is_suspect(&self) -> bool {
        matches!(self.state, State::Suspect { .. })
    }

    /// Whether only small packets are known to pass.
    pub(crate) fn is_narrow(&self) -> bool {
        matches!(self.state, State::Narrow { .. })
    }

    /// When proof is due; `oldest` is when the oldest packet in flight left.
    fn due(&self, oldest: Option<Micros>, expected: &Expectation) -> Option<Micros> {
        let oldest = oldest.filter(|_| !self.is_suspect())?;
        Some(self.last_proof.max(oldest + expected.rtt))
    }

    /// When the next probe of a challenge is due, if no proof comes until then.
    pub(crate) fn challenge_at(&self, oldest: Option<Micros>, expected: &Expectation) -> Option<Micros> {
        let due = self.due(oldest, expected)?;
        Some(self.challenge.map_or(due + expected.patience(), |challenge| challenge.next))
    }

    /// A probe of a challenge leaves.
    pub(crate) fn on_challenge(&mut self, now: Micros, expected: &Expectation) {
        let first = self.challenge.map_or(now, |challenge| challenge.first);
        let next = now + CHALLENGE_INTERVAL.max(expected.rtt / 2);
        self.challenge = Some(Challenge { first, next });
    }

    /// When the path will be suspected, if no proof comes until then.
    pub(crate) fn suspect_at(&self, oldest: Option<Micros>, expected: &Expectation) -> Option<Micros> {
        let due = self.due(oldest, expected)?;
        let silence = (2 * expected.probe_timeout).min(expected.silence).max(MIN_SILENCE);
        Some((due + silence).max(self.challenge?.first + expected.answer()))
    }

    /// Whether nothing proves that the path delivers what leaves now. `overdue` is the age at which an acknowledgement
    /// is overdue.
    pub(crate) fn is_in_doubt(&self, now: Micros, overdue: Micros) -> bool {
        now.saturating_sub(self.proven) > DOUBT_AFTER.max(overdue + DOUBT_MARGIN)
    }

    /// Whether a block of this size may be copied to another path.
    pub(crate) fn may_hedge(&self, len: u64) -> bool {
        self.hedged + len <= MAX_HEDGED
    }

    /// So many bytes were copied.
    pub(crate) fn on_hedged(&mut self, bytes: u64) {
        self.hedged += bytes;
    }

    /// Since when the path is suspected.
    pub(crate) fn suspect_since(&self) -> Option<Micros> {
        match self.state {
            State::Suspect { since, .. } => Some(since),
            _ => None,
        }
    }

    /// When proof of delivery last came; 0 for never.
    pub(crate) fn last_proof(&self) -> Micros {
        self.last_proof
    }

    /// How long no proof came, counted from when there was something to prove: a path that had nothing to
    /// carry was idle, not silent. `oldest` is when the oldest packet in flight was sent.
    pub(crate) fn silent_for(&self, now: Micros, oldest: Option<Micros>) -> Micros {
        now.saturating_sub(self.last_proof.max(oldest.unwrap_or(0)))
    }

    pub(crate) fn suspect(&mut self, now: Micros, window: u64) {
        let window = match self.state {
            State::Probation { window, .. } => window / 2,
            State::Narrow { window, .. } => window,
            _ => window,
        };
        self.challenge = None;
        let window = window.max(MIN_WINDOW);
        self.state = State::Suspect { since: now, window, next_probe: now, probes: 0, wary: self.only_small };
    }

    /// A packet is known to have arrived. Returns what that changes.
    pub(crate) fn on_proof(&mut self, now: Micros, packet: Packet, srtt: Micros) -> Option<Recovery> {
        self.last_proof = now;
        self.proven = self.proven.max(packet.sent_at);
        self.challenge = None;
        self.hedged = 0;
        self.only_small &= !packet.full_size;
        if packet.full_size {
            self.full_proven = self.full_proven.max(packet.sent_at);
            self.full_lost = 0;
        }
        let fresh = now.saturating_sub(packet.sent_at) <= STALE;
        match self.state {
            State::Suspect { since, window, wary: true, .. } if fresh && !packet.full_size => {
                self.state = State::Narrow { since, window, next_probe: now, probes: 0 };
                Some(Recovery::Narrow)
            }
            State::Suspect { since, window, .. } if fresh => {
                Some(self.readmit(now, since, window, srtt, packet))
            }
            State::Narrow { since, window, .. } if packet.full_size => {
                Some(self.readmit(now, since, window, srtt, packet))
            }
            State::Probation { until, .. } if now >= until => {
                self.state = State::Trusted;
                None
            }
            _ => None,
        }
    }

    /// A packet is lost. Returns whether that makes the path narrow.
    pub(crate) fn on_loss(&mut self, now: Micros, packet: Packet, window: u64) -> bool {
        self.full_lost += u32::from(packet.full_size && packet.sent_at > self.full_proven);
        let in_use = matches!(self.state, State::Trusted | State::Probation { .. });
        let is_narrow = in_use && self.full_lost >= FULL_LOST && self.proven > packet.sent_at;
        if is_narrow {
            self.state = State::Narrow { since: now, window, next_probe: now, probes: 0 };
        }
        is_narrow
    }

    fn readmit(&mut self, now: Micros, since: Micros, window: u64, srtt: Micros, packet: Packet) -> Recovery {
        self.only_small = !packet.full_size;
        self.state = State::Probation { window, until: now + srtt };
        Recovery::Readmitted(now - since)
    }

    /// The window as far as it may be used.
    pub(crate) fn cap(&self, window: u64) -> u64 {
        match self.state {
            State::Probation { window: resumed, .. } => window.min((resumed / 2).max(MIN_WINDOW)),
            _ => window,
        }
    }

    /// When the next probe of a suspected path is due.
    pub(crate) fn probe_at(&self) -> Option<Micros> {
        match self.state {
            State::Suspect { next_probe, .. } => Some(next_probe),
            _ => None,
        }
    }

    /// There is reason to believe that a path that was not used is back: it is asked at once, and used when
    /// it answers.
    pub(crate) fn doubt(&mut self, now: Micros, window: u64) {
        match &mut self.state {
            State::Suspect { next_probe, probes, .. } => (*next_probe, *probes) = (now, 0),
            _ => {
                // It was not used, which says nothing of the size of what passes.
                self.only_small = false;
                self.suspect(now, window);
            }
        }
    }

    /// When a narrow path is probed with a full-size packet next.
    pub(crate) fn full_probe_at(&self) -> Option<Micros> {
        match self.state {
            State::Narrow { next_probe, .. } => Some(next_probe),
            _ => None,
        }
    }

    /// A full-size probe leaves. Returns whether it is the second: the first was not answered.
    pub(crate) fn on_full_probe(&mut self, now: Micros) -> bool {
        let State::Narrow { next_probe, probes, .. } = &mut self.state else { return false };
        *next_probe = now + (NARROW_INTERVAL << (*probes).min(5));
        *probes += 1;
        *probes == 2
    }

    pub(crate) fn on_probe(&mut self, now: Micros) {
        if let State::Suspect { next_probe, probes, .. } = &mut self.state {
            *probes += 1;
            let doublings = probes.saturating_sub(QUICK_PROBES).div_ceil(20).min(6);
            *next_probe = now + (PROBE_INTERVAL << doublings).min(MAX_PROBE_INTERVAL);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SRTT: Micros = 30_000;
    const EXPECTED: Expectation =
        Expectation { rtt: SRTT, deviation: 5_000, probe_timeout: 60_000, silence: 200_000 };

    fn full(sent_at: Micros) -> Packet {
        Packet { sent_at, full_size: true }
    }

    fn small(sent_at: Micros) -> Packet {
        Packet { sent_at, full_size: false }
    }

    #[test]
    fn a_path_that_passes_small_packets_only_is_out_until_a_full_size_one_passes() {
        let mut liveness = Liveness::default();
        liveness.suspect(1_000_000, 80_000);
        let back = liveness.on_proof(1_100_000, small(1_090_000), SRTT);
        assert_eq!(back, Some(Recovery::Readmitted(100_000)), "the first time a small one is enough");
        liveness.suspect(1_300_000, 80_000);
        assert_eq!(liveness.on_proof(1_350_000, small(1_340_000), SRTT), Some(Recovery::Narrow));
        assert!(liveness.is_narrow() && !liveness.is_suspect());
        assert_eq!(liveness.full_probe_at(), Some(1_350_000));
        assert!(!liveness.on_full_probe(1_350_000));
        assert_eq!(liveness.full_probe_at(), Some(1_600_000));
        assert!(liveness.on_full_probe(1_600_000), "the first was not answered");
        assert_eq!(liveness.full_probe_at(), Some(2_100_000));
        assert_eq!(liveness.on_proof(1_700_000, small(1_690_000), SRTT), None);
        let back = liveness.on_proof(1_800_000, full(1_700_000), SRTT);
        assert_eq!(back, Some(Recovery::Readmitted(500_000)));
        liveness.suspect(3_000_000, 80_000);
        let back = liveness.on_proof(3_100_000, small(3_090_000), SRTT);
        assert_eq!(back, Some(Recovery::Readmitted(100_000)), "a full-size packet had passed");
    }

    #[test]
    fn a_path_that_loses_full_size_packets_and_passes_small_ones_is_narrow() {
        let mut liveness = Liveness::default();
        liveness.on_proof(1_030_000, full(1_000_000), SRTT);
        for i in 0..20 {
            assert!(!liveness.on_loss(1_050_000, full(990_000 + i), 80_000), "older than what arrived");
        }
        for i in 1..10 {
            liveness.on_proof(1_100_000 + i, small(1_002_000 * i), SRTT);
            assert!(!liveness.on_loss(1_100_000 + i, full(1_001_000), 80_000));
        }
        assert!(!liveness.on_loss(1_200_000, small(1_001_000), 80_000));
        assert!(liveness.on_loss(1_200_000, full(1_001_000), 80_000));
        assert!(liveness.is_narrow());
        let back = liveness.on_proof(1_300_000, full(1_200_000), SRTT);
        assert_eq!(back, Some(Recovery::Readmitted(100_000)));
    }

    #[test]
    fn silence_counts_from_when_proof_was_due_and_through_a_challenge() {
        let mut liveness = Liveness::default();
        liveness.on_proof(1_000_000, full(970_000), SRTT);
        assert_eq!(liveness.challenge_at(None, &EXPECTED), None, "nothing in flight");
        // Sent just now: due after a round trip, overdue 20 ms later.
        assert_eq!(liveness.challenge_at(Some(1_000_000), &EXPECTED), Some(1_050_000));
        // Sent long ago, but other packets were acknowledged since.
        assert_eq!(liveness.challenge_at(Some(500_000), &EXPECTED), Some(1_020_000));
        assert_eq!(liveness.suspect_at(Some(500_000), &EXPECTED), None, "not challenged yet");
        liveness.on_challenge(1_020_000, &EXPECTED);
        assert_eq!(liveness.challenge_at(Some(500_000), &EXPECTED), Some(1_040_000));
        assert_eq!(liveness.suspect_at(Some(500_000), &EXPECTED), Some(1_120_000), "two probe timeouts");
        // Long probe timeouts are cut short, short ones are not taken literally.
        let suspect_at =
            |probe_timeout| liveness.suspect_at(Some(500_000), &Expectation { probe_timeout, ..EXPECTED });
        assert_eq!(suspect_at(500_000), Some(1_200_000));
        assert_eq!(suspect_at(1_000), Some(1_070_000), "the answer to the challenge may take 50 ms");
        assert_eq!(liveness.silent_for(1_120_000, Some(500_000)), 120_000);
        assert_eq!(liveness.silent_for(3_120_000, Some(3_000_000)), 120_000, "it was idle before");
        // An answer ends the challenge.
        liveness.on_proof(1_050_000, full(1_015_000), SRTT);
        assert_eq!(liveness.suspect_at(Some(500_000), &EXPECTED), None);
        assert_eq!(liveness.challenge_at(Some(500_000), &EXPECTED), Some(1_070_000));
    }

    #[test]
    fn a_path_without_recent_proof_is_in_doubt_and_hedged_for_an_initial_window() {
        let mut liveness = Liveness::default();
        liveness.on_proof(1_030_000, full(1_000_000), SRTT);
        assert!(!liveness.is_in_doubt(1_250_000, 45_000));
        assert!(liveness.is_in_doubt(1_250_001, 45_000));
        assert!(!liveness.is_in_doubt(1_600_000, 600_000), "a long path proves nothing sooner");
        assert!(liveness.may_hedge(MAX_HEDGED) && !liveness.may_hedge(MAX_HEDGED + 1));
        liveness.on_hedged(14_000);
        assert!(liveness.may_hedge(720) && !liveness.may_hedge(721));
        liveness.on_proof(1_400_000, full(1_300_000), SRTT);
        assert!(liveness.may_hedge(MAX_HEDGED));
    }

    #[test]
    fn a_recent_packet_readmits_and_a_stale_one_does_not() {
        let mut liveness = Liveness::default();
        liveness.suspect(1_000_000, 100_000);
        assert!(liveness.is_suspect());
        assert_eq!(liveness.on_proof(4_000_000, full(900_000), SRTT), None, "three seconds late");
        assert!(liveness.is_suspect());
        assert_eq!(
            liveness.on_proof(4_000_000, full(3_950_000), SRTT),
            Some(Recovery::Readmitted(3_000_000))
        );
        assert!(!liveness.is_suspect());
    }

    #[test]
    fn probation_halves_the_window_for_a_round_trip() {
        let mut liveness = Liveness::default();
        liveness.suspect(0, 100_000);
        liveness.on_proof(500_000, full(480_000), SRTT);
        assert_eq!(liveness.cap(100_000), 50_000);
        assert_eq!(liveness.cap(20_000), 20_000, "never above the controller's own");
        liveness.on_proof(520_000, full(490_000), SRTT);
        assert_eq!(liveness.cap(100_000), 50_000);
        liveness.on_proof(530_000, full(500_000), SRTT);
        assert_eq!(liveness.cap(100_000), 100_000);
    }

    #[test]
    fn a_path_that_flaps_comes_back_ever_smaller() {
        let mut liveness = Liveness::default();
        let mut caps = Vec::new();
        for i in 0..6u64 {
            liveness.suspect(i * 1_000_000, 80_000);
            liveness.on_proof(i * 1_000_000 + 500_000, full(i * 1_000_000 + 480_000), SRTT);
            caps.push(liveness.cap(80_000));
        }
        assert_eq!(caps, [40_000, 20_000, 10_000, 5_000, 4_800, 4_800]);
    }

    #[test]
    fn probes_become_rarer() {
        let mut liveness = Liveness::default();
        liveness.suspect(0, 100_000);
        let mut at = vec![liveness.probe_at().unwrap()];
        while *at.last().unwrap() < 60_000_000 {
            liveness.on_probe(*at.last().unwrap());
            at.push(liveness.probe_at().unwrap());
        }
        assert_eq!(at[1] - at[0], 25_000);
        assert!(at[..200].last().unwrap() < &5_000_000);
        assert_eq!(at[at.len() - 1] - at[at.len() - 2], 1_000_000);
        assert!(at.len() < 500, "{} probes in a minute", at.len());
    }
}

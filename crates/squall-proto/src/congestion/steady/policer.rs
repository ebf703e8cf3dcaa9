//! Policers, which drop packets above a rate without a visible queue.
//!
//! A carrier lets a bucket of tokens pass at full speed and then a rate (Flach et al., An
//! Internet-Wide Analysis of Traffic Policing, SIGCOMM 2016). A window that grows until it loses
//! finds the rate, and exceeds it again within seconds. Here it is remembered, as in BBR's
//! long-term sampling (`bbr_lt_bw_sampling` in Linux). The bucket is empty where a packet is lost,
//! so the bytes that passed between two losses are the rate, however much was sent.
//!
//! A radio loses packets without a queue, too, but at any rate. Therefore a rate is checked first:
//! below a policer's rate no more is lost.
//!
//! While less is used, the bucket fills. After the check, and after each hold, slightly more than
//! the rate is sent. If more bytes pass than the bucket can have saved, the rate is higher; after
//! some such steps it is forgotten.

use std::collections::VecDeque;

use squall_units::{Span, Time};

use super::units::{ByteRate, Delay};

/// Shortest time between losses over which a rate is measured.
const SHORTEST: Span = Span::from_millis(200);
/// Shortest such time in round trips (BBR has four).
const SHORTEST_ROUND_TRIPS: f64 = 4.0;
/// Longest such time: losses further apart are not one event.
const LONGEST: Span = Span::from_secs(2);
/// Share of lost bytes above which a policer is suspected: a third more than its rate was sent.
/// With BBR's fifth a medium that loses 8 % is suspected by chance.
const SUSPICIOUS: f64 = 0.25;
/// Smallest number of losses, where consecutive ones are one: in a few any share is chance, or that
/// of an outage.
const LEAST: u32 = 16;
/// Share of the measured rate that is used: an empty bucket would stay empty, and bursts lose.
const USED: f64 = 0.95;
/// Share of packets that the medium may lose: more before the first loss of an event is no policer,
/// nor is more in a check.
const CLEARED: f64 = 0.03;
/// Weight of a packet in the usual share of losses.
const WEIGHT: f64 = 0.002;
/// Number of checks, each at the rate that passed in the previous one: the rate may have been
/// measured too high.
const CHECKS: u8 = 3;
/// Length of a check.
const CHECK: Span = Span::from_secs(1);
/// Smallest number of bytes in a check: in few any share is chance.
const CHECK_BYTES: u64 = 250_000;
/// Round trips before a check in which packets from before it are lost.
const SETTLE_ROUND_TRIPS: f64 = 3.0;
/// Pause after failed checks before the next begins.
const REJECTED: Span = Span::from_secs(120);
/// First time for which a rate is held; it doubles each time that more was lost beyond it.
const HOLD: Span = Span::from_secs(30);
/// Longest time for which a rate is held.
const LONGEST_HOLD: Span = Span::from_secs(240);
/// Multiple of the rate that is tried: where the rate still applies, a fifth is lost for a round
/// trip or two.
const TRIED: f64 = 1.25;
/// Number of such steps after which no policer is left: the rate has doubled.
const STEPS: u8 = 3;
/// Number of packets lost without a queue in some round trips that show that the rate still
/// applies.
const SHOWN: u32 = 3;
/// Share of lost packets that shows it: fewer may be the medium's.
const SHOWN_SHARE: f64 = 0.1;
/// Time for which the rate may be exceeded beyond the savings of the bucket: an error of the
/// measurement.
const TOLERANCE: Delay = Delay::new(500e3);
/// Time between packets that are remembered.
const SPACING: Span = Span::from_millis(1);
/// Largest number of packets that are remembered: half a second, in which losses are detected.
const MAX_PASSED: usize = 512;

/// The policer of a path, if there is one.
#[derive(Debug, Default)]
pub(super) struct Policer {
    bytes: Bytes,
    /// Some of the packets that passed.
    passed: VecDeque<Passed>,
    /// Usual share of lost packets.
    usual: f64,
    event: Option<LossEvent>,
    bound: Option<Bound>,
    /// Time before which no check begins.
    rejected_until: Time,
}

/// Bytes that passed and bytes that were lost.
#[derive(Clone, Copy, Debug, Default)]
struct Bytes {
    acked: u64,
    lost: u64,
}

impl Bytes {
    /// Returns all bytes since an earlier count.
    fn since(self, start: Self) -> u64 {
        self.acked + self.lost - start.acked - start.lost
    }

    /// Returns the share that was lost since an earlier count.
    fn lost_share(self, start: Self) -> f64 {
        let (acked, lost) = (self.acked.saturating_sub(start.acked) as f64, (self.lost - start.lost) as f64);
        lost / (lost + acked).max(1.0)
    }
}

/// A packet that passed, and the bytes that had passed with it.
#[derive(Clone, Copy, Debug)]
struct Passed {
    packet: u64,
    sent: Time,
    acked: u64,
}

/// A period that began with a loss without a queue.
#[derive(Debug)]
struct LossEvent {
    since: Time,
    start: Bytes,
    losses: u32,
    /// Departure of the last packet that passed before the latest loss.
    before: Time,
}

#[derive(Debug)]
struct Bound {
    rate: ByteRate,
    stage: Stage,
    hold: Span,
    /// Number of steps by which the rate has risen since more was lost.
    steps: u8,
    /// Bytes that the bucket can have saved since it was empty; negative if more passed than the
    /// rate allows.
    saved: f64,
    /// Time of that computation, and the bytes that had passed.
    saved_at: (Time, u64),
}

#[derive(Debug)]
enum Stage {
    /// Counts for some time, from the bytes at `from` once that is over.
    Check {
        from: Time,
        start: Option<Bytes>,
        left: u8,
    },
    Hold {
        until: Time,
    },
    /// Sends more than the rate. `start` has the bytes before the first round with many losses,
    /// `packets` the losses since.
    Try {
        start: Bytes,
        packets: u32,
    },
}

impl Stage {
    fn check(now: Time, smoothed_rtt: Delay, left: u8) -> Self {
        Self::Check { from: now + (smoothed_rtt * SETTLE_ROUND_TRIPS).span(), start: None, left }
    }
}

impl Bound {
    fn save(&mut self, now: Time, acked: u64) {
        let (at, before) = std::mem::replace(&mut self.saved_at, (now, acked));
        self.saved += self.rate * Delay::from(now - at) - (acked - before) as f64;
    }
}

impl Policer {
    /// Returns the highest allowed rate.
    pub(super) fn ceiling(&self) -> ByteRate {
        self.bound.as_ref().map_or(ByteRate::INFINITY, |bound| match bound.stage {
            Stage::Try { .. } => bound.rate * TRIED,
            Stage::Check { .. } | Stage::Hold { .. } => bound.rate * USED,
        })
    }

    /// Records the arrival of a packet.
    pub(super) fn on_ack(&mut self, packet: u64, sent: Time, bytes: u64) {
        self.bytes.acked += bytes;
        self.usual -= WEIGHT * self.usual;
        if self.passed.back().is_some_and(|last| packet < last.packet || sent < last.sent + SPACING) {
            return;
        }
        if self.passed.len() == MAX_PASSED {
            self.passed.pop_front();
        }
        self.passed.push_back(Passed { packet, sent, acked: self.bytes.acked });
    }

    /// Records the loss of a packet, while the path had a queue or not.
    pub(super) fn on_loss(
        &mut self,
        now: Time,
        packet: u64,
        bytes: u64,
        met_queue: bool,
        smoothed_rtt: Delay,
    ) {
        self.bytes.lost += bytes;
        let is_sudden = self.usual < CLEARED;
        self.usual += WEIGHT * (1.0 - self.usual);
        if met_queue {
            self.event = None;
            return;
        }
        match self.bound.as_mut().map(|bound| &mut bound.stage) {
            Some(Stage::Try { packets, .. }) => *packets += 1,
            Some(Stage::Check { .. }) => {}
            Some(Stage::Hold { .. }) | None => self.measure(now, packet, smoothed_rtt, is_sudden),
        }
    }

    /// Measures at a lost packet that may end a period that began with a loss, or begin one.
    fn measure(&mut self, now: Time, packet: u64, smoothed_rtt: Delay, is_sudden: bool) {
        let before = self.passed.iter().rfind(|passed| passed.packet < packet);
        let Some(&Passed { sent, acked, .. }) = before.filter(|_| now >= self.rejected_until) else { return };
        let bytes = Bytes { acked, lost: self.bytes.lost };
        let Some(event) = self.event.as_mut().filter(|event| sent <= event.since + LONGEST) else {
            let event = LossEvent { since: sent, start: bytes, losses: 0, before: sent };
            self.event = Some(event).filter(|_| is_sudden);
            return;
        };
        event.losses += u32::from(sent > event.before);
        event.before = sent;
        let time = sent - event.since;
        let is_long = time >= SHORTEST.max((smoothed_rtt * SHORTEST_ROUND_TRIPS).span());
        if !is_long || event.losses < LEAST || bytes.lost_share(event.start) < SUSPICIOUS {
            return;
        }
        let passed = acked.saturating_sub(event.start.acked) as f64;
        self.bound = Some(Bound {
            rate: ByteRate::of(passed, time.into()),
            stage: Stage::check(now, smoothed_rtt, CHECKS - 1),
            hold: self.bound.as_ref().map_or(HOLD, |bound| bound.hold),
            steps: 0,
            saved: 0.0,
            saved_at: (now, self.bytes.acked),
        });
        self.event = None;
    }

    /// Ends the round.
    pub(super) fn end_round(&mut self, now: Time, smoothed_rtt: Delay) {
        let bytes = self.bytes;
        let Some(bound) = &mut self.bound else { return };
        bound.save(now, bytes.acked);
        match &mut bound.stage {
            Stage::Check { from, start, left } if now >= *from => {
                let start = *start.get_or_insert(bytes);
                if now < *from + CHECK || bytes.since(start) < CHECK_BYTES {
                    return;
                }
                let lost = bytes.lost_share(start);
                if lost < CLEARED {
                    bound.stage = Stage::Try { start: bytes, packets: 0 };
                } else if *left == 0 {
                    self.bound = None;
                    self.rejected_until = now + REJECTED;
                } else {
                    bound.rate = bound.rate * (USED * (1.0 - lost));
                    bound.stage = Stage::check(now, smoothed_rtt, *left - 1);
                }
            }
            // The rate was measured too high, or has fallen.
            Stage::Hold { .. } if self.usual > CLEARED => {
                bound.stage = Stage::check(now, smoothed_rtt, CHECKS - 1);
            }
            Stage::Hold { until } if now >= *until => bound.stage = Stage::Try { start: bytes, packets: 0 },
            Stage::Try { start, packets } => {
                let lost = bytes.lost_share(*start);
                if *packets >= SHOWN && lost >= SHOWN_SHARE {
                    // The bucket is empty again: the bytes that passed are the rate, however much
                    // was lost beyond it.
                    self.usual = 0.0;
                    bound.rate = bound.rate * (TRIED * (1.0 - lost)).max(1.0);
                    bound.stage = Stage::Hold { until: now + bound.hold };
                    (bound.hold, bound.saved, bound.steps) = ((bound.hold * 2).min(LONGEST_HOLD), 0.0, 0);
                } else if bound.saved < -(bound.rate * TOLERANCE) {
                    (bound.rate, bound.saved, bound.steps) = (bound.rate * TRIED, 0.0, bound.steps + 1);
                    if bound.steps == STEPS {
                        self.bound = None;
                    }
                } else if lost < SHOWN_SHARE {
                    (*start, *packets) = (bytes, 0);
                }
            }
            Stage::Check { .. } | Stage::Hold { .. } => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACKET: u64 = 1_250;
    const RTT: Span = Span::from_millis(50);

    /// A path whose policer lets `limit` bytes per second pass, without a queue, and a medium that
    /// loses one packet in `medium`.
    struct Road {
        policer: Policer,
        now: Time,
        next: u64,
        limit: f64,
        medium: u64,
        tokens: f64,
        sent: VecDeque<(u64, Time, bool)>,
    }

    impl Road {
        fn new(limit: f64, medium: u64) -> Self {
            let (policer, sent) = (Policer::default(), VecDeque::new());
            Self { policer, now: Time::EPOCH, next: 0, limit, medium, tokens: 10_000.0, sent }
        }

        /// Sends at `rate` bytes per second, or the ceiling. Returns the share that is lost.
        fn send(&mut self, seconds: u64, rate: f64) -> f64 {
            self.send_for(Span::from_secs(seconds), rate)
        }

        fn send_for(&mut self, time: Span, rate: f64) -> f64 {
            let end = self.now + time;
            let (mut round, mut all, mut lost) = (self.now, 0, 0);
            while self.now < end {
                let gap = ByteRate::new(rate).min(self.policer.ceiling()).time_for(PACKET as f64);
                self.now += gap.span();
                self.tokens = (self.tokens + ByteRate::new(self.limit) * gap).min(1e6);
                let passes = self.tokens >= PACKET as f64 && !(self.next + 1).is_multiple_of(self.medium);
                self.tokens -= if passes { PACKET as f64 } else { 0.0 };
                self.sent.push_back((self.next, self.now, passes));
                (self.next, all, lost) = (self.next + 1, all + 1, lost + u64::from(!passes));
                self.report();
                if self.now >= round + RTT {
                    self.policer.end_round(self.now, RTT.into());
                    round = self.now;
                }
            }
            lost as f64 / all as f64
        }

        fn report(&mut self) {
            while self.sent.front().is_some_and(|(_, at, _)| *at + RTT <= self.now)
                && let Some((packet, sent, passes)) = self.sent.pop_front()
            {
                match passes {
                    true => self.policer.on_ack(packet, sent, PACKET),
                    false => self.policer.on_loss(self.now, packet, PACKET, false, RTT.into()),
                }
            }
        }

        fn mbps(&self) -> f64 {
            8e-6 * (self.policer.ceiling() * Delay::new(1e6))
        }
    }

    #[test]
    fn the_rate_of_a_policer_is_found_and_kept() {
        let mut road = Road::new(250_000.0, u64::MAX);
        assert!(road.send(6, 1.25e6) > 0.1);
        assert!((1.8..2.0).contains(&road.mbps()), "{}", road.mbps());
        assert!(road.send(25, 1.25e6) < 0.002, "next to nothing is lost below it");
        let lost = road.send(120, 1.25e6);
        assert!(lost > 0.0 && lost < 0.005, "it is tried again, seldom: {lost}");
        assert!((1.8..2.0).contains(&road.mbps()), "{}", road.mbps());
    }

    #[test]
    fn a_rate_that_has_risen_is_forgotten() {
        let mut road = Road::new(250_000.0, u64::MAX);
        road.send(5, 1.25e6);
        road.limit = 1.25e6;
        road.send(60, 1.25e6);
        assert!(road.mbps().is_infinite(), "{}", road.mbps());
    }

    #[test]
    fn a_medium_that_loses_is_no_policer() {
        for medium in [3, 6, 12, 50] {
            let mut road = Road::new(f64::INFINITY, medium);
            road.send(60, 1.25e6);
            assert!(road.mbps().is_infinite(), "one in {medium}: {}", road.mbps());
        }
    }

    #[test]
    fn outages_are_no_policer() {
        for outage in [120, 250, 400] {
            let mut road = Road::new(f64::INFINITY, 200);
            for _ in 0..8 {
                road.send(7, 1.5e6);
                (road.limit, road.tokens) = (0.0, 0.0);
                road.send_for(Span::from_millis(outage), 1.5e6);
                road.limit = f64::INFINITY;
            }
            assert!(road.mbps().is_infinite(), "{outage} ms: {}", road.mbps());
        }
    }

    #[test]
    fn losses_of_a_queue_are_none_of_a_policer() {
        let mut policer = Policer::default();
        for packet in 0..5_000 {
            let sent = Time::from_micros(packet * 1_000);
            match packet % 2 {
                0 => policer.on_ack(packet, sent, PACKET),
                _ => policer.on_loss(sent + RTT, packet, PACKET, true, RTT.into()),
            }
        }
        assert!(!policer.ceiling().is_finite());
        assert!(policer.passed.len() <= MAX_PASSED);
    }
}

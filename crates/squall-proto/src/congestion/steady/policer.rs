//! Policers: what exceeds a rate is dropped, and no queue shows it.
//!
//! A carrier lets a bucket of tokens pass at full speed and then a rate (Flach et al., An Internet-Wide Analysis of Traffic
//! Policing, SIGCOMM 2016). A window that grows until it loses finds the rate, and exceeds it again within seconds. Here it is
//! remembered, as BBR's long-term sampling does (`bbr_lt_bw_sampling` in Linux). The bucket is empty where a packet is lost, so
//! the bytes that passed between two losses are the rate, however much was sent.
//!
//! A radio loses packets without a queue, too, but at any rate. So a rate is checked first: below a policer's no more is lost.
//!
//! While less is used, the bucket fills. After the check, and after each hold, a little more than the rate is sent. If more bytes
//! pass than the bucket can have saved, the rate is higher; after some such steps it is forgotten.

use std::collections::VecDeque;

use squall_sched::Micros;

/// Shortest time between losses over which a rate is measured: this, and round trips (BBR has four).
const SPAN: Micros = 200_000;
const SPAN_ROUND_TRIPS: f64 = 4.0;
/// Longest of it: losses further apart are not one event.
const LONGEST: Micros = 2_000_000;
/// Share of bytes lost from which on a policer is suspected: a third more than its rate was sent. With BBR's fifth a medium that
/// loses 8 % is suspected by chance.
const SUSPICIOUS: f64 = 0.25;
/// Losses at least, of which those one after the other are one: of a few any share is chance, or that of an outage.
const LEAST: u32 = 16;
/// Share of the measured rate that is used: a bucket that is empty would stay so, and bursts lose.
const USED: f64 = 0.95;
/// Share of packets that the medium may lose: more before the first loss of an event is no policer, nor is more in a check.
const CLEARED: f64 = 0.03;
/// Weight of a packet in the share that is lost usually.
const WEIGHT: f64 = 0.002;
/// Checks, each at what passed in the one before: the rate may have been measured too high.
const CHECKS: u8 = 3;
/// Length of a check, after the round trips in which packets from before it are lost, and bytes in it: of few any share is chance.
const CHECK: Micros = 1_000_000;
const CHECK_BYTES: u64 = 250_000;
const SETTLE_ROUND_TRIPS: f64 = 3.0;
/// After checks that failed none begins for this long.
const REJECTED: Micros = 120_000_000;
/// A rate is held for this long at first, twice as long after each time that more was lost beyond it, and at most so.
const HOLD: Micros = 30_000_000;
const LONGEST_HOLD: Micros = 240_000_000;
/// Multiple of the rate that is tried: where it still holds, a fifth is lost for a round trip or two.
const TRIED: f64 = 1.25;
/// Steps of it after which no policer is left: the rate has doubled.
const STEPS: u8 = 3;
/// Packets lost without a queue in some round trips that show that it does, and their share: fewer may be the medium's.
const SHOWN: u32 = 3;
const SHOWN_SHARE: f64 = 0.1;
/// Time in microseconds for which the rate may be exceeded beyond what the bucket can have saved: an error of the measurement.
const TOLERANCE: f64 = 500_000.0;
/// Time in microseconds between packets that are remembered, and how many are: half a second in which losses are detected.
const SPACING: Micros = 1_000;
const MAX_PASSED: usize = 512;

/// The policer of a path, if there is one.
#[derive(Debug, Default)]
pub(super) struct Policer {
    acked: u64,
    lost: u64,
    /// Some of the packets that passed: number, departure, and bytes that had passed with it.
    passed: VecDeque<(u64, Micros, u64)>,
    /// Share of packets that is lost usually.
    usual: f64,
    span: Option<Span>,
    bound: Option<Bound>,
    /// No check before.
    rejected_until: Micros,
}

/// A time that began with a loss without a queue: when, the bytes that had passed and were lost by then, and losses since.
#[derive(Debug)]
struct Span {
    since: Micros,
    acked: u64,
    lost: u64,
    losses: u32,
    /// Departure of the last packet that passed before the latest loss.
    before: Micros,
}

#[derive(Debug)]
struct Bound {
    /// In bytes per second.
    rate: f64,
    stage: Stage,
    hold: Micros,
    /// Steps by which the rate has risen since more was lost.
    steps: u8,
    /// Bytes that the bucket can have saved since it was empty; negative if more passed than the rate lets.
    saved: f64,
    /// When that was computed, and the bytes that had passed.
    at: (Micros, u64),
}

#[derive(Debug)]
enum Stage {
    /// Counts from `from` until `until`, with the counters at `from` once that is over.
    Check {
        from: Micros,
        until: Micros,
        start: Option<(u64, u64)>,
        left: u8,
    },
    Hold {
        until: Micros,
    },
    /// More than the rate is sent. The counters before the first round with many losses, and packets lost since.
    Try {
        start: (u64, u64),
        packets: u32,
    },
}

impl Stage {
    fn check(now: Micros, rtt: f64, left: u8) -> Self {
        let from = now + (SETTLE_ROUND_TRIPS * rtt) as Micros;
        Self::Check { from, until: from + CHECK, start: None, left }
    }
}

impl Bound {
    fn save(&mut self, now: Micros, acked: u64) {
        let (at, before) = std::mem::replace(&mut self.at, (now, acked));
        self.saved += self.rate * (now - at) as f64 / 1e6 - (acked - before) as f64;
    }
}

impl Policer {
    /// The most that may be sent, in bytes per second.
    pub(super) fn ceiling(&self) -> f64 {
        self.bound.as_ref().map_or(f64::INFINITY, |bound| match bound.stage {
            Stage::Try { .. } => TRIED * bound.rate,
            Stage::Check { .. } | Stage::Hold { .. } => USED * bound.rate,
        })
    }

    /// A packet arrived.
    pub(super) fn on_ack(&mut self, packet: u64, sent: Micros, bytes: u64) {
        self.acked += bytes;
        self.usual -= WEIGHT * self.usual;
        if self.passed.back().is_some_and(|(last, at, _)| packet < *last || sent < at + SPACING) {
            return;
        }
        if self.passed.len() == MAX_PASSED {
            self.passed.pop_front();
        }
        self.passed.push_back((packet, sent, self.acked));
    }

    /// A packet is lost, while the path had a queue or not, and a round trip takes `rtt` microseconds.
    pub(super) fn on_loss(&mut self, now: Micros, packet: u64, bytes: u64, met_queue: bool, rtt: f64) {
        self.lost += bytes;
        let is_sudden = self.usual < CLEARED;
        self.usual += WEIGHT * (1.0 - self.usual);
        if met_queue {
            self.span = None;
            return;
        }
        match self.bound.as_mut().map(|bound| &mut bound.stage) {
            Some(Stage::Try { packets, .. }) => *packets += 1,
            Some(Stage::Check { .. }) => {}
            Some(Stage::Hold { .. }) | None => self.measure(now, packet, rtt, is_sudden),
        }
    }

    /// A packet is lost that may end a time that began with a loss, or begin one.
    fn measure(&mut self, now: Micros, packet: u64, rtt: f64, is_sudden: bool) {
        let before = self.passed.iter().rfind(|(passed, ..)| *passed < packet);
        let Some(&(_, at, acked)) = before.filter(|_| now >= self.rejected_until) else { return };
        let Some(span) = self.span.as_mut().filter(|span| at <= span.since + LONGEST) else {
            let span = Span { since: at, acked, lost: self.lost, losses: 0, before: at };
            self.span = Some(span).filter(|_| is_sudden);
            return;
        };
        span.losses += u32::from(at > span.before);
        span.before = at;
        let time = at.saturating_sub(span.since);
        let (passed, lost) = (acked.saturating_sub(span.acked) as f64, (self.lost - span.lost) as f64);
        let is_long = time >= SPAN.max((SPAN_ROUND_TRIPS * rtt) as Micros);
        let share = share(passed, lost);
        if !is_long || span.losses < LEAST || share < SUSPICIOUS {
            return;
        }
        self.bound = Some(Bound {
            rate: passed * 1e6 / time as f64,
            stage: Stage::check(now, rtt, CHECKS - 1),
            hold: self.bound.as_ref().map_or(HOLD, |bound| bound.hold),
            steps: 0,
            saved: 0.0,
            at: (now, self.acked),
        });
        self.span = None;
    }

    /// A round ended; a round trip takes `rtt` microseconds.
    pub(super) fn end_round(&mut self, now: Micros, rtt: f64) {
        let (acked, lost, usual) = (self.acked, self.lost, self.usual);
        let Some(bound) = &mut self.bound else { return };
        bound.save(now, acked);
        match &mut bound.stage {
            Stage::Check { from, until, start, left } if now >= *from => {
                let start = *start.get_or_insert((acked, lost));
                if now < *until || acked + lost < start.0 + start.1 + CHECK_BYTES {
                    return;
                }
                let lost = share((acked - start.0) as f64, (lost - start.1) as f64);
                if lost < CLEARED {
                    bound.stage = Stage::Try { start: (self.acked, self.lost), packets: 0 };
                } else if *left == 0 {
                    self.bound = None;
                    self.rejected_until = now + REJECTED;
                } else {
                    bound.rate *= USED * (1.0 - lost);
                    bound.stage = Stage::check(now, rtt, *left - 1);
                }
            }
            // It was measured too high, or has fallen.
            Stage::Hold { .. } if usual > CLEARED => bound.stage = Stage::check(now, rtt, CHECKS - 1),
            Stage::Hold { until } if now >= *until => {
                bound.stage = Stage::Try { start: (acked, lost), packets: 0 };
            }
            Stage::Try { start, packets } => {
                let lost_share = share((acked - start.0) as f64, (lost - start.1) as f64);
                if *packets >= SHOWN && lost_share >= SHOWN_SHARE {
                    // The bucket is empty again: what passed is the rate, however much was lost beyond it.
                    self.usual = 0.0;
                    bound.rate *= (TRIED * (1.0 - lost_share)).max(1.0);
                    bound.stage = Stage::Hold { until: now + bound.hold };
                    (bound.hold, bound.saved, bound.steps) = ((2 * bound.hold).min(LONGEST_HOLD), 0.0, 0);
                } else if bound.saved < -bound.rate * TOLERANCE / 1e6 {
                    (bound.rate, bound.saved, bound.steps) = (TRIED * bound.rate, 0.0, bound.steps + 1);
                    if bound.steps == STEPS {
                        self.bound = None;
                    }
                } else if lost_share < SHOWN_SHARE {
                    (*start, *packets) = ((acked, lost), 0);
                }
            }
            Stage::Check { .. } | Stage::Hold { .. } => {}
        }
    }
}

/// Share of bytes that is lost.
fn share(acked: f64, lost: f64) -> f64 {
    lost / (lost + acked).max(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACKET: u64 = 1_250;
    const RTT: Micros = 50_000;

    /// A path whose policer lets `limit` bytes per second pass, without a queue, and a medium that loses one packet in `medium`.
    struct Road {
        policer: Policer,
        now: Micros,
        next: u64,
        limit: f64,
        medium: u64,
        tokens: f64,
        sent: VecDeque<(u64, Micros, bool)>,
    }

    impl Road {
        fn new(limit: f64, medium: u64) -> Self {
            let (policer, sent) = (Policer::default(), VecDeque::new());
            Self { policer, now: 0, next: 0, limit, medium, tokens: 10_000.0, sent }
        }

        /// Sends at `rate` bytes per second, or the ceiling. Returns the share that is lost.
        fn send(&mut self, seconds: u64, rate: f64) -> f64 {
            self.send_for(1_000_000 * seconds, rate)
        }

        fn send_for(&mut self, time: Micros, rate: f64) -> f64 {
            let end = self.now + time;
            let (mut round, mut all, mut lost) = (self.now, 0, 0);
            while self.now < end {
                let gap = PACKET as f64 * 1e6 / rate.min(self.policer.ceiling());
                self.now += gap as Micros;
                self.tokens = (self.tokens + self.limit * gap / 1e6).min(1e6);
                let passes = self.tokens >= PACKET as f64 && !(self.next + 1).is_multiple_of(self.medium);
                self.tokens -= if passes { PACKET as f64 } else { 0.0 };
                self.sent.push_back((self.next, self.now, passes));
                (self.next, all, lost) = (self.next + 1, all + 1, lost + u64::from(!passes));
                self.report();
                if self.now >= round + RTT {
                    self.policer.end_round(self.now, RTT as f64);
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
                    false => self.policer.on_loss(self.now, packet, PACKET, false, RTT as f64),
                }
            }
        }

        fn mbps(&self) -> f64 {
            8.0 * self.policer.ceiling() / 1e6
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
        for outage in [120_000, 250_000, 400_000] {
            let mut road = Road::new(f64::INFINITY, 200);
            for _ in 0..8 {
                road.send(7, 1.5e6);
                (road.limit, road.tokens) = (0.0, 0.0);
                road.send_for(outage, 1.5e6);
                road.limit = f64::INFINITY;
            }
            assert!(road.mbps().is_infinite(), "{outage} µs: {}", road.mbps());
        }
    }

    #[test]
    fn losses_of_a_queue_are_none_of_a_policer() {
        let mut policer = Policer::default();
        for packet in 0..5_000 {
            let sent = packet * 1_000;
            match packet % 2 {
                0 => policer.on_ack(packet, sent, PACKET),
                _ => policer.on_loss(sent + RTT, packet, PACKET, true, RTT as f64),
            }
        }
        assert!(policer.ceiling().is_infinite());
        assert!(policer.passed.len() <= MAX_PASSED);
    }
}

//! Reordering of the packets of a path, and the age at which an overtaken packet counts as lost.
//!
//! A packet is lost if a later one is acknowledged and it is older than a round trip and a
//! *reordering window* (RFC 8985 §6.2, RFC 9002 §6.1.2):
//!
//! ```text
//! age > max(5/4 · max(smoothed, latest), base + window)
//! ```
//!
//! The quarter of a round trip is RACK's, and is the whole window on a path that keeps the order.
//! RACK widens its window by a quarter whenever a loss was spurious. Here the window is measured:
//! the round trips are those of packets that overtook others, so they are at the lower end of the
//! path's delays. The *lateness* of a packet is its delay beyond their mean over a few round trips,
//! the base: the smoothed round trip covers eight packets, and follows the jitter. The window
//! covers the lateness of all but one of [`TOLERATED`] packets of the last seconds. A single
//! straggler does not delay the repair of lost packets, and a path that no longer reorders is as
//! quick as before within four seconds.
//!
//! A packet that many later ones have overtaken is lost at once (RFC 9002 §6.1.1), since a fast and
//! long path should not wait for a quarter of a round trip; unless the path has recently shown
//! reordering by half as much.

use squall_sched::{Span, Time};

/// One packet of this many may be declared lost and still arrive. Its retransmission is waste, and
/// a block that is not repaired ends.
const TOLERATED: u32 = 500;
/// Number of later packets that make one lost. RFC 9002 uses 3, which takes the jitter of a radio
/// link for loss.
const PACKETS: u64 = 32;
/// Length of a slot. Lateness is counted over two slots.
const SLOT: Span = Span::from_secs(2);
/// Lateness below this is ignored: the granularity of timers (RFC 9002 §6.1.2).
const GRANULARITY: Span = Span::from_millis(1);
/// Weight in the base of the samples of one round trip.
const WEIGHT: f64 = 0.25;
/// Largest weight in the base of one sample.
const MOST_WEIGHT: f64 = 0.125;
/// Classes of lateness: four to each doubling, up to half a second.
const CLASSES: usize = 36;

/// Observed reordering of a path.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Reordering {
    /// Newest acknowledged packet.
    newest: Option<u64>,
    /// Latest round trip of a packet that was the newest when it was acknowledged (RFC 9002 §5.1).
    latest: Span,
    /// Smoothed round trip of such packets.
    smoothed: Span,
    /// Mean of such round trips over a few round trips, however many packets they have: the
    /// reference of lateness.
    base: Span,
    sampled_at: Time,
    /// This slot and the previous one.
    slots: [Slot; 2],
    /// Start of this slot.
    since: Time,
    /// Window that follows from the slots.
    window: Span,
}

/// Packets that arrived within a slot of time.
#[derive(Clone, Copy, Debug)]
struct Slot {
    all: u32,
    /// Packets by the class of their lateness.
    late: [u32; CLASSES],
    /// Largest number by which the newest packet was ahead of one that it had overtaken.
    ahead: u64,
}

impl Default for Slot {
    fn default() -> Self {
        Self { all: 0, late: [0; CLASSES], ahead: 0 }
    }
}

impl Reordering {
    /// Returns the newest acknowledged packet; an older one is overtaken.
    pub(crate) fn newest(&self) -> Option<u64> {
        self.newest
    }

    /// Records the acknowledgement of a packet that left at `sent_at`. With `samples` its age is
    /// that of a round trip, as it is the newest of those that were acknowledged together. To be
    /// called in ascending order.
    pub(crate) fn on_ack(&mut self, now: Time, packet: u64, sent_at: Time, samples: bool) {
        self.turn_to(now);
        let age = (now - sent_at).max(Span::TICK);
        let ahead = self.newest.map_or(0, |newest| newest.saturating_sub(packet));
        if ahead > 0 {
            self.on_late(age - self.base, ahead);
        } else {
            self.newest = Some(packet);
            if samples {
                self.on_round_trip(now, age);
            }
        }
        self.slots[0].all += 1;
    }

    fn on_round_trip(&mut self, now: Time, age: Span) {
        self.latest = age;
        if self.base.is_zero() {
            (self.smoothed, self.base) = (age, age);
        }
        self.smoothed = (self.smoothed * 7 + age) / 8;
        let round_trips = (now - self.sampled_at).micros() as f64 / self.base.micros() as f64;
        let change =
            (age.micros() as f64 - self.base.micros() as f64) * (WEIGHT * round_trips).min(MOST_WEIGHT);
        self.base =
            Span::from_micros(self.base.micros().saturating_add_signed(change as i64)).max(Span::TICK);
        self.sampled_at = now;
    }

    fn on_late(&mut self, lateness: Span, ahead: u64) {
        let slot = &mut self.slots[0];
        slot.ahead = slot.ahead.max(ahead);
        if let Some(class) = class(lateness) {
            slot.late[class] += 1;
            self.window = self.measure();
        }
    }

    fn turn_to(&mut self, now: Time) {
        let slots = (now - self.since) / SLOT;
        if slots > 0 {
            let before = if slots == 1 { self.slots[0] } else { Slot::default() };
            self.slots = [Slot::default(), before];
            self.since = now;
            self.window = self.measure();
        }
    }

    /// Returns the lateness that all but the tolerated packets keep within.
    fn measure(&self) -> Span {
        let mut tolerated = self.slots.iter().map(|slot| slot.all).sum::<u32>() / TOLERATED;
        let late = (0..CLASSES).rev().find(|class| {
            let packets: u32 = self.slots.iter().map(|slot| slot.late[*class]).sum();
            let is_needed = packets > tolerated;
            tolerated = tolerated.saturating_sub(packets);
            is_needed
        });
        late.map_or(Span::ZERO, most)
    }

    /// Returns the age at which an overtaken packet is lost.
    pub(crate) fn patience(&self) -> Span {
        let round_trip = self.smoothed.max(self.latest);
        (round_trip + round_trip / 4).max(self.base + self.window).max(GRANULARITY)
    }

    /// Returns the time by which departures must be dated back, so that noq, which waits for
    /// `round_trips` that grow by it, declares a packet lost after one and a half times the
    /// patience. Zero where the quarter of a round trip is enough.
    pub(crate) fn lead(&self, round_trips: u32) -> Span {
        let round_trip = self.smoothed.max(self.latest);
        if self.base + self.window <= round_trip + round_trip / 4 {
            return Span::ZERO;
        }
        let round_trips = u64::from(round_trips);
        // The smoothed round trip is that of eight packets, which may be a quarter less than the
        // mean.
        let waits = self.base * round_trips * 3 / 4;
        let missing = (self.base + self.window) * 3 / 2 - waits;
        Span::from_micros(missing.micros().div_ceil(round_trips - 1))
    }

    /// Returns the number of later packets that make one lost whatever its age.
    pub(crate) fn packets(&self) -> u64 {
        PACKETS.max(2 * self.slots[0].ahead.max(self.slots[1].ahead))
    }
}

/// Returns the class of a lateness; `None` below the granularity.
fn class(lateness: Span) -> Option<usize> {
    if lateness <= GRANULARITY {
        return None;
    }
    let class = 4.0 * (lateness.micros() as f64 / GRANULARITY.micros() as f64).log2();
    Some((class as usize).min(CLASSES - 1))
}

/// Returns the largest lateness of a class.
fn most(class: usize) -> Span {
    Span::from_micros((GRANULARITY.micros() as f64 * 2f64.powf((class + 1) as f64 / 4.0)).ceil() as u64)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use squall_units::short::{at_ms, at_us, ms, us};

    use super::*;

    /// Sends a packet each millisecond that is acknowledged after `delay`, or never; returns the
    /// share that was declared lost and arrived, and the lateness of the declaration of those that
    /// did not, both for packets from the second `from` on.
    fn run(seconds: u64, from: u64, mut delay: impl FnMut(u64) -> Option<u64>) -> (f64, Vec<u64>) {
        let mut reordering = Reordering::default();
        let sent = |packet: u64| packet * 1_000;
        let mut arrivals: Vec<(u64, u64)> =
            (0..seconds * 1_000).filter_map(|packet| Some((sent(packet) + delay(packet)?, packet))).collect();
        let arrive: std::collections::BTreeMap<u64, u64> =
            arrivals.iter().map(|(at, packet)| (*packet, *at)).collect();
        arrivals.sort_unstable();
        let mut arrivals = arrivals.into_iter().peekable();
        let (mut open, mut spurious, mut waits): (std::collections::BTreeSet<u64>, _, _) =
            (Default::default(), 0, Vec::new());
        for now in (0..seconds * 1_000_000).step_by(250) {
            if now % 1_000 == 0 {
                open.insert(now / 1_000);
            }
            while let Some((_, packet)) = arrivals.next_if(|(at, _)| *at <= now) {
                reordering.on_ack(at_us(now), packet, at_us(sent(packet)), true);
                open.remove(&packet);
            }
            while let Some(packet) = open.first().copied()
                && let Some(newest) = reordering.newest()
                && packet < newest
                && (us(now - sent(packet)) >= reordering.patience()
                    || newest - packet >= reordering.packets())
            {
                open.remove(&packet);
                if packet >= from * 1_000 {
                    match arrive.get(&packet) {
                        Some(_) => spurious += 1,
                        None => waits.push(now - sent(packet)),
                    }
                }
            }
        }
        (f64::from(spurious) / ((seconds - from) * 1_000) as f64, waits)
    }

    /// Returns a generator of numbers below one.
    fn chances(seed: u64) -> impl FnMut() -> f64 {
        let mut state = seed | 1;
        move || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 11) as f64 / (1u64 << 53) as f64
        }
    }

    #[test]
    fn on_a_path_that_keeps_the_order_a_quarter_of_a_round_trip_is_left() {
        let (spurious, waits) = run(10, 0, |packet| (packet % 50 > 0).then_some(40_000));
        assert_eq!(spurious, 0.0);
        assert!(waits.len() > 190 && waits.iter().all(|wait| *wait == 50_000), "{waits:?}");
    }

    #[test]
    fn a_window_that_is_no_longer_needed_closes_within_four_seconds() {
        let mut reordering = Reordering::default();
        for packet in 0..4_000u64 {
            // Each tenth is late by 30 ms during the first second.
            let late = if packet < 1_000 && packet % 10 == 0 { ms(30) } else { ms(0) };
            reordering.on_ack(at_ms(packet + 40), packet + 40, at_ms(packet), late.is_zero());
            if !late.is_zero() {
                reordering.on_ack(at_ms(packet + 40), packet, at_ms(packet) - late, false);
            }
            if packet == 1_000 {
                assert!((ms(68)..ms(80)).contains(&reordering.patience()), "{}", reordering.patience());
                assert!(reordering.packets() >= 80);
            }
        }
        reordering.on_ack(at_ms(4_041), 9_000, at_ms(4_001), true);
        assert_eq!((reordering.patience(), reordering.packets()), (ms(50), 32));
    }

    #[test]
    fn a_single_straggler_does_not_hold_up_repair() {
        let mut reordering = Reordering::default();
        for packet in 0..1_500u64 {
            reordering.on_ack(at_ms(packet + 40), packet, at_ms(packet), true);
        }
        reordering.on_ack(at_ms(1_540), 1_000, at_ms(1_000), false);
        assert_eq!(reordering.patience(), ms(50), "one of 1,500 was late by half a second");
    }

    #[test]
    fn classes_contain_their_lateness() {
        assert_eq!((class(us(0)), class(ms(1))), (None, None));
        for lateness in (1_001..500_000).step_by(77).map(us) {
            let class = class(lateness).expect("is late");
            assert!(
                most(class) >= lateness && most(class) <= lateness * 5 / 4,
                "{lateness}: {}",
                most(class)
            );
        }
        assert_eq!(class(Span::MAX), Some(CLASSES - 1));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        /// Uniform reordering by any amount, beside any loss: after a second at most one of a
        /// hundred packets is declared lost in vain, and a loss is detected at the arrival of the
        /// slowest packet plus half of its lateness.
        #[test]
        fn reordering_is_no_loss(
            seed in any::<u64>(),
            least in 5_000u64..200_000,
            spread in 0u64..80_000,
            loss in 0.0..0.1,
        ) {
            let mut chance = chances(seed);
            let (spurious, waits) = run(8, 1, |_| {
                let (lost, late) = (chance() < loss, (chance() * spread as f64) as u64);
                (!lost).then_some(least + late)
            });
            prop_assert!(spurious < 0.01, "{spurious}");
            // A packet that overtakes it must arrive first, and ten may be lost.
            let most = ((least + spread) * 5 / 4).max(least + spread * 3 / 2 + 2_000) + 11_250;
            prop_assert!(waits.iter().all(|wait| *wait <= most), "{most}: {:?}", waits.iter().max());
        }

        /// Packets that are not overtaken are never lost, and for any acknowledgements in any order
        /// the window stays within its bound.
        #[test]
        fn the_window_is_bounded(acks in prop::collection::vec((0u64..1_000, 0u64..10_000_000, any::<bool>()), 1..300)) {
            let mut reordering = Reordering::default();
            let mut now = at_us(0);
            for (packet, age, samples) in acks {
                now += ms(10);
                reordering.on_ack(now, packet, now - us(age), samples);
                prop_assert!(reordering.window <= ms(520));
                prop_assert!(reordering.patience() <= ms(12_500));
                prop_assert!((32..=2_000).contains(&reordering.packets()));
            }
        }
    }
}

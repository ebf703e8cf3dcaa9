//! Origin of losses: full queues, or the medium.
//!
//! Radio loses packets that no slower sender would have saved, and a loss-based controller takes
//! each for a full queue: over 1 % of random loss CUBIC carries a third of a link. TCP Veno (Fu,
//! Liew: "TCP Veno: TCP Enhancement for Transmission Over Wireless Access Networks", IEEE JSAC
//! 21(2), 2003) distinguishes the two by the round trip: where nothing waits, nothing overflows.
//! The rules here:
//!
//! - A loss is by **congestion** where packets have been waiting recently: where even the smallest
//!   round trip of the last 100 ms is longer than the smallest of all by an eighth, and by 5 ms at
//!   least. The smallest, since the packets of a frame wait for each other, which is no sign that
//!   the next frame's will; and since jitter is not a queue.
//! - It is by congestion too where more than one packet in ten is lost, whatever the round trip: a
//!   queue too short to be seen, or a policer. Google's congestion control for WebRTC draws the
//!   line at the same place (draft-ietf-rmcat-gcc-02, its loss-based part). The share is a mean
//!   over some 500 packets: over 100, a radio that loses 2 % of all packets, four in a row, is
//!   occasionally taken for one that loses a tenth.
//! - All others are the **medium's**.
//!
//! If the delay of a path grows permanently, all its losses count as congestion from then on: the
//! error favours the other flows on the link.

use squall_sched::{Span, Time};

use super::minimum::Minimum;

/// Time over which the smallest round trip is taken for that of packets that did not wait for
/// others of their frame.
const RECENT: Span = Span::from_millis(100);
/// Smallest excess over the smallest round trip that is a queue.
const QUEUE: Span = Span::from_millis(5);
/// Divisor of the smallest round trip: a queue is also longer than this part of it.
const QUEUE_PART: u64 = 8;
/// Weight of a packet in the share of lost ones.
const WEIGHT: f64 = 0.002;
/// Share of losses above which they are congestion in any case.
const TOLERATED: f64 = 0.1;

/// Classifies the losses of one path by their origin.
#[derive(Clone, Debug, Default)]
pub(crate) struct Origin {
    /// Smallest round trip of all.
    base: Option<Span>,
    recent: Minimum,
    /// Share of packets that were lost recently.
    lost: f64,
}

impl Origin {
    /// Records the acknowledgement of a packet, `rtt` after it left.
    pub(crate) fn on_ack(&mut self, now: Time, rtt: Span) {
        self.base = Some(self.base.map_or(rtt, |base| base.min(rtt)));
        self.recent.add(now, rtt.micros() as i64, RECENT);
        self.lost -= WEIGHT * self.lost;
    }

    /// Records the loss of a packet.
    pub(crate) fn on_loss(&mut self) {
        self.lost += WEIGHT * (1.0 - self.lost);
    }

    /// Returns `true` if a loss now is by congestion. A loss before the first acknowledgement is.
    pub(crate) fn is_congestion(&self) -> bool {
        let (Some(base), Some(recent)) = (self.base, self.recent.get()) else { return true };
        self.lost > TOLERATED || Span::from_micros(recent as u64) > base + QUEUE.max(base / QUEUE_PART)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use squall_units::short::{at_ms, at_us, ms, us};

    use super::*;

    /// Acknowledges a packet each 10 ms, with these round trips in milliseconds.
    fn after(rtts: &[u64]) -> Origin {
        let mut origin = Origin::default();
        for (i, rtt) in rtts.iter().enumerate() {
            origin.on_ack(at_ms(10 * i as u64), ms(*rtt));
        }
        origin
    }

    #[test]
    fn packets_that_wait_make_a_loss_congestion() {
        assert!(!after(&[30; 20]).is_congestion());
        let waiting = [vec![30], vec![36; 12]].concat();
        assert!(after(&waiting).is_congestion());
        // An eighth of 80 ms is 10 ms.
        let (long, longer) = ([vec![80], vec![89; 12]].concat(), [vec![80], vec![91; 12]].concat());
        assert!(!after(&long).is_congestion() && after(&longer).is_congestion());
    }

    #[test]
    fn the_packets_of_a_frame_wait_for_each_other_only() {
        let frames = [30, 34, 38, 42, 46].repeat(5);
        assert!(!after(&frames).is_congestion());
    }

    #[test]
    fn a_tenth_of_all_packets_is_too_much_for_any_medium() {
        let lossy = |each: usize| {
            let mut origin = after(&[30; 20]);
            for i in 0..1_000 {
                if i % each == 0 {
                    origin.on_loss();
                } else {
                    origin.on_ack(at_ms(200 + i as u64), ms(30));
                }
            }
            origin
        };
        assert!(!lossy(20).is_congestion() && lossy(7).is_congestion());
        let mut recovered = lossy(7);
        for i in 0..500 {
            recovered.on_ack(at_ms(1_200 + i), ms(30));
        }
        assert!(!recovered.is_congestion());
    }

    #[test]
    fn a_fifth_of_a_hundred_packets_is_not_yet_a_tenth_of_all() {
        let mut origin = after(&[30; 20]);
        for i in 0..100 {
            match i % 5 {
                0 => origin.on_loss(),
                _ => origin.on_ack(at_ms(200 + i), ms(30)),
            }
        }
        assert!(!origin.is_congestion());
    }

    #[test]
    fn nothing_is_known_at_first() {
        assert!(Origin::default().is_congestion());
    }

    proptest! {
        #[test]
        fn no_loss_by_itself_makes_a_medium_of_a_queue(events in prop::collection::vec((0u64..50_000, 1u64..500_000, any::<bool>()), 1..300)) {
            let mut origin = Origin::default();
            let mut now = 0;
            for (step, rtt, lost) in events {
                now += step;
                if lost {
                    let before = origin.is_congestion();
                    origin.on_loss();
                    prop_assert!(!before || origin.is_congestion());
                } else {
                    origin.on_ack(at_us(now), us(rtt));
                }
                prop_assert!((0.0..=1.0).contains(&origin.lost));
            }
        }
    }
}

//! Spreads a path's packets over time, so that a full window does not leave as one burst.

use squall_sched::{Span, Time};

/// A token bucket (RFC 9002 §7.7).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pacer {
    /// Bytes that may leave now; negative after a batch that was larger.
    tokens: i64,
    /// Bytes per second.
    rate: u64,
    burst: i64,
    updated: Time,
}

/// Packets that may leave back to back: RFC 9002 §7.7 allows the initial window.
const BURST_PACKETS: u64 = 10;
/// Duration of a burst at high rates, so that wake-ups stay rare.
const BURST_TIME: Span = Span::from_millis(2);
/// Largest number of packets at one instant: noq's own pacer, though its rate is unbounded, lets
/// 256 packets pass before time must advance.
pub(crate) const MAX_BURST_PACKETS: u64 = 128;

impl Pacer {
    /// Sets the rate: that of the controller, or the window over the RTT times 2 in slow start and
    /// 1.25 later, so that the window is the limit.
    pub(crate) fn update(
        &mut self,
        now: Time,
        asked: Option<u64>,
        window: u64,
        srtt: Span,
        slow_start: bool,
        packet: u64,
    ) {
        self.refill(now);
        let by_window = || {
            let per_second = window.saturating_mul(1_000_000) / srtt.micros().max(1);
            if slow_start { per_second * 2 } else { per_second + per_second / 4 }
        };
        self.rate = asked.unwrap_or_else(by_window).max(packet * 100);
        let timed = self.rate.saturating_mul(BURST_TIME.micros()) / 1_000_000;
        self.burst = timed.clamp(BURST_PACKETS * packet, MAX_BURST_PACKETS * packet) as i64;
        self.tokens = self.tokens.min(self.burst);
    }

    fn refill(&mut self, now: Time) {
        let elapsed = now - self.updated;
        // Called several times at each moment; the first call earns.
        if elapsed.is_zero() {
            return;
        }
        let earned = u128::from(self.rate) * u128::from(elapsed.micros()) / 1_000_000;
        if earned > 0 {
            self.tokens =
                self.tokens.saturating_add(i64::try_from(earned).unwrap_or(i64::MAX)).min(self.burst);
            self.updated = now;
        }
    }

    /// Returns the number of packets of `size` that may leave now.
    pub(crate) fn packets(&mut self, now: Time, size: u64) -> usize {
        self.refill(now);
        (self.tokens.max(0) as u64 / size.max(1)) as usize
    }

    /// Returns when the next packet of `size` may leave.
    pub(crate) fn ready_at(&self, size: u64) -> Time {
        let missing = (size as i64 - self.tokens).max(0) as u64;
        self.updated + Span::from_micros((missing * 1_000_000).div_ceil(self.rate.max(1)))
    }

    pub(crate) fn on_sent(&mut self, bytes: u64) {
        self.tokens -= bytes as i64;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use squall_units::short::{at_ms, at_us, ms, us};

    use super::*;

    fn pacer(window: u64, srtt: Span, slow_start: bool) -> Pacer {
        let mut pacer = Pacer::default();
        pacer.update(at_us(0), None, window, srtt, slow_start, 1200);
        pacer
    }

    #[test]
    fn the_window_leaves_within_a_round_trip() {
        // 60 kB a round trip of 30 ms, at 1.25 times that: 2.5 MB/s.
        let mut pacer = pacer(60_000, ms(30), false);
        let mut sent = 0;
        for now in (0..1_000_000).step_by(500).map(at_us) {
            for _ in 0..pacer.packets(now, 1200) {
                pacer.on_sent(1200);
                sent += 1200;
            }
        }
        assert!((2_480_000..2_530_000).contains(&sent), "{sent}");
    }

    #[test]
    fn a_burst_is_ten_packets() {
        let mut pacer = pacer(60_000, ms(30), false);
        assert_eq!(pacer.packets(at_ms(10_000), 1200), 10);
        assert_eq!(
            super::tests::pacer(u64::MAX / 4, ms(1), true).packets(at_us(0), 1200),
            0,
            "nothing is earned yet"
        );
        let mut fast = super::tests::pacer(1 << 40, ms(1), true);
        assert_eq!(fast.packets(at_ms(1_000), 1200) as u64, MAX_BURST_PACKETS);
    }

    #[test]
    fn a_controller_that_asks_for_a_rate_gets_it() {
        let mut pacer = Pacer::default();
        pacer.update(at_us(0), Some(1_200_000), 1 << 30, ms(1), false, 1200);
        pacer.packets(at_us(0), 1200);
        assert_eq!(pacer.ready_at(1200), at_ms(1));
    }

    proptest! {
        #[test]
        fn what_is_ready_may_leave(window in 2_400u64..10_000_000, srtt in 1_000u64..500_000, steps in 1usize..200) {
            let mut pacer = pacer(window, us(srtt), false);
            let mut now = at_us(0);
            for _ in 0..steps {
                now = pacer.ready_at(1200).max(now);
                prop_assert!(pacer.packets(now, 1200) >= 1);
                pacer.on_sent(1200);
            }
        }
    }
}

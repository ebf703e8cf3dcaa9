//! Limit of the rate at which a side sends on a path, in bits per second.

use squall_sched::{Span, Time};

/// Limit of the rate at which each side sends on a path: a token bucket (RFC 2697 §3, with one
/// colour).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateLimit {
    /// Bits of UDP payload per second, at least 8,000; lower values are raised to that.
    pub bits_per_second: u64,
    /// Bytes that may leave at once after a pause; at least two packets of 1,500 bytes, lower
    /// values are raised to that.
    pub burst: u64,
}

/// Largest packet that leaves in bytes: Ethernet's, because QUIC searches for no larger MTU by
/// default.
pub(crate) const MAX_PACKET: u64 = 1500;

/// Time at the limited rate that a burst takes, unless another size is set.
const USUAL_BURST: Span = Span::from_millis(100);

const MIN_RATE: u64 = 8_000;
const MAX_RATE: u64 = 1 << 40;
const MIN_BURST: u64 = 2 * MAX_PACKET;
const MAX_BURST: u64 = 1 << 30;

impl RateLimit {
    /// Creates a limit with a burst of 100 ms at its rate, but at least ten packets of 1,500 bytes.
    pub const fn new(bits_per_second: u64) -> Self {
        let timed = bits_per_second / 8 / (1_000_000 / USUAL_BURST.micros());
        Self { bits_per_second, burst: if timed > 10 * MAX_PACKET { timed } else { 10 * MAX_PACKET } }
    }

    fn within_bounds(self) -> Self {
        Self {
            bits_per_second: self.bits_per_second.clamp(MIN_RATE, MAX_RATE),
            burst: self.burst.clamp(MIN_BURST, MAX_BURST),
        }
    }
}

/// The bucket of a path. All bytes that leave on the path are charged; only data waits for it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limiter {
    limit: RateLimit,
    /// In bits · 10⁻⁶, so that no fraction of a bit is lost however often it is updated; negative
    /// after packets that did not wait.
    tokens: i64,
    updated: Time,
    /// Bytes that had left on the path when it was last charged.
    charged: u64,
}

const TOKENS_PER_BYTE: i64 = 8_000_000;

impl Limiter {
    /// Creates a full bucket, on a path that has sent this many bytes.
    pub(crate) fn new(now: Time, limit: RateLimit, sent: u64) -> Self {
        let limit = limit.within_bounds();
        Self { limit, tokens: limit.burst as i64 * TOKENS_PER_BYTE, updated: now, charged: sent }
    }

    pub(crate) fn is_of(&self, limit: RateLimit) -> bool {
        self.limit == limit.within_bounds()
    }

    pub(crate) fn bits_per_second(&self) -> u64 {
        self.limit.bits_per_second
    }

    /// Charges the bytes that the path has sent since the last call.
    pub(crate) fn charge(&mut self, now: Time, sent: u64) {
        let full = self.limit.burst as i64 * TOKENS_PER_BYTE;
        let elapsed = i64::try_from((now - self.updated).micros()).unwrap_or(i64::MAX);
        let earned = elapsed.saturating_mul(self.limit.bits_per_second as i64);
        let spent = sent.saturating_sub(self.charged) as i64;
        self.tokens = self
            .tokens
            .saturating_add(earned)
            .min(full)
            .saturating_sub(spent.saturating_mul(TOKENS_PER_BYTE));
        (self.updated, self.charged) = (now, sent);
    }

    /// Returns the number of packets of `size` that may leave now.
    pub(crate) fn packets(&self, size: u64) -> usize {
        (self.tokens.max(0) / TOKENS_PER_BYTE) as usize / size.max(1) as usize
    }

    /// Returns when a packet of `size` may leave.
    pub(crate) fn ready_at(&self, size: u64) -> Time {
        let missing = (size as i64).saturating_mul(TOKENS_PER_BYTE).saturating_sub(self.tokens).max(0);
        self.updated + Span::from_micros((missing as u64).div_ceil(self.limit.bits_per_second))
    }

    /// Returns a window that keeps the path busy at the limited rate, plus a burst. Data assigned
    /// beyond it would only wait.
    pub(crate) fn window(&self, rtt: Span) -> u64 {
        let per_round = u128::from(self.limit.bits_per_second) * u128::from(rtt.micros()) / 8_000_000;
        u64::try_from(per_round)
            .unwrap_or(u64::MAX)
            .saturating_add(self.limit.burst.min(per_round.max(10 * u128::from(MAX_PACKET)) as u64))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use squall_units::short::{at_ms, at_us, us};

    use super::*;

    #[test]
    fn the_usual_burst_is_a_tenth_of_a_second() {
        assert_eq!(RateLimit::new(80_000_000).burst, 1_000_000);
        assert_eq!(RateLimit::new(1_000_000).burst, 15_000);
        let least = Limiter::new(at_us(0), RateLimit { bits_per_second: 0, burst: 0 }, 0);
        assert_eq!((least.bits_per_second(), least.packets(1500)), (8_000, 2));
    }

    #[test]
    fn what_did_not_wait_is_made_up_for() {
        let mut limiter = Limiter::new(at_us(0), RateLimit { bits_per_second: 8_000_000, burst: 3_000 }, 500);
        limiter.charge(at_us(0), 500 + 5_000);
        assert_eq!((limiter.packets(1_000), limiter.ready_at(1_000)), (0, at_ms(3)));
        limiter.charge(at_ms(3), 5_500);
        assert_eq!((limiter.packets(1_000), limiter.ready_at(1_000)), (1, at_ms(3)));
    }

    proptest! {
        /// Over any time at most the rate and one burst leave, and a sender that always has data
        /// gets all of it, however often the bucket is updated.
        #[test]
        fn the_rate_is_kept_however_often_it_is_asked(
            rate in 10_000u64..100_000_000, burst in 40_000u64..100_000, steps in prop::collection::vec(1u64..3_000, 100..400),
        ) {
            let mut limiter = Limiter::new(at_us(0), RateLimit { bits_per_second: rate, burst }, 0);
            let (mut now, mut sent) = (at_us(0), 0);
            for step in steps {
                now += us(step);
                limiter.charge(now, sent);
                sent += 1_000 * limiter.packets(1_000) as u64;
                limiter.charge(now, sent);
                let allowed = burst + rate * now.micros() / 8_000_000;
                prop_assert!(sent <= allowed, "{sent} of {allowed}");
            }
            prop_assert!(sent + 1_000 + burst >= rate * now.micros() / 8_000_000);
            let ready = limiter.ready_at(1_000).max(now);
            limiter.charge(ready, sent);
            prop_assert!(limiter.packets(1_000) >= 1);
        }
    }
}

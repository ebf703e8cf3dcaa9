//! Detects that a message is near its end, so that losing a packet would cost more than sending
//! everything twice.
//!
//! Source: the paper of MAppLE (the MPQUIC application latency evaluation platform) and NineTails,
//! §IV-B, Eq. 1. A loss in the middle of a message is repaired while the rest is still being sent;
//! the receiver has to wait for the repair of one near the end. Redundancy therefore pays once the
//! time to send the rest is shorter than the time to recover a packet. Only the best path counts,
//! because all others only repeat:
//!
//! ```text
//! remaining / rate < min(3/2·RTT, RTO_min + 1/2·RTT)
//! ```
//!
//! The left bound is fast retransmission; the right one is the retransmission timeout of a packet
//! without another one behind it. The paper prints `highestRate` instead of `RTT`, which would
//! compare a time with a rate; its §II-B gives both recovery times in RTT.

use squall_sched::Span;

/// Returns `true` if `remaining` bytes, sent at `rate` (bits per second), have left before a packet
/// lost on a path with that `rtt` is recovered. `rto_min` is the minimum retransmission timeout.
/// Always `false` at a rate of 0.
pub fn near_tail(remaining: u64, rate: u64, rtt: Span, rto_min: Span) -> bool {
    u128::from(remaining) * 8_000_000 < u128::from(rate) * u128::from(recovery_time(rtt, rto_min).micros())
}

/// Time from the first transmission of a lost packet until its arrival, if it is sent again on a
/// path with that `rtt`: after fast retransmission or the timeout, whichever is sooner.
fn recovery_time(rtt: Span, rto_min: Span) -> Span {
    rtt.min(rto_min) + rtt / 2
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use squall_units::short::{ms, us};

    use super::*;

    const RTO: Span = ms(200);

    #[test]
    fn recovery_is_fast_retransmission_or_the_timeout() {
        // 3/2·100 = 150 < 200 + 50. 3/2·200 = 300 = 200 + 100. 3/2·400 = 600 > 200 + 200.
        assert_eq!(recovery_time(ms(100), RTO), ms(150));
        assert_eq!(recovery_time(ms(200), RTO), ms(300));
        assert_eq!(recovery_time(ms(400), RTO), ms(400));
        assert_eq!(recovery_time(ms(0), RTO), Span::ZERO);
    }

    #[test]
    fn the_papers_paths() {
        // 50 Mbps and 100 ms of RTT: 150 ms at 6,250 bytes a millisecond are 937,500 bytes.
        assert!(near_tail(937_499, 50_000_000, ms(100), RTO));
        assert!(!near_tail(937_500, 50_000_000, ms(100), RTO));
        // Recovery on the path of 2 Mbps and 4 ms takes 6 ms: 37,500 bytes at 50 Mbps. A session
        // with 0.1 % loss gets less than a tenth of these 50 Mbps, as the rate is window over round
        // trip (see `NineTails`).
        assert!(near_tail(20_000, 50_000_000, ms(4), RTO));
        assert!(!near_tail(40_000, 50_000_000, ms(4), RTO));
        // At 2 Mbps 6 ms are 1500 bytes.
        assert!(near_tail(1499, 2_000_000, ms(4), RTO));
        assert!(!near_tail(1500, 2_000_000, ms(4), RTO));
    }

    #[test]
    fn nothing_left_is_the_end() {
        assert!(near_tail(0, 1, us(1), RTO));
        assert!(!near_tail(0, 0, ms(100), RTO));
        assert!(!near_tail(u64::MAX, 1, Span::MAX, Span::ZERO));
        assert!(near_tail(u64::MAX, u64::MAX, Span::MAX, Span::MAX));
    }

    proptest! {
        #[test]
        fn once_near_the_end_always_so(
            (remaining, less) in (0..1u64 << 30).prop_flat_map(|r| (Just(r), 0..=r)),
            rate in 0..1u64 << 34,
            rtt in (0..2_000_000u64).prop_map(us),
            rto_min in (0..1_000_000u64).prop_map(us),
        ) {
            let near = near_tail(remaining, rate, rtt, rto_min);
            prop_assert!(!near || near_tail(less, rate, rtt, rto_min));
            let bound = (rtt + rtt / 2).min(rto_min + rtt / 2);
            prop_assert_eq!(recovery_time(rtt, rto_min), bound);
            if rate > 0 {
                let time = remaining as f64 * 8e6 / rate as f64;
                prop_assume!((time - bound.micros() as f64).abs() > 1e-3);
                prop_assert_eq!(near, time < bound.micros() as f64);
            }
        }
    }
}

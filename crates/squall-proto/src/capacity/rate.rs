//! Rate of a path by the state of its congestion control.
//!
//! The estimate of a controller that measures the rate of the path is used as it is. The others
//! give a window, whose meaning differs:
//!
//! | control | rate | because |
//! | --- | --- | --- |
//! | `cubic`, `cubic-tolerant`, `newreno`, `steady` as long as it has no estimate | window / smoothed RTT | a window leaves each round trip |
//! | `bbr3` | window / (2 · smallest RTT) | the window is twice what the path carries in its shortest round trip |
//! | one of an own crate | window / [`window_time`](crate::congestion::ControllerFactory::window_time) | |
//!
//! A window that was never used up is no measure of the path: divided by a round trip of 0.1 ms it
//! is a gigabit per second on any link. The forecast for an encoder is therefore limited by the
//! deliveries of the path ([`GROWTH`]).

use squall_sched::Time;

use crate::{
    CongestionControl,
    congestion::{Evidence, INITIAL_PACKETS, Kind},
    path::{Path, RateMeter},
};

/// Factor by which a path without an estimated rate may exceed its largest delivery in a twentieth
/// of a second: as much as slow start sends in the next round trip (RFC 9002 §7.3.1). Frames leave
/// in bursts, so that leaves an encoder room to grow.
const GROWTH: u64 = 2;

/// Bytes that every path is assumed to deliver before it has: the initial window (RFC 9002 §7.2),
/// of the smallest packets.
const FIRST: u64 = INITIAL_PACKETS * 1_200;

/// Returns the rate of a path in bits per second of UDP payload, whether it is in use or not;
/// limited by its rate limit, and by a likely growth of its deliveries.
pub(crate) fn link_rate(control: &CongestionControl, path: &Path) -> u64 {
    path.within_limit(path.capacity.unwrap_or_else(|| by_window(control, path).min(likely(path))))
}

/// Returns the largest likely rate of a path, by its deliveries.
fn likely(path: &Path) -> u64 {
    let first = FIRST * 8_000_000 / RateMeter::INTERVAL.micros();
    path.delivery.largest(FIRST).unwrap_or(first).saturating_mul(GROWTH)
}

fn by_window(control: &CongestionControl, path: &Path) -> u64 {
    let within = match control.kind() {
        Kind::Cubic | Kind::CubicTolerant | Kind::NewReno => path.rtt.smoothed,
        Kind::Bbr3 => path.rtt.min * 2,
        Kind::Own(factory) => factory.window_time(path.rtt.min, path.rtt.smoothed),
    };
    path.effective_window().saturating_mul(8_000_000) / within.micros().max(1)
}

/// Returns the rate for predictions of arrivals on a path: while a controller that estimates the
/// rate is still searching for it, that of its window; where it estimates nothing, the bottleneck
/// that flights of packets showed. One or two packets, whose acknowledgements waited for those of
/// other paths, show a bottleneck that is none.
pub(crate) fn predicted_rate(control: &CongestionControl, path: &Path, now: Time) -> u64 {
    match control.evidence() {
        Evidence::Losses => path.bandwidth_of_flights(now),
        Evidence::Arrivals | Evidence::Capacity => {
            path.within_limit(path.capacity.unwrap_or_else(|| by_window(control, path)))
        }
    }
}

/// Returns `true` if the controller estimates the rate of the path by arrivals, and has not seen
/// enough of them.
pub(crate) fn is_unmeasured(control: &CongestionControl, path: &Path) -> bool {
    control.evidence() == Evidence::Capacity && path.capacity.is_none()
}

#[cfg(test)]
mod tests {
    use squall_sched::{PathId, Span};
    use squall_units::short::{at_us, ms, us};

    use super::*;
    use crate::{
        congestion::{Controller, ControllerFactory, NewPath},
        path::Sample,
        steering::QuicPath,
    };

    #[test]
    fn a_window_means_what_its_controller_means() {
        let mut path = Path::new(PathId(0), QuicPath::detached(0), at_us(0));
        for (at, rtt) in [(1, 10_000), (2, 10_000), (3, 90_000)] {
            path.rtt.sample(at_us(at), us(rtt), Sample::Data);
        }
        path.window = 25_000;
        // The window is the limit, not the deliveries.
        (1..100).for_each(|at| path.delivery.record(at_us(at * 10_000), 1_000_000));
        // 200,000 bits within 20 ms smoothed, and 2 · 10.
        let mbps = |control: &CongestionControl, path: &Path| link_rate(control, path) / 1_000_000;
        let steady = CongestionControl::default();
        assert_eq!(mbps(&CongestionControl::CUBIC, &path), 10);
        assert_eq!(mbps(&steady, &path), 10);
        assert_eq!(mbps(&CongestionControl::BBR3, &path), 10);
        let unmeasured =
            |path: &Path| [&steady, &CongestionControl::CUBIC].map(|control| is_unmeasured(control, path));
        assert_eq!(unmeasured(&path), [true, false]);
        path.delivery = RateMeter::default();
        let cubic = &CongestionControl::CUBIC;
        assert_eq!(link_rate(cubic, &path), 3_840_000, "twice 12,000 bytes in 50 ms");
        (1..100).for_each(|at| path.delivery.record(at_us(at * 10_000), 1_250));
        assert_eq!(link_rate(cubic, &path), 2_000_000, "twice what was delivered");
        assert_eq!(predicted_rate(&steady, &path, at_us(0)), 10_000_000, "arrivals are predicted");
        path.capacity = Some(3_000_000);
        assert_eq!(unmeasured(&path), [false; 2]);
        assert_eq!(mbps(&steady, &path), 3);
    }

    /// A controller whose windows arrive within 100 ms.
    struct Within;

    impl ControllerFactory for Within {
        fn build(&self, _path: &NewPath<'_>) -> Box<dyn Controller> {
            unreachable!("no path is opened")
        }

        fn evidence(&self) -> Evidence {
            Evidence::Arrivals
        }

        fn window_time(&self, _smallest_rtt: Span, smoothed_rtt: Span) -> Span {
            smoothed_rtt.max(ms(100))
        }
    }

    #[test]
    fn a_window_of_an_own_controller_means_what_its_factory_says() {
        let mut path = Path::new(PathId(0), QuicPath::detached(0), at_us(0));
        path.rtt.sample(at_us(1), ms(10), Sample::Data);
        path.window = 25_000;
        let own = CongestionControl::new("own", Within);
        assert_eq!(predicted_rate(&own, &path, at_us(0)), 2_000_000, "200,000 bits within 100 ms");
        assert!(!is_unmeasured(&own, &path));
    }
}

//! What a path carries, as its congestion control has it.
//!
//! A controller that estimates what the path carries is taken at its word. The others give a window, and each means
//! something else by it:
//!
//! | control | rate | because |
//! | --- | --- | --- |
//! | `cubic`, `cubic(connections=2)`, `cubic-tolerant`, `newreno`, `steady` as long as it has no estimate | window / smoothed RTT | a window leaves each round trip |
//! | `bbr3` | window / (2 · smallest RTT) | the window is twice what the path carries in its shortest round trip |
//! | `sqp` | window / (smallest RTT + a frame interval) | that is how the window comes from the target rate |
//! | `salsify` | window / (100 ms, or the smoothed RTT if it is longer) | the window is what arrives within that delay |
//!
//! A window that was never used up says little of the path: divided by a round trip of 0.1 ms it is a gigabit per second on any
//! link. The forecast for an encoder is therefore bounded by what the path has delivered ([`GROWTH`]).

use squall_sched::Micros;

use crate::{
    CongestionControl,
    congestion::{INITIAL_PACKETS, SalsifyConfig, SqpConfig},
    path::{Path, RateMeter},
};

/// A path for which no rate was estimated carries no more than this many times the most that it has delivered in a twentieth of a
/// second: as much as slow start sends in the next round trip (RFC 9002 §7.3.1). Frames leave in bursts, so that leaves an encoder
/// room to grow.
const GROWTH: u64 = 2;

/// Bytes that every path is taken to deliver until it has: the initial window (RFC 9002 §7.2), of the smallest packets.
const FIRST: u64 = INITIAL_PACKETS * 1_200;

/// What a path carries in bits per second of UDP payload, whether it is in use or not; no more than its rate limit, nor than
/// its deliveries make likely.
pub(crate) fn link_rate(control: CongestionControl, path: &Path) -> u64 {
    path.within_limit(path.capacity.unwrap_or_else(|| by_window(control, path).min(likely(path))))
}

/// The most that a path is likely to carry, by what it has delivered.
fn likely(path: &Path) -> u64 {
    let first = FIRST * 8_000_000 / RateMeter::INTERVAL;
    path.delivery.largest(FIRST).unwrap_or(first).saturating_mul(GROWTH)
}

fn by_window(control: CongestionControl, path: &Path) -> u64 {
    let within: Micros = match control {
        CongestionControl::Cubic
        | CongestionControl::CubicTolerant
        | CongestionControl::CubicConnections(_)
        | CongestionControl::NewReno
        | CongestionControl::Steady => path.rtt.smoothed,
        CongestionControl::Bbr3 => 2 * path.rtt.min,
        CongestionControl::Sqp => path.rtt.min + SqpConfig::default().interval,
        CongestionControl::Salsify => path.rtt.smoothed.max(SalsifyConfig::default().delay),
    };
    path.effective_window().saturating_mul(8_000_000) / within.max(1)
}

/// What arrivals on a path are predicted with: while a controller that estimates what the path carries is still looking for it,
/// what its window makes of it; where it estimates nothing, the bottleneck that flights of packets showed. One or two
/// packets, whose acknowledgements waited for those of other paths, show one that is none.
pub(crate) fn predicted_rate(control: CongestionControl, path: &Path, now: Micros) -> u64 {
    match control {
        CongestionControl::Steady | CongestionControl::Sqp | CongestionControl::Salsify => {
            path.within_limit(path.capacity.unwrap_or_else(|| by_window(control, path)))
        }
        _ => path.bandwidth_of_flights(now),
    }
}

/// Whether the controller estimates what the path carries by arrivals, and has not seen enough of them.
pub(crate) fn is_unmeasured(control: CongestionControl, path: &Path) -> bool {
    control == CongestionControl::Steady && path.capacity.is_none()
}

#[cfg(test)]
mod tests {
    use squall_sched::PathId;

    use super::*;
    use crate::{path::Sample, steering::QuicPath};

    #[test]
    fn a_window_means_what_its_controller_means() {
        let mut path = Path::new(PathId(0), QuicPath::detached(0), 0);
        for (at, rtt) in [(1, 10_000), (2, 10_000), (3, 90_000)] {
            path.rtt.sample(at, rtt, Sample::Data);
        }
        path.window = 25_000;
        // The window is what bounds it, not what was delivered.
        (1..100).for_each(|at| path.delivery.record(at * 10_000, 1_000_000));
        // 200,000 bits within 20 ms smoothed, 2 · 10, 10 + 16.667, and 100 ms.
        let mbps = |control, path: &Path| link_rate(control, path) / 1_000_000;
        assert_eq!(mbps(CongestionControl::Cubic, &path), 10);
        assert_eq!(mbps(CongestionControl::Steady, &path), 10);
        assert_eq!(mbps(CongestionControl::Bbr3, &path), 10);
        assert_eq!(mbps(CongestionControl::Sqp, &path), 7);
        assert_eq!(mbps(CongestionControl::Salsify, &path), 2);
        let unmeasured = |path: &Path| {
            [CongestionControl::Steady, CongestionControl::Cubic, CongestionControl::Salsify]
                .map(|control| is_unmeasured(control, path))
        };
        assert_eq!(unmeasured(&path), [true, false, false]);
        path.delivery = RateMeter::default();
        assert_eq!(link_rate(CongestionControl::Cubic, &path), 3_840_000, "twice 12,000 bytes in 50 ms");
        (1..100).for_each(|at| path.delivery.record(at * 10_000, 1_250));
        assert_eq!(link_rate(CongestionControl::Cubic, &path), 2_000_000, "twice what was delivered");
        assert_eq!(predicted_rate(CongestionControl::Steady, &path, 0), 10_000_000, "arrivals are predicted");
        path.capacity = Some(3_000_000);
        assert_eq!(unmeasured(&path), [false; 3]);
        assert_eq!(mbps(CongestionControl::Steady, &path), 3);
    }
}

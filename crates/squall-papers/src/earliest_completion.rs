//! The test of ECF: does data arrive earlier by waiting for a fast path that is full, or by sending
//! it on a slower one with room?
//!
//! Source: Lim et al., "ECF: An MPTCP Path Scheduler to Manage Heterogeneous Paths" (CoNEXT 2017),
//! Algorithm 1. With `k` bytes left to send, windows `CWND`, smoothed round-trip times `RTT`, their
//! mean deviations `σ`, the fast path `f` and the slow path `s`:
//!
//! ```text
//! rounds_i = max(1, k / CWND_i)        δ = max(σ_f, σ_s)
//!
//! A:  (1 + rounds_f)·RTT_f < (1 + margin)·(RTT_s + δ)
//! B:  rounds_s·RTT_s ≥ 2·RTT_f + δ
//! ```
//!
//! A: the fast path would finish, including one round trip of waiting, before a packet sent now on
//! the slow path. B: the slow path alone would take longer than waiting and sending one window on
//! the fast one. Wait if both hold.
//!
//! The paper prints `k / CWND` without the lower bound of 1. With less than a window to send, B
//! would then be false for every short block, and its last packets would be sent on the slow path,
//! which ECF is meant to prevent; even a part of a window takes a whole round trip. The authors'
//! implementation for Linux has the bound in both places, and so has this one.

use squall_sched::PathView;

/// The outcome of the test for the next packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Keep it for the fast path.
    Wait,
    /// Send it on the slow path: B does not hold, so the slow path is fast enough.
    Send,
    /// Send it on the slow path: A does not hold, so the fast path has too much left to send.
    SendClearly,
}

/// Decides between keeping `bytes` for `fast`, which is full, and sending them on `slow`, which has
/// room. `margin` is added to 1 in A: above 0 as hysteresis for a scheduler that already waits.
pub(crate) fn weigh(bytes: u64, fast: &PathView, slow: &PathView, margin: f64) -> Verdict {
    let (rtt_f, rtt_s) = (fast.srtt.micros() as f64, slow.srtt.micros() as f64);
    let delta = fast.rtt_dev.max(slow.rtt_dev).micros() as f64;
    if (1.0 + rounds(bytes, fast)) * rtt_f >= (1.0 + margin) * (rtt_s + delta) {
        Verdict::SendClearly
    } else if rounds(bytes, slow) * rtt_s >= 2.0 * rtt_f + delta {
        Verdict::Wait
    } else {
        Verdict::Send
    }
}

/// Returns the round trips that `bytes` take on `path`.
fn rounds(bytes: u64, path: &PathView) -> f64 {
    (bytes as f64 / path.window.max(1) as f64).max(1.0)
}

#[cfg(test)]
mod tests {

    use squall_units::short::us;

    use super::*;

    const MS: u64 = 1000;
    const PACKET: u64 = 1200;

    /// (RTT in ms, window in packets, deviation in ms).
    fn path(rtt: u64, packets: u64, dev: u64) -> PathView {
        PathView { rtt_dev: us(dev * MS), ..PathView::example(0, us(rtt * MS), packets * PACKET) }
    }

    fn verdict(packets: u64, fast: &PathView, slow: &PathView, margin: f64) -> Verdict {
        weigh(packets * PACKET, fast, slow, margin)
    }

    #[test]
    fn a_short_rest_waits_for_a_path_ten_times_as_fast() {
        let (fast, slow) = (path(10, 10, 1), path(100, 10, 10));
        // δ = 10. One packet: A: (1 + 1)·10 = 20 < 110. B: 1·100 ≥ 2·10 + 10 = 30. Wait.
        assert_eq!(verdict(1, &fast, &slow, 0.0), Verdict::Wait);
        // 99 packets: (1 + 9.9)·10 = 109 < 110: still wait. 100: (1 + 10)·10 = 110: not less.
        assert_eq!(verdict(99, &fast, &slow, 0.0), Verdict::Wait);
        assert_eq!(verdict(100, &fast, &slow, 0.0), Verdict::SendClearly);
    }

    #[test]
    fn one_that_waits_already_goes_on_longer() {
        let (fast, slow) = (path(10, 10, 1), path(100, 10, 10));
        // (1 + 0.25)·110 = 137.5; (1 + k/10)·10 < 137.5 up to k = 127.
        assert_eq!(verdict(127, &fast, &slow, 0.25), Verdict::Wait);
        assert_eq!(verdict(128, &fast, &slow, 0.25), Verdict::SendClearly);
    }

    #[test]
    fn a_path_less_than_twice_as_slow_is_used() {
        // δ = 0. A: (1 + 1)·20 = 40 < 41. B: 1·41 ≥ 40: wait. With 39 ms A fails at once: 40 ≥ 39.
        assert_eq!(verdict(1, &path(20, 10, 0), &path(41, 10, 0), 0.0), Verdict::Wait);
        assert_eq!(verdict(1, &path(20, 10, 0), &path(39, 10, 0), 0.0), Verdict::SendClearly);
    }

    #[test]
    fn uncertain_round_trips_speak_for_sending() {
        // δ = 15. A: 40 < 41 + 15. B: 41 ≥ 40 + 15 does not hold.
        assert_eq!(verdict(1, &path(20, 10, 15), &path(41, 10, 0), 0.0), Verdict::Send);
        // 14 packets on the slow path: 14/10·41 = 57.4 ≥ 55. A: (1 + 14/10)·20 = 48 < 56. Wait.
        assert_eq!(verdict(14, &path(20, 10, 15), &path(41, 10, 0), 0.0), Verdict::Wait);
    }
}

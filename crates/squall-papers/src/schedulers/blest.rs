//! BLEST: avoids a slow path if its packet would block the window for the fast one.
//!
//! Source: Ferlin, Alay, Mehani, Boreli, "BLEST: Blocking Estimation-based MPTCP Scheduler for
//! Heterogeneous Networks" (IFIP Networking 2016); a baseline of AUGUR (NSDI 2024, §4.1). Each
//! packet is sent on the lowest-RTT path `f` if that has window left. If not, let `s` be the
//! lowest-RTT path with window left. A packet sent on `s` occupies the receiver's buffer for one
//! `RTT_s`. In that time `f` could send
//!
//! ```text
//! r = RTT_s / RTT_f
//! X = MSS·(CWND_f + (r − 1)/2)·r          (the window grows by one packet a round trip)
//! ```
//!
//! and `s` is not used, waiting for `f`, if that would not fit beside the data in flight on `s`:
//!
//! ```text
//! λ·X > window − (bytes in flight on s + this packet)
//! ```
//!
//! λ corrects `X` by experience: once each `RTT_s` it grows by `up` if a packet was lost on `s`
//! since, and otherwise shrinks by `down`, between 1 and `max`.
//!
//! - `window` (bytes, default 0 for automatic). The paper's is MPTCP's send window, which the
//!   peer's receive buffer sets. Sessions here have none, so the automatic one is the buffer that
//!   RFC 6182 §5.3 recommends to a multipath receiver, `2·Σ BW_i·RTT_max`, over all currently
//!   usable paths. It is generous: BLEST then waits only for paths of very unequal RTT. Set a size
//!   to get the paper's behaviour with a small buffer.
//! - `lambda` 1.2, `max` 1.3, `up` 0.04, `down` 0.01: values of the authors' implementation for
//!   Linux. So is the indicator of blocking: the paper checks for a blocked send window, the
//!   implementation for retransmissions of the slow path, and only these are visible here.
//! - `r` is not rounded. The growth of `X` assumes congestion avoidance; the addition of the
//!   paper's code for slow start is left out, since a view does not contain the phase.
//! - Blocks in order of submission, repairs first. A repair is subject to the estimate like new
//!   data: a loss of the fast path is to be repaired on it, as by a TCP subflow, and not at the end
//!   of a slow path's queue. The scheduler waits for a full path only while it is healthy and an
//!   acknowledgement can open it.
//! - Any number of paths: `f` is the fastest of all and `s` the fastest with room, as in the paper.
//!   Slower ones would block for longer. One λ is shared by all; each `s` corrects it by its own
//!   losses, once each of its RTTs.

use crate::candidates::Candidates;
use squall_sched::{
    Assignment, BuildError, Context, Decision, Entry, MAX_PATHS, OptionSpec, Options, PathId, PathSet,
    PathView, SchedEvent, Scheduler, Span, Time,
};

pub(super) const ENTRY: Entry = Entry {
    name: "blest",
    summary: "leaves a slow path alone when its packets would block the fast one",
    source: "BLEST, IFIP Networking 2016; baseline of AUGUR",
    options: &[
        OptionSpec {
            name: "window",
            default: "0",
            help: "receive buffer in bytes; 0 for 2 × all bandwidths × longest RTT (RFC 6182 §5.3)",
        },
        OptionSpec { name: "lambda", default: "1.2", help: "first correction of the estimate, 1 to 100" },
        OptionSpec { name: "max", default: "1.3", help: "largest correction, 1 to 100" },
        OptionSpec { name: "up", default: "0.04", help: "added each slow RTT with a loss, 0 to 1" },
        OptionSpec { name: "down", default: "0.01", help: "taken away each slow RTT without, 0 to 1" },
    ],
    signal: false,
};

pub(super) fn build(options: &mut Options) -> Result<Box<dyn Scheduler>, BuildError> {
    let max = options.take_in("max", 1.3, 1.0..=100.0)?;
    // The option `max` alone may be below the default of `lambda`.
    let lambda = options.take_in("lambda", f64::min(1.2, max), 1.0..=max)?;
    Ok(Box::new(Blest {
        window: options.take("window", 0)?,
        lambda: Lambda {
            value: lambda,
            max,
            up: options.take_in("up", 0.04, 0.0..=1.0)?,
            down: options.take_in("down", 0.01, 0.0..=1.0)?,
            since: [None; MAX_PATHS],
            lossy: PathSet::EMPTY,
        },
    }))
}

/// Blocking estimation.
#[derive(Clone, Copy, Debug)]
pub struct Blest {
    /// In bytes; 0 for automatic.
    window: u64,
    lambda: Lambda,
}

impl Scheduler for Blest {
    fn next(&mut self, cx: &Context<'_>) -> Decision {
        let Some(paths) = Candidates::of(cx) else {
            return Decision::idle();
        };
        let Some(work) = cx.queue.next_in_line() else {
            return Decision::idle();
        };
        if paths.fastest_is_open() {
            return Decision::Send(Assignment::new(work, paths.open.id, "fastest path"));
        }
        self.lambda.adapt(cx.now, paths.open);
        let window = if self.window > 0 { self.window } else { recommended_buffer(cx.paths) };
        if blocks(paths.fastest, paths.open, window, self.lambda.value) {
            return Decision::idle();
        }
        // One packet: each one uses space that the test counts.
        let assignment = Assignment::new(work, paths.open.id, "slower path will not block the fastest");
        Decision::Send(assignment.at_most(paths.open.chunk))
    }

    fn on_event(&mut self, event: &SchedEvent, cx: &Context<'_>) {
        match event {
            SchedEvent::Lost { path, .. } => _ = self.lambda.lossy.insert(*path),
            SchedEvent::PathChanged(path) if cx.path(*path).is_none() => self.lambda.forget(*path),
            _ => {}
        }
    }
}

/// Correction of the estimate.
#[derive(Clone, Copy, Debug)]
struct Lambda {
    value: f64,
    max: f64,
    up: f64,
    down: f64,
    /// Last correction by each path, or its first evaluation.
    since: [Option<Time>; MAX_PATHS],
    /// Paths with a loss since then.
    lossy: PathSet,
}

impl Lambda {
    /// Corrects the value once each round trip of the slow path.
    fn adapt(&mut self, now: Time, slow: &PathView) {
        let since = self.since[usize::from(slow.id.0)].get_or_insert(now);
        if now - *since < slow.srtt.max(Span::TICK) {
            return;
        }
        *since = now;
        let step = if self.lossy.remove(slow.id) { self.up } else { -self.down };
        self.value = (self.value + step).clamp(1.0, self.max);
    }

    /// The path is gone: the next one with its id starts without losses.
    fn forget(&mut self, path: PathId) {
        self.since[usize::from(path.0)] = None;
        self.lossy.remove(path);
    }
}

/// `true` if a packet on `slow` would leave less of `window` than `fast` can send meanwhile.
fn blocks(fast: &PathView, slow: &PathView, window: u64, lambda: f64) -> bool {
    let taken = slow.in_flight + u64::from(slow.chunk);
    lambda * sendable(fast, slow.srtt) > window.saturating_sub(taken) as f64
}

/// Returns the bytes that `fast` can send in `time`: the X of the paper.
fn sendable(fast: &PathView, time: Span) -> f64 {
    let mss = f64::from(fast.chunk.max(1));
    let round_trips = time.micros() as f64 / fast.srtt.max(Span::TICK).micros() as f64;
    (fast.window as f64 + mss * (round_trips - 1.0) / 2.0) * round_trips
}

/// Buffer of RFC 6182 §5.3 in bytes: the data of all paths during the longest round trip, and as
/// much again while a loss on it is repaired.
fn recommended_buffer(paths: &[PathView]) -> u64 {
    let usable = || paths.iter().filter(|p| p.usable);
    let bits = usable().map(|p| u128::from(p.bandwidth)).sum::<u128>();
    let rtt = usable().map(|p| p.srtt).max().unwrap_or(Span::ZERO);
    u64::try_from(2 * bits * u128::from(rtt.micros()) / 8_000_000).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {

    use squall_units::short::{at_ms, ms};

    use super::*;

    const PACKET: u64 = 1200;

    /// (RTT in ms, window in packets).
    fn path(rtt: u64, packets: u64) -> PathView {
        PathView::example(0, ms(rtt), packets * PACKET)
    }

    #[test]
    fn a_window_that_grows_by_a_packet_each_round_trip() {
        // r = 100/10 = 10: 1200·(10 + 9/2)·10 = 174,000. The sum 10 + 11 + … + 19 = 145 packets.
        assert_eq!(sendable(&path(10, 10), ms(100)), 174_000.0);
        // r = 2.5: 1200·(4 + 1.5/2)·2.5 = 14,250.
        assert_eq!(sendable(&path(20, 4), ms(50)), 14_250.0);
    }

    #[test]
    fn the_recommended_buffer() {
        // 10 packets each 10 ms and 10 each 100 ms: 1000 + 100 packets a second, for 100 ms, twice: 220.
        assert_eq!(recommended_buffer(&[path(10, 10), path(100, 10)]), 220 * PACKET);
        let gone = PathView { usable: false, ..path(100, 10) };
        assert_eq!(recommended_buffer(&[path(10, 10), gone]), 20 * PACKET);
        assert_eq!(recommended_buffer(&[]), 0);
    }

    #[test]
    fn blocks_when_the_estimate_does_not_fit_beside_the_slow_path() {
        let (fast, mut slow) = (path(10, 10), path(100, 10));
        // λ·X = 1.2·145 = 174 packets; this packet takes one of the window.
        assert!(blocks(&fast, &slow, 174 * PACKET, 1.2));
        assert!(!blocks(&fast, &slow, 175 * PACKET, 1.2));
        assert!(!blocks(&fast, &slow, 146 * PACKET, 1.0));
        slow.in_flight = 3 * PACKET;
        assert!(blocks(&fast, &slow, 177 * PACKET, 1.2));
        assert!(!blocks(&fast, &slow, 178 * PACKET, 1.2));
    }

    #[test]
    fn the_correction_follows_losses_once_each_slow_round_trip() {
        let mut lambda = Lambda {
            value: 1.2,
            max: 1.3,
            up: 0.04,
            down: 0.01,
            since: [None; MAX_PATHS],
            lossy: PathSet::EMPTY,
        };
        let slow = path(100, 10);
        let at = |lambda: &mut Lambda, ms: u64, lossy: Option<u8>| {
            lossy.map(|path| lambda.lossy.insert(PathId(path)));
            lambda.adapt(at_ms(ms), &slow);
            (lambda.value * 1000.0).round()
        };
        assert_eq!(at(&mut lambda, 0, None), 1200.0, "nothing is measured yet");
        assert_eq!(at(&mut lambda, 99, Some(0)), 1200.0, "not yet one round trip");
        assert_eq!(at(&mut lambda, 100, None), 1240.0, "a loss");
        assert_eq!(at(&mut lambda, 200, None), 1230.0, "none");
        assert_eq!(at(&mut lambda, 300, Some(1)), 1220.0, "a loss on another path");
        for ms in 4..20 {
            at(&mut lambda, ms * 100, Some(0));
        }
        assert_eq!((lambda.value * 1000.0).round(), 1300.0, "no more than the largest");
        for ms in 20..60 {
            at(&mut lambda, ms * 100, None);
        }
        assert_eq!((lambda.value * 1000.0).round(), 1000.0, "no less than 1");
    }

    #[test]
    fn each_slow_path_counts_its_own_losses_and_round_trips() {
        let none = [None; MAX_PATHS];
        let mut lambda =
            Lambda { value: 1.1, max: 1.3, up: 0.04, down: 0.01, since: none, lossy: PathSet::EMPTY };
        let (near, far) = (path(100, 10), PathView { id: PathId(1), ..path(400, 10) });
        let at = |lambda: &mut Lambda, ms: u64, slow: &PathView| {
            lambda.adapt(at_ms(ms), slow);
            (lambda.value * 1000.0).round()
        };
        at(&mut lambda, 0, &near);
        at(&mut lambda, 0, &far);
        lambda.lossy = far.id.into();
        assert_eq!(at(&mut lambda, 100, &near), 1090.0, "none on this one");
        assert_eq!(at(&mut lambda, 399, &far), 1090.0);
        assert_eq!(at(&mut lambda, 400, &far), 1130.0, "the loss is not forgotten");
        assert_eq!(at(&mut lambda, 800, &far), 1120.0, "counted once");
        lambda.lossy = far.id.into();
        lambda.forget(far.id);
        assert_eq!((lambda.lossy, lambda.since[1]), (PathSet::EMPTY, None));
    }
}

//! ECF: waits for the fastest path if that is earlier than sending on a slower one.
//!
//! Source: Lim, Nahum, Towsley, Gibbens, "ECF: An MPTCP Path Scheduler to Manage Heterogeneous
//! Paths" (CoNEXT 2017), Algorithm 1; a baseline of AUGUR (NSDI 2024, §4.1). Each packet is sent on
//! the lowest-RTT path `f` if that has window left. If not, let `s` be the lowest-RTT path with
//! window left, and `k` the unsent bytes, counted as at least one window of either path:
//!
//! ```text
//! δ = max(σ_f, σ_s)
//! if (1 + k/CWND_f)·RTT_f < (1 + waiting·β)·(RTT_s + δ)
//!     if (k/CWND_s)·RTT_s ≥ 2·RTT_f + δ:   waiting = 1, send nothing
//!     else:                                send on s
//! else:                                    waiting = 0, send on s
//! ```
//!
//! - `beta` (β, default 0.25, the authors' value): preference of a waiting scheduler to keep
//!   waiting.
//! - `k` is the unsent bytes of all blocks, fresh or lost: the paper's send buffer. `σ` is the mean
//!   deviation of the RTT (RFC 9002 §5.3), as in the authors' implementation for Linux.
//! - Blocks in order of submission, repairs first. A repair is tested like new data. The paper does
//!   not mention repairs, because a TCP subflow retransmits its own losses, so that those of the
//!   fast path stay on it. On any path with room they would take exactly the delay that ECF avoids:
//!   bursts on 8.6 and 0.3 Mbps then took twice as long (median 672 instead of 309 ms; `ecf.rs`
//!   among the behaviour tests of `squall-lab`).
//! - The scheduler waits for a full path only while it is healthy and an acknowledgement can open
//!   it; something is therefore always in flight while ECF waits, and no wake-up is needed. When
//!   the path falls silent the session reports it, and its data leaves on another path.
//! - A path that was thin and has recovered stays unused until the keep-alive of the session (5 s)
//!   has replaced its RTT: RTT_s and CWND_s in the test date from the thin period, and change only
//!   with data on `s`, which it therefore does not get. The algorithm has no mechanism that checks
//!   the path again; this is left as published (`docs/schedulers.md`, links that are thin at
//!   first).
//! - Any number of paths: `f` is the fastest of all and `s` the fastest with room. If waiting for
//!   `f` beats `s`, it beats every path slower than `s`. Each pair of `f` and `s` has its own
//!   `waiting`.

use crate::{
    candidates::Candidates,
    earliest_completion::{Verdict, weigh},
};
use squall_sched::{
    Assignment, BlockQueue, BuildError, Context, Decision, Entry, MAX_PATHS, OptionSpec, Options, PathSet,
    SchedEvent, Scheduler,
};

pub(super) const ENTRY: Entry = Entry {
    name: "ecf",
    summary: "waits for the fastest path when that completes earlier than a slower one",
    source: "ECF, CoNEXT 2017, Algorithm 1; baseline of AUGUR",
    options: &[OptionSpec {
        name: "beta",
        default: "0.25",
        help: "preference for going on waiting, a share from 0 to 10",
    }],
    signal: false,
};

pub(super) fn build(options: &mut Options) -> Result<Box<dyn Scheduler>, BuildError> {
    let beta = options.take_in("beta", 0.25, 0.0..=10.0)?;
    Ok(Box::new(Ecf { beta, waiting: [PathSet::EMPTY; MAX_PATHS] }))
}

/// Earliest completion first.
#[derive(Clone, Copy, Debug)]
pub struct Ecf {
    beta: f64,
    /// Paths `s` for which it waits, by the id of `f`.
    waiting: [PathSet; MAX_PATHS],
}

impl Scheduler for Ecf {
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
        let (waiting, slow) = (&mut self.waiting[usize::from(paths.fastest.id.0)], paths.open.id);
        let margin = if waiting.contains(slow) { self.beta } else { 0.0 };
        let reason = match weigh(unsent_bytes(cx.queue), paths.fastest, paths.open, margin) {
            Verdict::Wait => {
                waiting.insert(slow);
                return Decision::idle();
            }
            Verdict::Send => "slower path, not by much",
            Verdict::SendClearly => {
                waiting.remove(slow);
                "slower path is earlier than waiting"
            }
        };
        // One packet: each one shortens the rest, and the next test may have another result.
        Decision::Send(Assignment::new(work, paths.open.id, reason).at_most(paths.open.chunk))
    }

    fn on_event(&mut self, event: &SchedEvent, cx: &Context<'_>) {
        if let SchedEvent::PathChanged(id) = event
            && cx.path(*id).is_none()
        {
            self.waiting[usize::from(id.0)] = PathSet::EMPTY;
            self.waiting.iter_mut().for_each(|pairs| _ = pairs.remove(*id));
        }
    }
}

/// Returns the unsent bytes, fresh or lost.
fn unsent_bytes(queue: &BlockQueue) -> u64 {
    let lost = queue.with_lost().map(|block| u64::from(block.lost_bytes())).sum::<u64>();
    queue.fresh_bytes() + lost
}

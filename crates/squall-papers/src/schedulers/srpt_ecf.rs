//! SRPT-ECF: the block with the fewest bytes left first, on a slower path only if that completes it
//! earlier.
//!
//! Source: Jonglez, Heusse, Gaujal, "SRPT-ECF: challenging Round-Robin for stream-aware multipath
//! scheduling" (FIT 2020); a baseline of DAMS (INFOCOM 2022, §V), which states that it selects the
//! smallest stream and minimises the completion time of each. A stream is a block here. With `R_1 ≤ R_2 ≤ …`
//! the bytes left of the blocks and `K_i = R_1 + … + R_i`:
//!
//! - The fastest path carries the block with the fewest bytes left.
//! - On another path the blocks are visited in that order. If all data waits for the fast path,
//!   block `i` is complete when `K_i` has been sent on it, since the shorter ones go first. It is
//!   sent on the slower path if that is earlier: the test of ECF, formulae in
//!   `earliest_completion.rs`, with `k = K_i`. If not, the next block is tested: it would wait
//!   longer, so the slower path may be right for it.
//!
//! The paper's own formula of the test could not be compared; the test is ECF's (CoNEXT 2017,
//! Algorithm 1) without its preference for continued waiting, which is defined for a whole
//! connection.
//!
//! - `by` (default `remaining`): `size` orders by the whole block, as DAMS describes the variant
//!   that it measured (§V-B): it "only considers the size without considering the priority and the
//!   amount of sent data". `K_i` counts bytes left in both.
//! - Bytes left are the unsent ones: fresh, or lost. Repairs therefore take the place of their
//!   block instead of the first; within the block they go first. Bytes in flight do not count.
//! - `look` (default 32): number of blocks that are tested for a packet. If none of them completes
//!   earlier on the slower path, the block with the most bytes left is tested with the sum over all
//!   blocks: with very many small blocks the slow path works at the far end of the queue.
//! - Among blocks with equally many bytes left the older goes first. Deadlines and priorities are
//!   not used. A large block can wait for ever behind small ones, which is inherent in shortest
//!   remaining first.
//! - Any number of paths: the fastest with room is compared with the fastest of all.
//! - A path that was thin and has recovered stays unused for as long as with ECF, for the same
//!   reason.

use crate::{
    candidates::Candidates,
    earliest_completion::{Verdict, weigh},
    remaining::{By, Remaining},
};
use squall_sched::{
    Assignment, Block, BlockId, BuildError, Context, Decision, Entry, OptionSpec, Options, PathView, Profile,
    SchedEvent, Scheduler, Work,
};

pub(super) const ENTRY: Entry = Entry {
    name: "srpt-ecf",
    summary: "fewest bytes left first, on a slower path only if that is earlier",
    source: "SRPT-ECF, FIT 2020; baseline of DAMS",
    options: &[
        OptionSpec {
            name: "look",
            default: "32",
            help: "blocks looked at for a packet on a slower path, 1 to 1000",
        },
        OptionSpec {
            name: "by",
            default: "remaining",
            help: "first the block with the fewest bytes: remaining: to send; size: in all",
        },
    ],
    signal: false,
};

pub(super) fn build(options: &mut Options) -> Result<Box<dyn Scheduler>, BuildError> {
    let look = options.take_in("look", 32, 1..=1000)?;
    let by = options.take("by", By::Remaining)?;
    Ok(Box::new(SrptEcf { look, by, remaining: None, assigned: None }))
}

/// Shortest remaining first, placed by earliest completion.
#[derive(Clone, Debug)]
pub struct SrptEcf {
    look: usize,
    by: By,
    /// `None` until the first decision: blocks may have been queued before.
    remaining: Option<Remaining>,
    /// The block of the last assignment, part of which has been sent since.
    assigned: Option<BlockId>,
}

impl Scheduler for SrptEcf {
    fn next(&mut self, cx: &Context<'_>) -> Decision {
        let remaining = self.remaining.get_or_insert_with(|| Remaining::of(cx.queue, self.by));
        if let Some(id) = self.assigned.take() {
            remaining.refresh(cx.queue, id);
        }
        let Some(paths) = Candidates::of(cx) else {
            return Decision::idle();
        };
        while let Some(id) = choose(remaining, &paths, self.look) {
            let Some(work) = cx.queue.get(id).and_then(Block::next_work) else {
                // Changed without an event. Once corrected, it is not chosen again.
                remaining.refresh(cx.queue, id);
                continue;
            };
            self.assigned = Some(id);
            return Decision::Send(assign(work, &paths));
        }
        Decision::idle()
    }

    fn on_event(&mut self, event: &SchedEvent, cx: &Context<'_>) {
        let (Some(remaining), Some(id)) = (&mut self.remaining, event.block()) else {
            return;
        };
        remaining.refresh(cx.queue, id);
    }

    fn profile(&self) -> Profile {
        Profile { follows_queue: false, ..Profile::default() }
    }
}

/// Returns the block to send on the fastest path with room.
fn choose(remaining: &Remaining, paths: &Candidates<'_>, look: usize) -> Option<BlockId> {
    if paths.fastest_is_open() {
        remaining.fewest_first().next().map(|(_, id)| id)
    } else {
        better_off(remaining, paths.fastest, paths.open, look)
    }
}

fn assign(work: Work, paths: &Candidates<'_>) -> Assignment {
    let path = paths.open;
    if paths.fastest_is_open() {
        return Assignment::new(work, path.id, "fewest bytes left, fastest path");
    }
    // One packet: each one shortens the rest, and waiting may then be better.
    Assignment::new(work, path.id, "earlier on a slower path than waiting").at_most(path.chunk)
}

/// Returns the first block, fewest bytes left first, that is complete earlier on `slow` than by
/// waiting for `fast` behind those before it.
fn better_off(remaining: &Remaining, fast: &PathView, slow: &PathView, look: usize) -> Option<BlockId> {
    let goes = |bytes| weigh(bytes, fast, slow, 0.0) != Verdict::Wait;
    let mut before = 0;
    let near = remaining.fewest_first().take(look).find(|(bytes, _)| {
        before += u64::from(*bytes);
        goes(before)
    });
    near.map(|(_, id)| id).or_else(|| remaining.last().filter(|_| goes(remaining.total())))
}

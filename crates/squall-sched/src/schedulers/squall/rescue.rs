//! Copies of bytes in flight on a silent path, at the last moment at which they can be in time.

use super::{arrivals::Arrivals, next::Next};
use crate::{
    Assignment, Block, BlockId, BlockMeta, Context, PathSet, PathView, Segment, SegmentState, Span, Time,
    Work, WorkKind,
};

/// Margin for errors of predictions: copies and metered paths are used this much before data could
/// be late.
pub(super) const MARGIN: Span = Span::from_millis(20);

/// Returns the first block that is in flight on silent paths alone and could be late, with a path
/// for it.
pub(super) fn next(
    cx: &Context<'_>,
    arrivals: &Arrivals,
    wanted_by: impl Fn(&BlockMeta) -> Time,
    waiting: Option<Time>,
) -> Next {
    let silent = (0..cx.paths.len()).filter(|index| arrivals.is_silent(*index));
    let silent: PathSet = silent.map(|index| cx.paths[index].id).collect();
    let Some(index) =
        arrivals.ready().find(|index| !arrivals.is_silent(*index)).filter(|_| !silent.is_empty())
    else {
        return Next::Wait(None);
    };
    let path = &cx.paths[index];
    let mut wait: Option<Time> = None;
    for block in cx.queue.in_flight_from(BlockId(0)) {
        let deadline = wanted_by(block.meta());
        // The copy precedes blocks that are due later.
        let goes_first = waiting.is_some_and(|other| other > deadline);
        let last_moment = |takes: Span| deadline - (takes + MARGIN);
        // Skip blocks whose earliest moment is not before the one that is awaited already.
        let earliest = last_moment(arrivals.surely_after(index, block.in_flight_bytes().into()));
        if !goes_first && cx.now < earliest && wait.is_some_and(|at| at <= earliest) {
            continue;
        }
        let Some((first, bytes)) = at_risk(block, silent, path) else { continue };
        let takes = arrivals.surely_after(index, bytes);
        if cx.now + takes > deadline + MARGIN {
            continue;
        }
        let last_moment = last_moment(takes);
        if cx.now < last_moment && !goes_first {
            wait = Some(wait.map_or(last_moment, |at| at.min(last_moment)));
            continue;
        }
        let work = Work { block: block.meta().id, range: first.range(), kind: WorkKind::Copy };
        let copy = Assignment::new(work, path.id, "its path is silent, and a copy is just in time");
        return Next::Send(copy.expected(cx.now + takes, deadline));
    }
    Next::Wait(wait)
}

/// Returns the first segment of a block that is in flight on silent paths alone and was never sent
/// on `path`, and the bytes of all such segments; `None` if there is none.
fn at_risk<'a>(block: &'a Block, silent: PathSet, path: &PathView) -> Option<(&'a Segment, u64)> {
    let mut segments = block.segments().iter().filter(|segment| {
        segment.state == SegmentState::Sent
            && segment.in_flight.difference(silent).is_empty()
            && !segment.sent_on.contains(path.id)
    });
    let first = segments.next()?;
    let rest: u64 = segments.map(|segment| u64::from(segment.len())).sum();
    Some((first, u64::from(first.len()) + rest))
}

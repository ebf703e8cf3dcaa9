//! The division of a block for an equal sending end (§III-C).

use squall_sched::{Block, Context, PathView, Span, Time, allocation::Shares, capacity};

use crate::plan::Plan;

/// Divides a block so that the paths finish sending it together (§III-C). If it is expected to meet
/// a `deadline`, bytes that would be late on a path move to others. `delay` is the delay of a path
/// in addition to sending.
pub(super) fn equal_sending_end(
    plan: &mut Plan,
    cx: &Context<'_>,
    block: &Block,
    deadline: Option<Time>,
    delay: impl Fn(&PathView) -> Span,
    is_closed: impl Fn(&PathView) -> bool,
) {
    let mut pipes = plan.pipes(cx, |_| Span::ZERO);
    pipes.close(cx.paths, is_closed);
    let mut shares = Plan::divide(block, cx.paths, &pipes);
    if let Some(deadline) = deadline {
        let affordable = |path: &PathView| plan.affordable(path);
        let in_time = |path: &PathView| {
            let time = deadline - (cx.now + delay(path)) - plan.busy(path);
            capacity::on_path(path, time).min(affordable(path))
        };
        move_late(&mut shares, cx.paths, in_time);
    }
    plan.place(block.meta().id, cx.paths, &shares);
}

/// Moves the bytes that a path could not deliver in time to the others, the lowest delay first;
/// bytes that none can deliver in time stay where they are.
fn move_late(shares: &mut Shares, paths: &[PathView], in_time: impl Fn(&PathView) -> u64) {
    let room = |path: &PathView, bytes: u32| {
        let room = in_time(path).saturating_sub(u64::from(bytes));
        u32::try_from(room).unwrap_or(u32::MAX)
    };
    for late in 0..paths.len() {
        let excess = u64::from(shares.bytes[late]).saturating_sub(in_time(&paths[late]));
        let mut excess = excess as u32;
        while excess > 0 {
            let with_room = (0..paths.len())
                .filter(|&i| i != late && paths[i].is_open() && room(&paths[i], shares.bytes[i]) > 0);
            let Some(to) = with_room.min_by_key(|&i| paths[i].owd) else { break };
            let moved = excess.min(room(&paths[to], shares.bytes[to]));
            shares.bytes[to] += moved;
            shares.bytes[late] -= moved;
            excess -= moved;
        }
    }
}

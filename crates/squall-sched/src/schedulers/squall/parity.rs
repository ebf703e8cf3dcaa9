//! How much parity a block gets, and where.

use super::arrivals::Arrivals;
use crate::{Assignment, BlockId, BlockMeta, Context, Micros, PathView};

/// Share of blocks that may still need a repair.
const RESIDUE: f64 = 0.005;
/// Below this loss no block gets parity.
const LEAST_LOSS: f64 = 0.001;
/// Above it loss comes in runs, which parity cannot cover at a bearable price.
const MOST_LOSS: f64 = 0.1;

/// The first block that has left and lacks parity, with a path for it: rather not the one that carries most of its
/// data. A block whose loss could be repaired in time gets none.
pub(super) fn next(
    cx: &Context<'_>,
    arrivals: &Arrivals,
    wanted_by: impl Fn(&BlockMeta) -> Micros,
) -> Option<Assignment> {
    let shortest = arrivals.shortest().filter(|_| cx.paths.iter().any(|path| path.loss >= LEAST_LOSS))?;
    let longest = notice(cx, |_| true);
    for block in cx.queue.in_flight_from(BlockId(0)) {
        let (meta, Some(parity)) = (block.meta(), block.parity()) else { continue };
        let by = wanted_by(meta);
        let is_early = |notice: Micros| cx.now + notice + shortest < by;
        // Most blocks are early by any path, and need no look at what they took.
        if block.unsent_bytes() > 0 || is_early(longest) {
            continue;
        }
        let sent = block.sent_bytes();
        let carried = |path: &PathView| sent[usize::from(path.id.0)];
        if is_early(notice(cx, |path| carried(path) > 0)) {
            continue;
        }
        let loss = loss(cx, carried);
        if !(LEAST_LOSS..MOST_LOSS).contains(&loss) {
            continue;
        }
        let lacks = wanted(parity.data_symbols(), loss).saturating_sub(parity.sent());
        let Some(work) = cx.queue.next_parity(meta.id).filter(|_| lacks > 0) else { continue };
        let carried = |index: usize| carried(&cx.paths[index]);
        let most = (0..cx.paths.len()).max_by_key(|index| carried(*index));
        let in_time = arrivals.ready().filter(|index| cx.now + arrivals.at(*index) <= by);
        let free = in_time.filter(|index| !arrivals.is_metered(*index) || carried(*index) > 0);
        let Some(index) = free.min_by_key(|index| (Some(*index) == most, arrivals.at(*index))) else {
            continue;
        };
        let arrives = cx.now + arrivals.after(index, u64::from(lacks) * u64::from(cx.paths[index].chunk));
        let parity = Assignment::new(work, cx.paths[index].id, "a repair would be late");
        return Some(parity.at_most(lacks).expected(arrives, by));
    }
    None
}

/// The share of its packets that a block loses, by where they went.
fn loss(cx: &Context<'_>, carried: impl Fn(&PathView) -> u32) -> f64 {
    let bytes = |path: &PathView| f64::from(carried(path));
    let all: f64 = cx.paths.iter().map(bytes).sum();
    let lost: f64 = cx.paths.iter().map(|path| bytes(path) * path.loss).sum();
    if all > 0.0 { lost / all } else { 0.0 }
}

/// How long it takes to notice a loss on the slowest of these paths (RFC 9002 §6.1.2).
fn notice(cx: &Context<'_>, takes: impl Fn(&PathView) -> bool) -> Micros {
    let taken = cx.paths.iter().filter(|path| takes(path));
    taken.map(|path| path.srtt * 9 / 8 + path.rtt_dev).max().unwrap_or(0)
}

/// The least number of parity symbols with which a block of this many data symbols, each symbol lost with this
/// probability, needs a repair in no more than [`RESIDUE`] of all cases (Poisson's distribution, which is near the
/// binomial one at a small loss).
fn wanted(data: u32, loss: f64) -> u32 {
    let mut parity = 0;
    while parity < data.max(8) {
        let mean = f64::from(data + parity) * loss;
        let (mut chance, mut covered) = ((-mean).exp(), 0.0);
        for lost in 0..=parity {
            covered += chance;
            chance *= mean / f64::from(lost + 1);
        }
        if 1.0 - covered <= RESIDUE {
            break;
        }
        parity += 1;
    }
    parity
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_blocks_need_a_smaller_share() {
        // Of 105 packets at 1 % loss, 4 for a hundredth of blocks and 5 for a thousandth.
        assert_eq!(
            [(25, 0.01), (55, 0.01), (105, 0.01), (105, 0.02)].map(|(n, p)| wanted(n, p)),
            [2, 3, 5, 7]
        );
        assert_eq!([wanted(1, 0.01), wanted(1, 0.3)], [1, 7], "a small block is dear to protect");
    }
}

//! How much parity a block gets, and where.

use super::arrivals::Arrivals;
use crate::{Assignment, Block, BlockId, BlockMeta, Context, Micros, PathView};

/// Share of blocks that may still need a repair.
const RESIDUE: f64 = 0.005;
/// Below this loss no block gets parity.
const LEAST_LOSS: f64 = 0.001;
/// Above it loss comes in runs, which parity cannot cover at a bearable price.
const MOST_LOSS: f64 = 0.1;

/// The first block that has left and lacks parity, with a path for it: rather not the one that carries most of its data. A
/// block whose loss could be repaired in time gets none.
pub(super) fn next(
    cx: &Context<'_>,
    arrivals: &Arrivals,
    wanted_by: impl Fn(&BlockMeta) -> Micros,
) -> Option<Assignment> {
    let shortest = arrivals.shortest().filter(|_| cx.paths.iter().any(|path| path.loss >= LEAST_LOSS))?;
    for block in cx.queue.in_flight_from(BlockId(0)) {
        let (meta, Some(parity)) = (block.meta(), block.parity()) else { continue };
        let by = wanted_by(meta);
        if block.unsent_bytes() > 0 || cx.now + notice(cx, block) + shortest < by {
            continue;
        }
        let loss = loss(cx, block);
        if !(LEAST_LOSS..MOST_LOSS).contains(&loss) {
            continue;
        }
        let lacks = wanted(parity.data_symbols(), loss).saturating_sub(parity.sent());
        let Some(work) = cx.queue.next_parity(meta.id).filter(|_| lacks > 0) else { continue };
        let sent = block.sent_bytes();
        let carried = |index: usize| sent[usize::from(cx.paths[index].id.0)];
        let most = (0..cx.paths.len()).max_by_key(|index| carried(*index));
        let in_time = arrivals.ready().filter(|index| cx.now + arrivals.at(*index) <= by);
        let free = in_time.filter(|index| !arrivals.is_metered(*index) || carried(*index) > 0);
        let Some(index) = free.min_by_key(|index| (Some(*index) == most, arrivals.at(*index))) else {
            continue;
        };
        let reason = "parity: a repair would be late";
        return Some(Assignment::new(work, cx.paths[index].id, reason).at_most(lacks));
    }
    None
}

/// The share of its packets that a block loses, by where they went.
fn loss(cx: &Context<'_>, block: &Block) -> f64 {
    let sent = block.sent_bytes();
    let bytes = |path: &PathView| f64::from(sent[usize::from(path.id.0)]);
    let all: f64 = cx.paths.iter().map(bytes).sum();
    let lost: f64 = cx.paths.iter().map(|path| bytes(path) * path.loss).sum();
    if all > 0.0 { lost / all } else { 0.0 }
}

/// How long it takes to notice a loss on the slowest of the paths that a block takes (RFC 9002 §6.1.2).
fn notice(cx: &Context<'_>, block: &Block) -> Micros {
    let sent = block.sent_bytes();
    let taken = cx.paths.iter().filter(|path| sent[usize::from(path.id.0)] > 0);
    taken.map(|path| path.srtt * 9 / 8 + path.rtt_dev).max().unwrap_or(0)
}

/// The least number of parity symbols with which a block of this many data symbols, each symbol lost with this probability, needs
/// a repair in no more than [`RESIDUE`] of all cases (Poisson's distribution, which is near the binomial one at a small loss).
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

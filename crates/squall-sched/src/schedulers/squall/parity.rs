//! Amount and path of the parity of blocks.

use super::{arrivals::Arrivals, next::Next};
use crate::{
    Assignment, Block, BlockId, BlockMeta, Context, MAX_PATHS, MAX_RUN, Parity, PathView, Span, Time, Work,
    WorkKind, parity_symbols,
};

/// Share of blocks that may still need a repair.
const RESIDUE: f64 = 0.005;
/// Lowest loss at which blocks get parity.
const LEAST_LOSS: f64 = 0.001;
/// Loss above which blocks get no parity: it comes in bursts then, which parity cannot cover at an
/// acceptable cost.
const MOST_LOSS: f64 = 0.1;
/// Margin before the last moment at which parity over a run of small blocks leaves.
const MARGIN: Span = Span::from_millis(10);

/// Returns parity for the first block that has left and lacks it. A block whose loss could be
/// repaired in time gets none. Small blocks of a channel share theirs: it waits for more of them up
/// to the last moment. `opportunity_cost` is the value that a byte would have elsewhere.
pub(super) fn next(
    cx: &Context<'_>,
    arrivals: &Arrivals,
    opportunity_cost: f64,
    wanted_by: impl Fn(&BlockMeta) -> Time,
) -> Next {
    let has_loss = cx.paths.iter().any(|path| path.loss >= LEAST_LOSS);
    let Some(shortest) = arrivals.shortest().filter(|_| has_loss) else { return Next::Wait(None) };
    let longest = notice(cx, |_| true);
    let mut waiting = Waiting::default();
    for block in cx.queue.in_flight_from(BlockId(0)) {
        let (meta, Some(parity)) = (block.meta(), block.parity()) else { continue };
        let by = wanted_by(meta);
        let is_early = |notice: Span| cx.now + notice + shortest < by;
        // Most blocks are early by any path, so the paths that they took need no check.
        if block.unsent_bytes() > 0 || is_early(longest) || waiting.has(meta.channel) {
            continue;
        }
        let sent = block.sent_bytes();
        if is_early(notice(cx, |path| sent[usize::from(path.id.0)] > 0)) {
            continue;
        }
        let is_small = parity.data_symbols() == 1;
        let next = if is_small {
            of_run(cx, arrivals, opportunity_cost, block, by)
        } else {
            of_block(cx, arrivals, opportunity_cost, block, parity, &sent, by)
        };
        match next {
            Next::Wait(Some(at)) => waiting.add(meta.channel, at),
            Next::Wait(None) => {}
            send @ Next::Send(_) => return send,
        }
    }
    Next::Wait(waiting.until)
}

/// Channels whose small blocks wait for more.
#[derive(Default)]
struct Waiting {
    channels: [Option<u16>; 8],
    until: Option<Time>,
}

impl Waiting {
    fn has(&self, channel: u16) -> bool {
        self.channels.contains(&Some(channel))
    }

    fn add(&mut self, channel: u16, until: Time) {
        if let Some(free) = self.channels.iter_mut().find(|known| known.is_none()) {
            *free = Some(channel);
        }
        self.until = Some(self.until.map_or(until, |before| before.min(until)));
    }
}

/// Returns the parity that a block of several symbols lacks.
fn of_block(
    cx: &Context<'_>,
    arrivals: &Arrivals,
    opportunity_cost: f64,
    block: &Block,
    parity: &Parity,
    sent: &[u32; MAX_PATHS],
    by: Time,
) -> Next {
    let cost = cost(opportunity_cost, block, parity.symbol_size());
    let lacks = wanted(parity.data_symbols(), loss(cx, sent), cost).saturating_sub(parity.sent());
    let work = cx.queue.next_parity(block.meta().id).filter(|_| lacks > 0);
    let path = path(cx, arrivals, sent, by);
    let (Some(work), Some(index)) = (work, path) else { return Next::Wait(None) };
    Next::Send(assignment(cx, arrivals, index, work, lacks, by))
}

/// Returns the parity that the run of small blocks from this one on lacks.
fn of_run(cx: &Context<'_>, arrivals: &Arrivals, opportunity_cost: f64, first: &Block, by: Time) -> Next {
    let (mut sent, mut count) = ([0; MAX_PATHS], 0);
    for block in cx.queue.run_from(first.meta().id) {
        let bytes = block.sent_bytes();
        sent.iter_mut().zip(bytes).for_each(|(sum, bytes)| *sum += bytes);
        count += 1;
    }
    let symbols = wanted(count, loss(cx, &sent), cost(opportunity_cost, first, first.meta().len))
        .min(parity_symbols(count));
    if !first.may_join_run() || symbols == 0 {
        return Next::Wait(None);
    }
    let Some(index) = path(cx, arrivals, &sent, by) else { return Next::Wait(None) };
    let work = Work { block: first.meta().id, range: 0..symbols, kind: WorkKind::RunParity };
    let parity = assignment(cx, arrivals, index, work, symbols, by);
    let takes = parity.forecast.map_or(Span::ZERO, |forecast| forecast.arrives - cx.now);
    let last_moment = by - (takes + MARGIN);
    if (count as usize) < MAX_RUN && cx.now < last_moment {
        return Next::Wait(Some(last_moment));
    }
    Next::Send(parity)
}

fn assignment(
    cx: &Context<'_>,
    arrivals: &Arrivals,
    index: usize,
    work: Work,
    symbols: u32,
    by: Time,
) -> Assignment {
    let path = &cx.paths[index];
    let arrives = cx.now + arrivals.after(index, u64::from(symbols) * u64::from(path.chunk));
    Assignment::new(work, path.id, "a repair would be late").at_most(symbols).expected(arrives, by)
}

/// Returns the path for parity of data that was sent in these numbers of bytes by path id:
/// preferably not the path that carried most, and no metered one that carried nothing.
fn path(cx: &Context<'_>, arrivals: &Arrivals, sent: &[u32; MAX_PATHS], by: Time) -> Option<usize> {
    let carried = |index: usize| sent[usize::from(cx.paths[index].id.0)];
    let most = (0..cx.paths.len()).max_by_key(|index| carried(*index));
    let in_time = arrivals.ready().filter(|index| cx.now + arrivals.at(*index) <= by);
    let free = in_time.filter(|index| !arrivals.is_dear(*index) || carried(*index) > 0);
    free.min_by_key(|index| (Some(*index) == most, arrivals.at(*index)))
}

/// Returns the loss that the data experienced, weighted by the paths that carried it.
fn loss(cx: &Context<'_>, sent: &[u32; MAX_PATHS]) -> f64 {
    let bytes = |path: &PathView| f64::from(sent[usize::from(path.id.0)]);
    let all: f64 = cx.paths.iter().map(bytes).sum();
    let lost: f64 = cx.paths.iter().map(|path| bytes(path) * path.loss).sum();
    if all > 0.0 { lost / all } else { 0.0 }
}

/// Returns the cost of a symbol of a block, in units of the block's value.
fn cost(opportunity_cost: f64, block: &Block, symbol: u32) -> f64 {
    opportunity_cost * f64::from(symbol) / f64::from(block.meta().value).max(1.0)
}

/// Returns the time after which a loss is detected on the slowest of these paths (RFC 9002 §6.1.2).
fn notice(cx: &Context<'_>, takes: impl Fn(&PathView) -> bool) -> Span {
    let taken = cx.paths.iter().filter(|path| takes(path));
    taken.map(|path| path.srtt * 9 / 8 + path.rtt_dev).max().unwrap_or(Span::ZERO)
}

/// Returns the smallest number of parity symbols with which this many data symbols need a repair in
/// no more than [`RESIDUE`] of all cases, if each symbol is lost with probability `loss` (Poisson's
/// distribution, which is near the binomial one at a small loss). Zero at a loss that is too low or
/// too high. Stops at the symbol that prevents a loss less often than its `cost` causes one.
fn wanted(data: u32, loss: f64, cost: f64) -> u32 {
    if !(LEAST_LOSS..MOST_LOSS).contains(&loss) {
        return 0;
    }
    let mut parity = 0;
    while parity < data.max(8) {
        let mean = f64::from(data + parity) * loss;
        let (mut chance, mut covered) = ((-mean).exp(), 0.0);
        for lost in 0..=parity {
            covered += chance;
            chance *= mean / f64::from(lost + 1);
        }
        // `chance` is now the probability of one loss more than these cover.
        if 1.0 - covered <= RESIDUE || chance < cost {
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
        // 105 packets at 1 % loss need 4 for a hundredth of blocks and 5 for a thousandth.
        assert_eq!(
            [(25, 0.01), (55, 0.01), (105, 0.01), (105, 0.02)].map(|(n, p)| wanted(n, p, 0.0)),
            [2, 3, 5, 7]
        );
        assert_eq!([wanted(1, 0.01, 0.0), wanted(1, 0.09, 0.0)], [1, 2], "a small block is dear to protect");
    }

    #[test]
    fn while_blocks_wait_a_symbol_has_to_save_more_than_it_displaces() {
        // A symbol is a thirteenth of a block, and a block loses one packet in 6 and 23 of 100 cases.
        assert_eq!([0.005, 0.02].map(|loss| wanted(13, loss, 1.0 / 13.0)), [0, 1]);
        assert_eq!([0.005, 0.02].map(|loss| wanted(13, loss, 0.0)), [1, 2]);
    }
}

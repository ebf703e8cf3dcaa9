//! The most blocks in time.

use super::{carried::Sweep, serialiser::PER_BYTE};

/// Most sizes that are distinguished. More of them make the bound tighter where sizes vary, and slower.
const SIZES: usize = 16;

/// An upper bound of how many of these blocks can be whole in time. `members` ascend; each can by itself.
///
/// Two sound bounds, the smaller of which counts. Neither lets a part of a block count for more than its part:
///
/// - The smallest blocks that together have no more bytes than can be in time.
/// - Each byte counts as its share of its block, so bytes of small blocks go first. As the bytes that can be in
///   time form a polymatroid, taking the sizes in this order gives the most. Where there are many sizes, blocks
///   count as the smallest of a group of similar ones, which can only make more of them whole.
pub(super) fn most_blocks(sweep: &Sweep<'_>, members: &[usize], size: impl Fn(usize) -> u64) -> u64 {
    let all: u128 = members.iter().map(|&index| u128::from(size(index)) * u128::from(PER_BYTE)).sum();
    let carried = sweep.carried(members, &size);
    if carried == all {
        return members.len() as u64;
    }
    let mut sizes: Vec<u64> = members.iter().map(|&index| size(index)).collect();
    sizes.sort_unstable();
    smallest_first(&sizes, carried).min(share_by_share(sweep, members, size, &groups(&sizes)))
}

fn smallest_first(sizes: &[u64], carried: u128) -> u64 {
    let mut sum = 0;
    let fits = |size: &&u64| {
        sum += u128::from(**size) * u128::from(PER_BYTE);
        sum <= carried
    };
    sizes.iter().take_while(fits).count() as u64
}

fn share_by_share(sweep: &Sweep<'_>, members: &[usize], size: impl Fn(usize) -> u64, groups: &[u64]) -> u64 {
    let group = |index: usize| groups.partition_point(|least| *least <= size(index)) - 1;
    let (mut before, mut blocks) = (0, 0.0);
    for (number, least) in groups.iter().enumerate() {
        let smaller: Vec<usize> = members.iter().copied().filter(|&index| group(index) <= number).collect();
        let carried = sweep.carried(&smaller, |index| groups[group(index)]);
        blocks += (carried - before) as f64 / (*least as f64 * PER_BYTE as f64);
        before = carried;
    }
    // What sums of quotients may be short of is far below this, which is far below a block.
    (blocks + 1e-6) as u64
}

/// The least size of each group of similar blocks, ascending; the first is the least of all.
fn groups(sizes: &[u64]) -> Vec<u64> {
    let mut distinct = sizes.to_vec();
    distinct.dedup();
    if distinct.len() <= SIZES {
        return distinct;
    }
    let mut groups: Vec<u64> = (0..SIZES).map(|number| sizes[sizes.len() * number / SIZES]).collect();
    groups.dedup();
    groups
}

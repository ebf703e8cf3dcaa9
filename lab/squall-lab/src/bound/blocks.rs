//! Upper bound of the number of blocks in time.

use super::{carried::Sweep, serialiser::PER_BYTE};

/// Maximum number of distinct sizes. More make the bound tighter where sizes vary, but slower to
/// compute.
const SIZES: usize = 16;

/// Computes an upper bound of the number of these blocks that can be complete in time. `members`
/// are ascending; each is possible by itself.
///
/// The smaller of two valid bounds is used. In both, a part of a block counts at most for its
/// share:
///
/// - The number of the smallest blocks whose total size does not exceed the bytes that can be in
///   time.
/// - Each byte counts as its share of its block, so small blocks come first. As the bytes that can
///   be in time form a polymatroid, taking the sizes in this order gives the maximum. If there are
///   too many sizes, blocks count with the smallest size in a group of similar ones, which can only
///   increase the bound.
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
    // The rounding errors of the sum of quotients are far smaller than this, which is far smaller
    // than a block.
    (blocks + 1e-6) as u64
}

/// Returns the smallest size of each group of similar blocks, ascending; the first is the smallest
/// of all.
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

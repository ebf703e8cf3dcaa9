//! Upper bound of the number of blocks that can be decoded in time: complete before their deadline
//! with all dependencies.

use std::collections::{BTreeMap, BinaryHeap, HashSet};

use super::{Clairvoyant, Demand, Supply, blocks::most_blocks, carried::Sweep, serialiser::PER_BYTE};

/// Maximum number of dependencies of a block that are examined: the newest ones. Ignoring others
/// can only raise the bound.
const NEEDED: usize = 512;

/// Maximum number of distinct densities. More make the bound tighter, but slower to compute.
const DENSITIES: usize = 16;

/// Dependencies of the blocks of a run. Blocks are identified by their index in the order of their
/// release.
pub(super) struct Needs {
    needs: Vec<[Option<usize>; 2]>,
    /// Root of each block: the end of the chain of dependencies that follows the older one of each
    /// block; the block itself if it has none.
    roots: Vec<usize>,
    /// `true` for each block that can be decoded in time if the network carries nothing but its
    /// dependencies.
    possible: Vec<bool>,
}

impl Needs {
    /// Creates the dependencies for blocks in the order of their release, each with its index among
    /// all blocks given, and their due times.
    pub(super) fn new(supply: &Supply, demands: &[(usize, Demand)], dues: &[u64]) -> Self {
        let index: BTreeMap<usize, usize> =
            demands.iter().enumerate().map(|(index, (place, _))| (*place, index)).collect();
        let named = |demand: &Demand| demand.needs.map(|need| index.get(&need?).copied());
        let needs: Vec<[Option<usize>; 2]> = demands.iter().map(|(_, demand)| named(demand)).collect();
        let mut roots: Vec<usize> = Vec::with_capacity(needs.len());
        for (index, needs) in needs.iter().enumerate() {
            let older = needs.iter().flatten().copied().filter(|need| *need < index).min();
            roots.push(older.map_or(index, |older| roots[older]));
        }
        let mut spare: Vec<Option<i128>> = Vec::with_capacity(needs.len());
        for index in 0..needs.len() {
            let blocks = Blocks { supply, demands, dues, needs: &needs, spare: &spare };
            spare.push(blocks.spare_after_one(index).or_else(|| blocks.spare(index)));
        }
        Self { possible: spare.iter().map(Option::is_some).collect(), needs, roots }
    }

    /// Returns an upper bound of the number of `members` that can be decodable in time. They are
    /// ascending, each can be in time by itself, and at most `in_time` of them can be together.
    pub(super) fn most(&self, all: &Clairvoyant<'_>, members: &[usize], in_time: u64) -> u64 {
        if members.iter().all(|index| self.needs[*index] == [None; 2]) {
            return in_time;
        }
        let members: Vec<usize> = members.iter().copied().filter(|index| self.possible[*index]).collect();
        let apart = most_blocks(&all.sweep, &members, |index| all.demands[index].1.size);
        // Everything fits, unless the roots are missing.
        let has_root = |index: &usize| members.binary_search(&self.roots[*index]).is_ok();
        if apart == members.len() as u64 && members.iter().all(has_root) {
            return apart.min(in_time);
        }
        apart.min(in_time).min(share_by_share(all.supply, &all.demands, &self.jobs(all, &members)))
    }

    /// Returns the members and their roots as jobs that share the worth of the members; see
    /// [`Job`].
    fn jobs(&self, all: &Clairvoyant<'_>, members: &[usize]) -> BTreeMap<usize, Job> {
        let mut groups: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for index in members {
            groups.entry(self.roots[*index]).or_default().push(*index);
        }
        let mut jobs = BTreeMap::new();
        for (root, members) in groups {
            let size = |index: usize| all.demands[index].1.size as f64;
            let others = || members.iter().copied().filter(|index| *index != root);
            let worth = members.len() as f64;
            let kept = |density: f64, index: usize| (density * size(index)).min(1.0);
            // The density at which all bytes of the group have the same worth, if no block keeps
            // more than its own.
            let (mut low, mut high) = (0.0, worth / size(root));
            for _ in 0..50 {
                let middle = f64::midpoint(low, high);
                let sum = others().map(|index| kept(middle, index)).sum::<f64>() + middle * size(root);
                if sum < worth { low = middle } else { high = middle }
            }
            let due = |index: usize| all.dues[index];
            let mut of_root = Job { worth, due: if members.contains(&root) { due(root) } else { 0 } };
            for index in others() {
                let job = Job { worth: kept(high, index), due: due(index) };
                of_root.worth -= job.worth;
                if job.worth < 1.0 {
                    of_root.due = of_root.due.max(job.due);
                }
                jobs.insert(index, job);
            }
            if of_root.due > 0 {
                jobs.insert(root, Job { worth: of_root.worth.max(0.0), ..of_root });
            }
        }
        jobs
    }
}

/// A share of the worth of decodable blocks. Each block is worth 1 and may transfer a part to its
/// root, because it is decodable only if the root arrives as well, by the latest due time of all
/// contributors.
#[derive(Debug, Clone, Copy)]
struct Job {
    worth: f64,
    due: u64,
}

/// Returns a block and its direct and indirect dependencies, the newest first.
fn needed(needs: &[[Option<usize>; 2]], index: usize) -> impl Iterator<Item = usize> {
    let (mut open, mut seen) = (BinaryHeap::from([index]), HashSet::from([index]));
    std::iter::from_fn(move || {
        let next = open.pop()?;
        open.extend(needs[next].iter().flatten().copied().filter(|need| seen.insert(*need)));
        Some(next)
    })
    .take(NEEDED)
}

/// Determines which blocks are possible, in the order of their release.
struct Blocks<'a> {
    supply: &'a Supply,
    demands: &'a [(usize, Demand)],
    dues: &'a [u64],
    needs: &'a [[Option<usize>; 2]],
    /// Result of [`Self::spare`] for each earlier block, or a lower bound of it.
    spare: &'a [Option<i128>],
}

impl Blocks<'_> {
    fn bytes(&self, index: usize) -> i128 {
        i128::from(self.demands[index].1.size) * i128::from(PER_BYTE)
    }

    /// Returns the spare capacity of a block, in millionths of bytes: the minimum over all release
    /// times of the bytes that could arrive by its due time, beyond those of the block and its
    /// dependencies released from then on. `None` if they cannot all arrive.
    fn spare(&self, index: usize) -> Option<i128> {
        let due = self.dues[index];
        let (mut first, mut bytes, mut spare) = (u64::MAX, 0, i128::MAX);
        for needed in needed(self.needs, index) {
            first = first.min(self.demands[needed].1.release_us);
            bytes += self.bytes(needed);
            spare = spare.min(self.supply.room(first, due) - bytes);
            if spare < 0 {
                return None;
            }
        }
        Some(spare)
    }

    /// Returns a lower bound of [`Self::spare`] for a block with a single dependency, if the
    /// capacity between the two due times suffices for the block. Avoids following a long chain.
    /// Not valid with a cap, which may be used up by then.
    fn spare_after_one(&self, index: usize) -> Option<i128> {
        let ([Some(need), None] | [None, Some(need)]) = self.needs[index] else { return None };
        let before = (*self.spare.get(need)?)?;
        let (due, due_before) = (self.dues[index], self.dues[need]);
        if due < due_before || self.supply.is_capped() {
            return None;
        }
        let room = |of: usize, by| self.supply.room(self.demands[of].1.release_us, by);
        let more = room(need, due) - room(need, due_before);
        let spare = (before + more).min(room(index, due)) - self.bytes(index);
        (spare >= 0).then_some(spare)
    }
}

/// Returns the maximum worth that can arrive if each byte counts as its share of its job, rounded
/// down to whole blocks.
fn share_by_share(supply: &Supply, demands: &[(usize, Demand)], jobs: &BTreeMap<usize, Job>) -> u64 {
    let release = |index: usize| demands[index].1.release_us;
    let sweep = Sweep::new(supply, jobs.iter().map(|(index, job)| (release(*index), job.due)));
    let sizes: Vec<u64> = jobs.keys().map(|index| demands[*index].1.size).collect();
    let density: Vec<f64> = jobs.values().zip(&sizes).map(|(job, size)| job.worth / *size as f64).collect();
    let mut order: Vec<usize> = (0..sizes.len()).collect();
    order.sort_by(|a, b| density[*b].total_cmp(&density[*a]));
    let (mut before, mut blocks, mut rank) = (0, 0.0, vec![0; order.len()]);
    order.iter().enumerate().for_each(|(place, job)| rank[*job] = place);
    let per_part = order.len().div_ceil(DENSITIES).max(1);
    for first in (0..order.len()).step_by(per_part) {
        let denser: Vec<usize> = (0..order.len()).filter(|job| rank[*job] < first + per_part).collect();
        let carried = sweep.carried(&denser, |job| sizes[job]);
        blocks += carried.saturating_sub(before) as f64 * density[order[first]] / PER_BYTE as f64;
        before = carried.max(before);
    }
    // The rounding errors of the sum of quotients are far smaller than this, which is far smaller
    // than a block.
    (blocks + 1e-6) as u64
}

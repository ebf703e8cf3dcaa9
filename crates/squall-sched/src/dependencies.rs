//! Which blocks are useless without which others, and which of them are useless now.
//!
//! A block is *missing* if it ended undelivered, or if it needs one that is missing. An unfinished block that needs a
//! missing one is an *orphan*. A delivered block is *held* as long as one that it needs is open: its own dependants
//! become orphans with it. What is kept of blocks that ended is bounded. The oldest of them are forgotten first, and
//! count as delivered from then on.

use std::collections::{BTreeMap, BTreeSet};

use crate::{BlockId, BlockMeta};

/// Most missing blocks that are remembered.
const MISSING: usize = 4_096;

/// Nor is one remembered that this many blocks came after: a minute of a thousand datagrams a second, each a block.
const REACH: u64 = 1 << 16;

/// Most delivered blocks that are held.
const HELD: usize = 4_096;

/// The blocks whose use is open, and what they need.
#[derive(Debug, Default)]
pub(crate) struct Dependencies {
    open: BTreeMap<BlockId, Open>,
    /// Each open block behind each block that it needs.
    edges: BTreeSet<(BlockId, BlockId)>,
    held: BTreeSet<BlockId>,
    missing: BTreeSet<BlockId>,
}

#[derive(Debug)]
struct Open {
    needs: [Option<BlockId>; 2],
    orphan: bool,
}

impl Dependencies {
    /// Whether this block is unfinished and needs, directly or not, one that is missing.
    pub(crate) fn is_orphan(&self, id: BlockId) -> bool {
        self.open.get(&id).is_some_and(|open| open.orphan)
    }

    /// Open blocks that need this one directly, oldest first.
    pub(crate) fn dependants(&self, id: BlockId) -> impl Iterator<Item = BlockId> {
        self.edges.range((id, BlockId(0))..=(id, BlockId(u64::MAX))).map(|(_, needing)| *needing)
    }

    /// A block begins. What it needs is older.
    pub(crate) fn add(&mut self, meta: &BlockMeta) {
        let needs = meta.needs.map(|need| need.filter(|need| *need < meta.id));
        self.edges.extend(needs.iter().flatten().map(|need| (*need, meta.id)));
        let orphan = needs.iter().flatten().any(|need| self.missing.contains(need) || self.is_orphan(*need));
        self.open.insert(meta.id, Open { needs, orphan });
    }

    /// A block ended, and the receiver has it.
    pub(crate) fn deliver(&mut self, id: BlockId) {
        if self.is_orphan(id) {
            self.forget(id);
            self.remember(id);
        } else if self.is_certain(id) {
            self.release(id);
        } else if self.open.contains_key(&id) {
            self.held.insert(id);
            if self.held.len() > HELD
                && let Some(oldest) = self.held.first().copied()
            {
                self.release(oldest);
            }
        }
    }

    /// A block ended, and the receiver does not have it.
    pub(crate) fn miss(&mut self, id: BlockId) {
        let mut missing = vec![id];
        self.forget(id);
        self.remember(id);
        while let Some(needed) = missing.pop() {
            for id in self.dependants(needed).collect::<Vec<_>>() {
                let Some(open) = self.open.get_mut(&id).filter(|open| !open.orphan) else { continue };
                open.orphan = true;
                missing.push(id);
                if self.held.contains(&id) {
                    self.forget(id);
                    self.remember(id);
                }
            }
        }
    }

    /// Whether no block that this one needs is open.
    fn is_certain(&self, id: BlockId) -> bool {
        let needs = self.open.get(&id).map(|open| open.needs);
        needs.is_some_and(|needs| !needs.iter().flatten().any(|need| self.open.contains_key(need)))
    }

    /// A delivered block, and what was held for it alone, is of use whatever happens.
    fn release(&mut self, id: BlockId) {
        let mut certain = vec![id];
        while let Some(id) = certain.pop() {
            self.forget(id);
            let dependants = self.dependants(id);
            certain.extend(dependants.filter(|id| self.held.contains(id) && self.is_certain(*id)));
        }
    }

    fn forget(&mut self, id: BlockId) {
        self.held.remove(&id);
        for need in self.open.remove(&id).into_iter().flat_map(|open| open.needs).flatten() {
            self.edges.remove(&(need, id));
        }
    }

    fn remember(&mut self, id: BlockId) {
        self.missing.insert(id);
        let is_far = |oldest: &BlockId| oldest.0.saturating_add(REACH) < id.0;
        while self.missing.len() > MISSING || self.missing.first().is_some_and(is_far) {
            self.missing.pop_first();
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::*;

    fn add(dependencies: &mut Dependencies, id: u64, needs: [Option<u64>; 2]) {
        let needs = needs.map(|need| need.map(BlockId));
        dependencies.add(&BlockMeta { needs, ..BlockMeta::new(BlockId(id), 1) });
    }

    /// Each needs the one before.
    fn chain(length: u64) -> Dependencies {
        let mut dependencies = Dependencies::default();
        (0..length).for_each(|id| add(&mut dependencies, id, [id.checked_sub(1), None]));
        dependencies
    }

    fn orphans(dependencies: &Dependencies) -> Vec<u64> {
        (0..10).filter(|id| dependencies.is_orphan(BlockId(*id))).collect()
    }

    #[test]
    fn a_missing_block_takes_along_what_needs_it_through_others_too() {
        let mut chain = chain(5);
        chain.deliver(BlockId(0));
        chain.miss(BlockId(1));
        assert_eq!(orphans(&chain), [2, 3, 4]);
        chain.deliver(BlockId(2));
        add(&mut chain, 5, [Some(2), None]);
        add(&mut chain, 6, [None, Some(5)]);
        add(&mut chain, 7, [Some(0), None]);
        assert_eq!(orphans(&chain), [3, 4, 5, 6], "delivered in vain is missing as well");
    }

    #[test]
    fn what_arrived_before_what_it_needs_is_of_use_only_with_it() {
        let mut lost = chain(4);
        [1, 2].into_iter().for_each(|id| lost.deliver(BlockId(id)));
        assert_eq!(orphans(&lost), []);
        lost.miss(BlockId(0));
        assert_eq!(orphans(&lost), [3]);
        let mut found = chain(4);
        [1, 2, 0].into_iter().for_each(|id| found.deliver(BlockId(id)));
        assert_eq!((orphans(&found), found.held.len(), found.open.len()), (vec![], 0, 1));
    }

    #[test]
    fn dependants_are_those_that_need_it_directly_and_have_not_ended() {
        let mut dependencies = chain(3);
        add(&mut dependencies, 3, [Some(2), Some(1)]);
        let of = |dependencies: &Dependencies, id| {
            dependencies.dependants(BlockId(id)).map(|id| id.0).collect::<Vec<_>>()
        };
        assert_eq!([0, 1, 2, 3].map(|id| of(&dependencies, id)), [vec![1], vec![2, 3], vec![3], vec![]]);
        dependencies.miss(BlockId(2));
        assert_eq!(of(&dependencies, 1), [3]);
    }

    #[test]
    fn memory_is_bounded_whatever_ends_and_the_oldest_is_forgotten_first() {
        let mut missing = Dependencies::default();
        (0..=MISSING as u64).for_each(|id| missing.miss(BlockId(id)));
        add(&mut missing, 10_000, [Some(0), None]);
        add(&mut missing, 10_001, [Some(1), None]);
        assert_eq!([10_000, 10_001].map(|id| missing.is_orphan(BlockId(id))), [false, true]);
        (0..=100 * REACH).step_by(1_000).for_each(|id| missing.miss(BlockId(id)));
        assert!(
            missing.missing.len() <= 66,
            "{}: what ends now and then adds up to nothing",
            missing.missing.len()
        );
        // The first never ends, and all others wait for it.
        let mut held = chain(3 * HELD as u64);
        (1..3 * HELD as u64).for_each(|id| held.deliver(BlockId(id)));
        assert!(held.held.len() <= HELD && held.open.len() <= HELD + 1 && held.edges.len() <= HELD + 1);
    }

    #[derive(Clone, Debug)]
    enum Step {
        Add([Option<u64>; 2]),
        Deliver(u64),
        Miss(u64),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            3 => (prop::option::of(0u64..30), prop::option::of(0u64..30)).prop_map(|(a, b)| Step::Add([a, b])),
            2 => (0u64..30).prop_map(Step::Deliver),
            1 => (0u64..30).prop_map(Step::Miss),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        #[test]
        fn orphans_are_those_with_a_missing_ancestor(steps in vec(step(), 1..60)) {
            let mut dependencies = Dependencies::default();
            // What each needs, and whether it was delivered; none while it is unfinished.
            let mut model: Vec<([Option<u64>; 2], Option<bool>)> = Vec::new();
            for step in steps {
                match step {
                    Step::Add(needs) => {
                        let id = model.len() as u64;
                        let needs = needs.map(|need| need.filter(|need| *need < id));
                        add(&mut dependencies, id, needs);
                        model.push((needs, None));
                    }
                    Step::Deliver(id) | Step::Miss(id) => {
                        let delivered = matches!(step, Step::Deliver(_));
                        let Some((_, fate @ None)) = model.get_mut(id as usize) else { continue };
                        *fate = Some(delivered);
                        if delivered { dependencies.deliver(BlockId(id)) } else { dependencies.miss(BlockId(id)) }
                    }
                }
                let mut lacking: Vec<bool> = Vec::new();
                for (needs, _) in &model {
                    let lacks = |need: &u64| lacking[*need as usize] || model[*need as usize].1 == Some(false);
                    lacking.push(needs.iter().flatten().any(lacks));
                }
                for (id, (lacks, (_, fate))) in (0..).zip(lacking.iter().zip(&model)) {
                    prop_assert_eq!(dependencies.is_orphan(BlockId(id)), *lacks && fate.is_none(), "{}", id);
                }
            }
            let unfinished = model.iter().filter(|(_, fate)| fate.is_none()).count();
            if unfinished == 0 {
                prop_assert!(dependencies.open.is_empty() && dependencies.edges.is_empty());
            }
        }
    }
}

//! Dependencies between blocks, and the blocks that are useless because of them.
//!
//! A block is *missing* if it ended undelivered, or if it needs a missing one. An unfinished block
//! that needs a missing one is an *orphan*. A delivered block is *held* while one that it needs is
//! open: its own dependants become orphans with it. The memory of ended blocks is bounded: the
//! oldest are forgotten first, and count as delivered from then on.
//!
//! That a decoder shows nothing after a missing picture is a guess, which nothing corrects in a
//! stream without further key pictures. It therefore expires: blocks that were handed over
//! [`REFRESH`] after the first missing one do not need it, however many orphans between them are
//! missing too.

use std::collections::{BTreeMap, BTreeSet};

use crate::{BlockId, BlockMeta, Span, Time};

/// Time after which a decoder shows pictures again: the distance of key pictures that live services
/// require (HLS Authoring Specification for Apple Devices §1.10), and a usual period of intra
/// refresh.
const REFRESH: Span = Span::from_millis(2_000);

/// Largest number of missing blocks that are remembered.
const MISSING: usize = 4_096;

/// A missing block is forgotten once this many blocks have followed it: a minute of a thousand
/// datagrams a second, each a block.
const REACH: u64 = 1 << 16;

/// Largest number of delivered blocks that are held.
const HELD: usize = 4_096;

/// The blocks whose usefulness is undecided, and their dependencies.
#[derive(Debug, Default)]
pub(crate) struct Dependencies {
    open: BTreeMap<BlockId, Open>,
    /// Pairs of a needed block and an open block that needs it.
    edges: BTreeSet<(BlockId, BlockId)>,
    held: BTreeSet<BlockId>,
    /// Hand-over time of the first missing block that made each one missing, once it is determined.
    missing: BTreeMap<BlockId, Option<Time>>,
    /// The latest block of each channel that needs others and was no orphan when it began.
    sound: BTreeMap<u16, BlockId>,
}

#[derive(Debug)]
struct Open {
    needs: [Option<BlockId>; 2],
    submitted: Time,
    channel: u16,
    /// Hand-over time of the first missing block that made this one an orphan.
    orphan: Option<Time>,
}

impl Dependencies {
    /// Returns `true` if this block is unfinished and needs a missing one, directly or not.
    pub(crate) fn is_orphan(&self, id: BlockId) -> bool {
        self.open.get(&id).is_some_and(|open| open.orphan.is_some())
    }

    /// Returns `true` if a later block of its channel needs others and was no orphan.
    pub(crate) fn is_superseded(&self, id: BlockId) -> bool {
        let channel = self.open.get(&id).map(|open| open.channel);
        channel.and_then(|channel| self.sound.get(&channel)).is_some_and(|sound| *sound > id)
    }

    /// Iterates over open blocks that need this one directly, oldest first.
    pub(crate) fn dependants(&self, id: BlockId) -> impl Iterator<Item = BlockId> {
        self.edges.range((id, BlockId(0))..=(id, BlockId(u64::MAX))).map(|(_, needing)| *needing)
    }

    /// Adds a new block. Entries of `needs` that are not older are ignored.
    pub(crate) fn add(&mut self, meta: &BlockMeta) {
        let (id, submitted, channel) = (meta.id, meta.submitted, meta.channel);
        let mut needs = meta.needs.map(|need| need.filter(|need| *need < id));
        let needs_others = needs != [None; 2];
        let mut orphan = None;
        for need in &mut needs {
            let since = need.and_then(|need| self.broken_since(need, submitted));
            if since.is_some_and(|since| is_over(since, submitted)) {
                *need = None;
            } else {
                orphan = orphan.max(since);
            }
        }
        self.edges.extend(needs.iter().flatten().map(|need| (*need, id)));
        if needs_others && orphan.is_none() {
            self.sound.insert(channel, id);
        }
        self.open.insert(id, Open { needs, submitted, channel, orphan });
    }

    /// Returns the hand-over time of the first missing block that made this one missing or an
    /// orphan, if it is; `now` if that is undetermined.
    fn broken_since(&mut self, id: BlockId, now: Time) -> Option<Time> {
        let orphan = self.open.get(&id).and_then(|open| open.orphan);
        orphan.or_else(|| self.missing.get_mut(&id).map(|since| *since.get_or_insert(now)))
    }

    /// Records that a block ended and the receiver has it.
    pub(crate) fn deliver(&mut self, id: BlockId) {
        if let Some(since) = self.open.get(&id).and_then(|open| open.orphan) {
            self.forget(id);
            self.remember(id, Some(since));
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

    /// Records that a block ended and the receiver lacks it.
    pub(crate) fn miss(&mut self, id: BlockId) {
        if self.missing.contains_key(&id) {
            return;
        }
        let mut since = self.open.get(&id).map(|open| open.orphan.unwrap_or(open.submitted));
        let mut missing = vec![id];
        self.forget(id);
        while let Some(needed) = missing.pop() {
            for id in self.dependants(needed).collect::<Vec<_>>() {
                let Some(open) = self.open.get_mut(&id).filter(|open| open.orphan.is_none()) else {
                    continue;
                };
                let since = *since.get_or_insert(open.submitted);
                if is_over(since, open.submitted) {
                    self.part(id, needed);
                    continue;
                }
                open.orphan = Some(since);
                missing.push(id);
                if self.held.contains(&id) {
                    self.forget(id);
                    self.remember(id, Some(since));
                }
            }
        }
        self.remember(id, since);
    }

    /// Removes a dependency that no longer makes a block useless.
    fn part(&mut self, id: BlockId, needed: BlockId) {
        self.edges.remove(&(needed, id));
        if let Some(open) = self.open.get_mut(&id) {
            open.needs = open.needs.map(|need| need.filter(|need| *need != needed));
        }
        if self.held.contains(&id) && self.is_certain(id) {
            self.release(id);
        }
    }

    /// Returns `true` if no block that this one needs is open.
    fn is_certain(&self, id: BlockId) -> bool {
        let needs = self.open.get(&id).map(|open| open.needs);
        needs.is_some_and(|needs| !needs.iter().flatten().any(|need| self.open.contains_key(need)))
    }

    /// Forgets a delivered block, and the blocks held for it alone, once their usefulness is
    /// certain.
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

    fn remember(&mut self, id: BlockId, since: Option<Time>) {
        self.missing.insert(id, since);
        let is_far = |oldest: BlockId| oldest.0.saturating_add(REACH) < id.0;
        while self.missing.len() > MISSING
            || self.missing.first_key_value().is_some_and(|(id, _)| is_far(*id))
        {
            self.missing.pop_first();
        }
    }
}

/// Returns `true` if a block handed over at `submitted` no longer needs blocks that have been
/// missing since `since`.
fn is_over(since: Time, submitted: Time) -> bool {
    submitted >= since + REFRESH
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};
    use squall_units::short::at_ms;

    use super::*;

    fn add(dependencies: &mut Dependencies, id: u64, needs: [Option<u64>; 2]) {
        let needs = needs.map(|need| need.map(BlockId));
        dependencies.add(&BlockMeta { needs, ..BlockMeta::new(BlockId(id), 1) });
    }

    /// Blocks each of which needs its predecessor.
    fn chain(length: u64) -> Dependencies {
        let mut dependencies = Dependencies::default();
        (0..length).for_each(|id| add(&mut dependencies, id, [id.checked_sub(1), None]));
        dependencies
    }

    /// Adds a picture at a time in ms, on channel 0, that needs its predecessor.
    fn picture(dependencies: &mut Dependencies, id: u64, ms: u64) {
        let needs = [id.checked_sub(1).map(BlockId), None];
        let submitted = at_ms(ms);
        dependencies.add(&BlockMeta { needs, submitted, ..BlockMeta::new(BlockId(id), 1) });
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
    fn orphans_make_no_orphans_without_end_delivered_or_not() {
        for delivered in [true, false] {
            let mut dependencies = Dependencies::default();
            for id in 0..100 {
                picture(&mut dependencies, id, 100 * id);
                assert_eq!(dependencies.is_orphan(BlockId(id)), (11..30).contains(&id), "{id} {delivered}");
                if id != 10 && (delivered || !dependencies.is_orphan(BlockId(id))) {
                    dependencies.deliver(BlockId(id));
                } else {
                    dependencies.miss(BlockId(id));
                    dependencies.miss(BlockId(id));
                }
            }
            assert!(dependencies.open.is_empty() && dependencies.edges.is_empty());
        }
    }

    #[test]
    fn pictures_that_each_need_the_only_key_picture_are_of_use_again() {
        let mut dependencies = Dependencies::default();
        // It ended before it was added, so the time is that of the first picture that needs it.
        dependencies.miss(BlockId(0));
        for id in 1..50 {
            let (needs, submitted) = ([Some(BlockId(0)), None], at_ms(100 * id));
            dependencies.add(&BlockMeta { needs, submitted, ..BlockMeta::new(BlockId(id), 1) });
            assert_eq!(dependencies.is_orphan(BlockId(id)), id <= 20, "{id}");
        }
    }

    #[test]
    fn what_waits_longer_than_a_refresh_is_of_use_without_what_it_needed() {
        let mut dependencies = Dependencies::default();
        [(0, 0), (1, 1_000), (2, 2_000), (3, 3_000)]
            .into_iter()
            .for_each(|(id, ms)| picture(&mut dependencies, id, ms));
        dependencies.deliver(BlockId(2));
        assert_eq!(dependencies.held.len(), 1);
        dependencies.miss(BlockId(0));
        assert_eq!(
            (orphans(&dependencies), dependencies.held.len()),
            (vec![1], 0),
            "2 does not need 1 any more"
        );
        dependencies.miss(BlockId(1));
        assert_eq!(orphans(&dependencies), []);
        dependencies.deliver(BlockId(3));
        assert!(dependencies.open.is_empty() && dependencies.edges.is_empty());
    }

    #[test]
    fn orphans_are_superseded_once_another_chain_of_their_channel_holds() {
        let mut dependencies = chain(3);
        dependencies.miss(BlockId(1));
        let add = |dependencies: &mut Dependencies, id, needs: Option<u64>, channel| {
            let needs = [needs.map(BlockId), None];
            dependencies.add(&BlockMeta { needs, channel, ..BlockMeta::new(BlockId(id), 1) });
        };
        add(&mut dependencies, 3, Some(2), 0);
        // Sound without a chain, another channel, a key picture.
        add(&mut dependencies, 4, None, 0);
        add(&mut dependencies, 5, Some(4), 1);
        assert_eq!([2, 3].map(|id| dependencies.is_superseded(BlockId(id))), [false, false]);
        add(&mut dependencies, 6, Some(4), 0);
        assert_eq!([2, 3].map(|id| dependencies.is_superseded(BlockId(id))), [true, true]);
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
            // Dependencies of each block, and whether it was delivered; `None` while it is
            // unfinished.
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

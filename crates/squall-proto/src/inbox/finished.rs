//! Ids of blocks that have ended.

use std::collections::VecDeque;

/// Ids of ended blocks: all below a floor, and a bitmap above it.
#[derive(Debug, Default)]
pub(super) struct Finished {
    /// Start of the bitmap, in words of 64 ids.
    base: u64,
    words: VecDeque<u64>,
}

impl Finished {
    /// Sets all ids below this one as ended, and no other.
    #[cfg(test)]
    pub(super) fn start_at(&mut self, id: u64) {
        *self = Self { base: id / 64, words: [(1 << (id % 64)) - 1].into() };
    }

    /// Returns the lowest id that has not ended.
    pub(super) fn floor(&self) -> u64 {
        self.base * 64 + u64::from(self.words.front().map_or(0, |word| word.trailing_ones()))
    }

    pub(super) fn contains(&self, id: u64) -> bool {
        match (id / 64).checked_sub(self.base) {
            None => true,
            Some(word) => self.words.get(word as usize).is_some_and(|w| w >> (id % 64) & 1 == 1),
        }
    }

    /// Records an ended block. Memory grows by a bit for every id from the floor to `id`: the
    /// caller limits the distance.
    pub(super) fn insert(&mut self, id: u64) {
        let Some(word) = (id / 64).checked_sub(self.base) else { return };
        let word = word as usize;
        if word >= self.words.len() {
            self.words.resize(word + 1, 0);
        }
        self.words[word] |= 1 << (id % 64);
        while self.words.front() == Some(&u64::MAX) {
            self.words.pop_front();
            self.base += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_floor_is_exact_within_a_word() {
        let mut finished = Finished::default();
        for id in 0..200 {
            assert_eq!(finished.floor(), id);
            assert!(!finished.contains(id));
            finished.insert(id);
            assert!(finished.contains(id));
        }
        assert!(finished.words.len() <= 1, "what is below the floor takes no memory");
    }

    proptest! {
        #[test]
        fn it_is_a_set(ids in prop::collection::vec(0..300u64, 0..400)) {
            let mut finished = Finished::default();
            let mut model = BTreeSet::new();
            for id in ids {
                finished.insert(id);
                model.insert(id);
                let floor = (0..).find(|id| !model.contains(id)).unwrap_or(0);
                prop_assert_eq!(finished.floor(), floor);
            }
            for id in 0..320 {
                prop_assert_eq!(finished.contains(id), model.contains(&id));
            }
        }
    }
}

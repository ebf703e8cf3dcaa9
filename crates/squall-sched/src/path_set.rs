//! Sets of paths.

use crate::{MAX_PATHS, PathId};

/// A set of paths of a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct PathSet(u8);

impl PathSet {
    /// The empty set.
    pub const EMPTY: Self = Self(0);

    /// Returns `true` if the set is empty.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns the number of paths in the set.
    pub const fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    /// Returns `true` if the path is in the set.
    pub const fn contains(self, path: PathId) -> bool {
        self.0 & 1 << path.0 != 0
    }

    /// Adds a path. Returns `true` if it was not in the set.
    pub const fn insert(&mut self, path: PathId) -> bool {
        let is_new = !self.contains(path);
        self.0 |= 1 << path.0;
        is_new
    }

    /// Removes a path. Returns `true` if it was in the set.
    pub const fn remove(&mut self, path: PathId) -> bool {
        let was_in = self.contains(path);
        self.0 &= !(1 << path.0);
        was_in
    }

    /// Returns the paths in either set.
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns the paths in both sets.
    #[must_use]
    pub const fn intersection(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Returns the paths of this set that are not in the other.
    #[must_use]
    pub const fn difference(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Returns `true` if no path is in both sets.
    pub const fn is_disjoint(self, other: Self) -> bool {
        self.intersection(other).is_empty()
    }

    /// Iterates over the paths, ascending.
    pub fn iter(self) -> impl Iterator<Item = PathId> {
        let mut left = self.0;
        std::iter::from_fn(move || {
            let path = PathId(left.trailing_zeros() as u8);
            left &= left.wrapping_sub(1);
            (usize::from(path.0) < MAX_PATHS).then_some(path)
        })
    }
}

impl From<PathId> for PathSet {
    fn from(path: PathId) -> Self {
        Self(1 << path.0)
    }
}

impl FromIterator<PathId> for PathSet {
    fn from_iter<I: IntoIterator<Item = PathId>>(paths: I) -> Self {
        paths.into_iter().fold(Self::EMPTY, |set, path| set.union(path.into()))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::{collection::btree_set, prelude::*};

    use super::*;

    fn any_paths() -> impl Strategy<Value = BTreeSet<PathId>> {
        btree_set((0..MAX_PATHS as u8).prop_map(PathId), 0..=MAX_PATHS)
    }

    fn set(paths: &BTreeSet<PathId>) -> PathSet {
        paths.iter().copied().collect()
    }

    proptest! {
        #[test]
        fn agrees_with_a_set_of_the_library(mut a in any_paths(), b in any_paths(), path in (0..8u8).prop_map(PathId)) {
            prop_assert!(set(&a).iter().eq(a.iter().copied()));
            prop_assert_eq!((set(&a).len(), set(&a).is_empty()), (a.len(), a.is_empty()));
            prop_assert_eq!(set(&a).union(set(&b)), set(&(&a | &b)));
            prop_assert_eq!(set(&a).intersection(set(&b)), set(&(&a & &b)));
            prop_assert_eq!(set(&a).difference(set(&b)), set(&(&a - &b)));
            prop_assert_eq!(set(&a).is_disjoint(set(&b)), a.is_disjoint(&b));
            let mut changed = set(&a);
            prop_assert_eq!(changed.contains(path), a.contains(&path));
            prop_assert_eq!((changed.insert(path), changed), (a.insert(path), set(&a)));
            prop_assert_eq!((changed.remove(path), changed), (a.remove(&path), set(&a)));
        }
    }
}

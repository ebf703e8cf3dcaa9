//! Combination of the rates of paths into the rate of a session.

use crate::{PathId, PathSet};

/// The paths that carry the bytes of blocks, and whether they do so in parallel: the rule by which
/// a session's forecast follows from those of its paths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sharing {
    /// Every byte takes one of the paths: the session carries the sum of their rates.
    #[default]
    Sum,
    /// Like [`Self::Sum`] over the unmetered paths. Metered paths count only while no unmetered
    /// path is in use.
    Free,
    /// Every byte takes every path: the session carries the rate of the best path.
    Best,
    /// All bytes take this path.
    Only(PathId),
    /// All bytes take this path, or the first unmetered one if none is named. While it is out of
    /// use, the first of the others replaces it, an unmetered one before a metered one.
    Primary(Option<PathId>),
}

impl Sharing {
    /// Returns the paths that carry data of their own, among those in use. `in_use` lists ids with
    /// a flag for metered paths, in ascending order.
    pub fn carriers(self, in_use: impl IntoIterator<Item = (PathId, bool)>) -> PathSet {
        let named = match self {
            Self::Only(path) => Some(path),
            Self::Primary(path) => path,
            Self::Sum | Self::Free | Self::Best => None,
        };
        let (mut all, mut free) = (PathSet::EMPTY, PathSet::EMPTY);
        for (id, is_metered) in in_use {
            all.insert(id);
            if !is_metered {
                free.insert(id);
            }
        }
        let or = |set: PathSet, other| if set.is_empty() { other } else { set };
        let first = |set: PathSet| set.iter().take(1).collect();
        let named = named.filter(|path| all.contains(*path)).into_iter().collect();
        match self {
            Self::Sum | Self::Best => all,
            Self::Free => or(free, all),
            Self::Only(_) => named,
            Self::Primary(_) => or(or(named, first(free)), first(all)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Registry;

    /// Path 1 is free, the others cost money.
    const PATHS: [(PathId, bool); 3] = [(PathId(0), true), (PathId(1), false), (PathId(2), true)];

    fn carriers(sharing: Sharing, in_use: &[(PathId, bool)]) -> Vec<u8> {
        sharing.carriers(in_use.iter().copied()).iter().map(|path| path.0).collect()
    }

    #[test]
    fn the_paths_that_a_scheduler_uses_carry() {
        assert_eq!(carriers(Sharing::Sum, &PATHS), [0, 1, 2]);
        assert_eq!(carriers(Sharing::Best, &PATHS), [0, 1, 2]);
        assert_eq!(carriers(Sharing::Free, &PATHS), [1]);
        assert_eq!(carriers(Sharing::Free, &[PATHS[1], (PathId(2), false)]), [1, 2]);
        assert_eq!(carriers(Sharing::Free, &[PATHS[0], PATHS[2]]), [0, 2]);
        assert_eq!(carriers(Sharing::Only(PathId(2)), &PATHS), [2]);
        assert!(carriers(Sharing::Only(PathId(2)), &PATHS[..2]).is_empty());
        assert_eq!(carriers(Sharing::Primary(None), &PATHS), [1]);
        assert_eq!(carriers(Sharing::Primary(Some(PathId(0))), &PATHS), [0]);
        assert_eq!(carriers(Sharing::Primary(Some(PathId(2))), &PATHS[..2]), [1]);
        assert_eq!(carriers(Sharing::Primary(None), &PATHS[..1]), [0]);
        assert!(carriers(Sharing::Primary(None), &[]).is_empty());
    }

    #[test]
    fn schedulers_declare_how_their_paths_add_up() {
        let sharing =
            |scheduler: &str| Registry::standard().build(scheduler).expect(scheduler).profile().sharing;
        assert_eq!(sharing("sp"), Sharing::Only(PathId(0)));
        assert_eq!(sharing("sp(cap=2MB, path=1)"), Sharing::Only(PathId(1)));
        assert_eq!(sharing("redundant"), Sharing::Best);
        assert_eq!(sharing("squall(price=20)"), Sharing::Free);
        for other in ["minrtt", "rr"] {
            assert_eq!(sharing(other), Sharing::Sum);
        }
    }
}

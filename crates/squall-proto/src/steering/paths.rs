//! The paths of a connection: eight slots, each with one path, noq's half and the session's in one
//! entry.

use std::{
    ops::{Index, IndexMut},
    sync::Arc,
};

use squall_sched::{MAX_PATHS, PathId, PathSet};

use super::Ledger;
use crate::{Interface, NetPath};

/// State of a path in noq and the steering.
#[derive(Debug)]
pub(crate) struct QuicPath {
    pub(super) noq_id: noq_proto::PathId,
    /// Number on the wire, the same on both sides. Numbers only grow; a path that is opened again
    /// has another one.
    pub(crate) number: u32,
    pub(crate) net: NetPath,
    /// Interface over which it was opened.
    pub(crate) home: Interface,
    pub(crate) ledger: Arc<Ledger>,
}

/// An entry of the table: the session's half of a path, which holds noq's.
pub(crate) trait Entry {
    fn quic(&self) -> &QuicPath;
    fn quic_mut(&mut self) -> &mut QuicPath;
}

/// The paths of a session by [`PathId`].
#[derive(Debug)]
pub(crate) struct Paths<S> {
    /// Boxed, because most sessions use one or two of the eight.
    slots: [Option<Box<S>>; MAX_PATHS],
    /// Ids that were in use at any time.
    issued: PathSet,
}

impl<S> Default for Paths<S> {
    fn default() -> Self {
        Self { slots: std::array::from_fn(|_| None), issued: PathSet::EMPTY }
    }
}

impl<S> Paths<S> {
    pub(crate) fn get(&self, id: PathId) -> Option<&S> {
        self.slots.get(usize::from(id.0))?.as_deref()
    }

    pub(crate) fn get_mut(&mut self, id: PathId) -> Option<&mut S> {
        self.slots.get_mut(usize::from(id.0))?.as_deref_mut()
    }

    /// Iterates over the paths by ascending id.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = &S> + Clone {
        self.slots.iter().filter_map(Option::as_deref)
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut S> {
        self.slots.iter_mut().filter_map(Option::as_deref_mut)
    }

    /// Iterates over the ids in use, ascending. The table may change meanwhile.
    pub(crate) fn ids(&self) -> impl DoubleEndedIterator<Item = PathId> + use<S> {
        let used = std::array::from_fn::<_, MAX_PATHS, _>(|id| self.slots[id].is_some());
        (0..MAX_PATHS).filter(move |id| used[*id]).map(|id| PathId(id as u8))
    }

    pub(super) fn insert(&mut self, id: PathId, path: S) {
        self.issued.insert(id);
        self.slots[usize::from(id.0)] = Some(Box::new(path));
    }

    pub(crate) fn remove(&mut self, id: PathId) -> Option<S> {
        self.slots.get_mut(usize::from(id.0))?.take().map(|path| *path)
    }

    /// Returns the id for a path of that number. A freed id goes to a path that is opened again;
    /// otherwise it is the number itself, so that both ends use the same id for a path, in whatever
    /// order packets arrive.
    pub(super) fn free(&self, number: u32) -> Option<PathId> {
        let free = || (0..MAX_PATHS as u8).map(PathId).filter(|id| self.get(*id).is_none());
        let again = free().find(|id| self.issued.contains(*id));
        again.or_else(|| free().find(|id| u32::from(id.0) == number)).or_else(|| free().next())
    }
}

impl<S: Entry> Paths<S> {
    /// Returns the path of that number on the wire.
    pub(crate) fn find(&self, number: u32) -> Option<PathId> {
        self.ids().find(|id| self[*id].quic().number == number)
    }

    /// Iterates over the ids in use by ascending number on the wire: the order in which the paths
    /// were opened.
    pub(crate) fn by_number(&self) -> impl DoubleEndedIterator<Item = PathId> + use<S> {
        // Numbers with their ids behind, only those in use: this runs several times for each
        // packet.
        let (mut keys, mut used) = ([0; MAX_PATHS], 0);
        for (id, path) in self.slots.iter().enumerate() {
            if let Some(path) = path {
                keys[used] = u64::from(path.quic().number) << 8 | id as u64;
                used += 1;
            }
        }
        keys[..used].sort_unstable();
        keys.into_iter().take(used).map(|key| PathId(key as u8))
    }

    /// Returns the paths over a local interface, by ascending number.
    pub(crate) fn at_local(&self, local: Interface) -> Vec<PathId> {
        self.by_number().filter(|id| self[*id].quic().net.local == local).collect()
    }
}

/// Returns the path of an id that is in use.
impl<S> Index<PathId> for Paths<S> {
    type Output = S;

    fn index(&self, id: PathId) -> &S {
        self.get(id).expect("an id in use")
    }
}

impl<S> IndexMut<PathId> for Paths<S> {
    fn index_mut(&mut self, id: PathId) -> &mut S {
        self.get_mut(id).expect("an id in use")
    }
}

#[cfg(test)]
impl QuicPath {
    /// Creates a path that noq does not have.
    pub(crate) fn detached(number: u32) -> Self {
        let net = NetPath { local: Interface(1), remote: ([192, 0, 2, 1], 4433).into() };
        Self { noq_id: number.into(), number, net, home: net.local, ledger: Arc::default() }
    }
}

#[cfg(test)]
impl Entry for QuicPath {
    fn quic(&self) -> &QuicPath {
        self
    }

    fn quic_mut(&mut self) -> &mut QuicPath {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn enter(paths: &mut Paths<QuicPath>, number: u32) -> Option<u8> {
        let id = paths.free(number)?;
        paths.insert(id, QuicPath::detached(number));
        Some(id.0)
    }

    #[test]
    fn an_id_is_the_number_until_one_comes_free() {
        let mut paths = Paths::default();
        assert_eq!([2, 0, 1].map(|number| enter(&mut paths, number)), [Some(2), Some(0), Some(1)]);
        paths.remove(PathId(1));
        assert_eq!(enter(&mut paths, 3), Some(1), "the slot of the path that is opened again");
        assert_eq!(enter(&mut paths, 9), Some(3), "its own number is no id");
        assert_eq!(paths.find(3), Some(PathId(1)));
        assert_eq!(paths.by_number().map(|id| id.0).collect::<Vec<_>>(), [0, 2, 1, 3]);
        assert_eq!(paths.ids().map(|id| id.0).collect::<Vec<_>>(), [0, 1, 2, 3]);
        (10..14).for_each(|number| assert!(enter(&mut paths, number).is_some()));
        assert_eq!(enter(&mut paths, 20), None, "there are eight slots");
    }
}

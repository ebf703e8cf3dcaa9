//! Numbers that stand for things.

use std::{
    collections::HashMap,
    sync::{Arc, PoisonError, RwLock},
};

/// Things by number. A number is given once: after [`Self::remove`] it stands for nothing for ever.
pub(crate) struct Table<T> {
    inner: RwLock<Option<Inner<T>>>,
}

struct Inner<T> {
    last: i64,
    all: HashMap<i64, Arc<T>>,
}

impl<T> Table<T> {
    pub(crate) const fn new() -> Self {
        Self { inner: RwLock::new(None) }
    }

    /// Enters a thing; its number is 1 or more.
    pub(crate) fn insert(&self, thing: T) -> i64 {
        let mut inner = self.inner.write().unwrap_or_else(PoisonError::into_inner);
        let inner = inner.get_or_insert_with(|| Inner { last: 0, all: HashMap::new() });
        inner.last += 1;
        inner.all.insert(inner.last, Arc::new(thing));
        inner.last
    }

    /// What a number stands for, if it still does.
    pub(crate) fn get(&self, number: i64) -> Option<Arc<T>> {
        let inner = self.inner.read().unwrap_or_else(PoisonError::into_inner);
        inner.as_ref()?.all.get(&number).cloned()
    }

    /// Takes a thing out; whoever works with it at the moment keeps it until it is done.
    pub(crate) fn remove(&self, number: i64) -> Option<Arc<T>> {
        let mut inner = self.inner.write().unwrap_or_else(PoisonError::into_inner);
        inner.as_mut()?.all.remove(&number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_stands_for_one_thing_only_and_for_nothing_afterwards() {
        let table = Table::new();
        assert!(table.get(1).is_none());
        let first = table.insert("first");
        let held = table.get(first).expect("is there");
        assert_eq!(table.remove(first).as_deref(), Some(&"first"));
        assert!(table.get(first).is_none() && table.remove(first).is_none());
        let second = table.insert("second");
        assert_ne!(second, first);
        assert_eq!((*held, table.get(first)), ("first", None));
    }
}

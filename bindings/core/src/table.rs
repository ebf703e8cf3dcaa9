//! Numbers that refer to objects.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, PoisonError, RwLock,
        atomic::{AtomicI64, Ordering::Relaxed},
    },
};

/// Objects of one kind by number. Numbers start at 1 and are used once, across all tables: one that refers to an object of
/// one kind refers to none of another.
#[derive(Debug, Default)]
pub struct Table<T> {
    all: RwLock<BTreeMap<i64, Arc<T>>>,
}

impl<T> Table<T> {
    /// An empty table.
    pub const fn new() -> Self {
        Self { all: RwLock::new(BTreeMap::new()) }
    }

    /// Enters an object; returns its number.
    pub fn insert(&self, object: T) -> i64 {
        static LAST: AtomicI64 = AtomicI64::new(0);
        let number = LAST.fetch_add(1, Relaxed) + 1;
        self.all.write().unwrap_or_else(PoisonError::into_inner).insert(number, Arc::new(object));
        number
    }

    /// The object of a number, unless it was removed.
    pub fn get(&self, number: i64) -> Option<Arc<T>> {
        self.all.read().unwrap_or_else(PoisonError::into_inner).get(&number).cloned()
    }

    /// Removes an object. A call that uses it at the moment keeps it until the call is done.
    pub fn remove(&self, number: i64) -> Option<Arc<T>> {
        self.all.write().unwrap_or_else(PoisonError::into_inner).remove(&number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_refers_to_one_object_of_one_table_until_it_is_removed() {
        let (table, others) = (Table::new(), Table::new());
        let first = table.insert("first");
        let other = others.insert("other");
        assert!(first > 0 && others.get(first).is_none() && table.get(other).is_none());
        let held = table.get(first).expect("is there");
        assert_eq!(table.remove(first).as_deref(), Some(&"first"));
        assert!(table.get(first).is_none() && table.remove(first).is_none());
        assert_eq!(*held, "first");
        assert!(![first, other].contains(&table.insert("second")));
    }
}

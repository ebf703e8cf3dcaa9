//! Objects by number.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, PoisonError, RwLock,
        atomic::{AtomicI64, Ordering::Relaxed},
    },
};

use crate::PerProcess;

/// The last number assigned, by this process or one that it was forked from.
static LAST: AtomicI64 = AtomicI64::new(0);

/// The first number of each process.
static FIRST: PerProcess<First> = PerProcess::new();

struct First(i64);

impl Default for First {
    fn default() -> Self {
        Self(LAST.load(Relaxed) + 1)
    }
}

/// `true` if the number was assigned by a process that this one was forked from.
pub fn is_of_parent(number: i64) -> bool {
    (1..FIRST.get().0).contains(&number)
}

/// Objects of one kind by number. Numbers start at 1 and are used once, across all tables: a number
/// of an object of one kind never refers to one of another. In a forked process all tables are
/// empty.
#[derive(Debug, Default)]
pub struct Table<T>(PerProcess<Objects<T>>);

type Objects<T> = RwLock<BTreeMap<i64, Arc<T>>>;

impl<T: Send + Sync> Table<T> {
    /// Creates an empty table.
    pub const fn new() -> Self {
        Self(PerProcess::new())
    }

    /// Adds an object and returns its number.
    pub fn insert(&'static self, object: T) -> i64 {
        FIRST.get();
        let number = LAST.fetch_add(1, Relaxed) + 1;
        self.0.get().write().unwrap_or_else(PoisonError::into_inner).insert(number, Arc::new(object));
        number
    }

    /// Returns the object with this number, unless it was removed.
    pub fn get(&'static self, number: i64) -> Option<Arc<T>> {
        self.0.get().read().unwrap_or_else(PoisonError::into_inner).get(&number).cloned()
    }

    /// Removes an object. A concurrent call that uses it keeps it until that call returns.
    pub fn remove(&'static self, number: i64) -> Option<Arc<T>> {
        self.0.get().write().unwrap_or_else(PoisonError::into_inner).remove(&number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_refers_to_one_object_of_one_table_until_it_is_removed() {
        static TABLE: Table<&str> = Table::new();
        static OTHERS: Table<&str> = Table::new();
        let first = TABLE.insert("first");
        let other = OTHERS.insert("other");
        assert!(first > 0 && OTHERS.get(first).is_none() && TABLE.get(other).is_none());
        let held = TABLE.get(first).expect("is there");
        assert_eq!(TABLE.remove(first).as_deref(), Some(&"first"));
        assert!(TABLE.get(first).is_none() && TABLE.remove(first).is_none());
        assert_eq!(*held, "first");
        assert!(![first, other].contains(&TABLE.insert("second")));
        assert!(![first, other].into_iter().any(is_of_parent));
    }
}

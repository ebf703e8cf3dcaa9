//! Numbers that refer to objects.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, PoisonError, RwLock,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use crate::{error::Failure, types::Code};

/// Objects of one kind by number. Numbers start at 1 and are used once, across all kinds: one that refers to an endpoint
/// is an error as a session.
pub(crate) struct Table<T> {
    kind: &'static str,
    all: RwLock<BTreeMap<u64, Arc<T>>>,
}

impl<T> Table<T> {
    pub(crate) const fn new(kind: &'static str) -> Self {
        Self { kind, all: RwLock::new(BTreeMap::new()) }
    }

    /// Enters an object; returns its number.
    pub(crate) fn insert(&self, object: T) -> u64 {
        static LAST: AtomicU64 = AtomicU64::new(0);
        let number = LAST.fetch_add(1, Relaxed) + 1;
        self.all.write().unwrap_or_else(PoisonError::into_inner).insert(number, Arc::new(object));
        number
    }

    /// The object of a number.
    pub(crate) fn get(&self, number: u64) -> Result<Arc<T>, Failure> {
        let all = self.all.read().unwrap_or_else(PoisonError::into_inner);
        all.get(&number).cloned().ok_or_else(|| self.unknown(number))
    }

    /// Removes an object. A call that uses it at the moment keeps it until the call is done.
    pub(crate) fn remove(&self, number: u64) -> Result<Arc<T>, Failure> {
        let mut all = self.all.write().unwrap_or_else(PoisonError::into_inner);
        all.remove(&number).ok_or_else(|| self.unknown(number))
    }

    fn unknown(&self, number: u64) -> Failure {
        let line = format!("{number} is no {}: it was freed, or never was one", self.kind);
        Failure::new(Code::ErrorHandle, line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_refers_to_one_object_of_one_kind_until_it_is_removed() {
        let (table, others) = (Table::new("cat"), Table::new("dog"));
        let first = table.insert("first");
        let other = others.insert("other");
        assert!(first > 0 && others.get(first).is_err() && table.get(other).is_err());
        let held = table.get(first).expect("is there");
        assert_eq!(table.remove(first).as_deref(), Ok(&"first"));
        let late = table.get(first).expect_err("is gone");
        assert_eq!(late.line, format!("{first} is no cat: it was freed, or never was one"));
        assert_eq!((table.remove(first), *held), (Err(late), "first"));
        assert!(![first, other].contains(&table.insert("second")));
    }
}

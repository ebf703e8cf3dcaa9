//! Cache of encodes for later runs.

use std::sync::{Arc, Mutex};

/// Capacity of the cache: enough for the longest study, or for a film at all its bitrates, with a
/// margin.
const MOST: usize = 8;

/// Least-recently-used cache. A caller that requests a value under construction waits for it.
#[derive(Debug)]
pub(super) struct Cache<K, V> {
    /// Entries in the order of their last use, the latest last.
    rows: Mutex<Vec<(K, Place<V>)>>,
}

type Place<V> = Arc<Mutex<Option<Arc<V>>>>;

impl<K: Clone + PartialEq, V> Cache<K, V> {
    pub(super) const fn new() -> Self {
        Self { rows: Mutex::new(Vec::new()) }
    }

    /// Returns the value of this key, which is created if absent.
    pub(super) fn get<E>(&self, key: &K, make: impl FnOnce() -> Result<V, E>) -> Result<Arc<V>, E> {
        let place = self.place(key);
        let mut place = place.lock().expect("no holder panics");
        if let Some(made) = &*place {
            return Ok(made.clone());
        }
        Ok(place.insert(Arc::new(make()?)).clone())
    }

    fn place(&self, key: &K) -> Place<V> {
        let mut rows = self.rows.lock().expect("no holder panics");
        let known = rows.iter().position(|(known, _)| known == key).map(|row| rows.remove(row).1);
        let place = known.unwrap_or_default();
        if rows.len() == MOST {
            rows.remove(0);
        }
        rows.push((key.clone(), place.clone()));
        place
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn the_last_few_are_made_once() {
        let cache = Cache::new();
        let made = Cell::new(0);
        let get = |key: u32| {
            let make = || {
                made.set(made.get() + 1);
                if key == 9 { Err("nine") } else { Ok(key * 2) }
            };
            cache.get(&key, make).map(|value| *value)
        };
        for key in [1, 2, 3, 4, 5, 6, 7, 8, 1, 2] {
            assert_eq!(get(key), Ok(key * 2));
        }
        assert_eq!(made.get(), 8);
        // The next value replaces the least recently used one.
        assert_eq!((get(10), get(1), made.get()), (Ok(20), Ok(2), 9));
        assert_eq!((get(3), made.get()), (Ok(6), 10));
        assert_eq!((get(9), get(9), made.get()), (Err("nine"), Err("nine"), 12));
    }
}

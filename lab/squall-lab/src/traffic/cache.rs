//! Encodes that are kept for the next run that needs them.

use std::sync::{Arc, Mutex};

/// How many are kept: those of the longest study, or of a film at all its bitrates, with some to spare.
const MOST: usize = 8;

/// The values that were used last, by key. A caller that asks for one that is being made waits for it.
#[derive(Debug)]
pub(super) struct Cache<K, V> {
    /// The one that was used last is the last.
    rows: Mutex<Vec<(K, Place<V>)>>,
}

type Place<V> = Arc<Mutex<Option<Arc<V>>>>;

impl<K: Clone + PartialEq, V> Cache<K, V> {
    pub(super) const fn new() -> Self {
        Self { rows: Mutex::new(Vec::new()) }
    }

    /// The value of this key, made now if there is none.
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
        // The next takes the place of the one that was used longest ago.
        assert_eq!((get(10), get(1), made.get()), (Ok(20), Ok(2), 9));
        assert_eq!((get(3), made.get()), (Ok(6), 10));
        assert_eq!((get(9), get(9), made.get()), (Err("nine"), Err("nine"), 12));
    }
}

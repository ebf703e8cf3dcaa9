//! The ring under every interleaving and every order of memory that the language allows, in a model
//! (`loom`).
//!
//! The ring is shorter than the real one, so that the writer wraps around. Each word of publication
//! n is n: a copy of words that differ is torn.

use loom::{
    sync::{
        Arc,
        atomic::{AtomicU64, fence},
    },
    thread,
};

use super::{Ordering, Ring, WORDS, Word};

impl Word for AtomicU64 {
    fn new(value: u64) -> Self {
        Self::new(value)
    }

    fn load(&self, order: Ordering) -> u64 {
        self.load(order)
    }

    fn store(&self, value: u64, order: Ordering) {
        self.store(value, order);
    }

    fn fence(order: Ordering) {
        fence(order);
    }
}

/// Publishes `publications` times while a reader reads twice; after that the last one is read.
fn check<const N: usize>(publications: u64) {
    let ring = Arc::new(Ring::<AtomicU64, N>::new());
    let looking = ring.clone();
    let reader = thread::spawn(move || {
        let mut newest = 0;
        // A read that the writer overtook is repeated in the next round of this loop.
        for seen in (0..2).filter_map(|_| looking.look()) {
            let seen = seen.unwrap_or([0; WORDS]);
            assert!(seen.iter().all(|word| *word == seen[0]), "torn: {seen:?}");
            assert!((newest..=publications).contains(&seen[0]), "{} after {newest}", seen[0]);
            newest = seen[0];
        }
    });
    (1..=publications).for_each(|number| ring.publish([number; WORDS]));
    reader.join().expect("the reader saw nothing wrong");
    assert_eq!(ring.look(), Some(Some([publications; WORDS])));
}

#[test]
fn no_reader_sees_a_torn_reading_in_a_seqlock_of_one_place() {
    loom::model(|| check::<1>(2));
}

#[test]
fn no_reader_sees_a_torn_reading_when_the_writer_comes_round() {
    loom::model(|| check::<2>(3));
}

//! The latest reading of a radio, handed from the thread that reads the radio to those that send.
//!
//! Those that send never wait for a radio: a look that meets the publisher within its store finds nothing new, and the next
//! look finds the reading.

use std::sync::{Arc, PoisonError, RwLock, TryLockError};

use crate::Reading;

/// Makes a board: the side that publishes readings, and the side that reads them. The latter can be cloned.
pub fn board() -> (Publisher, Subscriber) {
    let latest = Arc::default();
    (Publisher(Arc::clone(&latest)), Subscriber(latest))
}

/// The radio's side of a [`board`].
#[derive(Debug)]
pub struct Publisher(Arc<RwLock<Option<Reading>>>);

impl Publisher {
    /// Makes a reading the latest. A level that is no number is left out.
    pub fn publish(&mut self, reading: &Reading) {
        let number = |level: Option<f64>| level.filter(|level| !level.is_nan());
        let reading = Reading {
            rsrp: number(reading.rsrp),
            rsrq: number(reading.rsrq),
            sinr: number(reading.sinr),
            rssi: number(reading.rssi),
            ..*reading
        };
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Some(reading);
    }
}

/// The reading side of a [`board`]. Clones see the same readings.
#[derive(Clone, Debug)]
pub struct Subscriber(Arc<RwLock<Option<Reading>>>);

impl Subscriber {
    /// The latest reading, as one whole; `None` before the first.
    ///
    /// Never waits, and never older than what an earlier call gave. It also gives `None`, "nothing new", during the
    /// moment in which the publisher stores a reading.
    pub fn latest(&self) -> Option<Reading> {
        match self.0.try_read() {
            Ok(latest) => *latest,
            Err(TryLockError::Poisoned(latest)) => *latest.into_inner(),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::Technology;

    fn level() -> impl Strategy<Value = Option<f64>> {
        prop::option::of((-32_767i32..=32_767).prop_map(|hundredths| f64::from(hundredths) / 100.0))
    }

    fn reading() -> impl Strategy<Value = Reading> {
        let technology = prop::sample::select(Technology::ALL.to_vec());
        (any::<u64>(), technology, any::<bool>(), [level(), level(), level(), level()]).prop_map(
            |(at, technology, disconnected, [rsrp, rsrq, sinr, rssi])| Reading {
                at,
                technology,
                disconnected,
                rsrp,
                rsrq,
                sinr,
                rssi,
            },
        )
    }

    proptest! {
        #[test]
        fn the_latest_is_what_was_published_last(readings in prop::collection::vec(reading(), 1..20)) {
            let (mut publisher, subscriber) = board();
            prop_assert_eq!(subscriber.latest(), None);
            let other = subscriber.clone();
            for reading in readings {
                publisher.publish(&reading);
                prop_assert_eq!(subscriber.latest(), Some(reading));
                prop_assert_eq!(other.latest(), Some(reading));
            }
        }
    }

    #[test]
    fn levels_that_are_no_number_are_left_out() {
        let (mut publisher, subscriber) = board();
        publisher.publish(&Reading { rsrp: Some(f64::NAN), rssi: Some(-70.004), ..Reading::default() });
        assert_eq!(subscriber.latest(), Some(Reading { rssi: Some(-70.004), ..Reading::default() }));
    }

    #[test]
    fn a_look_during_a_publication_does_not_wait() {
        let (publisher, subscriber) = board();
        let storing = publisher.0.write();
        assert_eq!(subscriber.latest(), None);
        drop(storing);
    }

    #[test]
    fn a_publisher_that_is_gone_leaves_its_last_reading() {
        let (mut publisher, subscriber) = board();
        publisher.publish(&Reading::wifi(5, -60.0));
        drop(publisher);
        assert_eq!(subscriber.latest(), Some(Reading::wifi(5, -60.0)));
    }

    #[test]
    fn readings_are_whole_while_threads_race() {
        const LAST: u64 = 200_000;
        let (mut publisher, subscriber) = board();
        // Every level follows from the time.
        let made = |at: u64| Reading::lte(at, -((at % 300) as f64), (at % 300) as f64);
        std::thread::scope(|threads| {
            for _ in 0..2 {
                let subscriber = subscriber.clone();
                threads.spawn(move || {
                    let mut newest = 0;
                    while newest < LAST {
                        let Some(seen) = subscriber.latest() else { continue };
                        assert_eq!(seen, made(seen.at));
                        assert!(seen.at >= newest, "{} after {newest}", seen.at);
                        newest = seen.at;
                    }
                });
            }
            (1..=LAST).for_each(|at| publisher.publish(&made(at)));
        });
    }
}

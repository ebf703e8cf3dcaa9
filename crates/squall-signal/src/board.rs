//! The latest reading of a radio, passed from the thread that reads the radio to those that send.
//!
//! Neither side ever waits for the other: a publication is six stores, a read a few loads. The
//! readings are stored in a ring, so if the writer is preempted in the middle of one, the previous
//! one stays readable; a counter on each side of the copy shows a reader that the writer has
//! overtaken it, as in a seqlock. `board/model.rs` checks this with every order of memory the
//! language allows.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{self, AtomicU64, Ordering},
    },
};

use crate::{Reading, Technology, Time};

/// Number of readings in the ring. An attempt to read fails if the writer begins this many within
/// its nanoseconds.
const PLACES: usize = 8;

/// Attempts to read, each repeated if the writer overtook it.
const LOOKS: usize = 16;

/// Words of a reading: its time, levels and kind.
const WORDS: usize = 3;

/// Creates a board: the side that publishes readings, and the side that reads them. The latter can
/// be cloned.
pub fn board() -> (Publisher, Subscriber) {
    let ring = Arc::new(Ring::new());
    (Publisher { ring: ring.clone() }, Subscriber { ring })
}

/// The radio's side of a [`board`].
pub struct Publisher {
    ring: Arc<Ring<AtomicU64, PLACES>>,
}

impl Publisher {
    /// Makes a reading the latest. Wait-free.
    ///
    /// Levels are kept to a hundredth of a dB within ±327.67; NaN is dropped.
    pub fn publish(&mut self, reading: &Reading) {
        self.ring.publish(pack(reading));
    }
}

impl fmt::Debug for Publisher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Publisher").finish_non_exhaustive()
    }
}

/// The reading side of a [`board`]. Clones receive the same readings.
#[derive(Clone)]
pub struct Subscriber {
    ring: Arc<Ring<AtomicU64, PLACES>>,
}

impl Subscriber {
    /// Returns the latest reading, consistent in itself; `None` before the first.
    ///
    /// Wait-free, and never older than the result of an earlier call of the same thread. It also
    /// returns `None`, "nothing new", if the publisher published more than a hundred readings
    /// during the call, which no radio does.
    pub fn latest(&self) -> Option<Reading> {
        self.ring.latest().map(unpack)
    }
}

impl fmt::Debug for Subscriber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscriber").field("latest", &self.latest()).finish()
    }
}

/// A word of memory that threads share: a real one, or that of a model.
trait Word {
    fn new(value: u64) -> Self;
    fn load(&self, order: Ordering) -> u64;
    fn store(&self, value: u64, order: Ordering);
    fn fence(order: Ordering);
}

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
        atomic::fence(order);
    }
}

/// A ring with one writer. Publications count from 1; number n is at index n modulo `N`.
struct Ring<W, const N: usize> {
    /// Number of the last publication that was begun.
    begun: W,
    /// Number of the last complete publication.
    done: W,
    places: [[W; WORDS]; N],
}

impl<W: Word, const N: usize> Ring<W, N> {
    fn new() -> Self {
        let place = |_| std::array::from_fn(|_| W::new(0));
        Self { begun: W::new(0), done: W::new(0), places: std::array::from_fn(place) }
    }

    /// Publishes a reading. Only one thread at a time may call it.
    fn publish(&self, words: [u64; WORDS]) {
        let number = self.done.load(Ordering::Relaxed) + 1;
        self.begun.store(number, Ordering::Relaxed);
        // A reader that sees a word of this publication sees after its own fence that it was begun.
        W::fence(Ordering::Release);
        for (word, value) in self.place(number).iter().zip(words) {
            word.store(value, Ordering::Relaxed);
        }
        self.done.store(number, Ordering::Release);
    }

    fn latest(&self) -> Option<[u64; WORDS]> {
        (0..LOOKS).find_map(|_| self.look()).flatten()
    }

    /// Makes one attempt: `Some(None)` before the first publication, or words; `None` if the writer
    /// has overtaken it.
    fn look(&self) -> Option<Option<[u64; WORDS]>> {
        let number = self.done.load(Ordering::Acquire);
        if number == 0 {
            return Some(None);
        }
        let place = self.place(number);
        let words = std::array::from_fn(|i| place[i].load(Ordering::Relaxed));
        W::fence(Ordering::Acquire);
        // The next publication at this index is one whole round later.
        let intact = self.begun.load(Ordering::Relaxed) < number + N as u64;
        intact.then_some(Some(words))
    }

    fn place(&self, number: u64) -> &[W; WORDS] {
        // The remainder is below the length of the array.
        &self.places[(number % N as u64) as usize]
    }
}

const DISCONNECTED: u64 = 1 << 8;

fn pack(reading: &Reading) -> [u64; WORDS] {
    let levels = [reading.rsrp, reading.rsrq, reading.sinr, reading.rssi];
    let levels = levels.iter().fold(0, |word, &level| word << 16 | u64::from(pack_level(level)));
    let kind = u64::from(reading.technology.code());
    [reading.at.micros(), levels, if reading.disconnected { kind | DISCONNECTED } else { kind }]
}

fn unpack([at, levels, kind]: [u64; WORDS]) -> Reading {
    let level = |place: u32| unpack_level((levels >> (16 * place)) as u16);
    Reading {
        at: Time::from_micros(at),
        technology: Technology::from_code(kind as u8),
        disconnected: kind & DISCONNECTED != 0,
        rsrp: level(3),
        rsrq: level(2),
        sinr: level(1),
        rssi: level(0),
    }
}

/// Packs hundredths of a dB in two's complement; the lowest number stands for no level.
fn pack_level(level: Option<f64>) -> u16 {
    let bounded = |level: f64| (level * 100.0).round().clamp(-32_767.0, 32_767.0) as i16;
    level.filter(|level| !level.is_nan()).map_or(i16::MIN, bounded).cast_unsigned()
}

fn unpack_level(packed: u16) -> Option<f64> {
    let hundredths = packed.cast_signed();
    (hundredths != i16::MIN).then(|| f64::from(hundredths) / 100.0)
}

#[cfg(test)]
mod model;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use squall_units::short::at_us;

    use super::*;

    fn level() -> impl Strategy<Value = Option<f64>> {
        prop::option::of((-32_767i32..=32_767).prop_map(|hundredths| f64::from(hundredths) / 100.0))
    }

    fn reading() -> impl Strategy<Value = Reading> {
        (any::<u64>(), 0u8..7, any::<bool>(), [level(), level(), level(), level()]).prop_map(
            |(at, code, disconnected, [rsrp, rsrq, sinr, rssi])| Reading {
                at: Time::from_micros(at),
                technology: Technology::from_code(code),
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
    fn levels_that_cannot_be_kept_are_bounded_or_left_out() {
        let (mut publisher, subscriber) = board();
        publisher.publish(&Reading {
            rsrp: Some(f64::NAN),
            rsrq: Some(f64::NEG_INFINITY),
            sinr: Some(1e9),
            rssi: Some(-70.004),
            ..Reading::default()
        });
        let seen = subscriber.latest().expect("was published");
        assert_eq!((seen.rsrp, seen.rsrq), (None, Some(-327.67)));
        assert_eq!((seen.sinr, seen.rssi), (Some(327.67), Some(-70.0)));
    }

    #[test]
    fn a_publisher_that_is_gone_leaves_its_last_reading() {
        let (mut publisher, subscriber) = board();
        publisher.publish(&Reading::wifi(at_us(5), -60.0));
        drop(publisher);
        assert_eq!(subscriber.latest(), Some(Reading::wifi(at_us(5), -60.0)));
    }

    #[test]
    fn readings_are_whole_while_threads_race() {
        const LAST: u64 = 200_000;
        let (mut publisher, subscriber) = board();
        // All levels follow from the time.
        let made = |at: u64| Reading::lte(at_us(at), -((at % 300) as f64), (at % 300) as f64);
        std::thread::scope(|threads| {
            for _ in 0..2 {
                let subscriber = subscriber.clone();
                threads.spawn(move || {
                    let mut newest = 0;
                    while newest < LAST {
                        let Some(seen) = subscriber.latest() else { continue };
                        assert_eq!(seen, made(seen.at.micros()));
                        assert!(seen.at.micros() >= newest, "{:?} after {newest}", seen.at);
                        newest = seen.at.micros();
                    }
                });
            }
            (1..=LAST).for_each(|at| publisher.publish(&made(at)));
        });
    }
}

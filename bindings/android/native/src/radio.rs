//! Radios, in which Java stores Android's signal reports.
//!
//! A push must not wait for other threads, because it is called from Android's callbacks, possibly
//! on the main thread of the application. Radios therefore live in a static array and are found
//! without a lock. A push tries to take the lock of its radio, then stores the reading through a
//! [`Publisher`]. Only another push to the same radio, or the opening or closing of a radio, can
//! hold that lock, for nanoseconds.

use std::{
    hint,
    sync::{
        Mutex, MutexGuard, OnceLock, PoisonError, TryLockError,
        atomic::{AtomicI64, Ordering},
    },
    time::{Duration, Instant},
};

use squall::signal::{Publisher, Reading, Span, Subscriber, Time, board};

/// Maximum number of open radios: two for every component of an application that could sensibly
/// have one.
const PLACES: usize = 32;

/// Attempts of a push to lock its place: some microseconds in total.
const ATTEMPTS: usize = 256;

static RADIOS: [Place; PLACES] = [const { Place::new() }; PLACES];

/// Counter of radios; a radio's number is its count times [`PLACES`] plus its place.
static OPENED: AtomicI64 = AtomicI64::new(0);

struct Place {
    /// The radio's number; 0 if there is none.
    number: AtomicI64,
    publisher: Mutex<Option<Publisher>>,
    subscriber: Mutex<Option<Subscriber>>,
}

impl Place {
    const fn new() -> Self {
        Self { number: AtomicI64::new(0), publisher: Mutex::new(None), subscriber: Mutex::new(None) }
    }
}

/// Opens a radio without a reading; `None` if too many are open.
pub(crate) fn open() -> Option<i64> {
    RADIOS.iter().zip(0..).find_map(|(place, index)| {
        let mut publisher = lock(&place.publisher);
        if place.number.load(Ordering::Relaxed) != 0 {
            return None;
        }
        let number = (OPENED.fetch_add(1, Ordering::Relaxed) + 1) * PLACES as i64 + index;
        let (side, other) = board();
        *publisher = Some(side);
        *lock(&place.subscriber) = Some(other);
        place.number.store(number, Ordering::Release);
        Some(number)
    })
}

/// Closes a radio. Sessions that used it keep its last reading.
pub(crate) fn close(number: i64) {
    let Some(place) = place(number) else { return };
    let mut publisher = lock(&place.publisher);
    if place.number.load(Ordering::Relaxed) == number {
        place.number.store(0, Ordering::Release);
        *publisher = None;
        *lock(&place.subscriber) = None;
    }
}

/// Publishes a reading of `age` as the latest of a radio. Never waits. Returns `false` if the radio
/// is closed, and possibly if other threads push to it at the same time.
pub(crate) fn push(number: i64, age: Duration, reading: Reading) -> bool {
    let Some(place) = place(number) else { return false };
    let Some(mut publisher) = try_lock(&place.publisher) else { return false };
    if place.number.load(Ordering::Relaxed) != number {
        return false;
    }
    let Some(publisher) = publisher.as_mut() else { return false };
    let at = now() - Span::from(age);
    publisher.publish(&Reading { at, ..reading });
    true
}

/// Returns the subscriber of a radio; `None` if the radio is closed.
pub(crate) fn subscriber(number: i64) -> Option<Subscriber> {
    let place = place(number)?;
    let subscriber = lock(&place.subscriber);
    let current = place.number.load(Ordering::Acquire) == number;
    subscriber.clone().filter(|_| current)
}

/// Returns the time since an hour before the first call.
pub(crate) fn now() -> Time {
    static ORIGIN: OnceLock<Instant> = OnceLock::new();
    // A reading may be older than the first call: the hour leaves room for its time.
    Time::EPOCH + (ORIGIN.get_or_init(Instant::now).elapsed() + Duration::from_secs(3600)).into()
}

fn place(number: i64) -> Option<&'static Place> {
    let place = &RADIOS[usize::try_from(number).ok()? % PLACES];
    (place.number.load(Ordering::Acquire) == number && number != 0).then_some(place)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn try_lock<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    for _ in 0..ATTEMPTS {
        match mutex.try_lock() {
            Ok(guard) => return Some(guard),
            Err(TryLockError::Poisoned(poisoned)) => return Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => hint::spin_loop(),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_pushed_is_the_latest_until_the_radio_is_closed() {
        let radio = open().expect("there is room");
        let other = open().expect("there is room");
        let subscriber = subscriber(radio).expect("is open");
        assert_eq!(subscriber.latest(), None);
        assert!(push(radio, Duration::from_secs(2), Reading::wifi(Time::EPOCH, -60.0)));
        assert!(push(other, Duration::ZERO, Reading::wifi(Time::EPOCH, -80.0)));
        let seen = subscriber.latest().expect("was pushed");
        assert_eq!(seen.rssi, Some(-60.0));
        let age = now() - seen.at;
        assert!((2_000_000..3_000_000).contains(&age.micros()), "{age}");

        close(radio);
        assert!(!push(radio, Duration::ZERO, Reading::wifi(Time::EPOCH, -50.0)));
        assert!(super::subscriber(radio).is_none());
        let third = open().expect("there is room");
        assert_ne!(third, radio);
        close(radio);
        assert!(
            push(third, Duration::ZERO, Reading::wifi(Time::EPOCH, -50.0)),
            "an old number closed a new radio"
        );
        assert_eq!(subscriber.latest().and_then(|r| r.rssi), Some(-60.0));
        close(third);
        close(other);
    }

    #[test]
    fn numbers_that_identify_nothing_do_nothing() {
        for number in [0, -1, i64::MIN, i64::MAX] {
            assert!(!push(number, Duration::ZERO, Reading::default()));
            assert!(subscriber(number).is_none());
            close(number);
        }
    }

    #[test]
    fn pushes_of_many_threads_and_the_end_meet_without_harm() {
        let radio = open().expect("there is room");
        std::thread::scope(|threads| {
            for n in 0..3 {
                threads.spawn(move || {
                    for i in 0..20_000 {
                        push(radio, Duration::ZERO, Reading::wifi(Time::EPOCH, -f64::from(n * 10 + i % 10)));
                    }
                });
            }
            threads.spawn(move || {
                std::thread::sleep(Duration::from_millis(1));
                close(radio);
            });
        });
        assert!(!push(radio, Duration::ZERO, Reading::default()));
    }
}

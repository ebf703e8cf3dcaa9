//! Tests that measure durations on a machine that others may keep busy.
//!
//! A late packet on a busy machine proves nothing, so a duration that failed is measured again. Nothing else is: wrong
//! content, a missing event, a broken bound fails at once, on any machine. Three measurements, none of which the code under
//! test can move, prove that a machine is busy: the processor time of programs that this one has not started, together with what the
//! host of a virtual machine withholds ("steal"); and, of a thread with a higher priority than everything that is tested, how
//! late it is woken and how much longer the same computation takes at times.

use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind, panic_any, resume_unwind},
    sync::{Mutex, PoisonError},
    time::Duration,
};

use crate::{
    probe::{Found, Probe},
    processors::Others,
    unjudged,
};

/// Attempts at a measurement that a busy machine spoils.
const ATTEMPTS: u32 = 4;

/// Others take at most this share of all processors on a quiet machine: daemons.
const ALONE: f64 = 0.1;

/// A quiet machine wakes a thread within this, but once in [`Found::SAMPLES`] times. A virtual machine of a quiet host takes
/// 0.1 ms, and the strictest test wants 99 of 100 packets late by less than this.
const PROMPT: Duration = Duration::from_micros(300);

/// A quiet machine takes less than this many times as long for a computation as usual, but once in
/// [`Found::SAMPLES`] times. What shares a core with it may halve its speed; a host that slowed its processors down for
/// a tenth of a second every 1.5 s made it ten times as long.
const EVEN: f64 = 3.0;

/// Measurements do not share the machine with each other.
static ALONE_HERE: Mutex<()> = Mutex::new(());

/// Asserts that a duration, or a figure that follows from durations alone, is as it should be.
///
/// Takes a condition and, like `assert!`, words with arguments. Within [`in_real_time`] a failure on a machine that is
/// proved busy is excused. Anything that a busy machine cannot spoil belongs into `assert!`.
#[macro_export]
macro_rules! assert_duration {
    ($holds:expr $(,)?) => { $crate::assert_duration!($holds, "{}", stringify!($holds)) };
    ($holds:expr, $($words:tt)+) => {
        if !$holds {
            $crate::too_late(format!($($words)+));
        }
    };
}

/// A failed [`assert_duration`].
struct TooLate(String);

/// Fails with a duration that is not as it should be.
#[doc(hidden)]
pub fn too_late(words: String) -> ! {
    // The message of other payloads than text is lost, outside `in_real_time` too.
    eprintln!("{}: {words}", unjudged::test_name());
    panic_any(TooLate(words))
}

/// Runs a test that measures durations with [`assert_duration`](crate::assert_duration), one test of a program at a time.
///
/// A failed measurement is made again, four times in all. It does not count while the machine is proved busy: other programs
/// take more than a tenth of the processors; one of 400 wake-ups is late by more than 0.3 ms; or one of 400 equal computations
/// takes more than three times as long as usual (the latter two only where the system grants the priority for it). If none of
/// the four counts, the measurement is excused and [recorded](crate::skipped); the answer is then no, else yes.
///
/// # Panics
///
/// As `test` does, at once, if anything but a duration is wrong; for a duration, if two measurements that count fail, or the
/// last of four does. One alone may be a moment that the proof has missed: a defect is there again the next time.
pub fn in_real_time(test: impl Fn()) -> bool {
    let _alone = ALONE_HERE.lock().unwrap_or_else(PoisonError::into_inner);
    let attempt = || {
        let (others, probe) = (Others::watch(), Probe::begin());
        let outcome = catch_unwind(AssertUnwindSafe(&test));
        (outcome, busy(others.and_then(|others| others.share()), probe.end()))
    };
    match judge(attempt) {
        Ok(()) => true,
        Err(Verdict::Fails(failure)) => resume_unwind(failure),
        Err(Verdict::Excused(why)) => {
            unjudged::record("excused", &why);
            false
        }
    }
}

/// Why durations prove nothing here, if they do not: the share of the processors that others take, and what the probe found.
fn busy(others: Option<f64>, found: Option<Found>) -> Option<String> {
    if let Some(others) = others.filter(|others| *others > ALONE) {
        return Some(format!("other programs took {:.0} % of the processors", others * 100.0));
    }
    let Found { late, slow } = found?;
    if late > PROMPT {
        let late = late.as_secs_f64() * 1e3;
        return Some(format!("one of {} wake-ups was late by {late:.1} ms", Found::SAMPLES));
    }
    (slow > EVEN).then(|| format!("one of {} computations took {slow:.1} times as long", Found::SAMPLES))
}

type Failure = Box<dyn Any + Send>;

/// How a test ends that does not pass.
enum Verdict {
    Fails(Failure),
    Excused(String),
}

/// Makes attempts, each of which comes with why its durations prove nothing, until one passes or two fail that count.
fn judge(mut attempt: impl FnMut() -> (Result<(), Failure>, Option<String>)) -> Result<(), Verdict> {
    let (mut excuse, mut failed) = (String::new(), None);
    for number in 1..=ATTEMPTS {
        let (outcome, busy) = attempt();
        let Err(failure) = outcome else { return Ok(()) };
        let TooLate(late) = *failure.downcast().map_err(Verdict::Fails)?;
        match busy {
            Some(why) => {
                println!("attempt {number} does not count: {why}");
                excuse = format!("{late}: {why}");
            }
            None if failed.is_some() => return Err(Verdict::Fails(Box::new(late))),
            None => failed = Some(late),
        }
    }
    Err(failed.map_or(Verdict::Excused(excuse), |late| Verdict::Fails(Box::new(late))))
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUIET: Option<&str> = None;
    const BUSY: Option<&str> = Some("other programs took 50 % of the processors");

    /// An attempt that passes, measures a duration that is too long, or fails otherwise.
    #[derive(Clone, Copy)]
    enum Attempt {
        Passes,
        IsLate,
        IsWrong,
    }
    use Attempt::*;

    /// The outcome of attempts that end so on a machine that is so busy, and how many are made.
    fn judged(attempts: &[(Attempt, Option<&str>)]) -> (Result<(), String>, usize) {
        let mut made = 0;
        let outcome = judge(|| {
            let (attempt, busy) = attempts[made];
            made += 1;
            let outcome = catch_unwind(|| match attempt {
                Passes => {}
                IsLate => assert_duration!(1 > 2, "{} ms", 17),
                IsWrong => panic!("wrong bytes"),
            });
            (outcome, busy.map(Into::into))
        });
        let words = |verdict| match verdict {
            Verdict::Excused(why) => format!("excused: {why}"),
            Verdict::Fails(failure) => match failure.downcast::<String>() {
                Ok(words) => *words,
                Err(failure) => (*failure.downcast::<&str>().expect("is text")).to_owned(),
            },
        };
        (outcome.map_err(words), made)
    }

    #[test]
    fn a_duration_on_a_quiet_machine_fails_the_second_time() {
        assert_eq!(judged(&[(IsLate, QUIET), (IsLate, QUIET)]), (Err("17 ms".into()), 2));
        assert_eq!(judged(&[(IsLate, QUIET), (IsLate, BUSY), (IsLate, QUIET)]), (Err("17 ms".into()), 3));
        assert_eq!(judged(&[(IsLate, QUIET), (Passes, QUIET)]), (Ok(()), 2), "a moment that no proof saw");
    }

    #[test]
    fn a_duration_that_counts_once_and_never_passes_fails() {
        let attempts = [(IsLate, BUSY), (IsLate, BUSY), (IsLate, BUSY), (IsLate, QUIET)];
        assert_eq!(judged(&attempts), (Err("17 ms".into()), 4));
    }

    #[test]
    fn a_duration_on_a_busy_machine_is_measured_again() {
        assert_eq!(judged(&[(IsLate, BUSY), (IsLate, BUSY), (Passes, BUSY)]), (Ok(()), 3));
    }

    #[test]
    fn a_machine_that_is_never_quiet_excuses_a_duration() {
        let (outcome, made) = judged(&[(IsLate, BUSY); 4]);
        let why = "excused: 17 ms: other programs took 50 % of the processors";
        assert_eq!((outcome, made), (Err(why.to_owned()), 4));
    }

    #[test]
    fn nothing_but_a_duration_is_excused() {
        assert_eq!(judged(&[(IsWrong, BUSY), (Passes, QUIET)]), (Err("wrong bytes".into()), 1));
        assert_eq!(judged(&[(IsLate, BUSY), (IsWrong, BUSY)]), (Err("wrong bytes".into()), 2));
        assert_eq!(judged(&[(IsLate, QUIET), (IsWrong, QUIET)]), (Err("wrong bytes".into()), 2));
    }

    #[test]
    fn a_machine_is_busy_by_its_processors_or_by_what_the_probe_found() {
        let found = |micros, slow| Some(Found { late: Duration::from_micros(micros), slow });
        assert_eq!(busy(Some(0.1), found(300, 3.0)), None);
        assert_eq!(busy(None, None), None, "what is not measured excuses nothing");
        assert_eq!(busy(Some(0.5), found(100, 1.0)).as_deref(), BUSY);
        assert_eq!(
            busy(Some(0.02), found(1_744, 1.0)).as_deref(),
            Some("one of 400 wake-ups was late by 1.7 ms")
        );
        assert_eq!(
            busy(Some(0.02), found(100, 9.82)).as_deref(),
            Some("one of 400 computations took 9.8 times as long")
        );
    }
}

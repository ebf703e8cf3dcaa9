//! Tests that measure durations on a machine that other programs may keep busy.
//!
//! A late packet on a busy machine proves nothing, so a duration that failed is measured again.
//! Nothing else is: wrong content, a missing event or a violated bound fails at once, on any
//! machine. Three measurements, none of which the code under test can influence, prove that a
//! machine is busy: the processor time of programs that this process did not start, together with
//! the time that the host of a virtual machine withholds ("steal"); the wake-up latency of a thread
//! with a higher priority than everything under test; and the variation of the time that this
//! thread needs for a constant computation.

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

/// Number of attempts at a measurement that a busy machine disturbs.
const ATTEMPTS: u32 = 4;

/// Maximum share of all processors that others (daemons) use on a quiet machine.
const ALONE: f64 = 0.1;

/// Time within which a quiet machine wakes a thread, except once in [`Found::SAMPLES`] times. A
/// virtual machine on a quiet host takes 0.1 ms; the strictest test requires 99 of 100 packets to
/// be late by less than this.
const PROMPT: Duration = Duration::from_micros(300);

/// Multiple of the usual time below which a computation stays on a quiet machine, except once in
/// [`Found::SAMPLES`] times. A program on the same core may halve its speed; a host that slowed its
/// processors down for a tenth of a second every 1.5 s made it ten times as long.
const EVEN: f64 = 3.0;

/// Lock by which measurements run one at a time.
static ALONE_HERE: Mutex<()> = Mutex::new(());

/// Asserts a duration, or a value that follows from durations alone.
///
/// Takes a condition and, like `assert!`, a message with arguments. Within [`in_real_time`], a
/// failure on a machine that is proved busy is excused. Use `assert!` for everything that a busy
/// machine cannot influence.
#[macro_export]
macro_rules! assert_duration {
    ($holds:expr $(,)?) => { $crate::assert_duration!($holds, "{}", stringify!($holds)) };
    ($holds:expr, $($words:tt)+) => {
        if !$holds {
            $crate::too_late(format!($($words)+));
        }
    };
}

/// Failure of an [`assert_duration`].
struct TooLate(String);

/// Fails with the message of an [`assert_duration`].
#[doc(hidden)]
pub fn too_late(words: String) -> ! {
    // Panics with a payload other than text show no message, so it is printed here.
    eprintln!("{}: {words}", unjudged::test_name());
    panic_any(TooLate(words))
}

/// Runs a test that measures durations with [`assert_duration`](crate::assert_duration), one test
/// of a program at a time.
///
/// A failed measurement is repeated, up to four in all. It does not count while the machine is
/// proved busy: other programs use more than a tenth of the processors; one of 400 wake-ups is late
/// by more than 0.3 ms; or one of 400 equal computations takes more than three times as long as
/// usual (the latter two only if the system grants the priority for them). If none of the four
/// counts, the measurement is excused and [recorded](crate::skipped), and the result is `false`; if
/// one passes, it is `true`.
///
/// # Panics
///
/// As `test` does: at once if anything but a duration is wrong; for a duration, if two measurements
/// that count fail, or if one does and none of the others passes. A single failure may be a moment
/// that the proof missed: a defect shows again the next time.
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

/// Returns the reason why durations prove nothing here, if there is one, from the share of the
/// processors that others use and the result of the probe.
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

/// End of a test that does not pass.
enum Verdict {
    Fails(Failure),
    Excused(String),
}

/// Makes attempts until one passes or two that count fail. An attempt returns the reason why its
/// durations prove nothing, if there is one.
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

    /// An attempt that passes, measures too long a duration, or fails otherwise.
    #[derive(Clone, Copy)]
    enum Attempt {
        Passes,
        IsLate,
        IsWrong,
    }
    use Attempt::*;

    /// Returns the verdict on attempts with these outcomes and reasons, and the number of attempts
    /// made.
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

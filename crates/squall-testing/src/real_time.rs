//! Tests with real sockets and clocks.
//!
//! On a machine that others keep busy, which for a virtual one need not be programs that it can see, packets are late without
//! fault of anybody here. Such a failure says nothing, and a failure on a machine that was left alone says something. Two things
//! tell them apart. One is processor time: the kernel counts that of all programs, what the host withheld ("steal"), and what this
//! program and its children had. The other is how late a thread was woken that only slept: a host that pauses a virtual machine
//! now and then for milliseconds withholds a few hundredths of its time, and makes packets late.

use std::{
    any::Any,
    io::{self, Write as _},
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    thread,
    time::Duration,
};

use crate::{processors::Used, wakeups::Wakeups};

/// How often a test is made whose failures say nothing.
const ATTEMPTS: u32 = 4;

/// A machine is left alone while others have at most this share of all its processors: daemons, and the kernel's own work.
const ALONE: f64 = 0.1;

/// And while it is late by no more than this to wake a thread, but once in [`WAKEUPS`] times. A virtual machine of a quiet
/// host is so by 0.1 ms, and the strictest test wants 99 of 100 packets late by less than this.
const PROMPT: Duration = Duration::from_micros(300);

/// Four times as many as packets of which one may be late, for they are not late at the same moments.
const WAKEUPS: usize = 400;

/// Runs a test that depends on real time.
///
/// A failure while others had more than a tenth of the processors, or while one of 400 wake-ups was late by more than
/// 0.3 ms, is told and does not count: the test is made again. If none of four attempts counts that is told too, and
/// nothing is judged: the answer is no then, else yes.
///
/// # Panics
///
/// As `test` does, if the machine was left alone meanwhile, or does not tell (other systems than Linux).
pub fn in_real_time(test: impl Fn()) -> bool {
    let attempt = || {
        let (before, wakeups) = (Used::now(), Wakeups::watch());
        let outcome = catch_unwind(AssertUnwindSafe(&test));
        let late = wakeups.one_of(WAKEUPS);
        let others = before.zip(Used::now()).and_then(|(before, after)| before.share_of_others(&after));
        (outcome, others.and_then(|others| busy(others, late)))
    };
    let judged = judge(attempt).unwrap_or_else(|failure| resume_unwind(failure));
    if !judged {
        // Tests that pass are silent otherwise, and this one passes for want of a judgement.
        let test = thread::current();
        let name = test.name().unwrap_or("a test");
        let _ = writeln!(
            io::stderr(),
            "{name}: not judged, as this machine is too busy with something else for tests in real time"
        );
    }
    judged
}

/// Why a failure says nothing, if it does not: the share of the processors that others had, and how late threads were woken.
fn busy(others: f64, late: Duration) -> Option<String> {
    if others > ALONE {
        return Some(format!("others had {:.0} % of the processors", others * 100.0));
    }
    (late > PROMPT)
        .then(|| format!("one of {WAKEUPS} wake-ups was late by {:.1} ms", late.as_secs_f64() * 1e3))
}

type Failure = Box<dyn Any + Send>;

/// The first outcome that counts, if one does, of attempts that each come with why a failure would say nothing.
fn judge(mut attempt: impl FnMut() -> (Result<(), Failure>, Option<String>)) -> Result<bool, Failure> {
    for number in 1..=ATTEMPTS {
        match attempt() {
            (Err(_), Some(why)) => println!("attempt {number} does not count: {why}"),
            (outcome, _) => return outcome.map(|()| true),
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUIET: Option<&str> = None;
    const BUSY: Option<&str> = Some("others had 50 % of the processors");

    /// What comes of attempts that end so, on a machine that is so busy, and how many are made.
    fn judged(attempts: &[(bool, Option<&str>)]) -> (Option<bool>, usize) {
        let mut made = 0;
        let outcome = judge(|| {
            let (passes, busy) = attempts[made];
            made += 1;
            (if passes { Ok(()) } else { Err(Box::new("it fails")) }, busy.map(Into::into))
        });
        (outcome.ok(), made)
    }

    #[test]
    fn a_failure_on_a_machine_that_is_left_alone_counts_at_once() {
        assert_eq!(judged(&[(false, QUIET), (true, QUIET)]), (None, 1));
        assert_eq!(judged(&[(false, BUSY), (false, QUIET)]), (None, 2));
    }

    #[test]
    fn one_on_a_busy_machine_is_tried_again_so_often() {
        assert_eq!(judged(&[(false, BUSY), (true, BUSY), (false, BUSY)]), (Some(true), 2));
        assert_eq!(judged(&[(false, BUSY); 9]), (Some(false), 4));
    }

    #[test]
    fn what_passes_is_made_once() {
        assert_eq!(judged(&[(true, BUSY), (false, QUIET)]), (Some(true), 1));
    }

    #[test]
    fn a_machine_is_busy_by_its_processors_or_by_when_it_wakes() {
        let micros = Duration::from_micros;
        assert_eq!(busy(0.1, micros(300)), None);
        assert_eq!(busy(0.5, micros(100)).as_deref(), BUSY);
        assert_eq!(busy(0.02, micros(1_744)).as_deref(), Some("one of 400 wake-ups was late by 1.7 ms"));
    }

    #[test]
    #[should_panic(expected = "of its own")]
    fn a_panic_is_passed_on_with_its_words() {
        let failed = judge(|| (catch_unwind(|| panic!("words of its own")), None));
        failed.unwrap_or_else(|failure| resume_unwind(failure));
    }
}

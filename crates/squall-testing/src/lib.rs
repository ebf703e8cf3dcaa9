//! What tests of several crates need; no part of the product. The program `interruptions` is what `make soak` watches a player with.
//!
//! [`in_real_time`] is for tests with real sockets and clocks. On a machine that others keep busy, which for a virtual one
//! need not be programs that it can see, packets are late without fault of anybody here. Such a failure says nothing,
//! and a failure on a machine that was left alone says something. What tells them apart is processor time: the kernel
//! counts that of all programs, what the host withheld ("steal"), and what this program and its children had.

mod processors;

use std::{
    any::Any,
    io::{self, Write as _},
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    thread,
};

use processors::Used;

/// How often a test is made whose failures say nothing.
const ATTEMPTS: u32 = 4;

/// A machine is left alone while others have at most this share of all its processors: daemons, and the kernel's own work.
const ALONE: f64 = 0.1;

/// Runs a test that depends on real time.
///
/// A failure while others had more than a tenth of the processors is told and does not count: the test is made again. If
/// none of four attempts counts that is told too, and nothing is judged: the answer is no then, else yes.
///
/// # Panics
///
/// As `test` does, if the machine was left alone meanwhile, or does not tell (other systems than Linux).
pub fn in_real_time(test: impl Fn()) -> bool {
    let attempt = || {
        let before = Used::now();
        let outcome = catch_unwind(AssertUnwindSafe(&test));
        (outcome, before.zip(Used::now()).and_then(|(before, after)| before.share_of_others(&after)))
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

type Failure = Box<dyn Any + Send>;

/// The first outcome that counts, if one does, of attempts that each come with the share of the processors that others had.
fn judge(mut attempt: impl FnMut() -> (Result<(), Failure>, Option<f64>)) -> Result<bool, Failure> {
    for number in 1..=ATTEMPTS {
        let (outcome, others) = attempt();
        match others {
            Some(share) if outcome.is_err() && share > ALONE => {
                println!(
                    "attempt {number} does not count: others had {:.0} % of the processors",
                    share * 100.0
                );
            }
            _ => return outcome.map(|()| true),
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What comes of attempts that end so, with such shares of others, and how many are made.
    fn judged(attempts: &[(bool, Option<f64>)]) -> (Option<bool>, usize) {
        let mut made = 0;
        let outcome = judge(|| {
            let (passes, others) = attempts[made];
            made += 1;
            (if passes { Ok(()) } else { Err(Box::new("it fails")) }, others)
        });
        (outcome.ok(), made)
    }

    #[test]
    fn a_failure_on_a_machine_that_is_left_alone_counts_at_once() {
        assert_eq!(judged(&[(false, Some(0.02)), (true, Some(0.02))]), (None, 1));
        assert_eq!(judged(&[(false, None), (true, None)]), (None, 1));
        assert_eq!(judged(&[(false, Some(0.5)), (false, Some(0.02))]), (None, 2));
    }

    #[test]
    fn one_on_a_busy_machine_is_tried_again_so_often() {
        assert_eq!(judged(&[(false, Some(0.5)), (true, Some(0.5)), (false, Some(0.5))]), (Some(true), 2));
        assert_eq!(judged(&[(false, Some(0.5)); 9]), (Some(false), 4));
    }

    #[test]
    fn what_passes_is_made_once() {
        assert_eq!(judged(&[(true, Some(0.9)), (false, None)]), (Some(true), 1));
    }

    #[test]
    #[should_panic(expected = "of its own")]
    fn a_panic_is_passed_on_with_its_words() {
        let failed = judge(|| (catch_unwind(|| panic!("words of its own")), Some(0.0)));
        failed.unwrap_or_else(|failure| resume_unwind(failure));
    }
}

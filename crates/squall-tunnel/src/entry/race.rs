//! Race between exits: several are tried, and the first that accepts wins.

use std::{future::Future, pin::pin, time::Duration};

use tokio::{
    task::JoinSet,
    time::{Instant, sleep_until},
};

use super::exits::{Candidate, Found};

/// Tries exits until one accepts. The next exit is tried at once when one refuses, and in parallel
/// when one does not answer within `stagger`. Known exits do not wait for `lookups`. `arrange`
/// selects and orders the exits to try among all that have an address so far; its second argument
/// is `true` once the lookups have ended.
///
/// # Errors
/// The problems of all exits; empty if there are neither exits nor problems.
pub(crate) async fn first<T, F>(
    mut known: Vec<Candidate>,
    lookups: impl Future<Output = Found>,
    arrange: impl Fn(&[Candidate], bool) -> Vec<Candidate>,
    stagger: Duration,
    attempt: impl Fn(Candidate) -> F,
) -> Result<T, String>
where
    T: Send + 'static,
    F: Future<Output = Result<T, String>> + Send + 'static,
{
    let (mut lookups, mut is_complete) = (pin!(lookups), false);
    let (mut attempts, mut problems) = (JoinSet::new(), Vec::new());
    let mut tried = Vec::new();
    let mut left = arrange(&known, false);
    let mut due = Instant::now();
    loop {
        left.retain(|exit| !tried.contains(exit));
        if !left.is_empty() && (attempts.is_empty() || due <= Instant::now()) {
            let exit = left.remove(0);
            attempts.spawn(attempt(exit.clone()));
            tried.push(exit);
            due = Instant::now() + stagger;
        } else if attempts.is_empty() && is_complete {
            return Err(problems.join("; "));
        }
        tokio::select! {
            biased;
            (found, failed) = &mut lookups, if !is_complete => {
                is_complete = true;
                known.extend(found);
                // Problems of lookups come first, whenever they occur, so that the same problems
                // are reported once.
                problems.splice(..0, failed);
                left = arrange(&known, true);
            }
            Some(outcome) = attempts.join_next() => {
                match outcome.unwrap_or_else(|error| Err(error.to_string())) {
                    Ok(won) => return Ok(won),
                    Err(problem) => problems.push(problem),
                }
                due = Instant::now();
            }
            () = sleep_until(due), if !left.is_empty() => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use super::*;

    fn exits(hosts: &[&str]) -> Vec<Candidate> {
        let exit = |host: &&str| Candidate::of_host(host);
        hosts.iter().map(exit).collect()
    }

    /// Simulates an attempt. The first letter of the exit's name determines the result.
    async fn attempt(exit: Candidate) -> Result<String, String> {
        match exit.host.as_bytes()[0] {
            b'g' => Ok(exit.host),
            b's' => pending().await,
            _ => Err(format!("{} refused", exit.host)),
        }
    }

    async fn race(hosts: &[&str], lookups: impl Future<Output = Found>) -> Result<String, String> {
        let arrange = |known: &[Candidate], _| known.to_vec();
        first(exits(hosts), lookups, arrange, Duration::from_millis(20), attempt).await
    }

    #[tokio::test]
    async fn known_exits_do_not_wait_for_lookups() {
        assert_eq!(race(&["good"], pending()).await, Ok("good".to_owned()));
        assert_eq!(race(&["bad", "silent", "good"], pending()).await, Ok("good".to_owned()));
    }

    #[tokio::test]
    async fn exits_that_are_looked_up_join() {
        let found = || ready((exits(&["silent", "good"]), vec!["srv:x: no answer".to_owned()]));
        for known in [&[][..], &["silent"], &["bad"]] {
            assert_eq!(race(known, found()).await, Ok("good".to_owned()), "beside {known:?}");
        }
        let later = async {
            tokio::time::sleep(Duration::from_millis(50)).await;
            (exits(&["good"]), Vec::new())
        };
        assert_eq!(race(&["bad"], later).await, Ok("good".to_owned()));
    }

    #[tokio::test]
    async fn an_exit_is_tried_once_and_all_problems_are_named() {
        let found = ready((exits(&["bad", "worse"]), vec!["srv:x: no answer".to_owned()]));
        let problems = race(&["bad"], found).await.expect_err("all refuse");
        assert_eq!(problems, "srv:x: no answer; bad refused; worse refused");
        assert_eq!(race(&[], ready((Vec::new(), Vec::new()))).await, Err(String::new()));
    }
}

//! Independent work on all processors.

use std::sync::{
    Mutex, PoisonError,
    atomic::{AtomicUsize, Ordering},
};

/// Runs `work` for each job, on one thread per processor. Jobs start in their order; the results
/// have the same order, whichever job finishes first.
///
/// # Errors
/// The first error in the order of the jobs. No job begins after one has failed.
///
/// # Panics
/// If `work` panics.
pub fn each<J: Sync, R: Send, E: Send>(
    jobs: &[J],
    work: impl Fn(&J) -> Result<R, E> + Sync,
) -> Result<Vec<R>, E> {
    let results: Vec<Mutex<Option<Result<R, E>>>> = jobs.iter().map(|_| Mutex::new(None)).collect();
    let next = AtomicUsize::new(0);
    let take_turns = || {
        while let Some((job, slot)) = Some(next.fetch_add(1, Ordering::Relaxed))
            .and_then(|index| Some((jobs.get(index)?, results.get(index)?)))
        {
            let result = work(job);
            if result.is_err() {
                next.store(jobs.len(), Ordering::Relaxed);
            }
            *slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(result);
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(jobs.len());
    std::thread::scope(|scope| {
        for _ in 1..threads {
            scope.spawn(take_turns);
        }
        take_turns();
    });
    results.into_iter().filter_map(|slot| slot.into_inner().unwrap_or_else(PoisonError::into_inner)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_have_the_order_of_the_jobs() {
        let jobs: Vec<u64> = (0..100).collect();
        let doubled = each(&jobs, |job| {
            std::thread::sleep(std::time::Duration::from_micros(job % 7 * 100));
            Ok::<_, ()>(job * 2)
        });
        assert_eq!(doubled, Ok(jobs.iter().map(|job| job * 2).collect()));
        assert_eq!(each(&[], |()| Err::<(), ()>(())), Ok(vec![]));
    }

    #[test]
    fn no_job_begins_after_one_has_failed() {
        let begun = AtomicUsize::new(0);
        let jobs: Vec<u64> = (0..10_000).collect();
        let outcome = each(&jobs, |job| {
            begun.fetch_add(1, Ordering::Relaxed);
            if *job == 3 { Err(*job) } else { Ok(()) }
        });
        assert_eq!(outcome, Err(3));
        assert!(begun.into_inner() < jobs.len());
    }
}

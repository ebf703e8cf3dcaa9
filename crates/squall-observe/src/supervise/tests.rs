use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use super::*;
use crate::clock::Clock;

const PATIENCE: Duration = Duration::from_secs(20);

fn journal() -> Arc<Journal> {
    Arc::new(Journal::new(Clock::start()))
}

#[tokio::test]
async fn a_task_that_panics_is_reported_and_started_again_with_pauses() {
    let (journal, runs) = (journal(), Arc::new(AtomicU32::new(0)));
    let count = runs.clone();
    let begin = Instant::now();
    let mut task = restarting(journal.clone(), "the task of a test", move || {
        let run = count.fetch_add(1, Relaxed);
        async move {
            match run {
                0 => panic!("first"),
                1..3 => Err(format!("number {run}")),
                _ => Ok(()),
            }
        }
    });
    task.join().await;
    assert_eq!((runs.load(Relaxed), journal.task_failures()), (4, 3));
    let took = begin.elapsed();
    assert!(took >= FIRST_PAUSE * 7, "three pauses, each twice as long as the last: {took:?}");
    let words = &journal.events()[0].words;
    assert_eq!(words, "the task of a test failed: it panicked: first; it restarts in 100ms");
}

#[tokio::test]
async fn a_pause_can_be_cut_short() {
    let (journal, runs) = (journal(), Arc::new(AtomicU32::new(0)));
    let count = runs.clone();
    let task = restarting(journal, "the task of a test", move || {
        count.fetch_add(1, Relaxed);
        async { Err("at once".to_owned()) }
    });
    // With pauses, 13 runs would take half a minute.
    let begin = Instant::now();
    while runs.load(Relaxed) < 13 {
        assert!(begin.elapsed() < PATIENCE, "{runs:?}");
        tokio::time::sleep(Duration::from_millis(1)).await;
        task.retry();
    }
}

#[tokio::test]
async fn a_task_that_runs_once_is_reported() {
    let journal = journal();
    spawn(journal.clone(), "the session with x", async { panic!("once") });
    while journal.task_failures() == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(journal.events()[0].words, "the session with x failed: it panicked: once");
}

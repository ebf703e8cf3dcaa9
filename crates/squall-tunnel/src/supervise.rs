//! Watches tasks: the end of one that should go on is reported, and the task is started again.

use std::{any::Any, future::Future, sync::Arc, time::Duration};

use tokio::{
    sync::Notify,
    task::{JoinError, JoinHandle, JoinSet},
    time::Instant,
};

use crate::journal::Journal;

/// Pause before a task is started again; it doubles with each failure, up to [`MAX_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(100);

/// Longest pause. A task that ran for longer than this begins with [`FIRST_PAUSE`] again.
const MAX_PAUSE: Duration = Duration::from_secs(5);

/// A task that is started again when it fails; it ends with this.
#[derive(Debug)]
pub(crate) struct Kept {
    task: JoinHandle<()>,
    again: Arc<Notify>,
}

impl Kept {
    /// Cuts a pause short.
    pub(crate) fn retry(&self) {
        self.again.notify_waiters();
    }

    /// Waits until the task has ended as intended.
    pub(crate) async fn join(&mut self) {
        // The watching task itself does nothing that could fail.
        let _ = (&mut self.task).await;
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Runs what `start` makes until it returns `Ok`. An error or a panic is reported, and it is started again.
pub(crate) fn keep<T>(
    journal: Arc<Journal>,
    name: impl Into<String>,
    mut start: impl FnMut() -> T + Send + 'static,
) -> Kept
where
    T: Future<Output = Result<(), String>> + Send + 'static,
{
    let (name, again) = (name.into(), Arc::new(Notify::new()));
    let hurry = again.clone();
    let task = tokio::spawn(async move {
        let mut pause = FIRST_PAUSE;
        loop {
            let begun = Instant::now();
            let Err(why) = run(start()).await else { return };
            if begun.elapsed() > MAX_PAUSE {
                pause = FIRST_PAUSE;
            }
            journal.task_failed(&name, &format!("{why}; it is started again in {pause:?}"));
            let _ = tokio::time::timeout(pause, hurry.notified()).await;
            pause = (pause * 2).min(MAX_PAUSE);
        }
    });
    Kept { task, again }
}

/// Runs a task that is not started again; a panic in it is reported.
pub(crate) fn watch(
    journal: Arc<Journal>,
    name: impl Into<String>,
    task: impl Future<Output = ()> + Send + 'static,
) {
    let name = name.into();
    tokio::spawn(async move {
        let done = async {
            task.await;
            Ok(())
        };
        if let Err(why) = run(done).await {
            journal.task_failed(&name, &why);
        }
    });
}

/// Runs a task of its own, which is aborted with this one. A panic in it becomes an error.
async fn run(task: impl Future<Output = Result<(), String>> + Send + 'static) -> Result<(), String> {
    let mut alone = JoinSet::new();
    alone.spawn(task);
    match alone.join_next().await {
        Some(Ok(result)) => result,
        Some(Err(error)) => Err(words(error)),
        None => Ok(()),
    }
}

fn words(error: JoinError) -> String {
    let Ok(panic) = error.try_into_panic() else { return "it was cancelled".to_owned() };
    format!("it panicked: {}", message(&*panic))
}

fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}

/// Panics in tests when data ends with these words.
#[cfg(test)]
pub(crate) fn trap(data: &[u8], words: &[u8]) {
    assert!(!data.ends_with(words), "a test asked for it");
}

#[cfg(test)]
mod tests;

//! Supervision of tasks: failures and panics are reported, and long-running tasks are restarted.

use std::{any::Any, future::Future, sync::Arc, time::Duration};

use tokio::{
    sync::Notify,
    task::{JoinError, JoinHandle, JoinSet},
    time::Instant,
};

use crate::journal::Journal;

/// Pause before the first restart; doubled with each failure, up to [`MAX_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(100);

/// Maximum pause. After a task has run for longer than this, the pause is [`FIRST_PAUSE`] again.
const MAX_PAUSE: Duration = Duration::from_secs(5);

/// A task that is restarted when it fails. Dropping this aborts the task.
#[derive(Debug)]
pub struct Supervised {
    task: JoinHandle<()>,
    retry: Arc<Notify>,
}

impl Supervised {
    /// Ends the current pause at once.
    pub fn retry(&self) {
        self.retry.notify_waiters();
    }

    /// Waits until the task has returned `Ok`.
    pub async fn join(&mut self) {
        // The supervising task itself cannot fail.
        let _ = (&mut self.task).await;
    }
}

impl Drop for Supervised {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Runs a task until it returns `Ok`. An error or a panic is reported, and the task is restarted.
pub fn restarting<T>(
    journal: Arc<Journal>,
    name: impl Into<String>,
    mut start: impl FnMut() -> T + Send + 'static,
) -> Supervised
where
    T: Future<Output = Result<(), String>> + Send + 'static,
{
    let (name, retry) = (name.into(), Arc::new(Notify::new()));
    let retried = retry.clone();
    let task = tokio::spawn(async move {
        let mut pause = FIRST_PAUSE;
        loop {
            let begun = Instant::now();
            let Err(why) = run(start()).await else { return };
            if begun.elapsed() > MAX_PAUSE {
                pause = FIRST_PAUSE;
            }
            journal.task_failed(&name, &format!("{why}; it restarts in {pause:?}"));
            let _ = tokio::time::timeout(pause, retried.notified()).await;
            pause = (pause * 2).min(MAX_PAUSE);
        }
    });
    Supervised { task, retry }
}

/// Runs a task once; a panic in it is reported.
pub fn spawn(
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

/// Runs a child task, which is aborted with this one. A panic in it becomes an error.
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

#[cfg(test)]
mod tests;

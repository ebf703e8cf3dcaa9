//! One end of a measurement over sockets.

use std::fs;

use anyhow::Context as _;
use tokio::runtime::Runtime;

/// A side: an endpoint on threads of its own.
pub(super) struct Side {
    name: &'static str,
    pub(super) runtime: Runtime,
}

impl Side {
    /// Starts the threads, whose name must be that of no other thread.
    pub(super) fn new(name: &'static str, workers: u8) -> anyhow::Result<Self> {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        let runtime = builder.worker_threads(workers.into()).thread_name(name).enable_all().build()?;
        Ok(Self { name, runtime })
    }

    /// Returns the name of its threads.
    pub(super) fn name(&self) -> &'static str {
        self.name
    }

    /// Returns the processor time of the side's threads, in seconds.
    pub(super) fn spent(&self) -> anyhow::Result<f64> {
        let mut nanos = 0;
        for task in fs::read_dir("/proc/self/task").context("processor times of threads need Linux")? {
            let folder = task?.path();
            let read = |file: &str| fs::read_to_string(folder.join(file)).unwrap_or_default();
            if read("comm").trim_end() == self.name {
                // The first of three numbers. The thread may have ended.
                let times = read("schedstat");
                nanos += times.split(' ').next().and_then(|time| time.parse::<u64>().ok()).unwrap_or(0);
            }
        }
        Ok(nanos as f64 / 1e9)
    }
}

/// Returns a quantile, by nearest rank below; reorders the values, of which there is at least one.
pub(super) fn quantile(values: &mut [f64], q: f64) -> f64 {
    let at = ((values.len() - 1) as f64 * q) as usize;
    *values.select_nth_unstable_by(at, f64::total_cmp).1
}

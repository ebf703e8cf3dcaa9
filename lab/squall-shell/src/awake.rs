//! Threads that keep processors from halting.

use std::{
    hint, io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::sync_channel,
    },
    thread::{self, JoinHandle},
};

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use thread_priority::{
    NormalThreadSchedulePolicy, ThreadPriority, ThreadSchedulePolicy, set_thread_priority_and_policy,
    thread_native_id,
};

use crate::error::ShellError;

/// Name of the threads.
const NAME: &str = "squall-awake";

/// Rounds between two checks for the end: some microseconds.
const ROUNDS: u32 = 1_000;

/// Keeps all processors of this program's affinity mask from halting, until it is dropped.
///
/// A virtual processor that halts releases the real one. If the host has others to run, the
/// processor gets it back when their time slices end, which may be tens of milliseconds after a
/// packet was due; a processor that never halts does not requeue each time it is idle. Therefore
/// one thread per processor spins. It has the lowest priority (SCHED_IDLE, see sched(7)) and yields
/// at once to any thread with work.
///
/// This uses all remaining processor time, of the real machine as well: use it for measurements
/// that have the machine to themselves, and not where processor time is rationed (a control group's
/// `cpu.max`), because it exhausts the ration.
#[derive(Debug)]
pub struct Awake {
    over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Awake {
    /// Keeps the processors awake from now on. Call it after [`acquire`](crate::acquire), which
    /// requires a program of one thread.
    ///
    /// # Errors
    ///
    /// [`ShellError::System`] if the system refuses a thread, its priority or its affinity.
    pub fn keep() -> Result<Self, ShellError> {
        let mut awake = Self { over: Arc::default(), threads: Vec::new() };
        for processor in processors()? {
            let over = Arc::clone(&awake.over);
            let (sender, settled) = sync_channel(1);
            awake.threads.push(thread::Builder::new().name(NAME.to_owned()).spawn(move || {
                let outcome = settle(processor);
                let stays = outcome.is_ok();
                let _ = sender.send(outcome);
                while stays && !over.load(Ordering::Relaxed) {
                    (0..ROUNDS).for_each(|_| hint::spin_loop());
                }
            })?);
            settled.recv().map_err(io::Error::other)??;
        }
        Ok(awake)
    }
}

impl Drop for Awake {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// Returns the processors of this program's affinity mask.
fn processors() -> io::Result<impl Iterator<Item = usize>> {
    let allowed = sched_getaffinity(None)?;
    Ok((0..CpuSet::MAX_CPU).filter(move |processor| allowed.is_set(*processor)))
}

/// Pins the calling thread to this processor, at the lowest priority.
fn settle(processor: usize) -> io::Result<()> {
    let idle = ThreadSchedulePolicy::Normal(NormalThreadSchedulePolicy::Idle);
    set_thread_priority_and_policy(thread_native_id(), ThreadPriority::Min, idle)
        .map_err(|problem| io::Error::other(format!("no thread of the lowest priority: {problem}")))?;
    let mut only = CpuSet::new();
    only.set(processor);
    Ok(sched_setaffinity(None, &only)?)
}

#[cfg(test)]
mod tests {
    use std::{
        fs,
        time::{Duration, Instant},
    };

    use super::*;

    /// Returns scheduling policy and processor time (in ticks) of each thread that keeps a
    /// processor awake; see proc(5).
    fn keeping() -> Vec<(u32, u64)> {
        let threads = fs::read_dir("/proc/self/task").expect("Linux has it");
        let of = |thread: io::Result<fs::DirEntry>| {
            // The thread may have ended since.
            let stat = fs::read_to_string(thread.ok()?.path().join("stat")).ok()?;
            let (name, fields) = stat.rsplit_once(')')?;
            let fields: Vec<&str> = fields.split_whitespace().collect();
            // proc(5) counts the fields after the name from 3.
            let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
            name.ends_with(NAME).then_some(())?;
            Some((field(41)? as u32, field(14)? + field(15)?))
        };
        threads.filter_map(of).collect()
    }

    fn soon(what: &str, is_so: impl Fn() -> bool) {
        let start = Instant::now();
        while !is_so() {
            assert!(start.elapsed() < Duration::from_secs(60), "{what}");
        }
    }

    #[test]
    fn a_thread_of_the_lowest_priority_is_busy_on_each_processor_until_it_is_over() {
        const SCHED_IDLE: u32 = 5;
        let awake = Awake::keep().expect("it may");
        let first = keeping();
        assert_eq!(first.len(), processors().expect("Linux has it").count());
        assert!(first.iter().all(|(policy, _)| *policy == SCHED_IDLE), "{first:?}");
        let used = |threads: &[(u32, u64)]| threads.iter().map(|(_, ticks)| ticks).sum::<u64>();
        soon("they are busy even if no other thread is", || used(&keeping()) != used(&first));
        drop(awake);
        // The kernel lets a thread be joined before it removes it from the list.
        soon("they are over", || keeping().is_empty());
    }
}

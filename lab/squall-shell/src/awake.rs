//! Processors that do not halt.

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

/// What the threads are called.
const NAME: &str = "squall-awake";

/// Rounds between two looks at whether it is over: some microseconds.
const ROUNDS: u32 = 1_000;

/// Keeps every processor that this program may use from halting, until it is dropped.
///
/// A virtual processor that halts gives the real one away. Where the host of the machine has others to run it gets it back when
/// their turn is over, which may be tens of milliseconds after a packet was due; one that never halts is not sent to the end of
/// the line each time it has nothing to do. So a thread on each processor does nothing, without end. It is of the lowest
/// priority there is (SCHED_IDLE, see sched(7)), and gives way at once to whatever has something to do.
///
/// This takes all the processor time that is left, of the real machine as well: for measurements that have the machine
/// to themselves, and not where the time is rationed (a control group's `cpu.max`), for it uses the ration up.
#[derive(Debug)]
pub struct Awake {
    over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Awake {
    /// Keeps them awake from now on. Call it after [`acquire`](crate::acquire), which wants a program of one thread.
    ///
    /// # Errors
    ///
    /// [`ShellError::System`] if the system refuses a thread, its priority or its place.
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

/// Those that this program may use.
fn processors() -> io::Result<impl Iterator<Item = usize>> {
    let allowed = sched_getaffinity(None)?;
    Ok((0..CpuSet::MAX_CPU).filter(move |processor| allowed.is_set(*processor)))
}

/// Puts the calling thread behind all others on this processor.
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

    /// The scheduling policies and processor times (in ticks) of the threads that keep processors awake; see proc(5).
    fn keeping() -> Vec<(u32, u64)> {
        let threads = fs::read_dir("/proc/self/task").expect("Linux has it");
        let of = |thread: io::Result<fs::DirEntry>| {
            // A thread may end meanwhile.
            let stat = fs::read_to_string(thread.ok()?.path().join("stat")).ok()?;
            let (name, fields) = stat.rsplit_once(')')?;
            let fields: Vec<&str> = fields.split_whitespace().collect();
            // They are counted from 3 there, behind the name.
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
        // The kernel lets a thread be joined before it takes it off the list.
        soon("they are over", || keeping().is_empty());
    }
}

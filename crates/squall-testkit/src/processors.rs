//! Processor time of programs that this process did not start, as counted by the kernel.

use std::{
    collections::HashMap,
    fs,
    time::{Duration, Instant},
};

/// Length of a tick in /proc: 10 ms on every Linux, independent of the kernel's timer frequency.
const TICK: Duration = Duration::from_millis(10);

/// Measures the processor time that others use.
pub(crate) struct Others {
    begin: Instant,
    processors: u32,
    before: Used,
}

/// Processor time in ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Used {
    /// Time withheld by the host of a virtual machine, since system start.
    steal: u64,
    /// Time of this program and of its descendants, including children that have ended.
    own: u64,
    /// Time of all other running programs and of their children that have ended. Kernel threads do
    /// not count: they may process the measured packets.
    others: u64,
}

/// Contents of /proc/PID/stat that are used.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Process {
    id: u32,
    parent: u32,
    /// Time of the process and of its children that have ended and been waited for: time moves from
    /// child to parent and is not lost.
    used: u64,
}

/// Id of the parent of all kernel threads.
const KTHREADD: u32 = 2;

impl Others {
    /// Starts measuring. Returns `None` if the system has no such counters.
    pub(crate) fn watch() -> Option<Self> {
        let processors = std::thread::available_parallelism().ok()?.get().try_into().ok()?;
        Some(Self { begin: Instant::now(), processors, before: Used::now()? })
    }

    /// Returns the share of the processors that others have used since, 0 to 1.
    pub(crate) fn share(&self) -> Option<f64> {
        let (now, all) = (Used::now()?, self.begin.elapsed() * self.processors);
        (!all.is_zero()).then(|| self.before.taken_by_others(&now).as_secs_f64() / all.as_secs_f64())
    }
}

impl Used {
    fn now() -> Option<Self> {
        let steal = steal(&fs::read_to_string("/proc/stat").ok()?)?;
        let all = fs::read_dir("/proc").ok()?.flatten();
        let stats = all.filter_map(|entry| {
            entry.file_name().to_str()?.parse::<u32>().ok()?;
            fs::read_to_string(entry.path().join("stat")).ok()
        });
        let processes: Vec<Process> = stats.filter_map(|stat| Process::parse(&stat)).collect();
        Some(Self::of(steal, std::process::id(), &processes))
    }

    fn of(steal: u64, own: u32, processes: &[Process]) -> Self {
        let parents: HashMap<u32, u32> =
            processes.iter().map(|process| (process.id, process.parent)).collect();
        // A chain of parents is never that long, but an id in it may be reused while it is read.
        let parents_of = |id| std::iter::successors(Some(id), |id| parents.get(id).copied()).take(1_000);
        let is_own = |process: &Process| parents_of(process.id).any(|id| id == own);
        let mut used = Self { steal, ..Self::default() };
        for process in processes.iter().filter(|process| process.id != KTHREADD && process.parent != KTHREADD)
        {
            let sum = if is_own(process) { &mut used.own } else { &mut used.others };
            *sum += process.used;
        }
        used
    }

    fn taken_by_others(&self, later: &Self) -> Duration {
        ticks(later.others.saturating_sub(self.others) + later.steal.saturating_sub(self.steal))
    }
}

impl Process {
    /// Parses /proc/PID/stat; see proc(5).
    fn parse(stat: &str) -> Option<Self> {
        // The name, in brackets, may contain brackets and spaces.
        let (head, rest) = stat.rsplit_once(')')?;
        let id = head.split_whitespace().next()?.parse().ok()?;
        let fields: Vec<&str> = rest.split_whitespace().collect();
        let number = |at: usize| fields.get(at)?.parse::<u64>().ok();
        let used = number(11)? + number(12)? + number(13)? + number(14)?;
        Some(Self { id, parent: number(1)?.try_into().ok()?, used })
    }
}

/// Returns the eighth number in the first line of /proc/stat.
fn steal(system: &str) -> Option<u64> {
    system.lines().next()?.strip_prefix("cpu ")?.split_whitespace().nth(7)?.parse().ok()
}

fn ticks(count: u64) -> Duration {
    TICK * u32::try_from(count).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_lines_are_read() {
        let system = "cpu  319890 67 20376 128179 2432 0 566 90237 0 0\ncpu0 1 2 3 4 5 6 7 8 9 10\nintr 7\n";
        assert_eq!((steal(system), steal("cpu  1 2 3\n"), steal("")), (Some(90_237), None, None));
        let program =
            "4242 (a) name (of) S 7 4242 4242 0 -1 4194304 100 200 3 4 1000 200 30 4 20 0 1 0 12345 1 2 3";
        assert_eq!(Process::parse(program), Some(Process { id: 4_242, parent: 7, used: 1_234 }));
        assert_eq!(Process::parse("1 (x) S 2 3"), None);
    }

    #[test]
    fn time_of_programs_this_one_started_is_its_own() {
        let process = |id, parent, used| Process { id, parent, used };
        let all = [
            process(1, 0, 1),
            process(2, 0, 10_000),
            process(30, 2, 20_000),
            process(100, 1, 10),
            process(101, 100, 100),
            process(102, 101, 1_000),
            process(200, 1, 2),
        ];
        assert_eq!(Used::of(5, 100, &all), Used { steal: 5, own: 1_110, others: 3 });
    }

    #[test]
    fn a_loop_of_parents_ends() {
        let looped = [Process { id: 7, parent: 8, used: 1 }, Process { id: 8, parent: 7, used: 1 }];
        assert_eq!(Used::of(0, 100, &looped).others, 2);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_child_that_is_killed_stays_ones_own() {
        let before = Used::now().expect("Linux has /proc");
        let busy = ["-c", "while :; do :; done"];
        let mut child = std::process::Command::new("sh").args(busy).spawn().expect("there is a shell");
        let own = || Used::now().expect("Linux has /proc").own - before.own;
        let begin = Instant::now();
        while own() < 20 {
            assert!(begin.elapsed().as_secs() < 60, "its time is not counted");
        }
        child.kill().expect("it runs");
        assert!(own() >= 20, "its time is lost before it is waited for");
        child.wait().expect("it ends");
        assert!(own() >= 20, "its time is lost when it is waited for");
    }

    #[test]
    fn others_take_what_they_and_the_host_took_since() {
        let before = Used { steal: 10, own: 7, others: 100 };
        let later = Used { steal: 30, own: 900, others: 150 };
        assert_eq!(before.taken_by_others(&later), Duration::from_millis(700));
        assert_eq!(later.taken_by_others(&before), Duration::ZERO);
    }
}

//! Who had the processors, by the kernel's count.

use std::fs;

/// Processor time in the kernel's ticks since some moment: that the system started, or this program.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Used {
    /// Of all programs, of the kernel for them, and withheld by the host of a virtual machine.
    taken: u64,
    /// The same with what nobody had, over all processors.
    all: u64,
    /// Of this program and of its children that have ended.
    own: u64,
}

impl Used {
    /// Nothing where the system does not tell.
    pub(crate) fn now() -> Option<Self> {
        Self::parse(&fs::read_to_string("/proc/stat").ok()?, &fs::read_to_string("/proc/self/stat").ok()?)
    }

    /// See proc(5): `system` is /proc/stat, `program` is /proc/self/stat.
    fn parse(system: &str, program: &str) -> Option<Self> {
        let numbers = |fields: &str| -> Vec<u64> {
            fields.split_whitespace().map_while(|field| field.parse().ok()).collect()
        };
        let [user, nice, kernel, idle, waiting, irq, soft_irq, steal] =
            *numbers(system.lines().next()?.strip_prefix("cpu ")?).first_chunk()?;
        let taken = user + nice + kernel + steal;
        // The name, in brackets, may have brackets and spaces; then come a letter and ten numbers.
        let (_, fields) = program.rsplit_once(')')?;
        let fields: Vec<&str> = fields.split_whitespace().skip(11).take(4).collect();
        let own = numbers(&fields.join(" "));
        // Interrupts are the packets of those who are measured, mostly.
        let all = taken + idle + waiting + irq + soft_irq;
        (own.len() == 4).then(|| Self { taken, all, own: own.iter().sum() })
    }

    /// The share of the processors that others had from here to `later`, 0 to 1; nothing if that is no time at all.
    pub(crate) fn share_of_others(&self, later: &Self) -> Option<f64> {
        let since = |count: fn(&Self) -> u64| count(later).saturating_sub(count(self));
        let (taken, all, own) = (since(|used| used.taken), since(|used| used.all), since(|used| used.own));
        (all > 0).then(|| taken.saturating_sub(own) as f64 / all as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SYSTEM: &str =
        "cpu  319890 67 20376 128179 2432 0 566 90237 0 0\ncpu0 1 2 3 4 5 6 7 8 9 10\nintr 7\n";
    const PROGRAM: &str =
        "4242 (a) name (of) S 1 4242 4242 0 -1 4194304 100 200 3 4 1000 200 30 4 20 0 1 0 12345 1 2 3";

    #[test]
    fn what_the_kernel_writes_is_read() {
        let used = Used::parse(SYSTEM, PROGRAM).expect("numbers");
        let taken = 319_890 + 67 + 20_376 + 90_237;
        assert_eq!(used, Used { taken, all: taken + 128_179 + 2_432 + 566, own: 1_234 });
    }

    #[test]
    fn what_it_does_not_write_is_nothing() {
        for (system, program) in [("", PROGRAM), ("cpu  1 2 3\n", PROGRAM), (SYSTEM, "1 (x) S 2 3")] {
            assert_eq!(Used::parse(system, program), None);
        }
    }

    #[test]
    fn others_had_what_was_not_left_nor_our_own() {
        let before = Used { taken: 100, all: 1_000, own: 10 };
        let share = |taken: u64, own: u64| {
            before.share_of_others(&Used { taken: 100 + taken, all: 2_000, own: 10 + own })
        };
        assert_eq!((share(500, 500), share(500, 200), share(0, 1)), (Some(0.0), Some(0.3), Some(0.0)));
        assert_eq!(before.share_of_others(&before), None);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn work_of_this_program_is_its_own() {
        let before = Used::now().expect("Linux tells");
        let start = std::time::Instant::now();
        while Used::now().expect("Linux tells").own < before.own + 5 {
            assert!(start.elapsed().as_secs() < 60, "it is counted");
        }
    }
}

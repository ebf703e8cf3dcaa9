//! Progress of a study, with an estimate of the remaining time.

use std::{
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use squall_lab::experiment::StudyProgress;

use squall_terminal::progress::Progress;

/// Time before the first estimate.
const GUESS_AFTER: Duration = Duration::from_secs(2);

/// Width of the bar in characters.
const WIDTH: u64 = 24;

/// A line with a bar and the remaining time.
pub(super) struct Remaining {
    begin: Instant,
    first: StudyProgress,
    line: Mutex<Progress>,
}

impl Remaining {
    pub(super) fn new(first: StudyProgress) -> Self {
        Self { begin: Instant::now(), first, line: Mutex::new(Progress::default()) }
    }

    pub(super) fn show(&self, now: StudyProgress) {
        let mut line = self.line.lock().unwrap_or_else(PoisonError::into_inner);
        line.show(&words(now, self.begin.elapsed()));
    }

    pub(super) fn done(&self) {
        let StudyProgress { runs, known, .. } = self.first;
        let mut line = self.line.lock().unwrap_or_else(PoisonError::into_inner);
        let seconds = self.begin.elapsed().as_secs_f64();
        line.done(&format!("{} runs in {seconds:.1} s, {known} known from before", runs.1));
    }
}

fn words(now: StudyProgress, elapsed: Duration) -> String {
    let (done, all) = (now.work.0.min(now.work.1), now.work.1.max(1));
    let filled = (done * WIDTH / all) as usize;
    let bar = format!("{}{}", "#".repeat(filled), ".".repeat(WIDTH as usize - filled));
    let left = if elapsed < GUESS_AFTER || done == 0 {
        String::new()
    } else {
        let seconds = elapsed.as_secs_f64() * (all - done) as f64 / done as f64;
        format!(", {} left", clock(seconds as u64))
    };
    format!("[{bar}] {} of {} runs, {} %{left}", now.runs.0, now.runs.1, done * 100 / all)
}

/// Formats seconds as `1:02:03` or `2:03`.
fn clock(seconds: u64) -> String {
    let (hours, minutes, seconds) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
    if hours > 0 { format!("{hours}:{minutes:02}:{seconds:02}") } else { format!("{minutes}:{seconds:02}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rest_takes_as_long_as_what_was_done() {
        let now = StudyProgress { runs: (1, 4), known: 0, work: (25, 100) };
        let line = words(now, Duration::from_secs(60));
        assert_eq!(line, "[######..................] 1 of 4 runs, 25 %, 3:00 left");
        assert_eq!(clock(3_723), "1:02:03");
    }

    #[test]
    fn nothing_is_guessed_too_soon() {
        let now = StudyProgress { runs: (0, 4), known: 0, work: (0, 100) };
        assert!(!words(now, Duration::from_secs(60)).contains("left"));
        assert!(!words(StudyProgress::default(), Duration::from_millis(1)).contains("left"));
    }
}

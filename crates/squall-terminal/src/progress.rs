//! A line on standard error that shows the progress of long work.

use std::{
    io::{IsTerminal as _, stderr},
    time::{Duration, Instant},
};

use crate::output;

/// Interval between two changes of the line on a terminal.
const ON_TERMINAL: Duration = Duration::from_millis(100);

/// Interval between two lines elsewhere.
const ELSEWHERE: Duration = Duration::from_secs(3);

/// Line of progress, rewritten in place on a terminal; elsewhere a new line from time to time.
#[derive(Debug)]
pub struct Progress {
    terminal: bool,
    last: Instant,
    shown: bool,
    /// Last text. Elsewhere than on a terminal no line is written twice in a row.
    text: String,
}

impl Default for Progress {
    /// Starts without showing a line.
    fn default() -> Self {
        Self { terminal: stderr().is_terminal(), last: Instant::now(), shown: false, text: String::new() }
    }
}

impl Progress {
    /// Shows a text, unless the last one was shown a moment ago.
    pub fn show(&mut self, text: &str) {
        let interval = if self.terminal { ON_TERMINAL } else { ELSEWHERE };
        if self.last.elapsed() < interval || (!self.terminal && self.text == text) {
            return;
        }
        text.clone_into(&mut self.text);
        self.last = Instant::now();
        self.shown = true;
        output::on_stderr(&if self.terminal { format!("\r\x1b[K{text}") } else { format!("{text}\n") });
    }

    /// Removes the line.
    pub fn clear(&mut self) {
        if self.terminal && self.shown {
            output::on_stderr("\r\x1b[K");
        }
        self.shown = false;
    }

    /// Shows a final text, which stays.
    pub fn done(&mut self, text: &str) {
        self.clear();
        output::on_stderr(&format!("{text}\n"));
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.clear();
    }
}

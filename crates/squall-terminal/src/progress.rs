//! A line on standard error that says how far long work is.

use std::{
    io::{IsTerminal as _, stderr},
    time::{Duration, Instant},
};

use crate::output;

/// Time between two changes of the line on a terminal.
const ON_TERMINAL: Duration = Duration::from_millis(100);

/// Time between two lines elsewhere.
const ELSEWHERE: Duration = Duration::from_secs(3);

/// The line, rewritten in place on a terminal; elsewhere a new one now and then.
#[derive(Debug)]
pub struct Progress {
    terminal: bool,
    last: Instant,
    shown: bool,
    /// Elsewhere than on a terminal no line is written twice.
    text: String,
}

impl Default for Progress {
    /// Shows nothing yet.
    fn default() -> Self {
        Self { terminal: stderr().is_terminal(), last: Instant::now(), shown: false, text: String::new() }
    }
}

impl Progress {
    /// Shows this, if the time has come to show something.
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

    /// Takes the line away.
    pub fn clear(&mut self) {
        if self.terminal && self.shown {
            output::on_stderr("\r\x1b[K");
        }
        self.shown = false;
    }

    /// Shows this for good.
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

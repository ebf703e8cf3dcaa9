//! Writing to standard error without blocking: one thread writes the lines that others have queued.
//!
//! A pipe whose reader sleeps, or a terminal stopped with Ctrl-S, accepts no more bytes. A thread
//! that writes to it blocks until it does, and with it the sessions that the thread serves.

use std::{
    backtrace::{Backtrace, BacktraceStatus},
    io, mem,
    sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError},
    thread,
    time::Duration,
};

use crate::output;

/// Maximum number of queued bytes. The thread may hold the same number in addition.
const MAX_QUEUED: usize = 1 << 20;

/// Stack of the thread, which only writes and reports.
const STACK: usize = 256 << 10;

/// Standard error of this process, after [`start`] was called.
static STANDARD_ERROR: OnceLock<Lines> = OnceLock::new();

/// Function that reports a number of lost lines.
type Report = fn(u64);

/// Lines queued for a writer.
struct Lines {
    queue: Mutex<Queue>,
    changed: Condvar,
    report: Report,
}

#[derive(Default)]
struct Queue {
    text: Vec<u8>,
    /// Number of lines lost for lack of room since the last report.
    lost: u64,
    is_writing: bool,
}

/// From this call on, [`output::on_stderr`] and panics do not wait for the reader of standard
/// error: a line that exceeds a queue of 1 MiB is lost, and counted. Once lines are written again,
/// `report` writes the number of lost ones. Call [`flush`] before the end of the program, so that
/// the last lines are written. No effect the second time.
///
/// # Errors
/// If the system cannot start a thread.
pub fn start(report: Report) -> io::Result<()> {
    let mut is_new = false;
    let lines = STANDARD_ERROR.get_or_init(|| {
        is_new = true;
        Lines::new(report)
    });
    if !is_new {
        return Ok(());
    }
    let builder = thread::Builder::new().name("squall-stderr".to_owned()).stack_size(STACK);
    builder.spawn(|| lines.write_to(io::stderr()))?;
    std::panic::set_hook(Box::new(|panic| {
        let thread = thread::current();
        let (name, trace) = (thread.name().unwrap_or("<unnamed>"), Backtrace::capture());
        let trace =
            if trace.status() == BacktraceStatus::Captured { trace.to_string() } else { String::new() };
        output::on_stderr(&format!("thread '{name}' {panic}\n{trace}"));
    }));
    Ok(())
}

/// Waits until all lines are written, at most for this time.
pub fn flush(time: Duration) {
    if let Some(lines) = STANDARD_ERROR.get() {
        lines.flush(time);
    }
}

/// Queues text. Returns `true` if [`start`] was called; otherwise the text is not written.
pub fn queue(text: &[u8]) -> bool {
    STANDARD_ERROR.get().inspect(|lines| lines.push(text)).is_some()
}

impl Lines {
    fn new(report: Report) -> Self {
        Self { queue: Mutex::default(), changed: Condvar::new(), report }
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, text: &[u8]) {
        let mut queue = self.lock();
        if queue.text.len() + text.len() > MAX_QUEUED {
            queue.lost += 1;
            return;
        }
        queue.text.extend_from_slice(text);
        drop(queue);
        self.changed.notify_all();
    }

    /// Writes without end. Lines that cannot be written are lost: the program survives a full disk
    /// and the end of its reader.
    fn write_to(&self, mut out: impl io::Write) {
        loop {
            let is_empty = |queue: &mut Queue| queue.text.is_empty();
            let mut queue =
                self.changed.wait_while(self.lock(), is_empty).unwrap_or_else(PoisonError::into_inner);
            let (text, lost) = (mem::take(&mut queue.text), mem::take(&mut queue.lost));
            queue.is_writing = true;
            drop(queue);
            if lost > 0 {
                // After the lines that were queued before the lost ones.
                (self.report)(lost);
            }
            let _ = out.write_all(&text);
            self.lock().is_writing = false;
            self.changed.notify_all();
        }
    }

    fn flush(&self, time: Duration) {
        let is_busy = |queue: &mut Queue| queue.is_writing || !queue.text.is_empty();
        let _ = self.changed.wait_timeout_while(self.lock(), time, is_busy);
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::{BufRead as _, BufReader, pipe},
        time::Instant,
    };

    use super::*;

    /// Lines of the test.
    static LINES: OnceLock<Lines> = OnceLock::new();

    #[test]
    fn lines_that_find_no_room_are_counted_and_reported_in_their_place() {
        const LINE: &str = "a line of the log of a tunnel\n";
        let lines = LINES.get_or_init(|| {
            Lines::new(|lost| LINES.get().expect("is there").push(format!("{lost} lost\n").as_bytes()))
        });
        let (reader, writer) = pipe().expect("is made");
        thread::spawn(|| lines.write_to(writer));
        // More than the queue, the thread and the pipe can hold.
        let (begin, all) = (Instant::now(), 4 * MAX_QUEUED / LINE.len());
        (0..all).for_each(|_| lines.push(LINE.as_bytes()));
        lines.flush(Duration::from_millis(50));
        let took = begin.elapsed();
        assert!(took < Duration::from_secs(20), "waits for the reader: {took:?}");

        // The reader continues.
        let (mut written, mut lost) = (0, 0);
        for line in BufReader::new(reader).lines().map(|line| line.expect("is text")) {
            match line.strip_suffix(" lost") {
                Some(number) => lost += number.parse::<usize>().expect("a number"),
                None => written += 1,
            }
            if written + lost == all {
                break;
            }
        }
        // The queue is full when another line would be too much.
        assert!(lost > 0 && (written + 1) * LINE.len() > MAX_QUEUED, "{written} written, {lost} lost");
    }
}

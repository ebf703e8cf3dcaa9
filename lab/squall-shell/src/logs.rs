//! Logs of every packet on the links, written while the links run.

use std::{
    fs::{self, File},
    io::{BufWriter, Write as _},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use squall_net::{Direction, Live, PathConfig, log::MahimahiLog};

use crate::{error::ShellError, ports::Packet};

/// Writes the logs until [`Logs::finish`].
#[derive(Debug)]
pub(crate) struct Logs {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<(), ShellError>>>,
}

/// Interval at which records are taken from the links: some thousand packets of a fast link.
const PERIOD: Duration = Duration::from_millis(100);

/// Logs of one direction of a path.
struct Log {
    path: usize,
    direction: Direction,
    mahimahi: Writer,
    lines: Writer,
}

/// A file with its path for error messages.
struct Writer {
    path: PathBuf,
    file: BufWriter<File>,
}

impl Logs {
    pub(crate) fn start(
        folder: &Path,
        paths: &[PathConfig],
        names: &[String],
        live: Arc<Live<Packet>>,
    ) -> Result<Self, ShellError> {
        fs::create_dir_all(folder).map_err(failed(folder))?;
        let mut logs = Vec::new();
        for (path, (config, name)) in paths.iter().zip(names).enumerate() {
            for (direction, word, link) in
                [(Direction::Up, "up", &config.up), (Direction::Down, "down", &config.down)]
            {
                let file = |end: &str| Writer::create(folder.join(format!("{name}-{word}.{end}")));
                let mut log = Log { path, direction, mahimahi: file("log")?, lines: file("jsonl")? };
                let queue = serde_json::to_string(&link.queue).unwrap_or_default();
                log.mahimahi.write(&MahimahiLog::header(&format!("{name} {word}"), &queue, wall_clock()))?;
                live.keep_records(path, direction, true);
                logs.push(log);
            }
        }
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::Builder::new().name("squall-logs".to_owned()).spawn(move || {
            let outcome = keep_writing(&mut logs, &live, &stopped);
            // No thread takes the records after an error: they would grow as long as the links run.
            for log in &logs {
                live.keep_records(log.path, log.direction, false);
            }
            outcome
        })?;
        Ok(Self { stop, thread: Some(thread) })
    }

    pub(crate) fn finish(mut self) -> Result<(), ShellError> {
        self.end()
    }

    fn end(&mut self) -> Result<(), ShellError> {
        self.stop.store(true, Ordering::Relaxed);
        let Some(thread) = self.thread.take() else { return Ok(()) };
        thread.thread().unpark();
        match thread.join() {
            Ok(outcome) => outcome,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
}

impl Drop for Logs {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            // Errors are reported by `finish`.
            let _ = self.end();
        }
    }
}

/// Writes records until `stop` is set or an error occurs.
fn keep_writing(logs: &mut [Log], live: &Live<Packet>, stop: &AtomicBool) -> Result<(), ShellError> {
    loop {
        let last = stop.load(Ordering::Relaxed);
        for log in logs.iter_mut() {
            log.write(live)?;
        }
        if last {
            return logs.iter_mut().try_for_each(Log::flush);
        }
        std::thread::park_timeout(PERIOD);
    }
}

impl Log {
    fn write(&mut self, live: &Live<Packet>) -> Result<(), ShellError> {
        let records = live.drain_records(self.path, self.direction);
        self.mahimahi.write(&MahimahiLog::lines(&records))?;
        for record in &records {
            let line = serde_json::to_string(record).expect("a record is numbers and words");
            self.lines.write(&line)?;
            self.lines.write("\n")?;
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), ShellError> {
        [&mut self.mahimahi, &mut self.lines]
            .into_iter()
            .try_for_each(|writer| writer.file.flush().map_err(failed(&writer.path)))
    }
}

impl Writer {
    fn create(path: PathBuf) -> Result<Self, ShellError> {
        let file = File::create(&path).map_err(failed(&path))?;
        Ok(Self { path, file: BufWriter::new(file) })
    }

    fn write(&mut self, text: &str) -> Result<(), ShellError> {
        self.file.write_all(text.as_bytes()).map_err(failed(&self.path))
    }
}

fn failed(path: &Path) -> impl FnOnce(std::io::Error) -> ShellError {
    let path = path.display().to_string();
    move |problem| ShellError::Log { path, problem }
}

/// Returns milliseconds since 1970, the time base of mahimahi's logs.
fn wall_clock() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

#[cfg(test)]
mod tests {
    use std::{
        io,
        os::{
            fd::{AsFd as _, BorrowedFd},
            unix::net::UnixDatagram,
        },
        time::Instant,
    };

    use squall_net::{Arrival, Inbox, Network, Outcome, Ports};

    use super::*;

    /// The client's end, which sends the datagrams of a socket.
    struct Socket(UnixDatagram);

    impl Ports for Socket {
        type Packet = Packet;

        fn watched(&self) -> Vec<BorrowedFd<'_>> {
            vec![self.0.as_fd()]
        }

        fn receive(&mut self, _: &[bool], inbox: &mut Inbox<Packet>) -> io::Result<()> {
            while self.0.recv(&mut [0; 10]).is_ok() {
                inbox.push(0, Direction::Up, 100, Packet::default());
            }
            Ok(())
        }

        fn hand_over(&mut self, _: &Arrival<Packet>) -> Outcome {
            Outcome::Sent
        }

        fn rebind(&mut self, _: usize) -> io::Result<()> {
            Ok(())
        }
    }

    fn eventually(what: &str, condition: impl Fn() -> bool) {
        let start = Instant::now();
        while !condition() {
            assert!(start.elapsed() < Duration::from_secs(5), "not within five seconds: {what}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    #[test]
    fn what_cannot_be_written_is_not_recorded_for_ever() {
        let folder = tempfile::tempdir().expect("a folder");
        std::os::unix::fs::symlink("/dev/full", folder.path().join("wifi-up.jsonl")).expect("it is made");
        let path: PathConfig = "name=wifi".parse().expect("a link");
        let (ours, theirs) = UnixDatagram::pair().expect("sockets");
        theirs.set_nonblocking(true).expect("a socket that does not wait");
        let network = Network::new(std::slice::from_ref(&path), 1).expect("a network");
        let live = Arc::new(Live::start(network, Socket(theirs), "test").expect("a thread"));
        let logs =
            Logs::start(folder.path(), &[path], &["wifi".to_owned()], Arc::clone(&live)).expect("logs");
        let pushed = || live.report().paths[0].up.pushed.packets;
        let send = || (0..200).for_each(|_| assert!(ours.send(b"x").is_ok()));
        // More lines than fit a buffer.
        send();
        eventually("an error", || logs.thread.as_ref().is_some_and(JoinHandle::is_finished));
        send();
        eventually("all packets", || pushed() == 400);
        assert!(live.drain_records(0, Direction::Up).is_empty());
        let error = logs.finish().expect_err("the disk is full").to_string();
        assert!(error.contains("wifi-up.jsonl"), "{error}");
    }
}

//! Logs of every packet on the links, written while they run.

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

/// Writes the logs until it is told to finish.
#[derive(Debug)]
pub(crate) struct Logs {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<(), ShellError>>>,
}

/// How often the links are asked for their records: some thousand packets of a fast link.
const PERIOD: Duration = Duration::from_millis(100);

/// The logs of one direction of a path.
struct Log {
    path: usize,
    direction: Direction,
    mahimahi: Writer,
    lines: Writer,
}

/// A file, and its name for errors.
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
        let told = Arc::clone(&stop);
        let thread = std::thread::Builder::new().name("squall-logs".to_owned()).spawn(move || {
            loop {
                let last = told.load(Ordering::Relaxed);
                for log in &mut logs {
                    log.write(&live)?;
                }
                if last {
                    return logs.iter_mut().try_for_each(Log::flush);
                }
                std::thread::park_timeout(PERIOD);
            }
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
            // Who wants to know calls `finish`.
            let _ = self.end();
        }
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

/// Milliseconds since 1970, as mahimahi dates its logs.
fn wall_clock() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

//! A radio that another program reads and appends to a file, a line for each reading.
//!
//! Emulated radios reach the programs behind emulated links in this way, and a script can supply
//! readings of radios that Squall cannot read. A line is a JSON object with the available fields of
//! [`Reading`], and its age: `{"technology":"lte","rsrp":-101.5,"sinr":4.0,"age_us":2000}`.

use std::{
    fs::File,
    io::{BufRead as _, BufReader, Read as _},
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use serde::{Deserialize, Serialize};

use crate::{Clock, Reading, SignalSource, SourceError, Span, Technology, Time};

/// Environment variable with the folder that contains a file `NAME.jsonl` for each interface.
pub const FOLDER: &str = "SQUALL_RADIOS";

/// Period at which the file is read.
const PERIOD: Duration = Duration::from_millis(10);

/// Longest line in bytes. A longer one is an error, so that a file without line ends uses no
/// memory.
const LONGEST: usize = 4_096;

/// A file of readings, as a radio.
#[derive(Debug)]
pub struct ExternalSource {
    path: PathBuf,
    file: BufReader<File>,
    /// Beginning of a line that is not complete yet.
    line: Vec<u8>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct Line {
    technology: String,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    disconnected: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    rsrp: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rsrq: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sinr: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rssi: Option<f64>,
    age_us: u64,
}

impl Line {
    /// Returns the reading of a line that is read at `now`.
    fn reading(self, now: Time) -> Reading {
        let Self { technology, disconnected, rsrp, rsrq, sinr, rssi, age_us } = self;
        let technology: Technology = technology.parse().unwrap_or_default();
        Reading { at: now - Span::from_micros(age_us), technology, disconnected, rsrp, rsrq, sinr, rssi }
    }
}

/// Parses a line, for fuzzers.
#[cfg(any(test, fuzzing))]
pub(crate) fn parse(line: &[u8], now: Time) -> serde_json::Result<Reading> {
    serde_json::from_slice(line).map(|line: Line| line.reading(now))
}

/// Formats a reading as a line without its end, written at `now` by the clock of its time.
pub fn line(reading: &Reading, now: Time) -> String {
    let Reading { at, technology, disconnected, rsrp, rsrq, sinr, rssi } = *reading;
    let age_us = (now - at).micros();
    let line =
        Line { technology: technology.name().to_owned(), disconnected, rsrp, rsrq, sinr, rssi, age_us };
    serde_json::to_string(&line).expect("numbers and text can be written")
}

impl ExternalSource {
    /// Opens the radio of an interface, from its file in this folder.
    ///
    /// # Errors
    /// If there is no such file, or it cannot be read.
    pub fn open(folder: &Path, interface: &str) -> Result<Self, SourceError> {
        let path = folder.join(format!("{interface}.jsonl"));
        let missing = |error: std::io::Error| SourceError::Missing {
            radio: interface.to_owned(),
            problem: format!("{}: {error}", path.display()),
        };
        let file = BufReader::new(File::open(&path).map_err(missing)?);
        Ok(Self { path, file, line: Vec::new() })
    }

    /// Returns the next complete line; `None` while there is none.
    fn next_line(&mut self) -> Result<Option<Line>, SourceError> {
        let failed = |path: &Path, problem: String| SourceError::Missing {
            radio: path.display().to_string(),
            problem,
        };
        loop {
            let room = (LONGEST + 1 - self.line.len()) as u64;
            let read = self.file.by_ref().take(room).read_until(b'\n', &mut self.line);
            let read = read.map_err(|error| failed(&self.path, error.to_string()))?;
            if self.line.len() > LONGEST {
                return Err(failed(&self.path, format!("a line is longer than {LONGEST} bytes")));
            }
            if read == 0 || self.line.last() != Some(&b'\n') {
                return Ok(None);
            }
            let line = std::mem::take(&mut self.line);
            if !line.trim_ascii().is_empty() {
                let parsed = serde_json::from_slice(&line);
                return parsed.map(Some).map_err(|error| failed(&self.path, error.to_string()));
            }
        }
    }
}

impl SignalSource for ExternalSource {
    fn label(&self) -> String {
        self.path.display().to_string()
    }

    fn next(&mut self, clock: Clock, timeout: Duration) -> Result<Option<Reading>, SourceError> {
        let until = clock.now() + timeout.into();
        loop {
            let mut newest = None;
            while let Some(line) = self.next_line()? {
                newest = Some(line);
            }
            if let Some(line) = newest {
                return Ok(Some(line.reading(clock.now())));
            }
            let left = until - clock.now();
            if left.is_zero() {
                return Ok(None);
            }
            thread::sleep(PERIOD.min(left.duration()));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{io::Write as _, time::Instant};

    use squall_units::short::{at_us, us};

    use super::*;

    #[cfg(unix)]
    #[test]
    fn a_line_without_an_end_is_refused() {
        let folder = std::env::temp_dir().join(format!("squall-endless-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        std::os::unix::fs::symlink("/dev/zero", folder.join("lte.jsonl")).unwrap();
        let mut source = ExternalSource::open(&folder, "lte").unwrap();
        let error = source.next(Clock::new(Instant::now()), Duration::from_millis(1)).unwrap_err();
        assert!(error.to_string().contains("longer than 4096 bytes"), "{error}");
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn readings_arrive_as_they_are_written_and_the_newest_counts() {
        let folder = std::env::temp_dir().join(format!("squall-external-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let mut file = File::create(folder.join("lte.jsonl")).unwrap();
        let mut source = ExternalSource::open(&folder, "lte").unwrap();
        let clock = Clock::new(Instant::now());
        let mut next = |millis| source.next(clock, Duration::from_millis(millis));
        assert_eq!(next(1), Ok(None));
        let written = Reading::lte(at_us(5_000), -101.5, 4.0);
        writeln!(file, "{}", line(&Reading::lte(at_us(1), -90.0, 9.0), at_us(1))).unwrap();
        write!(file, "{}", line(&written, at_us(7_000))).unwrap();
        assert_eq!(next(1).unwrap().map(|reading| reading.rsrp), Some(Some(-90.0)));
        // The last line is not complete yet.
        assert_eq!(next(1), Ok(None));
        writeln!(file).unwrap();
        let reading = next(1).unwrap().unwrap();
        assert_eq!(Reading { at: written.at, ..reading }, written);
        assert!(clock.now() - reading.at >= us(2_000));
        writeln!(file, "no reading").unwrap();
        assert!(next(1).unwrap_err().to_string().contains("lte.jsonl"));
        std::fs::remove_dir_all(&folder).unwrap();
        assert!(ExternalSource::open(&folder, "lte").is_err());
    }
}

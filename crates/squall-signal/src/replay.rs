//! A recording as a radio: Squall's own table of readings, to which `squall-lab signal import`
//! converts other formats.

use std::{ops::RangeInclusive, thread, time::Duration};

use crate::{Clock, Reading, SignalSource, SourceError, Span, Technology, Time};

/// Columns of a recording. Rates and round trips are only checked here; other programs use them.
const COLUMNS: [&str; 10] = [
    "time_s",
    "down_mbps",
    "up_mbps",
    "rtt_ms",
    "rsrp_dbm",
    "rsrq_db",
    "sinr_db",
    "rssi_dbm",
    "tech",
    "event",
];

/// Columns of rates in other units.
const OTHER_UNITS: [&str; 4] = ["down_kbps", "down_bps", "up_kbps", "up_bps"];

/// Largest value of each column that is only checked: 10 Gbit/s, and 10,000 s.
const OTHERS: [(&str, f64); 7] = [
    ("down_mbps", 1e4),
    ("up_mbps", 1e4),
    ("down_kbps", 1e7),
    ("up_kbps", 1e7),
    ("down_bps", 1e10),
    ("up_bps", 1e10),
    ("rtt_ms", 1e7),
];

/// The event of a radio that is in no network.
const DISCONNECTED: &str = "disassoc";

/// Valid levels: wider than any radio reports, but too narrow for the numbers that chips report for
/// unknown levels.
const LEVELS: RangeInclusive<f64> = -200.0..=100.0;

/// Settings of a replay.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Replay {
    /// Speed relative to the recording, 0.01…1000. Default 1.
    pub speed: f64,
    /// The replay begins again at its end. Default: `false`.
    pub looped: bool,
}

impl Default for Replay {
    fn default() -> Self {
        Self { speed: 1.0, looped: false }
    }
}

/// Reason why a recording cannot be replayed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ReplayError {
    /// A line is invalid.
    #[error("{file}:{line}: {problem}")]
    Line {
        /// Name of the file.
        file: String,
        /// Number of the line, from 1.
        line: usize,
        /// Description of the problem.
        problem: String,
    },
    /// The speed is out of bounds.
    #[error("the speed must be 0.01 to 1000, not {0}")]
    Speed(f64),
    /// No row has a level or reports a lost network.
    #[error("{0}: the recording has no reading of a radio")]
    Silent(String),
}

/// A recording that is read like a radio: its readings arrive at their times, counted from the
/// first call.
#[derive(Debug)]
pub struct RecordedSource {
    label: String,
    readings: Vec<Reading>,
    /// Length of the recording. The last row counts as long as a usual one.
    length: Span,
    replay: Replay,
    /// Start of the replay, by the reader's clock.
    began: Option<Time>,
    /// Readings passed, over all rounds.
    passed: u64,
}

impl RecordedSource {
    /// Parses the text of a file as a radio; `file` is its name.
    ///
    /// The first line names the columns, in any order; `docs/signal.md` describes them. Only
    /// `time_s` is required.
    ///
    /// # Errors
    /// Names the first invalid line. Also if the speed is out of bounds, or no row has a reading.
    pub fn parse(file: &str, text: &str, replay: Replay) -> Result<Self, ReplayError> {
        if !(0.01..=1000.0).contains(&replay.speed) {
            return Err(ReplayError::Speed(replay.speed));
        }
        let rows = rows(file, text)?;
        let readings: Vec<Reading> = rows.iter().filter_map(|(_, reading)| *reading).collect();
        if readings.is_empty() {
            return Err(ReplayError::Silent(file.to_owned()));
        }
        let mut steps: Vec<Span> = rows.windows(2).map(|pair| pair[1].0 - pair[0].0).collect();
        steps.retain(|step| !step.is_zero());
        steps.sort_unstable();
        let step = steps.get(steps.len() / 2).copied().unwrap_or(Span::from_secs(1));
        let length = rows.last().map_or(Span::ZERO, |(at, _)| at.since_epoch()) + step;
        Ok(Self { label: file.to_owned(), readings, length, replay, began: None, passed: 0 })
    }

    /// Returns a reading of the replay, with the time of the replay; `None` past the end.
    fn reading(&self, index: u64) -> Option<Reading> {
        let count = self.readings.len() as u64;
        let round = index / count;
        if round > 0 && !self.replay.looped {
            return None;
        }
        let reading = self.readings[usize::try_from(index % count).ok()?];
        let at = reading.at + self.length * round;
        Some(Reading { at: Time::EPOCH + self.paced(at.since_epoch()), ..reading })
    }

    fn paced(&self, span: Span) -> Span {
        span.div_f64(self.replay.speed)
    }

    /// Passes all readings that are due at a time of the replay, and returns the latest of them.
    fn take_due(&mut self, now: Time) -> Option<Reading> {
        let mut newest = None;
        while let Some(reading) = self.reading(self.passed).filter(|reading| reading.at <= now) {
            newest = Some(reading);
            self.passed += 1;
        }
        newest
    }
}

/// Returns the times of the rows, and the readings of those that have one.
fn rows<'t>(file: &str, text: &'t str) -> Result<Vec<(Time, Option<Reading>)>, ReplayError> {
    let fault = |line, problem| ReplayError::Line { file: file.to_owned(), line, problem };
    let lines = (1..).zip(text.lines().map(str::trim));
    let mut lines = lines.filter(|(_, line)| !line.starts_with('#') && !line.chars().all(is_blank));
    let (line, names) = lines.next().unwrap_or((1, ""));
    let delimiter = [',', ';', '\t'].into_iter().find(|delimiter| names.contains(*delimiter)).unwrap_or(',');
    let split = |text: &'t str| -> Vec<&'t str> {
        text.split(delimiter).map(|cell| cell.trim().trim_matches('"').trim()).collect()
    };
    let names: Vec<String> = split(names).into_iter().map(str::to_ascii_lowercase).collect();
    let is_known = |name: &&String| COLUMNS.iter().chain(&OTHER_UNITS).any(|known| known == name);
    if let Some(odd) = names.iter().find(|name| !is_known(name)) {
        let known = COLUMNS.join(", ");
        return Err(fault(line, format!("there is no column {odd:?} in a recording; there are {known}")));
    }
    if names.iter().all(|name| name != COLUMNS[0]) {
        return Err(fault(line, "there is no column \"time_s\"".to_owned()));
    }
    if let Some(index) = (1..names.len()).find(|&index| names[..index].contains(&names[index])) {
        return Err(fault(line, format!("there are two columns {:?}", names[index])));
    }
    let mut rows: Vec<(Time, Option<Reading>)> = Vec::new();
    for (line, text) in lines {
        let cells = split(text);
        if cells.len() != names.len() {
            return Err(fault(line, format!("{} cells instead of {}", cells.len(), names.len())));
        }
        let cell = |name: &str| names.iter().position(|known| known == name).map_or("", |place| cells[place]);
        let row = row(&cell, delimiter != ',');
        let row = row.map_err(|problem| fault(line, problem))?;
        if rows.last().is_some_and(|(before, _)| row.0 < *before) {
            return Err(fault(line, "time_s: is before that of the row above".to_owned()));
        }
        rows.push(row);
    }
    Ok(rows)
}

/// Returns `true` for characters of empty lines, which are skipped: spreadsheets write such lines
/// at the end.
fn is_blank(character: char) -> bool {
    matches!(character, ',' | ';' | '"') || character.is_whitespace()
}

fn row<'t>(
    cell: &impl Fn(&str) -> &'t str,
    has_decimal_commas: bool,
) -> Result<(Time, Option<Reading>), String> {
    let number = |name: &str, within: RangeInclusive<f64>| match cell(name) {
        "" | "-" => Ok(None),
        text => {
            let decimal = has_decimal_commas.then(|| text.replacen(',', ".", 1));
            match decimal.as_deref().unwrap_or(text).parse().ok().filter(|number| within.contains(number)) {
                Some(number) => Ok(Some(number)),
                None => Err(format!(
                    "{name}: {text:?} is not a number within {}…{}",
                    within.start(),
                    within.end()
                )),
            }
        }
    };
    let seconds: f64 = number("time_s", 0.0..=1e9)?.ok_or("time_s: is empty")?;
    for (name, most) in OTHERS {
        number(name, 0.0..=most)?;
    }
    let reading = Reading {
        at: Time::from_micros((seconds * 1e6).round() as u64),
        technology: Technology::of_word(cell("tech")),
        disconnected: cell("event").split(';').any(|event| event.trim() == DISCONNECTED),
        rsrp: number("rsrp_dbm", LEVELS)?,
        rsrq: number("rsrq_db", LEVELS)?,
        sinr: number("sinr_db", LEVELS)?,
        rssi: number("rssi_dbm", LEVELS)?,
    };
    let levels = [reading.rsrp, reading.rsrq, reading.sinr, reading.rssi];
    let has_reading = reading.disconnected || levels.iter().any(Option::is_some);
    Ok((reading.at, has_reading.then_some(reading)))
}

impl SignalSource for RecordedSource {
    fn label(&self) -> String {
        self.label.clone()
    }

    fn next(&mut self, clock: Clock, timeout: Duration) -> Result<Option<Reading>, SourceError> {
        let began = *self.began.get_or_insert_with(|| clock.now());
        let present = || Time::EPOCH + (clock.now() - began);
        let until = present() + timeout.into();
        let end = Time::EPOCH + self.paced(self.length);
        loop {
            let now = present();
            if let Some(reading) = self.take_due(now) {
                return Ok(Some(Reading { at: began + reading.at.since_epoch(), ..reading }));
            }
            let next = self.reading(self.passed).map(|reading| reading.at);
            if next.is_none() && now >= end {
                return Err(SourceError::Ended(self.label.clone()));
            }
            if now >= until {
                return Ok(None);
            }
            thread::sleep((next.unwrap_or(end).min(until) - now).max(Span::TICK).into());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use squall_units::short::{at_ms, at_us};

    use super::*;

    const WALK: &str =
        "time_s,rssi_dbm,tech,event\n0,-50,WiFi,\n0.01,-70,WiFi,ho\n\n0.02,,WiFi,\n0.03,,WiFi,ho;disassoc\n";

    fn source(replay: Replay) -> RecordedSource {
        RecordedSource::parse("walk.csv", WALK, replay).expect("can be replayed")
    }

    #[test]
    fn readings_are_taken_when_they_are_due() {
        let mut replay = source(Replay { speed: 2.0, ..Replay::default() });
        assert_eq!(replay.take_due(at_us(0)).map(|reading| reading.rssi), Some(Some(-50.0)));
        assert_eq!(replay.take_due(at_us(4_999)), None);
        assert_eq!(
            replay.take_due(at_us(5_000)).map(|reading| (reading.at, reading.rssi)),
            Some((at_us(5_000), Some(-70.0)))
        );
        let lost = replay.take_due(at_us(1_000_000)).expect("is reported");
        assert!(lost.disconnected && lost.at == at_us(15_000));
        assert_eq!(replay.take_due(at_us(2_000_000)), None);
    }

    #[test]
    fn a_late_reader_gets_the_newest() {
        let mut replay = source(Replay::default());
        assert_eq!(replay.take_due(at_us(12_000)).map(|reading| reading.rssi), Some(Some(-70.0)));
    }

    #[test]
    fn a_loop_holds_the_last_row_for_a_step() {
        let mut replay = source(Replay { looped: true, ..Replay::default() });
        assert!(replay.take_due(at_us(39_999)).expect("is reported").disconnected);
        assert_eq!(
            replay.take_due(at_us(40_000)).map(|reading| (reading.at, reading.rssi)),
            Some((at_us(40_000), Some(-50.0)))
        );
        assert!(replay.take_due(at_us(40_000 * 1_000_000)).is_some());
    }

    #[test]
    fn in_real_time_it_waits_and_ends() {
        let clock = Clock::new(Instant::now());
        let mut replay = source(Replay::default());
        let began = Instant::now();
        let mut read = Vec::new();
        let end = loop {
            match replay.next(clock, Duration::from_millis(2)) {
                Ok(reading) => read.extend(reading),
                Err(error) => break error,
            }
        };
        assert!(began.elapsed() >= Duration::from_millis(40));
        assert!(read.windows(2).all(|pair| pair[0].at < pair[1].at), "{read:?}");
        assert!(read.last().expect("something was reported").disconnected);
        assert_eq!(end, SourceError::Ended("walk.csv".into()));
        assert_eq!(end.to_string(), "walk.csv: the recording is at its end");
    }

    #[test]
    fn columns_may_stand_in_any_order() {
        let text = "tech,rsrp_dbm,time_s,down_mbps,sinr_db\r\nLTE-A, -90.5,0.5,9,3\r\n5G-SA,,0.75,,\r\n";
        let exported = "# of a spreadsheet\nTech;\"RSRP_dBm\";time_s;down_kbps;sinr_db\nLTE-A;-90,5;0,5;9000;3,0\n5G-SA;-;0,75;;\n;;;;\n";
        for text in [text, exported] {
            let lte = RecordedSource::parse("drive.csv", text, Replay::default()).expect("is a recording");
            assert_eq!(
                (lte.readings, lte.length),
                (vec![Reading::lte(at_ms(500), -90.5, 3.0)], Span::from_secs(1))
            );
        }
    }

    #[test]
    fn what_cannot_be_replayed_is_refused() {
        for speed in [0.0, -1.0, f64::NAN, 1e9] {
            assert!(RecordedSource::parse("x", WALK, Replay { speed, looped: false }).is_err());
        }
        for (text, error) in [
            ("time_s,down_mbps\n0,1\n", "x: the recording has no reading of a radio"),
            ("time_s,rssi\n0,1\n", "x:1: there is no column \"rssi\" in a recording; there are time_s, "),
            ("rssi_dbm\n-50\n", "x:1: there is no column \"time_s\""),
            ("time_s,rssi_dbm\n0,-50\n\n1,loud\n", "x:4: rssi_dbm: \"loud\" is not a number within -200…100"),
            ("time_s,rssi_dbm\n0,2147483647\n", "x:2: rssi_dbm: \"2147483647\" is not a number within"),
            ("time_s,rssi_dbm\n,-50\n", "x:2: time_s: is empty"),
            ("time_s,rssi_dbm\n1,-50\n0,-50\n", "x:3: time_s: is before that of the row above"),
            ("time_s,rssi_dbm\n1\n", "x:2: 1 cells instead of 2"),
            ("time_s,rssi_dbm,RSSI_dBm\n1,-50,-50\n", "x:1: there are two columns \"rssi_dbm\""),
            ("time_s,rssi_dbm,rtt_ms\n1,-50,NaN\n", "x:2: rtt_ms: \"NaN\" is not a number within 0…10000000"),
        ] {
            let refused = RecordedSource::parse("x", text, Replay::default()).expect_err(text).to_string();
            assert!(refused.starts_with(error), "{refused}");
        }
    }
}

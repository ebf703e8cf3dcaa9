//! Levels of a radio signal, and series of levels.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use squall_signal::{Reading, Technology};
use squall_trace::{Micros, Sample, TraceError, column, has_column, read_text};
use squall_units::{Span, Time};

use crate::series::Series;

/// Levels of a radio signal at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Levels {
    /// Reference signal received power in dBm.
    pub rsrp: Option<f64>,
    /// Signal to interference and noise ratio in dB.
    pub sinr: Option<f64>,
    /// Received signal strength in dBm.
    pub rssi: Option<f64>,
    /// The radio is in no network: not associated, not registered. No packets pass.
    pub detached: bool,
    /// No packets pass although the radio is in a network: a handover is in progress.
    pub interrupted: bool,
}

impl Levels {
    /// Returns the reading that a radio of this technology would report at `at`.
    pub(super) fn reading(&self, at: Time, technology: Technology) -> Reading {
        let Self { rsrp, sinr, rssi, detached, .. } = *self;
        if detached {
            return Reading::disconnected(at, technology);
        }
        Reading { at, technology, rsrp, sinr, rssi, ..Reading::default() }
    }
}

/// A level in dBm or dB, from −200 to 100.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(try_from = "f64")]
pub struct Level(f64);

impl Level {
    /// Returns `None` if the value is out of range.
    pub fn new(value: f64) -> Option<Self> {
        (-200.0..=100.0).contains(&value).then_some(Self(value))
    }

    /// Returns the value in dBm or dB.
    pub const fn value(self) -> f64 {
        self.0
    }
}

impl TryFrom<f64> for Level {
    type Error = String;

    fn try_from(value: f64) -> Result<Self, String> {
        Self::new(value).ok_or_else(|| format!("{value} is not a level between -200 and 100 dB"))
    }
}

impl From<Level> for f64 {
    fn from(level: Level) -> Self {
        level.0
    }
}

impl Sample for Level {
    fn from_column(value: f64, column: &str) -> Option<Self> {
        let unit = column.rsplit('_').next()?;
        if matches!(unit, "dbm" | "db") { Self::new(value) } else { None }
    }
}

/// Levels from a measurement or a table; each holds until the next.
///
/// In files either `{ csv = "walk.csv" }`, which reads the existing columns of `rsrp_dbm`,
/// `sinr_db` and `rssi_dbm` next to `time_s`, or steps: `{ rssi = [["0s", -55], ["8s", -82.5]] }`.
/// With `repeat = "10s"` it restarts after that time. Without, the last levels hold, but the radio
/// stops reporting after the last step of all series.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(try_from = "LevelTable")]
pub struct LevelSeries {
    /// File that [`load`](crate::PathConfig::load) reads, if any.
    pub csv: Option<PathBuf>,
    /// RSRP in dBm.
    pub rsrp: Option<Series<Level>>,
    /// SINR in dB.
    pub sinr: Option<Series<Level>>,
    /// RSSI in dBm.
    pub rssi: Option<Series<Level>>,
    /// Period after which the series restarts. Default: never.
    pub repeat: Option<Span>,
}

/// The columns of a file: RSRP, SINR, RSSI.
const COLUMNS: [&str; 3] = ["rsrp_dbm", "sinr_db", "rssi_dbm"];

impl LevelSeries {
    /// Creates levels from a file, which [`load`](crate::PathConfig::load) reads.
    pub fn from_file(csv: impl Into<PathBuf>) -> Self {
        Self { csv: Some(csv.into()), ..Self::default() }
    }

    fn columns(&self) -> [Option<&Series<Level>>; 3] {
        [self.rsrp.as_ref(), self.sinr.as_ref(), self.rssi.as_ref()]
    }

    /// Delays levels that do not repeat; the first value holds until then.
    pub(crate) fn delay(&mut self, by: Span) {
        let columns = [&mut self.rsrp, &mut self.sinr, &mut self.rssi].into_iter().flatten();
        for column in columns.filter(|_| self.repeat.is_none()) {
            let later = |(at, level): &(Span, Level)| (Span::from_micros(at.micros() + by.micros()), *level);
            // Steps in order stay in order.
            if let Ok(later) = Series::new(column.steps().iter().map(later).collect(), None) {
                *column = later;
            }
        }
    }

    pub(super) fn is_loaded(&self) -> bool {
        self.columns().iter().any(Option::is_some)
    }

    /// Reads the file, unless it has been read already. A level without a column, or without a
    /// value in it, is not reported.
    pub(super) fn load(&mut self, base: &Path) -> Result<(), TraceError> {
        let Some(csv) = self.csv.clone().filter(|_| !self.is_loaded()) else { return Ok(()) };
        let path = base.join(csv);
        let (file, text) = (path.display().to_string(), read_text(&path)?);
        let read = |name: &str| {
            let steps = if has_column(&text, name) { column(&file, &text, name, 1.0)? } else { Vec::new() };
            let series = (!steps.is_empty()).then(|| Series::new(steps, self.repeat)).transpose();
            series.map_err(|error| TraceError::file(&file, error.to_string()))
        };
        let [rsrp, sinr, rssi] = COLUMNS.map(read);
        (self.rsrp, self.sinr, self.rssi) = (rsrp?, sinr?, rssi?);
        if self.is_loaded() {
            return Ok(());
        }
        let problem = format!("column \"{}\" has no value", COLUMNS.join("\" or \""));
        Err(TraceError::file(&file, problem))
    }

    /// Returns the technology that has such levels: Wi-Fi if there is only an RSSI.
    pub(super) fn technology(&self) -> Technology {
        if self.rsrp.is_none() && self.sinr.is_none() { Technology::Wifi } else { Technology::Lte }
    }

    /// Returns the levels at a time, and the time until which they hold.
    pub(super) fn at(&self, now: Micros) -> (Levels, Micros) {
        let mut until = Micros::MAX;
        let [rsrp, sinr, rssi] = self.columns().map(|series| {
            let (level, change) = series?.at(now);
            until = until.min(change.unwrap_or(Micros::MAX));
            Some(level.value())
        });
        (Levels { rsrp, sinr, rssi, ..Levels::default() }, until)
    }

    /// Returns the time of the last step; `None` if the series repeats.
    pub(super) fn end(&self) -> Option<Micros> {
        if self.repeat.is_some() {
            return None;
        }
        let last = |series: &Series<Level>| series.steps().last().map(|(at, _)| at.micros());
        self.columns().into_iter().flatten().filter_map(last).max()
    }
}

/// The file form of levels.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct LevelTable {
    csv: Option<PathBuf>,
    rsrp: Option<Vec<(Span, Level)>>,
    sinr: Option<Vec<(Span, Level)>>,
    rssi: Option<Vec<(Span, Level)>>,
    repeat: Option<Span>,
}

impl TryFrom<LevelTable> for LevelSeries {
    type Error = String;

    fn try_from(table: LevelTable) -> Result<Self, String> {
        let LevelTable { csv, rsrp, sinr, rssi, repeat } = table;
        let series = |name: &str, steps: Option<Vec<(Span, Level)>>| {
            let series = steps.map(|steps| Series::new(steps, repeat)).transpose();
            series.map_err(|problem| format!("{name}: {problem}"))
        };
        let (rsrp, sinr, rssi) = (series("rsrp", rsrp)?, series("sinr", sinr)?, series("rssi", rssi)?);
        let levels = Self { csv, rsrp, sinr, rssi, repeat };
        if levels.csv.is_some() == levels.is_loaded() {
            return Err("levels are given by csv, or by steps of rsrp, sinr or rssi".to_owned());
        }
        Ok(levels)
    }
}

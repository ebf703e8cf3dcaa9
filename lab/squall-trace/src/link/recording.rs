//! A recorded link, whatever it was written as.

use std::{fmt, path::Path, str::FromStr};

use crate::{Event, ImportError, Input, Quantity, Row, RowError, Trace, TraceError};
use squall_units::Micros;

use super::{Format, Gaps, ScheduleError, Supply, read, schedule};
use crate::mahimahi;

/// A direction's rate in a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Column {
    /// `down_mbps`: towards the device.
    Down,
    /// `up_mbps`: from the device.
    Up,
}

impl Column {
    /// Its name.
    pub const fn name(self) -> &'static str {
        self.quantity().name()
    }

    pub(super) const fn quantity(self) -> Quantity {
        match self {
            Self::Down => Quantity::Down,
            Self::Up => Quantity::Up,
        }
    }
}

impl fmt::Display for Column {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Column {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = [Self::Down, Self::Up].into_iter().find(|column| column.name() == name);
        found.ok_or_else(|| format!("\"{name}\" is neither down_mbps nor up_mbps"))
    }
}

const DAY: Micros = 86_400_000_000;

/// The longest recording that is read, in microseconds: a week. A few digits can claim ages, and what is measured of a
/// recording takes time and memory for each second.
pub const LONGEST: Micros = 7 * DAY;

/// What a file does not say of itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Wishes {
    /// Its format; told by its first line if `None`.
    pub format: Option<Format>,
    /// The column with the rate that counts: `down_mbps`, `up_mbps`, or in a CSV file any other whose name ends
    /// with `_bps`, `_kbps` or `_mbps`. If `None`, the downlink's, or the uplink's if there is no other.
    pub column: Option<String>,
}

/// Why a file is no recording.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum RecordingError {
    /// A mistake in the file.
    #[error(transparent)]
    File(#[from] TraceError),
    /// A log could not be read.
    #[error(transparent)]
    Log(#[from] ImportError),
    /// The first line is of no known format.
    #[error("{file}:1: the first line is of no known format; name one of {}", Format::names())]
    Unknown {
        /// The file's name.
        file: String,
    },
    /// It ends when it begins.
    #[error("{file}: no time passes in it")]
    NoTime {
        /// The file's name.
        file: String,
    },
    /// It spans more than [`LONGEST`]: most likely a time of the wrong unit.
    #[error("{file}: it is {} days long, and at most 7 are read", duration / DAY)]
    TooLong {
        /// The file's name.
        file: String,
        /// From its beginning to its end, in microseconds.
        duration: Micros,
    },
    /// A log that is not one file with one recording.
    #[error(
        "{file}: a log of {format}, of which a part or another file is needed; make a CSV file of it first"
    )]
    Several {
        /// The file's name.
        file: String,
        /// Its format.
        format: &'static str,
    },
}

/// A recorded link: rates and round trips by time, or delivery opportunities.
#[derive(Debug, Clone, PartialEq)]
pub struct Recording {
    pub(super) format: Format,
    pub(super) content: Content,
    /// Which rate counts; `None` if there is none.
    pub(super) column: Option<Column>,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Content {
    /// Never without a row.
    Table(Table),
    List(List),
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Table {
    /// By time.
    pub(super) rows: Vec<Row>,
    /// When the last row no longer holds.
    pub(super) end: Micros,
    /// The usual time from row to row.
    pub(super) step: Micros,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct List {
    /// The opportunities by time.
    pub(super) millis: Vec<u64>,
    /// Not before the last.
    pub(super) end: Micros,
    /// Round trips in milliseconds, by time.
    pub(super) rtts: Vec<(Micros, f64)>,
}

impl Recording {
    /// Reads a file.
    ///
    /// # Errors
    /// As [`Self::parse`], and if it cannot be read, is larger than 256 MiB, or is not UTF-8.
    pub fn load(path: &Path, wishes: &Wishes) -> Result<Self, RecordingError> {
        Self::parse(Input::load(path)?, wishes)
    }

    /// Reads a text. The name of a list of opportunities tells its direction: with a part `up` between dots, such
    /// as `drive.up`, it is the uplink.
    ///
    /// # Errors
    /// Names the line of the first mistake, or says that the format is not known, the column not there, or the
    /// recording without a length or longer than [`LONGEST`].
    pub fn parse(input: Input, wishes: &Wishes) -> Result<Self, RecordingError> {
        let file = input.name.clone();
        let recording = Self::read(input, wishes)?;
        if recording.duration() == 0 {
            return Err(RecordingError::NoTime { file });
        }
        if recording.duration() > LONGEST {
            return Err(RecordingError::TooLong { file, duration: recording.duration() });
        }
        Ok(recording)
    }

    fn read(mut input: Input, wishes: &Wishes) -> Result<Self, RecordingError> {
        if let Some(rest) = input.text.strip_prefix('\u{feff}') {
            input.text = rest.to_owned();
        }
        let unknown = || RecordingError::Unknown { file: input.name.clone() };
        let format = wishes.format.or_else(|| Format::detect(&input.text)).ok_or_else(unknown)?;
        if !format.is_readable() {
            return Err(RecordingError::Several { file: input.name, format: format.name() });
        }
        let known: Option<Column> = wishes.column.as_deref().and_then(|name| name.parse().ok());
        if let (Some(name), None) = (&wishes.column, known) {
            return read::column(&input, format, name).map_err(RecordingError::from);
        }
        let content = match format {
            Format::Mahimahi => Content::List(read::mahimahi(&input)?),
            Format::Saturatr => Content::List(read::saturatr(&input)?),
            Format::Hsdpa => Content::Table(read::hsdpa(&input)?),
            Format::Sabre => Content::Table(read::sabre(&input)?),
            Format::Csv => Content::Table(Table::of(&Trace::parse(&input.name, &input.text)?)),
            Format::Log(log) => Content::Table(Table::of(&read::log(log, &input)?)),
        };
        let guess = if is_uplink(&input.name) { Column::Up } else { Column::Down };
        Self { format, content, column: None }.choose(&input.name, known, guess)
    }

    /// Sets which rate counts.
    fn choose(mut self, file: &str, wish: Option<Column>, guess: Column) -> Result<Self, RecordingError> {
        let Content::Table(table) = &mut self.content else {
            return Ok(Self { column: Some(wish.unwrap_or(guess)), ..self });
        };
        let has = |column: &Column| table.rows.iter().any(|row| row.get(column.quantity()).is_some());
        let there: Vec<Column> = [Column::Down, Column::Up].into_iter().filter(has).collect();
        let Some(wish) = wish else {
            return Ok(Self { column: there.first().copied(), ..self });
        };
        if !there.contains(&wish) {
            let others = there.first().map(|other| format!("; there is one in {other}")).unwrap_or_default();
            let problem = format!("there is no rate in {wish}{others}");
            return Err(TraceError::Line { file: file.to_owned(), line: 1, problem }.into());
        }
        // Who asks for one has no use for the other.
        for row in &mut table.rows {
            match wish {
                Column::Down => row.up_mbps = None,
                Column::Up => row.down_mbps = None,
            }
        }
        Ok(Self { column: Some(wish), ..self })
    }

    /// How it was written.
    pub fn format(&self) -> Format {
        self.format
    }

    /// Which rate counts; `None` if there is none.
    pub fn column(&self) -> Option<Column> {
        self.column
    }

    /// How long it is, in microseconds: to the end of its last interval. A table ends one usual step after its
    /// last row, unless that row has nothing but a time: then it ends there. Opportunities end with the last.
    pub fn duration(&self) -> Micros {
        match &self.content {
            Content::Table(table) => table.end,
            Content::List(list) => list.end,
        }
    }

    /// The names of the columns that have something in them.
    pub fn columns(&self) -> Vec<&'static str> {
        let rows = match &self.content {
            Content::Table(table) => &table.rows,
            Content::List(list) if list.rtts.is_empty() => return vec!["opportunities"],
            Content::List(_) => return vec!["opportunities", Quantity::Rtt.name()],
        };
        use Quantity::{Down, Rsrp, Rsrq, Rssi, Rtt, Sinr, Up};
        let numbers = [Down, Up, Rtt, Rsrp, Rsrq, Sinr, Rssi];
        let has = |quantity: &Quantity| rows.iter().any(|row| row.get(*quantity).is_some());
        let numbers = numbers.into_iter().filter(has).map(Quantity::name);
        let words = [
            ("tech", rows.iter().any(|row| !row.tech.is_empty())),
            ("event", rows.iter().any(|row| !row.events.is_empty())),
        ];
        numbers.chain(words.into_iter().filter(|(_, has)| *has).map(|(name, _)| name)).collect()
    }

    /// What the link carried; `None` if there is no rate.
    pub fn supply(&self, gaps: Gaps) -> Option<Supply> {
        match &self.content {
            Content::Table(table) => table.supply(self.column?, gaps),
            Content::List(list) => Some(Supply::of_opportunities(list.millis.clone(), list.end)),
        }
    }

    /// The round trips in milliseconds, with their times.
    pub fn rtts(&self) -> Vec<(Micros, f64)> {
        match &self.content {
            Content::Table(table) => {
                table.rows.iter().filter_map(|row| Some((row.at, row.rtt_ms?))).collect()
            }
            Content::List(list) => list.rtts.clone(),
        }
    }

    /// What happened, in the order of time.
    pub(super) fn events(&self) -> impl Iterator<Item = &Event> {
        let rows: &[Row] = match &self.content {
            Content::Table(table) => &table.rows,
            Content::List(_) => &[],
        };
        rows.iter().flat_map(|row| &row.events)
    }

    /// How many rows a table has; 0 for a list of opportunities.
    pub(super) fn rows(&self) -> usize {
        match &self.content {
            Content::Table(table) => table.rows.len(),
            Content::List(_) => 0,
        }
    }

    /// The link as a trace of mahimahi.
    ///
    /// # Errors
    /// If it has no rate, carries no packet, or would have too many lines.
    pub fn mahimahi(&self, gaps: Gaps) -> Result<mahimahi::Trace, ScheduleError> {
        match &self.content {
            Content::List(list) if list.millis.is_empty() => Err(ScheduleError::Never),
            Content::List(list) => Ok(mahimahi::Trace::new(list.millis.clone())?),
            Content::Table(_) => {
                let supply = self.supply(gaps).ok_or(ScheduleError::NoRate)?;
                schedule::opportunities(&supply)
            }
        }
    }

    /// The link as a table. Of opportunities it has the mean rate of each `step`, which is longer than 0; where it
    /// would end elsewhere than the recording, a last row with nothing but a time says where that ends.
    ///
    /// # Errors
    /// If there are too many rows, or a number is out of its bounds.
    pub fn table(&self, step: Micros) -> Result<Trace, RowError> {
        let (mut rows, end) = match &self.content {
            Content::Table(table) => (table.rows.clone(), table.end),
            Content::List(list) => (list.rows(step, self.column.unwrap_or(Column::Down)), list.end),
        };
        let trace = Trace::new(rows.clone())?;
        if trace.duration() + trace.step() == end {
            return Ok(trace);
        }
        rows.push(Row { at: end, ..Row::default() });
        Trace::new(rows)
    }
}

impl Table {
    /// A table as it is in a trace, with its end.
    pub(super) fn of(trace: &Trace) -> Self {
        let (rows, step) = (trace.rows(), trace.step());
        if let [before @ .., last] = rows
            && !before.is_empty()
            && *last == (Row { at: last.at, ..Row::default() })
        {
            let step = Trace::new(before.to_vec()).map_or(step, |trace| trace.step());
            return Self { rows: before.to_vec(), end: last.at, step };
        }
        Self { rows: rows.to_vec(), end: trace.duration() + step, step }
    }

    pub(super) fn supply(&self, column: Column, gaps: Gaps) -> Option<Supply> {
        Supply::of_rows(&self.rows, self.end, self.step, column, gaps)
    }
}

impl List {
    fn rows(&self, step: Micros, column: Column) -> Vec<Row> {
        let supply = Supply::of_opportunities(self.millis.clone(), self.end);
        let mut rows = schedule::rows(&supply, step, column);
        rows.extend(self.rtts.iter().map(|&(at, rtt)| Row { at, rtt_ms: Some(rtt), ..Row::default() }));
        rows.sort_by_key(|row| row.at);
        rows
    }
}

/// Whether a file's name has `up` between dots.
fn is_uplink(name: &str) -> bool {
    let file = Path::new(name).file_name().map(|file| file.to_string_lossy().into_owned());
    file.is_some_and(|file| file.split('.').skip(1).any(|part| part == "up"))
}

#[cfg(test)]
mod tests;

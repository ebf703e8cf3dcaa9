//! Quantities that change over time in steps: capacity, delay or loss as somebody measured them.

use std::{
    path::{Path, PathBuf},
    str::FromStr,
    sync::Arc,
};

use serde::{Deserialize, Serialize};

use squall_units::{Micros, Rate, Ratio, Span};

/// A value that holds from its time until the next step.
///
/// Before its first step the first value holds, after the last step the last one, unless the series repeats.
#[derive(Debug, Clone, PartialEq)]
pub struct Series<V> {
    steps: Arc<[(Span, V)]>,
    /// The series starts again after this long; it is longer than the time of the last step.
    repeat: Option<Span>,
    source: Option<CsvSource>,
}

/// A column of a CSV file that a [`Series`] is read from.
///
/// The first line names the columns; time is in the column `time_s`, in seconds. The ending of the value
/// column's name gives its unit: `_bps`, `_kbps`, `_mbps`, `_us`, `_ms`, `_s`, or none for a share of 0 to 1.
/// Rows with an empty value are passed over.
#[derive(Debug, Clone, PartialEq)]
pub struct CsvSource {
    /// The file, relative to the file that mentions it.
    pub csv: PathBuf,
    /// The column to read.
    pub column: String,
    /// Every value is multiplied by this: 0.5 makes a one-way delay of a round-trip time.
    pub scale: f64,
}

/// Why a series could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SeriesError {
    /// There is no step at all.
    #[error("a series needs at least one step")]
    Empty,
    /// A step is earlier than the one before it.
    #[error("step {index} at {at} is earlier than the step before it")]
    Order {
        /// Which step, counted from 1.
        index: usize,
        /// Its time.
        at: Span,
    },
    /// The series is to repeat before its last step is reached.
    #[error("the series repeats after {repeat}, which is not later than its last step at {last}")]
    Repeat {
        /// The period.
        repeat: Span,
        /// The time of the last step.
        last: Span,
    },
    /// The first line of a CSV file has no such column.
    #[error("line 1: no column \"{0}\"")]
    Column(String),
    /// A CSV file has the column, but no value in it.
    #[error("column \"{0}\" has no value")]
    NoValue(String),
    /// A cell is not a number, or time runs backwards.
    #[error("line {line}: {column}: {problem}")]
    Cell {
        /// Line number, from 1.
        line: usize,
        /// The column's name.
        column: String,
        /// What is wrong.
        problem: String,
    },
}

/// A quantity that can be read from a number in a CSV column.
pub trait Sample: Copy {
    /// Reads a number of the column's unit (given by the ending of its name), or nothing if that unit does
    /// not suit or the number is out of range.
    fn from_column(value: f64, column: &str) -> Option<Self>;
}

impl Sample for Rate {
    fn from_column(value: f64, column: &str) -> Option<Self> {
        let factor = match column.rsplit('_').next()? {
            "bps" => 1.0,
            "kbps" => 1e3,
            "mbps" => 1e6,
            _ => return None,
        };
        whole(value * factor).map(Self::from_bps)
    }
}

impl Sample for Span {
    fn from_column(value: f64, column: &str) -> Option<Self> {
        let factor = match column.rsplit('_').next()? {
            "us" => 1.0,
            "ms" => 1e3,
            "s" => 1e6,
            _ => return None,
        };
        whole(value * factor).map(Self::from_micros)
    }
}

impl Sample for Ratio {
    fn from_column(value: f64, _: &str) -> Option<Self> {
        Self::from_f64(value)
    }
}

/// The nearest whole number, unless it is negative or so large that a double no longer counts in ones.
fn whole(value: f64) -> Option<u64> {
    (0.0..9e15).contains(&value).then(|| value.round() as u64)
}

impl<V: Copy> Series<V> {
    /// A series of `(time, value)` steps in the order of time.
    ///
    /// # Errors
    ///
    /// Without a step, with steps out of order, or with a `repeat` that is not later than the last step.
    pub fn new(steps: Vec<(Span, V)>, repeat: Option<Span>) -> Result<Self, SeriesError> {
        let last = steps.last().ok_or(SeriesError::Empty)?.0;
        if let Some(index) = steps.windows(2).position(|pair| pair[1].0 < pair[0].0) {
            return Err(SeriesError::Order { index: index + 2, at: steps[index + 1].0 });
        }
        if let Some(repeat) = repeat.filter(|repeat| *repeat <= last) {
            return Err(SeriesError::Repeat { repeat, last });
        }
        Ok(Self { steps: steps.into(), repeat, source: None })
    }

    /// A series that [`load`](crate::LinkConfig::load) reads from a file; until then it has no steps.
    pub fn from_file(source: CsvSource, repeat: Option<Span>) -> Self {
        Self { steps: Arc::new([]), repeat, source: Some(source) }
    }

    /// The steps; none while the file has not been read.
    pub fn steps(&self) -> &[(Span, V)] {
        &self.steps
    }

    /// The value at `now`, and the time of the next step after it.
    pub(crate) fn at(&self, now: Micros) -> (V, Option<Micros>) {
        let base = self.repeat.map_or(0, |repeat| now - now % repeat.micros());
        let local = now - base;
        let next = self.steps.partition_point(|(at, _)| at.micros() <= local);
        // `new` refuses an empty series and `Link::new` an unread one.
        let (_, value) = self.steps[next.saturating_sub(1)];
        let wrapped = self.repeat.map(|repeat| base.saturating_add(repeat.micros()));
        // In a repeated series the first value also holds from the start of a round up to the first step.
        let change = self.steps.get(next).map(|(at, _)| base.saturating_add(at.micros())).or(wrapped);
        (value, change)
    }

    /// Reads the file this series comes from, if it is not read yet.
    pub(crate) fn load(&mut self, base: &Path) -> Result<(), LoadError>
    where
        V: Sample,
    {
        let Some(source) = self.source.clone().filter(|_| self.steps.is_empty()) else { return Ok(()) };
        let file = base.join(&source.csv);
        let text = read(&file)?;
        let steps = parse_csv(&text, &source).and_then(|steps| Self::new(steps, self.repeat));
        let loaded = steps.map_err(|problem| LoadError::Series { file, problem })?;
        *self = Self { source: Some(source), ..loaded };
        Ok(())
    }

    pub(crate) fn unread(&self) -> Option<&Path> {
        self.source.as_ref().filter(|_| self.steps.is_empty()).map(|source| source.csv.as_path())
    }
}

/// Why a trace file could not be loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The file cannot be read.
    #[error("{file}: {problem}", file = file.display())]
    Read {
        /// The file.
        file: PathBuf,
        /// What the system said.
        problem: std::io::Error,
    },
    /// The file is not the series it should be.
    #[error("{file}: {problem}", file = file.display())]
    Series {
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
        problem: SeriesError,
    },
    /// The file is not a mahimahi trace.
    #[error("{file}: {problem}", file = file.display())]
    Mahimahi {
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
        problem: crate::mahimahi::TraceError,
    },
}

/// Largest trace or series in bytes: days of a gigabit link.
const MAX_FILE: u64 = 256 << 20;

pub(crate) fn read(file: &Path) -> Result<String, LoadError> {
    squall_file::read_text(file, MAX_FILE)
        .map_err(|problem| LoadError::Read { file: file.to_owned(), problem })
}

/// Reads one column of a CSV text.
pub(crate) fn parse_csv<V: Sample>(text: &str, source: &CsvSource) -> Result<Vec<(Span, V)>, SeriesError> {
    const TIME: &str = "time_s";
    let mut lines = text.lines();
    let header: Vec<&str> = lines.next().unwrap_or_default().split(',').map(str::trim).collect();
    let find = |name: &str| {
        header.iter().position(|column| *column == name).ok_or_else(|| SeriesError::Column(name.to_owned()))
    };
    let (time, column) = (find(TIME)?, find(&source.column)?);
    let mut steps = Vec::new();
    for (index, line) in lines.enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let cells: Vec<&str> = line.split(',').map(str::trim).collect();
        let cell = |position: usize| cells.get(position).copied().unwrap_or_default();
        let error = |column: &str, problem: String| SeriesError::Cell {
            line: index + 2,
            column: column.to_owned(),
            problem,
        };
        let number = |column: &str, text: &str| {
            f64::from_str(text).map_err(|_| error(column, format!("\"{text}\" is not a number")))
        };
        if cell(column).is_empty() {
            continue;
        }
        let at = Span::from_column(number(TIME, cell(time))?, TIME);
        let at = at.ok_or_else(|| error(TIME, format!("\"{}\" is out of range", cell(time))))?;
        if steps.last().is_some_and(|(last, _)| at < *last) {
            return Err(error(TIME, format!("{at} is earlier than the row before")));
        }
        let value = number(&source.column, cell(column))? * source.scale;
        let value = V::from_column(value, &source.column).ok_or_else(|| {
            error(&source.column, format!("{} is out of range or of the wrong unit", cell(column)))
        })?;
        steps.push((at, value));
    }
    if steps.is_empty() {
        return Err(SeriesError::NoValue(source.column.clone()));
    }
    Ok(steps)
}

/// The fields by which a table describes a series.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SeriesTable<V> {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) steps: Option<Vec<(Span, V)>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) csv: Option<PathBuf>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) column: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) scale: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) repeat: Option<Span>,
}

impl<V: Copy> SeriesTable<V> {
    /// The series these fields describe; `None` if they are all absent.
    pub(crate) fn series(self) -> Result<Option<Series<V>>, String> {
        match (self.steps, self.csv, self.column) {
            (Some(steps), None, None) if self.scale.is_none() => {
                Series::new(steps, self.repeat).map(Some).map_err(|error| error.to_string())
            }
            (None, Some(csv), Some(column)) => {
                let source = CsvSource { csv, column, scale: self.scale.unwrap_or(1.0) };
                Ok(Some(Series::from_file(source, self.repeat)))
            }
            (None, None, None) if self.scale.is_none() && self.repeat.is_none() => Ok(None),
            _ => Err("a series is given by steps, or by csv and column (and scale)".to_owned()),
        }
    }

    pub(crate) fn of(series: &Series<V>) -> Self {
        let source = series.source.clone();
        Self {
            steps: source.is_none().then(|| series.steps.to_vec()),
            csv: source.as_ref().map(|source| source.csv.clone()),
            scale: source.as_ref().map(|source| source.scale).filter(|scale| *scale != 1.0),
            column: source.map(|source| source.column),
            repeat: series.repeat,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(column: &str) -> CsvSource {
        CsvSource { csv: "x.csv".into(), column: column.to_owned(), scale: 1.0 }
    }

    #[test]
    fn holds_each_value_until_the_next_and_repeats() {
        let at = Span::from_millis;
        let series = Series::new(vec![(at(1), 'a'), (at(3), 'b')], Some(at(5))).unwrap();
        assert_eq!(series.at(0), ('a', Some(1_000)));
        assert_eq!(series.at(2_999), ('a', Some(3_000)));
        assert_eq!(series.at(3_000), ('b', Some(5_000)));
        assert_eq!(series.at(5_000), ('a', Some(6_000)));
        let once = Series::new(vec![(at(0), 'a')], None).unwrap();
        assert_eq!(once.at(9), ('a', None));
    }

    #[test]
    fn reads_a_column_by_its_unit() {
        let text = "time_s,down_mbps,rtt_ms\n0,12.5,\n1,,40\n2.5,0,41\n";
        let rates: Vec<(Span, Rate)> = parse_csv(text, &source("down_mbps")).unwrap();
        let expected = [
            (Span::from_micros(0), Rate::from_bps(12_500_000)),
            (Span::from_millis(2500), Rate::from_bps(0)),
        ];
        assert_eq!(rates, expected);
    }

    #[test]
    fn errors_name_line_and_column() {
        let error = |text: &str| parse_csv::<Rate>(text, &source("down_mbps")).unwrap_err().to_string();
        assert_eq!(error("time_s,up_mbps\n"), "line 1: no column \"down_mbps\"");
        assert_eq!(error("time_s,down_mbps\n0,\n"), "column \"down_mbps\" has no value");
        assert_eq!(error("time_s,down_mbps\n0,1\n1,fast\n"), "line 3: down_mbps: \"fast\" is not a number");
        assert_eq!(
            error("time_s,down_mbps\n2,1\n1,1\n"),
            "line 3: time_s: 1s is earlier than the row before"
        );
        assert_eq!(
            error("time_s,down_mbps\n0,-3\n"),
            "line 2: down_mbps: -3 is out of range or of the wrong unit"
        );
    }
}

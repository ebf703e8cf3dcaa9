//! Recordings from files of any format.
//!
//! One module per format: its publication, the meaning of its columns, and their treatment. Common
//! to the measurement logs: time begins with the first row; rates are rounded to 1 kbit/s, round
//! trips to 1 µs and levels to 0.01 dB; a number that no radio reports means that the level is
//! unknown; a time without rows for more than three usual steps is a [`gap`](crate::Event::Gap).

mod cicv;
mod clock;
mod detect;
mod feup;
mod gnettrack;
mod hsdpa;
mod input;
mod log;
mod mtu;
mod parts;
mod perama;
mod plain;
mod sabre;
mod saturatr;
mod sigcomm;

use std::path::Path;

use squall_units::{Rate, Span};

pub use self::input::{Input, read_text};
use self::log::recording;
use crate::{Format, LONGEST, Micros, Quantity, Recording, Row, Tech, TraceError, column, mahimahi, own};

const DAY: Micros = 86_400_000_000;

/// Information that a file does not contain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wishes {
    /// Format; detected by the first line if `None`.
    pub format: Option<Format>,
    /// Column of the rate: `down_mbps`, `up_mbps`, or in a CSV file any other whose name ends with
    /// `_bps`, `_kbps` or `_mbps`. If `None`, the downlink's, or the uplink's if there is no other.
    pub column: Option<String>,
    /// The word for the radio technology, for logs without one.
    pub tech: Option<Tech>,
    /// Name of the part of a log with several; not needed if there is only one.
    pub part: Option<String>,
}

impl Recording {
    /// Reads a file with a recorded link.
    ///
    /// # Errors
    /// As [`Self::parse`] and [`read_text`], and if it has no length, or is longer than
    /// [`LONGEST`], usually because of a time in the wrong unit.
    pub fn load(path: &Path, wishes: &Wishes) -> Result<Self, TraceError> {
        let input = Input::load(path)?;
        Self::parse_within(std::slice::from_ref(&input), wishes, LONGEST)?.checked_length(&input.name)
    }

    /// Checks the length of the recording. `file` is its name in errors.
    pub(crate) fn checked_length(self, file: &str) -> Result<Self, TraceError> {
        match self.duration() {
            0 => Err(TraceError::file(file, "no time passes in it")),
            long if long > LONGEST => {
                Err(TraceError::file(file, format!("it is {} days long, and at most 7 are read", long / DAY)))
            }
            _ => Ok(self),
        }
    }

    /// Parses the text of a file, or of several for formats with several files. The name of a list
    /// of opportunities has its direction: with a part `up` between dots, such as `drive.up`, it is
    /// the uplink.
    ///
    /// # Errors
    /// The line of the first error; or the format is unknown, or a request does not suit the file.
    pub fn parse(inputs: &[Input], wishes: &Wishes) -> Result<Self, TraceError> {
        Self::parse_within(inputs, wishes, Micros::MAX)
    }

    /// As [`Self::parse`]; a table that is longer than `longest` is rejected at its line.
    fn parse_within(inputs: &[Input], wishes: &Wishes, longest: Micros) -> Result<Self, TraceError> {
        let Some(first) = inputs.first() else {
            return Err(TraceError::Request("no file is named".to_owned()));
        };
        let unknown = || {
            let problem = format!("the first line is of no known format; name one of {}", Format::names());
            TraceError::line(&first.name, 1, problem)
        };
        let format = wishes.format.or_else(|| Format::detect(&first.text)).ok_or_else(unknown)?;
        suits(format, inputs, wishes)?;
        let wished = wishes.column.as_deref();
        let rate = wished.and_then(Quantity::of_column).filter(|quantity| Quantity::RATES.contains(quantity));
        if let (Some(name), None) = (wished, rate) {
            return other_column(first, format, name);
        }
        let asked = if rate.is_some() { own::Asked::Rate } else { own::Asked::Nothing };
        let mut recording = read(format, inputs, wishes.part.as_deref(), asked, longest)?;
        recording.format = format;
        if let Some(tech) = &wishes.tech {
            recording.rows.iter_mut().for_each(|row| row.tech.clone_from(tech));
        }
        recording.choose(&first.name, rate)
    }

    /// Selects the rate of the recording.
    fn choose(mut self, file: &str, wish: Option<Quantity>) -> Result<Self, TraceError> {
        if self.opportunities.is_some() {
            let named = if is_uplink(file) { Quantity::Up } else { Quantity::Down };
            self.rate = Some(wish.unwrap_or(named));
        } else if let Some(wish) = wish {
            if !self.rows.iter().any(|row| row[wish].is_some()) {
                let other = self.rate.map(|other| format!("; there is one in {other}")).unwrap_or_default();
                return Err(TraceError::line(file, 1, format!("there is no rate in {wish}{other}")));
            }
            // A requested direction drops the other.
            let other = if wish == Quantity::Down { Quantity::Up } else { Quantity::Down };
            self.rows.iter_mut().for_each(|row| row[other] = None);
            self.rate = Some(wish);
        }
        Ok(self)
    }
}

/// Checks that a format takes this number of files, and supports the request.
fn suits(format: Format, inputs: &[Input], wishes: &Wishes) -> Result<(), TraceError> {
    let has_parts = matches!(format, Format::Feup | Format::Sigcomm);
    let has_no_tech = matches!(format, Format::Plain | Format::Cicv | Format::Hsdpa | Format::Sabre);
    let problem = if inputs.len() != format.files() {
        let files = if format.files() == 1 { "one file" } else { "two files" };
        format!("takes {files} at a time, not {}", inputs.len())
    } else if wishes.tech.is_some() && !has_no_tech {
        "names the technology itself".to_owned()
    } else if wishes.part.is_some() && !has_parts {
        "has no parts".to_owned()
    } else {
        return Ok(());
    };
    Err(TraceError::Request(format!("{format} {problem}")))
}

fn read(
    format: Format,
    inputs: &[Input],
    part: Option<&str>,
    asked: own::Asked<'_>,
    longest: Micros,
) -> Result<Recording, TraceError> {
    let first = &inputs[0];
    match format {
        Format::Mahimahi => {
            let trace = mahimahi::Trace::parse(&first.name, &first.text)?;
            let end = trace.period() * 1_000;
            Ok(Recording::of_opportunities(trace.millis().to_vec(), end, Vec::new()))
        }
        Format::Csv => recording(&first.name, own::read(&first.name, &first.text, asked, longest)?),
        Format::Hsdpa => hsdpa::read(first),
        Format::Sabre => sabre::read(first),
        Format::Saturatr => saturatr::read(first),
        Format::Plain => plain::read(first),
        Format::Ucc => gnettrack::ucc(first),
        Format::Kingston => gnettrack::kingston(first),
        Format::Mtu => mtu::read(first),
        Format::Cicv => cicv::read(first),
        Format::Sigcomm => sigcomm::read(first, part),
        Format::Feup => feup::read(first, part),
        Format::Perama => perama::read(inputs),
    }
}

/// Reads a column of a CSV file that recordings do not have, as the rate of the downlink.
fn other_column(input: &Input, format: Format, name: &str) -> Result<Recording, TraceError> {
    if format != Format::Csv {
        return Err(TraceError::line(&input.name, 1, format!("there is no column {name:?} in {format}")));
    }
    let steps: Vec<(Span, Rate)> = column(&input.name, &input.text, name, 1.0)?;
    let row =
        |&(at, rate): &(Span, Rate)| Row::new(at.micros()).with(Quantity::Down, rate.bps() as f64 / 1e6);
    recording(&input.name, steps.iter().map(row).collect())
}

/// Returns `true` if a file's name has `up` between dots.
fn is_uplink(name: &str) -> bool {
    let file = Path::new(name).file_name().map(|file| file.to_string_lossy().into_owned());
    file.is_some_and(|file| file.split('.').skip(1).any(|part| part == "up"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_have_names_of_their_own() {
        for format in Format::ALL {
            assert_eq!(format.name().parse(), Ok(format));
        }
        assert!("pcap".parse::<Format>().unwrap_err().contains("there are mahimahi, csv, "));
    }

    fn refused(format: Option<Format>, texts: &[&str], wishes: Wishes) -> String {
        let inputs: Vec<Input> = texts.iter().map(|text| Input::new("log", text)).collect();
        Recording::parse(&inputs, &Wishes { format, ..wishes }).expect_err("is refused").to_string()
    }

    #[test]
    fn what_is_no_log_is_refused() {
        let none = Wishes::default;
        let unknown = "log:1: the first line is of no known format; name one of mahimahi, csv, hsdpa, ";
        assert!(refused(None, &["a,b\n1,2\n"], none()).starts_with(unknown));
        assert!(refused(None, &[""], none()).starts_with(unknown));
        assert_eq!(refused(None, &["0 1\n", "0 1\n"], none()), "plain takes one file at a time, not 2");
        assert_eq!(refused(Some(Format::Perama), &["{}"], none()), "perama takes two files at a time, not 1");
        let tech = Wishes { tech: Some(Tech::default()), ..none() };
        assert_eq!(refused(Some(Format::Ucc), &[""], tech), "ucc names the technology itself");
        let part = Wishes { part: Some("x".into()), ..none() };
        assert_eq!(refused(Some(Format::Plain), &[""], part), "plain has no parts");
    }
}

//! Traces out of public measurement logs.
//!
//! One file for each format: where its logs are published, what its columns mean, and what is done with them.
//! Common to all: time begins with the first row; rates are rounded to 1 kbit/s, round trips to 1 µs and
//! levels to 0.01 dB; a number that no radio reports means that the level was not known; a time without rows
//! for more than three usual steps is a [`gap`](super::Event::Gap).

mod cicv;
mod clock;
mod feup;
mod gnettrack;
mod log;
mod mtu;
mod perama;
mod plain;
mod sigcomm;

use std::{fmt, path::Path, str::FromStr};

use super::{COLUMNS, Tech, Trace, TraceError, read};

/// A format of public measurement logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// G-NetTrack as published by UCC, 4G (Raca et al., MMSys 2018) and 5G (MMSys 2020).
    Ucc,
    /// G-NetTrack on a city bus in Kingston.
    Kingston,
    /// The modem logs of MTU Cork (`Measurements5G`): 5G, LTE and UMTS.
    Mtu,
    /// Round trips of vehicles, `CICV5G`.
    Cicv,
    /// The merged logs of walking loops of Narayanan et al., SIGCOMM 2021.
    Sigcomm,
    /// Lines of two numbers, seconds and Mbit/s, such as the Lumos5G traces.
    Plain,
    /// Wi-Fi to a moving client (FEUP, `wifi-vehicles`), the summary of all experiments.
    Feup,
    /// Wi-Fi in a shipyard: iPerf3's JSON, and the output of `iw link` beside it.
    Perama,
}

impl Format {
    /// Every format.
    pub const ALL: [Self; 8] = [
        Self::Ucc,
        Self::Kingston,
        Self::Mtu,
        Self::Cicv,
        Self::Sigcomm,
        Self::Plain,
        Self::Feup,
        Self::Perama,
    ];

    /// Its name, in one lower-case word.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ucc => "ucc",
            Self::Kingston => "kingston",
            Self::Mtu => "mtu",
            Self::Cicv => "cicv5g",
            Self::Sigcomm => "sigcomm21",
            Self::Plain => "plain",
            Self::Feup => "feup",
            Self::Perama => "perama",
        }
    }

    /// What it is, in a line.
    pub const fn about(self) -> &'static str {
        match self {
            Self::Ucc => "UCC 4G and 5G datasets (G-NetTrack): rates, levels, ping",
            Self::Kingston => "city bus in Kingston (G-NetTrack): rates and levels of LTE",
            Self::Mtu => "MTU Cork Measurements5G: uplink rate and levels of 5G, LTE or UMTS modems",
            Self::Cicv => "CICV5G: round trips and levels of vehicles",
            Self::Sigcomm => "SIGCOMM 2021 5G walking loops, merged logs: rate and levels",
            Self::Plain => "lines of seconds and Mbit/s, such as the Lumos5G and Solis traces",
            Self::Feup => {
                "FEUP wifi-vehicles, final-exp-log.csv: rate and RSSI; takes a part, sender-receiver"
            }
            Self::Perama => "shipyard Wi-Fi: two files, of iPerf3 (JSON) and of iw link (JSON lines)",
        }
    }

    /// How many files make one trace.
    pub const fn files(self) -> usize {
        match self {
            Self::Perama => 2,
            _ => 1,
        }
    }

    /// The format of a text, told by its first line. `None` if it is none of these.
    pub fn detect(text: &str) -> Option<Self> {
        let first = text.lines().find(|line| !line.trim().is_empty())?.trim_start_matches('\u{feff}').trim();
        if first.starts_with('{') {
            return perama::is_its(first).then_some(Self::Perama);
        }
        if first.split_whitespace().next() == Some(cicv::SENT) {
            return Some(Self::Cicv);
        }
        let words: Vec<&str> = first.split_whitespace().collect();
        if words.len() == 2 && words.iter().all(|word| word.parse::<f64>().is_ok()) {
            return Some(Self::Plain);
        }
        let columns: Vec<&str> = first.split(',').map(str::trim).collect();
        let has = |names: &[&str]| names.iter().all(|name| columns.contains(name));
        let tables = [
            (Self::Ucc, gnettrack::UCC),
            (Self::Kingston, gnettrack::KINGSTON),
            (Self::Mtu, mtu::MARKS),
            (Self::Sigcomm, sigcomm::MARKS),
            (Self::Feup, feup::MARKS),
        ];
        tables.into_iter().find(|(_, names)| has(names)).map(|(format, _)| format)
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Format {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        Self::ALL
            .into_iter()
            .find(|format| format.name() == name)
            .ok_or_else(|| format!("{name:?} is not a format; there are {}", names()))
    }
}

fn names() -> String {
    Format::ALL.map(Format::name).join(", ")
}

/// A file to be imported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Input {
    /// Its name, for errors.
    pub name: String,
    /// What it says.
    pub text: String,
}

impl Input {
    /// Reads a file.
    ///
    /// # Errors
    /// If it cannot be read, is larger than 256 MiB, or is not UTF-8.
    pub fn load(path: &Path) -> Result<Self, TraceError> {
        Ok(Self { name: path.display().to_string(), text: read::read_text(path)? })
    }
}

/// What a log does not say of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wishes {
    /// The word for the radio technology, for logs that do not tell it.
    pub tech: Option<Tech>,
    /// Which part of a log with several; not needed when there is one.
    pub part: Option<String>,
}

/// Why there is no trace.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ImportError {
    /// A mistake in a file.
    #[error(transparent)]
    File(#[from] TraceError),
    /// The first line is of no known format.
    #[error("{file}: its first line is of no known format; name one of {}", names())]
    Unknown {
        /// The file's name.
        file: String,
    },
    /// It needs no import.
    #[error("{file}: is a trace already")]
    Already {
        /// The file's name.
        file: String,
    },
    /// The files are too few or too many.
    #[error("{format} takes {} at a time, not {given}", files(*.format))]
    Files {
        /// The format.
        format: Format,
        /// How many were given.
        given: usize,
    },
    /// The part is not there, or one must be chosen.
    #[error("{file}: {problem}; its parts are {parts}")]
    Part {
        /// The file's name.
        file: String,
        /// What is wrong.
        problem: String,
        /// All parts.
        parts: String,
    },
    /// What was wished for is nothing for this format.
    #[error("{format} {problem}")]
    Wish {
        /// The format.
        format: Format,
        /// What is wrong.
        problem: &'static str,
    },
}

fn files(format: Format) -> &'static str {
    if format.files() == 1 { "one file" } else { "two files" }
}

/// Makes a trace of a log; the format is told by the first file's first line if it is not given.
///
/// # Errors
/// Names the line and column of the first mistake, or what else is in the way.
pub fn import(format: Option<Format>, inputs: &[Input], wishes: &Wishes) -> Result<Trace, ImportError> {
    let Some(first) = inputs.first() else {
        return Err(TraceError::file("import", "no file is named").into());
    };
    let format = match format {
        Some(format) => format,
        None => told(first)?,
    };
    if inputs.len() != format.files() {
        return Err(ImportError::Files { format, given: inputs.len() });
    }
    if wishes.tech.is_some() && !matches!(format, Format::Plain | Format::Cicv) {
        return Err(ImportError::Wish { format, problem: "tells the technology itself" });
    }
    if wishes.part.is_some() && !matches!(format, Format::Feup | Format::Sigcomm) {
        return Err(ImportError::Wish { format, problem: "has no parts" });
    }
    match format {
        Format::Ucc => gnettrack::ucc(first),
        Format::Kingston => gnettrack::kingston(first),
        Format::Mtu => mtu::import(first),
        Format::Cicv => cicv::import(first, wishes.tech.as_ref()),
        Format::Sigcomm => sigcomm::import(first, wishes.part.as_deref()),
        Format::Plain => plain::import(first, wishes.tech.as_ref()),
        Format::Feup => feup::import(first, wishes.part.as_deref()),
        Format::Perama => perama::import(inputs),
    }
}

fn told(input: &Input) -> Result<Format, ImportError> {
    let file = || input.name.clone();
    Format::detect(&input.text).ok_or_else(|| {
        let first = input.text.lines().next().unwrap_or_default();
        let ours = first.split(',').any(|name| name.trim() == COLUMNS[0]);
        if ours { ImportError::Already { file: file() } } else { ImportError::Unknown { file: file() } }
    })
}

/// The part that is meant, of those that a file has.
fn part(file: &str, parts: &[String], wish: Option<&str>) -> Result<String, ImportError> {
    let fault =
        |problem: String| Err(ImportError::Part { file: file.to_owned(), problem, parts: parts.join(", ") });
    match (wish, parts) {
        (Some(wish), _) if parts.iter().any(|part| part == wish) => Ok(wish.to_owned()),
        (Some(wish), _) => fault(format!("there is no part \"{wish}\"")),
        (None, [only]) => Ok(only.clone()),
        (None, []) => Err(TraceError::file(file, "has no rows").into()),
        (None, _) => fault("choose a part".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_have_names_of_their_own() {
        for format in Format::ALL {
            assert_eq!(format.name().parse(), Ok(format));
        }
        assert!("pcap".parse::<Format>().unwrap_err().contains("there are ucc, kingston, "));
    }

    fn refused(format: Option<Format>, texts: &[&str], wishes: &Wishes) -> String {
        let input = |text: &&str| Input { name: "log".into(), text: (*text).to_owned() };
        let inputs: Vec<Input> = texts.iter().map(input).collect();
        import(format, &inputs, wishes).expect_err("is refused").to_string()
    }

    #[test]
    fn what_is_no_log_is_refused() {
        let none = Wishes::default();
        assert!(
            refused(None, &["a,b\n1,2\n"], &none).starts_with("log: its first line is of no known format")
        );
        assert!(refused(None, &[""], &none).starts_with("log: its first line is of no known format"));
        assert_eq!(refused(None, &["down_mbps,time_s\n"], &none), "log: is a trace already");
        assert_eq!(refused(None, &["0 1\n", "0 1\n"], &none), "plain takes one file at a time, not 2");
        assert_eq!(refused(Some(Format::Perama), &["{}"], &none), "perama takes two files at a time, not 1");
        let tech = Wishes { tech: Some(Tech::default()), part: None };
        assert_eq!(refused(Some(Format::Ucc), &[""], &tech), "ucc tells the technology itself");
        let part = Wishes { tech: None, part: Some("x".into()) };
        assert_eq!(refused(Some(Format::Plain), &[""], &part), "plain has no parts");
    }

    #[test]
    fn a_part_must_be_one_of_those_there_are() {
        let parts = ["a".to_owned(), "b".to_owned()];
        assert_eq!(part("f", &parts, Some("b")).as_deref(), Ok("b"));
        assert_eq!(part("f", &parts[..1], None).as_deref(), Ok("a"));
        let told = |parts: &[String], wish| part("f", parts, wish).expect_err("is refused").to_string();
        assert_eq!(told(&parts, None), "f: choose a part; its parts are a, b");
        assert_eq!(told(&parts, Some("c")), "f: there is no part \"c\"; its parts are a, b");
        assert_eq!(told(&[], None), "f: has no rows");
    }
}

//! Parsing of configuration texts, and the position of mistakes in them.

use std::{
    fmt::{self, Display},
    path::PathBuf,
    str::FromStr,
};

use serde::{Deserialize, Deserializer, de};
use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

/// Similarity above which a name counts as a typing error (Jaro-Winkler, 0 to 1).
const SIMILAR: f64 = 0.8;

/// An unusable configuration.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("{}: {source}", path.display())]
    Read {
        /// Path of the file.
        path: PathBuf,
        /// Error of the system.
        source: std::io::Error,
    },
    /// The content of the file is wrong.
    #[error("{name}:{line}:{column}: {problem}")]
    Invalid {
        /// Name of the file or text.
        name: String,
        /// Line, from 1.
        line: usize,
        /// Column in characters, from 1.
        column: usize,
        /// Description of the mistake, with its key.
        problem: String,
    },
}

/// A mistake that can only be found after reading the whole file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// Path of the value at fault, for instance `flow.2.name`.
    pub path: String,
    /// Description.
    pub problem: String,
}

impl Mistake {
    pub(super) fn new(path: impl Into<String>, problem: impl Into<String>) -> Self {
        Self { path: path.into(), problem: problem.into() }
    }

    /// Returns the mistake with its path extended by that of a table.
    pub(super) fn within(self, path: &str) -> Self {
        Self { path: format!("{path}.{}", self.path), ..self }
    }

    /// Returns the mistake with its position in the text, which is called `name`.
    pub(super) fn locate(&self, name: &str, text: &str) -> ConfigError {
        error_at(name, text, offset(text, &self.path), &self.problem)
    }
}

/// Form for texts without lines.
impl Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.path.is_empty() {
            f.write_str(&self.problem)
        } else {
            write!(f, "{}: {}", self.path, self.problem)
        }
    }
}

/// Parses a table. Unknown keys and words are mistakes.
pub(super) fn parse<'a, T: Deserialize<'a>>(name: &str, text: &'a str) -> Result<T, ConfigError> {
    toml::from_str(text).map_err(|error| {
        let start = error.span().map_or(0, |span| span.start);
        error_at(name, text, start, &with_suggestion(error.message()))
    })
}

/// Returns the offset of the value at this path; if it does not exist, that of the innermost table
/// on the path.
fn offset(text: &str, path: &str) -> usize {
    let Ok(root) = DeTable::parse(text) else { return 0 };
    let mut keys = path.split('.');
    let mut value = keys.next().and_then(|key| member(root.get_ref(), key));
    let mut start = 0;
    while let Some(found) = value {
        start = found.span().start;
        value = keys.next().and_then(|key| match found.get_ref() {
            DeValue::Table(table) => member(table, key),
            DeValue::Array(all) => all.get(key.parse::<usize>().ok()?),
            _ => None,
        });
    }
    start
}

fn member<'t, 'i>(table: &'t DeTable<'i>, name: &str) -> Option<&'t Spanned<DeValue<'i>>> {
    table.iter().find(|(key, _)| key.get_ref() == name).map(|(_, value)| value)
}

fn error_at(name: &str, text: &str, offset: usize, problem: &str) -> ConfigError {
    let offset = (0..=offset.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    let line_start = text[..offset].rfind('\n').map_or(0, |newline| newline + 1);
    let before = &text[line_start..offset];
    let key = key_before(before).map_or_else(String::new, |key| format!("{key}: "));
    ConfigError::Invalid {
        name: name.to_owned(),
        line: text[..line_start].matches('\n').count() + 1,
        column: before.chars().count() + 1,
        problem: format!("{key}{}", one_line(problem)),
    }
}

/// Returns the key of the value that follows this part of a line; in an inline table, with the key
/// of the table.
fn key_before(line: &str) -> Option<String> {
    let (first, _) = line.split_once('=')?;
    let last = line.trim_end().strip_suffix('=').and_then(|line| line.rsplit(['{', ',']).next());
    let (first, last) = (first.trim(), last.unwrap_or(first).trim());
    Some(if first == last { first.to_owned() } else { format!("{first}.{last}") })
}

/// Joins a description into one line.
pub(super) fn one_line(problem: &str) -> String {
    let lines: Vec<_> = problem.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    lines.join(", ")
}

/// Adds the name that was probably meant to "unknown field `x`, expected one of `a`, `b`".
fn with_suggestion(message: &str) -> String {
    let Some((unknown, expected)) =
        message.split_once(", expected ").filter(|_| message.starts_with("unknown"))
    else {
        return message.to_owned();
    };
    let quoted = |text: &str| text.split('`').skip(1).step_by(2).map(str::to_owned).collect::<Vec<_>>();
    let (given, known) = (quoted(unknown).join(""), quoted(expected));
    let similarity = |name: &String| strsim::jaro_winkler(&given, name);
    let nearest = known.iter().max_by(|a, b| similarity(a).total_cmp(&similarity(b)));
    let hint = match nearest.filter(|name| similarity(name) > SIMILAR) {
        Some(name) => format!("did you mean '{name}'?"),
        None => format!("there are {}", known.join(", ")),
    };
    let kind = if unknown.starts_with("unknown field") { "key" } else { "word" };
    format!("unknown {kind} '{given}'; {hint}")
}

/// A value that is parsed from a text.
pub(super) struct Parsed<T>(pub(super) T);

impl<'de, T: FromStr<Err: Display>> Deserialize<'de> for Parsed<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map(Self).map_err(de::Error::custom)
    }
}

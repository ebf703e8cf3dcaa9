//! Text of a scenario file, and errors at a place in it.

use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;

use super::definition::ScenarioError;
use super::place::{Outline, Problem};
use crate::file::FileError;

/// Largest file in bytes.
const MAX_FILE: u64 = 1 << 20;

/// The text of a scenario.
#[derive(Debug, Clone)]
pub(crate) struct Text {
    /// The file.
    pub(crate) file: PathBuf,
    /// Name of the file in errors.
    pub(crate) name: String,
    /// The text.
    pub(crate) text: String,
}

impl Text {
    /// Creates a text with this name.
    pub(crate) fn new(text: &str, name: &str) -> Self {
        Self { file: PathBuf::from(name), name: name.to_owned(), text: text.to_owned() }
    }

    /// Reads the text of a file.
    pub(crate) fn read(file: &Path) -> Result<Self, ScenarioError> {
        let bytes = squall_file::read(file, MAX_FILE).map_err(FileError::of(file))?;
        let name = file.display().to_string();
        Ok(Self { file: file.to_owned(), ..Self::of_bytes(bytes, &name)? })
    }

    /// Decodes the text.
    pub(super) fn of_bytes(bytes: Vec<u8>, name: &str) -> Result<Self, ScenarioError> {
        let text = squall_file::text(bytes).map_err(|error| ScenarioError::Invalid {
            name: name.to_owned(),
            line: error.line,
            column: error.column,
            problem: error.problem.to_owned(),
        })?;
        Ok(Self::new(&text, name))
    }

    /// Parses the text as TOML.
    pub(crate) fn parse<T: DeserializeOwned>(&self) -> Result<T, ScenarioError> {
        toml::from_str(&self.text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            self.invalid(at, one_line(error.message()))
        })
    }

    /// Creates an error at the place of a problem.
    pub(crate) fn located(&self, problem: &Problem) -> ScenarioError {
        self.invalid(Outline::of(&self.text).offset(&problem.place), one_line(&problem.words))
    }

    fn invalid(&self, at: usize, problem: String) -> ScenarioError {
        let text = &self.text;
        let boundary = (0..=at.min(text.len())).rev().find(|at| text.is_char_boundary(*at));
        let before = &text[..boundary.unwrap_or(0)];
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        ScenarioError::Invalid {
            name: self.name.clone(),
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
            problem,
        }
    }
}

fn one_line(words: &str) -> String {
    words.split('\n').map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join(", ")
}

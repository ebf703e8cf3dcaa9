//! What is wrong with a configuration, and where.

use std::path::PathBuf;

/// A configuration that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// A file cannot be read.
    #[error("{}: {source}", path.display())]
    Read {
        /// Which file.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// Something in it is wrong.
    #[error("{name}:{line}:{column}: {problem}")]
    Invalid {
        /// The file, or what stands in its place.
        name: String,
        /// Line, from 1.
        line: usize,
        /// Column in characters, from 1.
        column: usize,
        /// What is wrong, and with which field.
        problem: String,
    },
}

/// A mistake at a byte of the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fault {
    at: usize,
    words: String,
}

impl Fault {
    pub(super) fn new(at: usize, words: impl Into<String>) -> Self {
        Self { at, words: words.into() }
    }

    /// The error for people, by the text it stands in.
    pub(super) fn locate(self, name: &str, text: &str) -> ConfigError {
        let boundary = (0..=self.at.min(text.len())).rev().find(|at| text.is_char_boundary(*at));
        let before = &text[..boundary.unwrap_or(0)];
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        let lines = self.words.split('\n').map(str::trim).filter(|line| !line.is_empty());
        ConfigError::Invalid {
            name: name.to_owned(),
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
            problem: lines.collect::<Vec<_>>().join(", "),
        }
    }
}

impl Fault {
    /// What is wrong, without the place.
    pub(super) fn words(self) -> String {
        self.words
    }
}

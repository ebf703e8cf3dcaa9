//! Errors as the user sees them: one line, and a code.

use std::{
    io::{Write as _, stderr},
    process::ExitCode,
};

use crate::output;

/// What was asked for cannot be done as it stands.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Usage(pub(crate) String);

/// An error for [`anyhow`] functions.
pub(crate) fn usage(words: impl std::fmt::Display) -> anyhow::Error {
    Usage(words.to_string()).into()
}

/// An error of a library whose words are complete: its sources, part of them, are not told again.
pub(crate) fn whole(error: impl std::error::Error) -> anyhow::Error {
    anyhow::Error::msg(error.to_string())
}

/// Says what went wrong, in one line; the code is 2 for a mistake in what was asked for, 1 for all else.
pub(crate) fn report(error: &anyhow::Error) -> ExitCode {
    if output::is_broken_pipe(error) {
        return ExitCode::SUCCESS;
    }
    // Nobody may be there to read it.
    let _ = writeln!(stderr(), "squall: {}", output::one_line(error));
    ExitCode::from(if error.is::<Usage>() { 2 } else { 1 })
}

/// A scheduler's description that can be built, for `clap`.
pub(crate) fn parse_scheduler(text: &str) -> Result<String, String> {
    squall::scheduler(text).map(|_| text.to_owned()).map_err(|error| error.to_string())
}

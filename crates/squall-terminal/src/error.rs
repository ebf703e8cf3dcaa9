//! Errors as the user sees them: one line, and a code.

use std::process::ExitCode;

use crate::{interrupt::Interrupted, output};

/// What was asked for cannot be done as it stands.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Usage(pub String);

/// An error for [`anyhow`] functions.
pub fn usage(words: impl std::fmt::Display) -> anyhow::Error {
    Usage(words.to_string()).into()
}

/// A library error whose message already includes its sources, which are not printed again.
pub fn whole(error: impl std::error::Error) -> anyhow::Error {
    anyhow::Error::msg(error.to_string())
}

/// Exit code of a program that was interrupted, as shells report it for Ctrl-C: 128 and the number of the signal.
const INTERRUPTED: u8 = 130;

/// Reports what went wrong, in one line that begins with the program's name. The exit code is 2 for a mistake in what was asked for, 130 if the user
/// interrupted the work, 1 for all else.
pub fn report(program: &str, error: &anyhow::Error) -> ExitCode {
    if output::is_broken_pipe(error) {
        return ExitCode::SUCCESS;
    }
    output::on_stderr(&format!("{program}: {}\n", output::one_line(error)));
    ExitCode::from(match error {
        _ if error.is::<Usage>() => 2,
        _ if error.is::<Interrupted>() => INTERRUPTED,
        _ => 1,
    })
}

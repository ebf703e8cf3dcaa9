//! Errors as the user sees them: one line, and an exit code.

use std::process::ExitCode;

use crate::{interrupt::Interrupted, output};

/// A mistake in the request of the user.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Usage(pub String);

/// Creates a [`Usage`] error for [`anyhow`] functions.
pub fn usage(words: impl std::fmt::Display) -> anyhow::Error {
    Usage(words.to_string()).into()
}

/// Wraps a library error whose message already includes its sources, so that they are not printed
/// again.
pub fn whole(error: impl std::error::Error) -> anyhow::Error {
    anyhow::Error::msg(error.to_string())
}

/// Exit code of an interrupted program, as shells report it for Ctrl-C: 128 plus the number of the
/// signal.
const INTERRUPTED: u8 = 130;

/// Reports an error in one line that begins with the program's name. The exit code is 2 for a
/// mistake in the request, 130 if the user interrupted the work, 1 otherwise.
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

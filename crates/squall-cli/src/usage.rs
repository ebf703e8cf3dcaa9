//! Mistakes in what the user asked for, which end the program with code 2 instead of 1.

/// What was asked for cannot be done as it stands.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Usage(pub(crate) String);

/// An error for [`anyhow`] functions.
pub(crate) fn usage(words: impl std::fmt::Display) -> anyhow::Error {
    Usage(words.to_string()).into()
}

/// A scheduler's description that can be built, for `clap`.
pub(crate) fn parse_scheduler(text: &str) -> Result<String, String> {
    squall::scheduler(text).map(|_| text.to_owned()).map_err(|error| error.to_string())
}

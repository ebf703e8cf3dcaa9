//! Errors with a separate text for the peer, and system errors without the numbers that Rust adds.

use std::{borrow::Cow, io, path::Path};

/// An error with a text for this side, and one for the peer that does not name files of this
/// machine.
#[derive(Debug, thiserror::Error)]
#[error("{words}")]
pub(super) struct Fault {
    words: String,
    peer: Cow<'static, str>,
    /// The error concerns this machine.
    here: bool,
}

impl Fault {
    /// Creates an error that the peer may see completely.
    pub(super) fn of_peer(words: impl Into<String>) -> anyhow::Error {
        let words = words.into();
        Self { peer: words.clone().into(), words, here: false }.into()
    }

    /// Creates an error of this machine: the peer gets another text, and an unauthenticated peer
    /// none.
    pub(super) fn here(words: impl Into<String>, peer: impl Into<Cow<'static, str>>) -> anyhow::Error {
        Self { words: words.into(), peer: peer.into(), here: true }.into()
    }
}

/// Returns the text of an error for the peer.
pub(super) fn for_peer(error: &anyhow::Error, stranger: bool) -> &str {
    match error.downcast_ref::<Fault>() {
        Some(fault) if !(fault.here && stranger) => fault.peer.as_ref(),
        None if error.is::<squall_terminal::interrupt::Interrupted>() => "it was interrupted",
        _ => "it failed",
    }
}

/// Creates an error of the form `cannot WHAT FILE: no such file or directory`.
pub(super) fn on_file(what: &str, file: &Path, error: &io::Error) -> anyhow::Error {
    anyhow::anyhow!("cannot {what} {}: {}", file.display(), plain(error))
}

/// Returns the description of a system error.
pub(super) fn plain(error: &io::Error) -> String {
    let text = error.to_string();
    let words = text.split(" (os error").next().unwrap_or(&text);
    let mut letters = words.chars();
    // "No such file" becomes part of a sentence; "IO" stays.
    match (letters.next(), letters.next()) {
        (Some(first), Some(second)) if second.is_lowercase() || second == ' ' => {
            first.to_lowercase().chain([second]).chain(letters).collect()
        }
        _ => words.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peer_learns_no_path() {
        let error =
            Fault::here("cannot write /a/b: no room", "it cannot write the file").context("incomplete");
        assert_eq!(for_peer(&error, false), "it cannot write the file");
        assert_eq!(for_peer(&error, true), "it failed");
        assert_eq!(for_peer(&anyhow::anyhow!("/a/b"), false), "it failed");
        assert_eq!(for_peer(&Fault::of_peer("out of step"), true), "out of step");
    }

    #[test]
    fn the_systems_words_fit_into_a_line() {
        let error = io::Error::from_raw_os_error(2);
        let line = on_file("read", Path::new("a"), &error).to_string();
        assert_eq!(line, "cannot read a: no such file or directory");
        assert_eq!(plain(&io::Error::other("IO failed")), "IO failed");
    }
}

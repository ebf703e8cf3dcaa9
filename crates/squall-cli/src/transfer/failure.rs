//! What the system says, without the numbers that Rust adds.

use std::{io, path::Path};

/// `cannot WHAT FILE: no such file or directory`.
pub(super) fn on_file(what: &str, file: &Path, error: &io::Error) -> anyhow::Error {
    anyhow::anyhow!("cannot {what} {}: {}", file.display(), plain(error))
}

/// The system's words alone.
pub(super) fn plain(error: &io::Error) -> String {
    let text = error.to_string();
    let words = text.split(" (os error").next().unwrap_or(&text);
    let mut letters = words.chars();
    // "No such file" reads on within a line; "IO" stays.
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
    fn the_systems_words_fit_into_a_line() {
        let error = io::Error::from_raw_os_error(2);
        let line = on_file("read", Path::new("a"), &error).to_string();
        assert_eq!(line, "cannot read a: no such file or directory");
        assert_eq!(plain(&io::Error::other("IO failed")), "IO failed");
    }
}

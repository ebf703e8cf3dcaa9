//! Checks of the fuzz targets for links: each function panics on a violation. See `fuzz/README.md`.

use crate::PathConfig;

/// Parses any text as a link of the shell's options: an error is one line.
pub fn link_line(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    match text.parse::<PathConfig>() {
        Err(error) => one_line(&error.to_string()),
        Ok(path) => {
            if let Err(error) = path.check() {
                one_line(&error.to_string());
            }
        }
    }
}

fn one_line(words: &str) {
    assert!(!words.is_empty() && !words.contains('\n'), "{words:?}");
}

#[cfg(test)]
mod tests {
    use squall_testkit::replay;

    #[test]
    fn corpora() {
        replay("link_line", super::link_line);
    }
}

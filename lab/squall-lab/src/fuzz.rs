//! What the fuzz targets check of scenario files: each function panics when a promise is broken. See `fuzz/README.md`.

use crate::scenario::Scenario;

/// Any text as a scenario: an error names its place, in one line but for the text that it quotes.
pub fn scenario(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    if let Err(error) = Scenario::parse(text, "fuzz.toml") {
        let words = error.to_string();
        assert!(words.starts_with("fuzz.toml"), "{words}");
    }
}

#[cfg(test)]
mod tests {
    use squall_testkit::replay;

    #[test]
    fn corpora() {
        replay("scenario", super::scenario);
    }
}

//! Checks that the fuzz targets apply to scenario files. Each function panics if an invariant is
//! broken. See `fuzz/README.md`.

use crate::scenario::Scenario;

/// Parses any text as a scenario. An error must name its place and, apart from the quoted text, fit
/// on one line.
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

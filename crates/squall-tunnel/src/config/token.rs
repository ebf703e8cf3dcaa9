//! The secret that both ends share.

use std::{fmt, path::Path};

use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

/// Fewest bytes of a token, so that it cannot be guessed.
pub const MIN_TOKEN: usize = 12;

/// Most bytes of a token.
pub const MAX_TOKEN: usize = 256;

/// Largest file with a token, white space included.
const MAX_FILE: u64 = 4 << 10;

/// A secret that both ends share. Its `Debug` output does not reveal it.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl Token {
    /// A token of [`MIN_TOKEN`] to [`MAX_TOKEN`] bytes; white space around it is removed.
    ///
    /// # Errors
    /// If it is too short or too long.
    pub fn new(text: &str) -> Result<Self, String> {
        let text = text.trim();
        match text.len() {
            MIN_TOKEN..=MAX_TOKEN => Ok(Self(text.to_owned())),
            len => Err(format!("a token has {MIN_TOKEN} to {MAX_TOKEN} bytes, not {len}")),
        }
    }

    /// Reads a file that contains only the token.
    ///
    /// # Errors
    /// If the file cannot be read, or does not contain a token.
    pub fn load(file: &Path) -> Result<Self, String> {
        let text = squall_file::read_text(file, MAX_FILE).map_err(|error| error.to_string())?;
        Self::new(&text)
    }

    /// The text, for the other end only.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Whether these bytes are the token, compared in constant time.
    pub fn matches(&self, given: &[u8]) -> bool {
        // Digests have one length, so the comparison does not reveal that of the token.
        let (mine, theirs) = (Sha256::digest(self.0.as_bytes()), Sha256::digest(given));
        mine.as_slice().ct_eq(theirs.as_slice()).into()
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_same_token_matches() {
        let token = Token::new(" correct horse battery\n").expect("is long enough");
        assert!(token.matches(b"correct horse battery"));
        assert!(!token.matches(b"correct horse batterx"));
        assert!(!token.matches(b"correct horse"));
        assert!(!token.matches(b""));
        assert_eq!(format!("{token:?}"), "Token");
    }

    #[test]
    fn short_tokens_are_refused() {
        assert!(Token::new("hunter2").is_err());
        assert!(Token::new(&"x".repeat(257)).is_err());
    }
}

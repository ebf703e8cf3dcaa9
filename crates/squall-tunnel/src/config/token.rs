//! The secret that both ends share.

use std::{fmt, path::Path};

use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

/// Fewest bytes of a token: what can be guessed is none.
pub const MIN_TOKEN: usize = 12;

/// Most bytes of a token.
pub const MAX_TOKEN: usize = 256;

/// Most bytes of a file that holds a token, with the spaces around it.
const MAX_FILE: u64 = 4 << 10;

/// A secret that both ends know. It shows nothing of itself in logs.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl Token {
    /// Takes a text of [`MIN_TOKEN`] to [`MAX_TOKEN`] bytes; spaces around it do not count.
    ///
    /// # Errors
    /// If it is too short or too long, in words.
    pub fn new(text: &str) -> Result<Self, String> {
        let text = text.trim();
        match text.len() {
            MIN_TOKEN..=MAX_TOKEN => Ok(Self(text.to_owned())),
            len => Err(format!("a token has {MIN_TOKEN} to {MAX_TOKEN} bytes, not {len}")),
        }
    }

    /// Reads a file that holds the text and nothing else.
    ///
    /// # Errors
    /// If the file cannot be read, or holds no token, in words.
    pub fn load(file: &Path) -> Result<Self, String> {
        let text = squall_file::read_text(file, MAX_FILE).map_err(|error| error.to_string())?;
        Self::new(&text)
    }

    /// The text, to be told to the other end and to nobody else.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Whether these bytes are the same, in a time that does not depend on where they differ.
    pub fn matches(&self, given: &[u8]) -> bool {
        // Digests have one length, so that of the token does not show either.
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

//! Tokens: the secret that both ends share.

use std::{
    fmt,
    path::{Path, PathBuf},
    str::FromStr,
};

use ring::digest::{SHA256, digest};
use subtle::ConstantTimeEq as _;

use super::text::Mistake;

/// Minimum length of a token in bytes, against guessing.
pub const MIN_TOKEN: usize = 12;

/// Maximum length of a token in bytes.
pub const MAX_TOKEN: usize = 256;

/// Size limit of a token file in bytes, including white space.
const MAX_FILE: u64 = 4 << 10;

/// A secret that both ends share. Its `Debug` output does not reveal it.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl Token {
    /// Creates a token of [`MIN_TOKEN`] to [`MAX_TOKEN`] bytes; surrounding white space is removed.
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

    /// Returns the text, only to be sent to the other end.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// `true` if these bytes are the token. Compared in constant time.
    pub fn matches(&self, given: &[u8]) -> bool {
        // Digests have equal lengths, so the comparison does not reveal the length of the token.
        self.hash() == TokenHash::of(given)
    }

    /// Returns the hash of the token, from which the token cannot be derived.
    pub fn hash(&self) -> TokenHash {
        TokenHash::of(self.0.as_bytes())
    }
}

/// SHA-256 of a token. Hashes are compared in constant time.
///
/// A password hash (Argon2, scrypt) would let unauthenticated peers consume CPU time: it would run
/// once per tenant for every token that they present. It is also unnecessary: [`Token`]s are
/// random, and 128 random bits cannot be searched.
#[derive(Clone, Copy, Eq)]
pub struct TokenHash([u8; 32]);

impl TokenHash {
    /// Hashes the bytes that a peer presents.
    pub(crate) fn of(token: &[u8]) -> Self {
        Self(digest(&SHA256, token).as_ref().try_into().expect("SHA-256 has 32 bytes"))
    }
}

impl PartialEq for TokenHash {
    fn eq(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl FromStr for TokenHash {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong =
            "expected the SHA-256 of a token, 64 hexadecimal digits, as `squall token hash` prints it";
        if text.len() != 64 || !text.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return Err(wrong);
        }
        let mut hash = [0; 32];
        for (index, byte) in hash.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&text[2 * index..2 * index + 2], 16).map_err(|_| wrong)?;
        }
        Ok(Self(hash))
    }
}

/// Returns the token of a table, or of a file that the table names, if one is given.
pub(super) fn token(
    token: Option<String>,
    token_file: Option<PathBuf>,
    folder: &Path,
) -> Result<Option<Token>, Mistake> {
    match (token, token_file) {
        (Some(token), None) => Token::new(&token).map(Some).map_err(|problem| Mistake::new("token", problem)),
        (None, Some(file)) => {
            let file = folder.join(file);
            let problem = |problem| Mistake::new("token_file", format!("{}: {problem}", file.display()));
            Token::load(&file).map(Some).map_err(problem)
        }
        (None, None) => Ok(None),
        (Some(_), Some(_)) => Err(Mistake::new("token_file", "token is given too")),
    }
}

impl fmt::Display for TokenHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for TokenHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
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
    fn a_hash_is_the_sha_256_in_hexadecimal() {
        let hash = Token::new("correct horse battery").expect("is long enough").hash();
        // `printf 'correct horse battery' | sha256sum`
        let text = "9028ea0d15decaa35b2da21c0290af3b1a5ba0a30a591906f89b5074e209ea72";
        assert_eq!(hash.to_string(), text);
        assert_eq!(text.parse::<TokenHash>(), Ok(hash));
        assert_eq!(text.to_uppercase().parse::<TokenHash>(), Ok(hash));
        assert!(hash == TokenHash::of(b"correct horse battery") && hash != TokenHash::of(b"correct horse"));
        for wrong in ["", &text[1..], &format!("{text}0"), &text.replace('a', "g"), &"é".repeat(32)] {
            assert!(wrong.parse::<TokenHash>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn short_tokens_are_refused() {
        assert!(Token::new("hunter2").is_err());
        assert!(Token::new(&"x".repeat(257)).is_err());
    }
}

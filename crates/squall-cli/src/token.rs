//! The secret that two ends share, as commands take it.

use std::{env::VarError, path::PathBuf};

use clap::Args;
use squall_tunnel::config::Token;

use squall_terminal::error::usage;

/// Bytes of a token that is made here, from the system's randomness.
const TOKEN_BYTES: usize = 16;

/// How a token is given.
#[derive(Args, Clone, Debug)]
pub(crate) struct TokenArgs {
    /// The secret that both ends know, or the environment's SQUALL_TOKEN; an end that listens makes and shows one if none
    /// is given
    #[arg(long, value_name = "TEXT", conflicts_with = "token_file")]
    token: Option<String>,
    /// Read the secret from this file
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
}

impl TokenArgs {
    /// The token, if one is given.
    ///
    /// # Errors
    /// If it cannot be read, or is none.
    pub(crate) fn token(&self) -> anyhow::Result<Option<Token>> {
        // The environment's by hand: for clap it would be a flag, which excludes a configuration file.
        let (token, place) = match (&self.token, &self.token_file, std::env::var("SQUALL_TOKEN")) {
            (Some(text), _, _) => (Token::new(text), "--token".to_owned()),
            (None, Some(file), _) => (Token::load(file), format!("--token-file: {}", file.display())),
            (None, None, Ok(text)) => (Token::new(&text), "SQUALL_TOKEN".to_owned()),
            (None, None, Err(VarError::NotUnicode(_))) => return Err(usage("SQUALL_TOKEN: it is no text")),
            (None, None, Err(VarError::NotPresent)) => return Ok(None),
        };
        token.map(Some).map_err(|problem| usage(format!("{place}: {problem}")))
    }
}

/// Makes a token of random digits.
///
/// # Errors
/// If the system has no randomness.
pub(crate) fn make() -> anyhow::Result<Token> {
    let mut bytes = [0; TOKEN_BYTES];
    random(&mut bytes)?;
    let text: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    Token::new(&text).map_err(anyhow::Error::msg)
}

/// Fills this with the system's randomness.
///
/// # Errors
/// If the system has none.
pub(crate) fn random(bytes: &mut [u8]) -> anyhow::Result<()> {
    let filled = rustls::crypto::ring::default_provider().secure_random.fill(bytes);
    filled.map_err(|_| anyhow::anyhow!("the system has no randomness"))
}

//! Token of two ends, as a command-line option.

use std::{env::VarError, path::PathBuf, process::ExitCode};

use clap::{Args, Subcommand};
use squall_terminal::{error::usage, output};
use squall_tunnel::config::Token;

/// Number of random bytes of a new token.
const TOKEN_BYTES: usize = 16;

/// Creates a token, or prints the hash of one for the list of an exit's tenants.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  squall token new > acme.token\n  squall token hash --token-file acme.token\n\n\
                        docs/tenants.md shows where the hash belongs."
)]
pub(crate) struct TokenCommand {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Prints a new random token of 128 bits
    New,
    /// Prints the SHA-256 of a token, in hexadecimal
    #[command(mut_arg("token", |token| token.help("The token; also read from SQUALL_TOKEN")))]
    Hash(TokenArgs),
}

/// Runs the command.
pub(crate) fn run(args: &TokenCommand) -> anyhow::Result<ExitCode> {
    let line = match &args.command {
        Command::New => make()?.reveal().to_owned(),
        Command::Hash(token) => match token.token()? {
            Some(token) => token.hash().to_string(),
            None => return Err(usage("--token-file, --token or SQUALL_TOKEN is required")),
        },
    };
    output::print(&format!("{line}\n"))?;
    Ok(ExitCode::SUCCESS)
}

/// Options for a token.
#[derive(Args, Clone, Debug)]
pub(crate) struct TokenArgs {
    /// Token that both ends share; also read from SQUALL_TOKEN. A listening end without one creates and prints it
    #[arg(long, value_name = "TEXT", conflicts_with = "token_file")]
    token: Option<String>,
    /// File with the token
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
}

impl TokenArgs {
    /// Returns the token, if there is one.
    ///
    /// # Errors
    /// If it cannot be read, or is too short or too long.
    pub(crate) fn token(&self) -> anyhow::Result<Option<Token>> {
        // Not read by clap: there the variable would count as an option, which excludes a
        // configuration file.
        let (token, place) = match (&self.token, &self.token_file, std::env::var("SQUALL_TOKEN")) {
            (Some(text), _, _) => (Token::new(text), "--token".to_owned()),
            (None, Some(file), _) => (Token::load(file), format!("--token-file: {}", file.display())),
            (None, None, Ok(text)) => (Token::new(&text), "SQUALL_TOKEN".to_owned()),
            (None, None, Err(VarError::NotUnicode(_))) => return Err(usage("SQUALL_TOKEN: not UTF-8 text")),
            (None, None, Err(VarError::NotPresent)) => return Ok(None),
        };
        token.map(Some).map_err(|problem| usage(format!("{place}: {problem}")))
    }
}

/// Creates a token of random digits.
///
/// # Errors
/// If the system has no randomness.
pub(crate) fn make() -> anyhow::Result<Token> {
    let mut bytes = [0; TOKEN_BYTES];
    random(&mut bytes)?;
    let text: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    Token::new(&text).map_err(anyhow::Error::msg)
}

/// Fills a buffer with random bytes of the system.
///
/// # Errors
/// If the system has no randomness.
pub(crate) fn random(bytes: &mut [u8]) -> anyhow::Result<()> {
    let filled = rustls::crypto::ring::default_provider().secure_random.fill(bytes);
    filled.map_err(|_| anyhow::anyhow!("the system has no randomness"))
}

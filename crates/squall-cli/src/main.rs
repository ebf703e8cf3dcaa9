//! The `squall` program: media and files over all networks of a machine.

#![forbid(unsafe_code)]
// A line that cannot be written, for instance on a full disk, must not end the program.
#![deny(clippy::print_stderr)]

mod arguments;
#[cfg(all(feature = "tunnel", unix))]
mod ctl;
#[cfg(any(feature = "top", feature = "tunnel"))]
mod fetch;
#[cfg(target_os = "linux")]
mod hops;
#[cfg(all(feature = "radios", target_os = "linux"))]
mod record;
mod runtime;
#[cfg(feature = "radios")]
mod signal;
#[cfg(any(feature = "top", feature = "tunnel", target_os = "linux"))]
mod table;
#[cfg(any(feature = "top", feature = "tunnel"))]
mod tenants;
mod token;
#[cfg(feature = "top")]
mod top;
mod transfer;
#[cfg(feature = "tunnel")]
mod tunnel;
#[cfg(feature = "tunnel")]
mod why;

use std::{process::ExitCode, time::Duration};

use clap::{
    CommandFactory as _, Parser, Subcommand,
    error::{ContextKind, ContextValue, ErrorKind},
};

/// A session takes tens of kilobytes, and every packet touches many places in them. With pages of 4
/// KiB, a thousand sessions spend a third of their time on page lookups.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Maximum wait for the reader of the last lines at the end of the program.
const LAST_LINES: Duration = Duration::from_millis(200);

/// Carries real-time media and files over several unreliable networks at once.
#[derive(Parser)]
#[command(name = "squall", version, about)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Send(transfer::send::SendArgs),
    Recv(transfer::recv::RecvArgs),
    #[cfg(feature = "tunnel")]
    Tunnel(Box<tunnel::TunnelArgs>),
    #[cfg(feature = "top")]
    Top(top::TopArgs),
    #[cfg(feature = "tunnel")]
    Why(why::WhyArgs),
    #[cfg(all(feature = "tunnel", unix))]
    Ctl(ctl::CtlArgs),
    #[cfg(target_os = "linux")]
    Hops(hops::HopsArgs),
    #[cfg(all(feature = "radios", target_os = "linux"))]
    Record(record::RecordArgs),
    Token(token::TokenCommand),
    #[cfg(feature = "radios")]
    Signal(signal::SignalArgs),
    #[cfg(feature = "man")]
    #[command(flatten)]
    Manual(squall_terminal::manual::ManualCommand),
}

fn main() -> ExitCode {
    let cli = Cli::try_parse().unwrap_or_else(|error| explained(error).exit());
    let outcome = match cli.command {
        Command::Send(args) => transfer::send::run(&args),
        Command::Recv(args) => transfer::recv::run(&args),
        #[cfg(feature = "tunnel")]
        Command::Tunnel(args) => tunnel::run(&args),
        #[cfg(feature = "top")]
        Command::Top(args) => top::run(&args),
        #[cfg(feature = "tunnel")]
        Command::Why(args) => why::run(&args),
        #[cfg(all(feature = "tunnel", unix))]
        Command::Ctl(args) => ctl::run(&args),
        #[cfg(target_os = "linux")]
        Command::Hops(args) => hops::run(&args),
        #[cfg(all(feature = "radios", target_os = "linux"))]
        Command::Record(args) => record::run(&args),
        Command::Token(args) => token::run(&args),
        #[cfg(feature = "radios")]
        Command::Signal(args) => signal::run(&args),
        #[cfg(feature = "man")]
        Command::Manual(command) => command.run(Cli::command()),
    };
    let code = outcome.unwrap_or_else(|error| squall_terminal::error::report("squall", &error));
    squall_terminal::lines::flush(LAST_LINES);
    code
}

/// Explains an error for `squall tunnel`: a word that is not a subcommand counts as its file, and
/// clap treats the next word as a subcommand.
fn explained(error: clap::Error) -> clap::Error {
    let ContextValue::String(second) =
        error.get(ContextKind::InvalidSubcommand).unwrap_or(&ContextValue::None)
    else {
        return error;
    };
    if error.kind() != ErrorKind::ArgumentConflict {
        return error;
    }
    let words = format!(
        "unexpected '{second}': `squall tunnel FILE` takes one file; to check it: squall tunnel check FILE"
    );
    Cli::command().error(ErrorKind::ArgumentConflict, words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn examples_in_help_can_be_copied() {
        let lines = squall_testkit::check_help(Cli::command(), &["squall ", "tar ", "SQUALL_"]);
        assert!(lines > 10, "only {lines} lines of examples");
    }
}

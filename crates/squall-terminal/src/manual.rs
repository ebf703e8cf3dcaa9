//! Manual pages and shell completions of a program.

use std::{
    io::{self, Write as _},
    path::PathBuf,
    process::ExitCode,
};

use anyhow::Context as _;
use clap::{Command, Subcommand};
use clap_complete::Shell;

/// Commands for manual pages and completions, to be flattened into those of a program.
#[derive(Subcommand)]
pub enum ManualCommand {
    /// Writes a manual page for the program and each of its commands
    Man {
        /// Folder for the pages, created if it does not exist
        #[arg(value_name = "DIR")]
        folder: PathBuf,
    },
    /// Prints the completions for a shell
    Completions {
        /// The shell
        shell: Shell,
    },
}

impl ManualCommand {
    /// Runs the command for a program.
    ///
    /// # Errors
    /// If the folder cannot be written, or standard output is closed.
    pub fn run(&self, mut program: Command) -> anyhow::Result<ExitCode> {
        match self {
            Self::Man { folder } => {
                let cannot_write = || format!("cannot write {}", folder.display());
                std::fs::create_dir_all(folder).with_context(cannot_write)?;
                clap_mangen::generate_to(program, folder).with_context(cannot_write)?;
            }
            Self::Completions { shell } => {
                let name = program.get_name().to_owned();
                let mut script = Vec::new();
                clap_complete::generate(*shell, &mut program, name, &mut script);
                io::stdout().write_all(&script).context("standard output")?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

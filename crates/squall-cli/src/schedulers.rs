//! `squall schedulers`: what can be picked.

use std::{path::PathBuf, process::ExitCode};

use clap::Args;
use serde::Serialize;
use squall::sched::{COMMON_OPTIONS, Entry, OptionSpec, Registry};

use crate::output;

/// Lists the schedulers that can be picked, with their options and where they come from.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  squall schedulers\n  squall schedulers --json - | jq -r '.[].name'\n\n\
    A scheduler is picked by its name, with options in brackets: sp(path=1)\n\
    Scenarios and `squall run` take it with -R at the end, too: the same with every block reliable")]
pub(crate) struct SchedulersArgs {
    /// Write the list as JSON; - for standard output
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// A scheduler as JSON.
#[derive(Serialize)]
struct Listed {
    name: &'static str,
    summary: &'static str,
    source: &'static str,
    options: Vec<ListedOption>,
}

/// An option of a scheduler as JSON.
#[derive(Serialize)]
struct ListedOption {
    name: &'static str,
    default: &'static str,
    help: &'static str,
}

impl From<&Entry> for Listed {
    fn from(entry: &Entry) -> Self {
        let options = entry.options.iter().chain(COMMON_OPTIONS);
        Self {
            name: entry.name,
            summary: entry.summary,
            source: entry.source,
            options: options
                .map(|option| ListedOption { name: option.name, default: option.default, help: option.help })
                .collect(),
        }
    }
}

/// Runs the command.
pub(crate) fn run(args: &SchedulersArgs) -> anyhow::Result<ExitCode> {
    let registry = Registry::standard();
    if let Some(file) = &args.json {
        let all: Vec<Listed> = registry.entries().map(Listed::from).collect();
        output::write(file, &format!("{}\n", serde_json::to_string_pretty(&all)?))?;
    }
    if !args.json.as_deref().is_some_and(output::is_stdout) {
        output::print(&text(&registry))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn text(registry: &Registry) -> String {
    let width = registry.entries().map(|entry| entry.name.len()).max().unwrap_or(0);
    let mut text = String::new();
    for entry in registry.entries() {
        text.push_str(&format!("{:width$}  {}\n", entry.name, entry.summary));
        text.push_str(&format!("{:width$}  source: {}\n", "", entry.source));
        text.push_str(&options(entry.options, width));
    }
    text.push_str("\nEvery one of them takes, too:\n");
    text.push_str(&options(COMMON_OPTIONS, width));
    text
}

fn options(options: &[OptionSpec], indent: usize) -> String {
    let line = |o: &OptionSpec| format!("{:indent$}  {}={}: {}\n", "", o.name, o.default, o.help);
    options.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_told_with_their_defaults() {
        let text = text(&Registry::standard());
        assert!(text.contains("path=0: path id"), "{text}");
        assert!(text.lines().any(|line| line.starts_with("minrtt ")), "{text}");
        assert_eq!(text.matches("cap=none: bytes").count(), 1, "{text}");
    }
}

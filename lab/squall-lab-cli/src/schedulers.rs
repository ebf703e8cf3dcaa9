//! `squall-lab schedulers`: the list of schedulers, for people and for programs.

use std::{path::PathBuf, process::ExitCode};

use clap::Args;
use serde::Serialize;
use squall::sched::{COMMON_OPTIONS, Entry, OptionSpec, Registry};
use squall_lab::Variant;
use squall_terminal::{
    error::usage,
    list, output,
    wrap::{self, wrap},
};

/// Lists the available schedulers, with their options and sources, followed by the stream
/// schedulers and multiplexers of scenarios.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  squall-lab schedulers\n  squall-lab schedulers dams ras\n  \
    squall-lab schedulers --json - | jq -r '.[].name'\n\n\
    scenarios/schedulers.toml shows what they do with the same blocks on the same paths:\n  \
    squall-lab run scenarios/schedulers.toml --scheduler 'minrtt,rr(cap=1MB)' \\\n      \
    --report out/schedulers.html\n\n\
    A scheduler is picked by its name, with options in brackets: sp(path=1)\n\
    Scenarios and `squall-lab run` take it with -R at the end, too: the same with every block reliable")]
pub(crate) struct SchedulersArgs {
    /// Schedulers to list. Default: all
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// Write the list as JSON; - for standard output
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Order of the list: from simple to elaborate, each after those that it builds on.
const ORDER: [&str; 17] = [
    "sp",
    "rr",
    "minrtt",
    "ecf",
    "blest",
    "srpt-ecf",
    "dems",
    "dams",
    "dams-c",
    "dams-robust",
    "ras",
    "redundant",
    "ninetails",
    "raven",
    "augur-retransmit",
    "augur-switch",
    "augur",
];

/// Width below which names have lines of their own.
const NARROW: usize = 70;

const SUFFIX: &str = "With -R at the end, as in minrtt-R or sp(path=1)-R, scenarios and `squall-lab run` take the \
    same scheduler over a transport that repairs every block, unreliable ones too. With +swm at the end, as in \
    minrtt+swm, it uses the signals of a scenario's radios, as storm does by itself.";

/// Runs the command.
pub(crate) fn run(args: &SchedulersArgs, registry: &Registry) -> anyhow::Result<ExitCode> {
    let entries = entries(args, registry)?;
    if let Some(file) = &args.json {
        let all: Vec<Listed> = entries.iter().map(|entry| Listed::from(*entry)).collect();
        output::write(file, &format!("{}\n", serde_json::to_string_pretty(&all)?))?;
        if output::is_stdout(file) {
            return Ok(ExitCode::SUCCESS);
        }
    }
    let mut shown = text(&entries, wrap::width());
    if args.names.is_empty() {
        shown.push_str(&components(registry, wrap::width()));
    }
    output::print(&shown)?;
    Ok(ExitCode::SUCCESS)
}

/// Returns the named entries, each once, if all of them can be built. Without names, returns all.
fn entries<'a>(args: &SchedulersArgs, registry: &'a Registry) -> anyhow::Result<Vec<&'a Entry>> {
    if args.names.is_empty() {
        return Ok(in_reading_order(registry));
    }
    let names: Vec<&str> = args.names.iter().flat_map(|names| list::split(names)).collect();
    if names.is_empty() {
        return Err(usage("name a scheduler; `squall-lab schedulers` lists them"));
    }
    let mut entries: Vec<&Entry> = Vec::new();
    for name in names {
        let variant = Variant::of(name);
        variant.check(registry).map_err(usage)?;
        if entries.iter().all(|entry| entry.name != variant.name()) {
            entries.extend(registry.entry(variant.name()));
        }
    }
    Ok(entries)
}

/// All schedulers: those in [`ORDER`], then the others.
fn in_reading_order(registry: &Registry) -> Vec<&Entry> {
    let mut entries: Vec<&Entry> = registry.entries().collect();
    let place = |entry: &&Entry| ORDER.iter().position(|name| *name == entry.name).unwrap_or(ORDER.len());
    entries.sort_by_key(place);
    entries
}

/// Formats the stream schedulers and multiplexers.
fn components(registry: &Registry, width: Option<usize>) -> String {
    let streams: Vec<&Entry> = registry.streams().collect();
    let multiplexers: Vec<&Entry> = registry.multiplexers().collect();
    let of = |title: &str, entries: &[&Entry]| {
        format!("\n{}\n{}", wrap("", 0, title, width), listed(entries, width))
    };
    of("Stream schedulers, which scenarios name in [streams]:", &streams)
        + &of("Multiplexers, which scenarios name as the channels of a flow:", &multiplexers)
}

/// Formats the list as text, wrapped at `width` columns if given.
fn text(entries: &[&Entry], width: Option<usize>) -> String {
    let mut text = listed(entries, width);
    text.push_str(&wrap("", 0, "All of them also take:", width));
    text.push_str(&options(COMMON_OPTIONS, indent(entries, width).1, width));
    text.push('\n');
    text.push_str(&wrap("", 0, SUFFIX, width));
    text
}

/// Returns the length of the longest name, and the indent of the text beside the names.
fn indent(entries: &[&Entry], width: Option<usize>) -> (usize, usize) {
    let longest = entries.iter().map(|entry| entry.name.len()).max().unwrap_or(0);
    (longest, if width.is_some_and(|width| width < NARROW) { 2 } else { longest + 2 })
}

fn listed(entries: &[&Entry], width: Option<usize>) -> String {
    let (longest, indent) = indent(entries, width);
    let margin = " ".repeat(indent);
    let mut text = String::new();
    for entry in entries {
        let name = if indent > longest {
            format!("{:indent$}", entry.name)
        } else {
            text.push_str(&format!("{}\n", entry.name));
            margin.clone()
        };
        text.push_str(&wrap(&name, indent, entry.summary, width));
        text.push_str(&wrap(&margin, indent, &format!("source: {}", entry.source), width));
        text.push_str(&options(entry.options, indent, width));
        text.push('\n');
    }
    text
}

fn options(options: &[OptionSpec], indent: usize, width: Option<usize>) -> String {
    let margin = " ".repeat(indent);
    let line =
        |o: &OptionSpec| wrap(&margin, indent + 2, &format!("{}={}: {}", o.name, o.default, o.help), width);
    options.iter().map(line).collect()
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
    /// Includes the common options.
    fn from(entry: &Entry) -> Self {
        let options = entry.options.iter().chain(COMMON_OPTIONS);
        let listed = |o: &OptionSpec| ListedOption { name: o.name, default: o.default, help: o.help };
        let options = options.map(listed).collect();
        Self { name: entry.name, summary: entry.summary, source: entry.source, options }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(width: Option<usize>) -> String {
        let registry = squall_papers::registry();
        text(&registry.entries().collect::<Vec<_>>(), width)
    }

    #[test]
    fn options_are_listed_with_their_defaults() {
        let text = list(None);
        assert!(text.contains("path=0: path id"), "{text}");
        assert!(text.lines().any(|line| line.starts_with("minrtt ")), "{text}");
        assert_eq!(text.matches("cap=none: bytes").count(), 1, "{text}");
    }

    #[test]
    fn the_same_words_fit_terminals_of_any_width() {
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let whole = list(None);
        let longest = words(&whole).iter().map(|word| word.chars().count()).max().unwrap_or(0);
        for width in [40, 69, 70, 80, 200] {
            assert!(longest + 4 < width, "no word needs more");
            let text = list(Some(width));
            assert_eq!(words(&text), words(&whole));
            for line in text.lines() {
                assert!(line.chars().count() <= width, "{width}: {line}");
            }
        }
    }

    #[test]
    fn what_the_order_does_not_have_comes_last() {
        let mut registry = squall_papers::registry();
        let entry = *registry.entries().next().expect("there are some");
        registry.register(Entry { name: "aaa", ..entry }, |_| unreachable!("it is only listed"));
        let entries = in_reading_order(&registry);
        assert_eq!(entries.first().map(|entry| entry.name), Some("sp"));
        assert_eq!(entries.len(), registry.entries().count());
        assert!(entries.iter().position(|entry| entry.name == "aaa") >= Some(ORDER.len()));
    }
}

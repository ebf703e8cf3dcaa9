//! The list of schedulers, for people and for programs.

use serde::Serialize;
use squall::sched::{COMMON_OPTIONS, Entry, OptionSpec};

use squall_terminal::wrap::wrap;

/// Columns below which a name stands on a line of its own.
const NARROW: usize = 70;

/// The list as text, broken at `width` columns if one is given.
pub(super) fn text(entries: &[&Entry], width: Option<usize>) -> String {
    let longest = entries.iter().map(|entry| entry.name.len()).max().unwrap_or(0);
    let indent = if width.is_some_and(|width| width < NARROW) { 2 } else { longest + 2 };
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
    text.push_str(&wrap("", 0, "Every one of them takes, too:", width));
    text.push_str(&options(COMMON_OPTIONS, indent, width));
    text.push('\n');
    text.push_str(&wrap("", 0, SUFFIX, width));
    text
}

const SUFFIX: &str = "With -R at the end, as in minrtt-R or sp(path=1)-R, scenarios and `squall-lab run` take the \
    same scheduler over a transport that repairs every block, unreliable ones too. With +swm at the end, as in \
    minrtt+swm, it goes by the signals of a scenario's radios, as storm does by itself.";

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

/// The list as JSON; each scheduler with the common options among its own.
pub(super) fn json(entries: &[&Entry]) -> serde_json::Result<String> {
    let all: Vec<Listed> = entries.iter().map(|entry| Listed::from(*entry)).collect();
    Ok(format!("{}\n", serde_json::to_string_pretty(&all)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use squall::sched::Registry;

    fn list(width: Option<usize>) -> String {
        let registry = Registry::standard();
        text(&registry.entries().collect::<Vec<_>>(), width)
    }

    #[test]
    fn options_are_told_with_their_defaults() {
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
}

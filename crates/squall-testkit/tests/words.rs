//! Documents and code use the field's terms (`docs/glossary.md`). This test searches for the words and phrases that they replace.
//!
//! `SQUALL_WORDS=lab/squall-net cargo test -p squall-testkit --test words` prints the occurrences in a folder.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
};

/// Words and phrases that documents and code avoid, and their replacement. `a|b` are alternatives for one word.
const PHRASES: [(&str, &str); 20] = [
    ("tell|tells|told|telling", "report, notify, announce; print; distinguish"),
    ("hear|hears|heard|hearing", "receive, detect"),
    ("heed|heeds|heeded|heeding", "obey, check, use"),
    ("mind|minds|minded|minding", "check, handle, enforce"),
    ("knows|knew", "has, holds, detects"),
    ("give|gives|gave|given|giving up", "cancel, abandon, stop"),
    ("turn|turns|turned|turning away", "reject, refuse"),
    ("anew", "again"),
    ("by turns", "alternately"),
    ("of no use", "useless, worthless"),
    ("as it|they come|comes", "at once, in order of arrival"),
    ("go|goes|going|went by", "follow, use"),
    ("so many", "that many, a number of"),
    ("as far as", "if, to the extent that"),
    ("nobody", "no peer, no process, none"),
    ("whom|whoever", "the peer, the receiver, the process that"),
    ("farewell|farewells", "close"),
    ("for want of", "without, for lack of"),
    ("stand|stands|stood|standing still", "freeze, stall, stop"),
    ("lest", "so that not"),
];

/// Names for which the field has another word. Only code is searched for them.
const NAMES: [(&str, &str); 14] = [
    ("book|books", "log, report"),
    ("competitor|competitors", "candidate, transport"),
    ("contender|contenders", "transport"),
    ("court|courts", "evaluator"),
    ("crown|crowns|crowned", "promote"),
    ("fleeting", "ephemeral"),
    ("keeper|keepers", "path manager; init process"),
    ("lane|lanes", "receiver of a flow"),
    ("parcel|parcels", "frame"),
    ("reel|reels", "encoded film"),
    ("roster|rosters", "registry"),
    ("shelf", "cache"),
    ("trial|trials", "attempt, candidate"),
    ("visit|visits|visitor|visitors", "pending handshake, unauthenticated session"),
];

/// Occurrences that stay: a file or folder, one of the words, and the reason.
const EXCEPTIONS: [(&str, &str, &str); 15] = [
    ("crates/squall-testkit/tests/words.rs", "", "the list itself"),
    ("crates/squall-testkit/tests/public_api.rs", "visit", "syn's trait"),
    ("dist/debian/copyright", "whom", "the text of the licence"),
    ("bindings/android/java", "parcel", "Android's class"),
    ("lab/squall-lab-cli/src/versus", "contender", "an alias of --transport"),
    ("lab/squall-lab-cli/tests/versus.rs", "contender", "the alias, and a field in JSON"),
    ("lab/squall-versus/src/figures.rs", "contender", "a field in JSON"),
    ("crates/squall-units/src/lib.rs", "visit", "serde's trait"),
    ("lab/squall-lab/src/scenario", "visit", "serde's trait"),
    ("lab/squall-lab/src/traffic", "visit", "serde's trait"),
    ("lab/squall-net/src/form.rs", "visit", "serde's trait"),
    ("crates/squall-units/src/lib.rs", "visitor", "serde's trait"),
    ("lab/squall-lab/src/scenario", "visitor", "serde's trait"),
    ("lab/squall-lab/src/traffic", "visitor", "serde's trait"),
    ("lab/squall-net/src/form.rs", "visitor", "serde's trait"),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the workspace is there")
}

/// Returns the files with this ending below a folder, `depth` levels down at most and without
/// `target` folders, as paths from the root.
fn files(folder: &str, ending: &str, depth: usize) -> Vec<String> {
    let mut found = Vec::new();
    for entry in
        fs::read_dir(root().join(folder)).expect("can be listed").map(|entry| entry.expect("can be listed"))
    {
        let name = entry.file_name().into_string().expect("is UTF-8");
        let path = if folder.is_empty() { name } else { format!("{folder}/{name}") };
        if entry.path().is_dir() && depth > 0 && !path.ends_with("/target") {
            found.append(&mut files(&path, ending, depth - 1));
        } else if path.ends_with(ending) {
            found.push(path);
        }
    }
    found.sort();
    found
}

fn documents() -> Vec<String> {
    ["", "docs", "docs/notebook", "fuzz", "traffic", "bindings/python"]
        .into_iter()
        .flat_map(|folder| files(folder, ".md", 0))
        .collect()
}

/// Returns the scenarios, whose texts appear in reports, and the files of the service, the build
/// and the scripts.
fn configuration() -> Vec<String> {
    let folders = [("scenarios", ".toml"), ("dist", ""), ("scripts", "")];
    let files = folders.into_iter().flat_map(|(folder, ending)| files(folder, ending, 2));
    files.chain(["Makefile".to_owned()]).collect()
}

fn code() -> Vec<String> {
    let rust = ["crates", "lab", "bindings"].into_iter().flat_map(|folder| files(folder, ".rs", 20));
    let others =
        [".c", ".h", ".java", ".kt", ".py", ".pyi"].into_iter().flat_map(|kind| files("bindings", kind, 20));
    rust.chain(others).collect()
}

/// A word in lower case with its line. Punctuation that ends a phrase is a separate word.
struct Word {
    text: String,
    line: usize,
}

/// Splits text into words, and identifiers into theirs: `mind_budgets` and `MindBudgets` are "mind budgets".
fn words(text: &str) -> Vec<Word> {
    let mut words: Vec<Word> = Vec::new();
    for (line, content) in text.lines().enumerate() {
        // In continued comments and strings, a phrase continues in the next line.
        let content = content.trim_start().trim_start_matches(['/', '!', '>', '#']);
        let mut before = ' ';
        for c in content.chars() {
            let starts = !before.is_alphanumeric() || before.is_lowercase() && c.is_uppercase();
            match words.last_mut().filter(|_| !starts) {
                Some(word) if c.is_alphanumeric() => word.text.extend(c.to_lowercase()),
                _ if c.is_alphanumeric() => {
                    words.push(Word { text: c.to_lowercase().collect(), line: line + 1 });
                }
                _ if ".,;:|()[]{}<>=\"`".contains(c) => words.push(Word { text: c.into(), line: line + 1 }),
                _ => {}
            }
            before = c;
        }
    }
    words
}

struct Occurrence {
    file: String,
    line: usize,
    found: String,
    replacement: &'static str,
}

/// A phrase as the alternatives for each of its words.
#[derive(Clone)]
struct Pattern {
    parts: Vec<Vec<&'static str>>,
    replacement: &'static str,
}

/// Patterns by their first word, so that a text is read once.
struct Patterns(BTreeMap<&'static str, Vec<Pattern>>);

impl Patterns {
    fn of(lists: &[&[(&'static str, &'static str)]]) -> Self {
        let mut by_first: BTreeMap<_, Vec<Pattern>> = BTreeMap::new();
        for (phrase, replacement) in lists.iter().copied().flatten() {
            let parts: Vec<Vec<&str>> = phrase.split(' ').map(|part| part.split('|').collect()).collect();
            let pattern = Pattern { parts, replacement };
            for first in &pattern.parts[0] {
                by_first.entry(*first).or_default().push(pattern.clone());
            }
        }
        Self(by_first)
    }

    fn search(&self, file: &str, text: &str, found: &mut Vec<Occurrence>) {
        let words = words(text);
        for at in 0..words.len() {
            for Pattern { parts, replacement } in self.0.get(words[at].text.as_str()).into_iter().flatten() {
                let Some(words) = words.get(at..at + parts.len()) else { continue };
                let matches = words.iter().zip(parts).all(|(word, part)| part.contains(&word.text.as_str()));
                let excepted = EXCEPTIONS.iter().any(|(place, word, _)| {
                    file.starts_with(place) && (word.is_empty() || words[0].text == *word)
                });
                if matches && !excepted {
                    let text: Vec<&str> = words.iter().map(|word| word.text.as_str()).collect();
                    let (file, found_text) = (file.to_owned(), text.join(" "));
                    found.push(Occurrence { file, line: words[0].line, found: found_text, replacement });
                }
            }
        }
    }
}

fn listed(occurrences: &[&Occurrence]) -> String {
    let mut text = String::new();
    for Occurrence { file, line, found, replacement } in occurrences {
        let _ = writeln!(text, "{file}:{line}: {found:?}: {replacement}");
    }
    text
}

/// Removes inline code: names of tests and modules are checked where they are defined.
fn prose(text: &str) -> String {
    let lines = text.lines().map(|line| line.split('`').step_by(2).collect::<Vec<_>>().join("`"));
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn documents_use_the_terms_of_the_field() {
    let patterns = Patterns::of(&[&PHRASES]);
    let mut found = Vec::new();
    for file in documents().into_iter().chain(configuration()) {
        let text = fs::read_to_string(root().join(&file)).expect("can be read");
        patterns.search(&file, &prose(&text), &mut found);
    }
    assert!(found.is_empty(), "\n{}", listed(&found.iter().collect::<Vec<_>>()));
}

/// Rejects sentences such as "What has expired is dropped": the subject must come first and be a
/// noun.
#[test]
fn no_sentence_of_a_document_begins_with_what_or_who() {
    let mut found = String::new();
    for file in documents() {
        let text = fs::read_to_string(root().join(&file)).expect("can be read");
        for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.starts_with('#')) {
            for start in ["What ", "Who ", "Whatever ", "Whoever "] {
                let at = line.match_indices(start).find(|(at, _)| {
                    let before = line[..*at].trim_end_matches([' ', '*']);
                    before.is_empty() || before.ends_with(['.', ';', ':', '|', '-', '!', '?'])
                });
                let asks = at.is_some_and(|(at, _)| line[at..].contains('?'));
                if at.is_some() && !asks {
                    let _ = writeln!(found, "{file}:{}: {line}", number + 1);
                }
            }
        }
    }
    assert!(found.is_empty(), "\n{found}");
}

#[test]
fn code_uses_the_terms_of_the_field() {
    let patterns = Patterns::of(&[&PHRASES, &NAMES]);
    let mut found = Vec::new();
    for file in code() {
        let text = fs::read_to_string(root().join(&file)).expect("can be read");
        patterns.search(&file, &text, &mut found);
    }
    if let Ok(folder) = std::env::var("SQUALL_WORDS") {
        let within = |at: &&Occurrence| Path::new(&at.file).starts_with(&folder);
        print!("{}", listed(&found.iter().filter(within).collect::<Vec<_>>()));
    }
    assert!(found.is_empty(), "\n{}", listed(&found.iter().collect::<Vec<_>>()));
}

#[test]
fn identifiers_and_continued_lines_are_searched() {
    let text = "/// The peer goes\n    /// by it\nfn mind_budgets() { ToldSource::new(); }\n// It goes. By then it ends.";
    let mut found = Vec::new();
    Patterns::of(&[&PHRASES]).search("a.rs", text, &mut found);
    let found: Vec<_> = found.iter().map(|at| (at.line, at.found.as_str())).collect();
    assert_eq!(found, [(1, "goes by"), (3, "mind"), (3, "told")]);
}

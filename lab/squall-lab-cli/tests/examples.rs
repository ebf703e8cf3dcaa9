//! Runs examples of the documents as they stand there, and checks the recordings that they use.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

/// Documents with examples.
const DOCUMENTS: [&str; 5] =
    ["README.md", "docs/shell.md", "docs/signal.md", "docs/traces.md", "docs/lab.md"];

/// Prefixes of the examples that end by themselves within seconds and need neither radios, root nor
/// another machine.
const RUN: [&str; 6] = [
    "squall-lab schedulers",
    "squall-lab run scenarios/fading.toml",
    "squall-lab run scenarios/outage-first.toml --scheduler",
    "squall-lab repro --list",
    "squall-lab trace info",
    "squall-lab signal info",
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("is there")
}

/// Returns the commands in the `sh` blocks of a document, with continued lines joined and comments
/// removed.
fn commands(document: &str) -> Vec<String> {
    let text = fs::read_to_string(root().join(document)).expect("can be read");
    let mut commands: Vec<String> = Vec::new();
    let (mut inside, mut continues) = (false, false);
    for line in text.lines() {
        if line.starts_with("```") {
            inside = line == "```sh";
            continue;
        }
        if !inside {
            continue;
        }
        let line = line.split(" #").next().unwrap_or_default().trim();
        let (part, more) = line.strip_suffix('\\').map_or((line, false), |part| (part, true));
        if continues {
            commands.last_mut().expect("one goes on").push_str(part);
        } else {
            commands.push(part.to_owned());
        }
        continues = more;
    }
    commands.retain(|command| !command.is_empty());
    commands
}

/// Runs a command in a shell, in a folder that contains the scenarios.
fn by_shell(command: &str, folder: &Path) -> Output {
    let program = Path::new(env!("CARGO_BIN_EXE_squall-lab")).parent().expect("is in a folder");
    let paths = format!("{}:{}", program.display(), std::env::var("PATH").unwrap_or_default());
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", command]).current_dir(folder).env("PATH", paths).output().expect("there is a shell")
}

#[test]
#[cfg(unix)]
fn examples_run_as_they_stand() {
    let folder = tempfile::tempdir().expect("there is room");
    for name in ["scenarios", "traffic"] {
        std::os::unix::fs::symlink(root().join(name), folder.path().join(name)).expect("can be linked");
    }
    let commands: Vec<String> = DOCUMENTS.into_iter().flat_map(commands).collect();
    for begins in RUN {
        let mut found = commands.iter().filter(|command| command.starts_with(begins)).peekable();
        assert!(found.peek().is_some(), "no document has an example {begins:?}");
        for command in found {
            let output = by_shell(command, folder.path());
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{command}: {said}");
        }
    }
    assert!(folder.path().join("out/fading.html").exists());
}

#[test]
fn files_that_examples_read_ship() {
    for command in DOCUMENTS.into_iter().flat_map(commands) {
        let words = command.split([' ', ':', ',', '\'']);
        let read = words.filter(|word| word.starts_with("scenarios/") && !word.contains('*'));
        for file in read {
            assert!(root().join(file).exists(), "{command}: there is no {file}");
        }
    }
}

#[test]
fn the_recordings_are_what_their_script_makes() {
    let folder = tempfile::tempdir().expect("there is room");
    let made = Command::new("python3").arg(root().join("scripts/drive-trace.py")).arg(folder.path()).status();
    match made {
        Ok(status) => assert!(status.success()),
        Err(error) => {
            assert!(std::env::var("CI").is_err(), "python3: {error}");
            eprintln!("skipped: python3: {error}");
            return;
        }
    }
    for name in ["drive.csv", "lte.mahi"] {
        let read = |folder: &Path| fs::read_to_string(folder.join(name)).expect("can be read");
        assert!(read(folder.path()) == read(&root().join("scenarios/traces")), "{name} is another");
    }
}

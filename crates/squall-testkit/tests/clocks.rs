//! Checks that the product measures durations with the monotonic clock: every use of the wall clock
//! has a reason.

use std::{fs, path::Path};

/// Files that read the wall clock, with the reason. Tests and examples may read it.
const USES: &[(&str, &str)] = &[
    ("squall-cli/src/record/socket.rs", "the kernel stamps datagrams with it"),
    ("squall-observe/src/status/mod.rs", "it says when the period of a quota ends"),
    ("squall-tunnel/src/flow/socket.rs", "the kernel stamps datagrams with it"),
    ("squall/src/shared/quotas.rs", "a quota is one of a day, a week or a month"),
];

/// Names that read it: of the standard library, of libraries in use, and of the system.
const WORDS: &[&str] =
    &["SystemTime", "UNIX_EPOCH", "UnixTime::now", "CLOCK_REALTIME", "ClockId::Realtime", "Utc::now"];

fn sources(folder: &Path, found: &mut Vec<std::path::PathBuf>) {
    for entry in fs::read_dir(folder).expect("is there") {
        let path = entry.expect("is readable").path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

#[test]
fn only_what_has_a_reason_reads_the_wall_clock() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("is in a folder");
    let mut files = Vec::new();
    for entry in fs::read_dir(crates).expect("is there") {
        let product = entry.expect("is readable").path();
        if !product.ends_with("squall-testkit") && product.join("src").is_dir() {
            sources(&product.join("src"), &mut files);
        }
    }
    assert!(files.len() > 200, "only {} files", files.len());
    let mut used = Vec::new();
    for file in files {
        let text = fs::read_to_string(&file).expect("is text");
        // Unit tests are at the end of a file.
        let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        let name = file.strip_prefix(crates).expect("is inside").display().to_string();
        if WORDS.iter().any(|word| code.contains(word)) {
            used.push(name);
        }
    }
    used.sort();
    let expected: Vec<_> = USES.iter().map(|(file, _)| (*file).to_owned()).collect();
    assert_eq!(used, expected, "a step of the wall clock would change what these files do");
}

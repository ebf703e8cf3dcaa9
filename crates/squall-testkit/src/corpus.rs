//! Fuzzer inputs as tests, without a fuzzer.

use std::{fs, panic::catch_unwind, path::Path};

/// Runs a fuzz target's check on each input of its corpus, the files of `fuzz/corpus/TARGET`.
///
/// # Panics
///
/// If an input fails, with its file, or if there is none.
pub fn replay(target: &str, check: fn(&[u8])) {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let files = fs::read_dir(&corpus).unwrap_or_else(|error| panic!("{}: {error}", corpus.display()));
    let mut inputs = 0;
    for file in files {
        let path = file.expect("a directory entry").path();
        let input = fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        assert!(catch_unwind(|| check(&input)).is_ok(), "the check fails with {}", path.display());
        inputs += 1;
    }
    assert!(inputs >= 10, "only {inputs} inputs in {}", corpus.display());
}

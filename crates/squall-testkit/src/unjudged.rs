//! Record of tests without a verdict: measurements that a busy machine disturbs, and tests whose
//! requirements are missing.

use std::{
    env,
    fs::OpenOptions,
    io::{self, Write as _},
    thread,
};

/// Variable with the file to which each such test adds a line: `kind`, `test` and `reason`,
/// separated by tabs. `make test` counts the lines.
const FILE: &str = "SQUALL_UNJUDGED";

/// Records that the running test is skipped, and why: a tool, a device or a right is missing.
///
/// # Panics
///
/// Under `CI=true`, where all requirements must be met.
pub fn skipped(why: &str) {
    assert!(!in_ci(env::var("CI").ok().as_deref()), "{} cannot be skipped under CI=true: {why}", test_name());
    record("skipped", why);
}

fn in_ci(ci: Option<&str>) -> bool {
    ci == Some("true")
}

/// Returns the name of the running test.
pub(crate) fn test_name() -> String {
    let program = env::current_exe().ok().and_then(|path| Some(path.file_stem()?.to_str()?.to_owned()));
    let program = program.as_deref().and_then(|name| name.rsplit_once('-')).map_or("", |(name, _)| name);
    format!("{program}::{}", thread::current().name().unwrap_or("a test"))
}

/// Writes a line to the file, and to standard error past the capture of the test's output, because
/// passing tests are silent.
pub(crate) fn record(kind: &str, why: &str) {
    let line = line(kind, &test_name(), why);
    let _ = io::stderr().write_all(line.as_bytes());
    if let Some(file) = env::var_os(FILE) {
        let file = OpenOptions::new().append(true).create(true).open(file);
        file.and_then(|mut file| file.write_all(line.as_bytes()))
            .expect("the record of unjudged tests is written");
    }
}

/// Formats one line; line breaks in the reason become spaces.
fn line(kind: &str, test: &str, why: &str) -> String {
    format!("{kind}\t{test}\t{}\n", why.split_whitespace().collect::<Vec<_>>().join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_takes_one_line() {
        assert_eq!(line("skipped", "x::y", "no tool:\n\tnone\n"), "skipped\tx::y\tno tool: none\n");
    }

    #[test]
    fn only_true_is_ci() {
        assert!(in_ci(Some("true")));
        assert!(!in_ci(Some("false")) && !in_ci(None));
    }

    #[test]
    fn a_test_has_its_programs_name() {
        assert_eq!(test_name(), "squall_testkit::unjudged::tests::a_test_has_its_programs_name");
    }
}

//! Result records as JSON files: an array of runs.

use super::RunResult;

/// Largest result file in bytes.
pub const MAX_FILE: u64 = 256 << 20;

/// The text is not a result file of this version.
#[derive(Debug, thiserror::Error)]
#[error("{name}:{}:{}: not a result file: {source}", source.line(), source.column())]
pub struct ReadError {
    /// Name of the file.
    name: String,
    /// Parser error with its position.
    source: serde_json::Error,
}

/// Formats the runs as a JSON array with one run per line; byte-identical for identical runs.
pub fn to_json(runs: &[RunResult]) -> String {
    let lines: Vec<_> = runs
        .iter()
        .map(|run| serde_json::to_string(run).expect("records have string keys and finite numbers"))
        .collect();
    format!("[\n{}\n]\n", lines.join(",\n"))
}

/// Parses the output of [`to_json`]; `name` stands for the file in errors.
///
/// # Errors
/// [`ReadError`] with line and column.
pub fn from_json(text: &str, name: &str) -> Result<Vec<RunResult>, ReadError> {
    serde_json::from_str(text).map_err(|source| ReadError { name: name.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::sample::run;

    #[test]
    fn identical_runs_are_identical_bytes() {
        let json = to_json(&[run("dams", 1), run("dams", 2)]);
        assert_eq!(json, to_json(&[run("dams", 1), run("dams", 2)]));
        assert_ne!(json, to_json(&[run("dams", 1), run("dams", 3)]));
        assert_eq!(json.lines().count(), 4, "one line per run");
    }

    #[test]
    fn what_was_written_reads_back() {
        let mut written = run("minrtt", 1);
        written.extra.insert("psnr".into(), f64::INFINITY.into());
        written.extra.insert("player".into(), "built in".into());
        let json = to_json(&[written.clone()]);
        let read = from_json(&json, "r.json").unwrap();
        assert_eq!(read, [written]);
        assert_eq!(to_json(&read), json);
    }

    #[test]
    fn errors_name_the_place() {
        let error = from_json("[\n{ \"scenario\": 3 }]", "r.json").unwrap_err().to_string();
        assert!(error.starts_with("r.json:2:15: not a result file: "), "{error}");
    }
}

//! Result records as JSON files: an array of runs.

use super::RunResult;

/// Largest result file in bytes.
pub const MAX_FILE: u64 = 256 << 20;

/// A text that isn't a result file of this version.
#[derive(Debug, thiserror::Error)]
#[error("{name}:{}:{}: not a result file: {source}", source.line(), source.column())]
pub struct ReadError {
    /// The file.
    name: String,
    /// What is wrong and where.
    source: serde_json::Error,
}

/// The runs as JSON text: one run per line within an array, byte-identical for identical runs.
pub fn to_json(runs: &[RunResult]) -> String {
    let lines: Vec<_> = runs
        .iter()
        .map(|run| serde_json::to_string(run).expect("records have string keys and finite numbers"))
        .collect();
    format!("[\n{}\n]\n", lines.join(",\n"))
}

/// Reads what [`to_json`] wrote; `name` is for the error.
///
/// # Errors
/// [`ReadError`] names the line and column of what is wrong.
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

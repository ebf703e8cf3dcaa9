//! What a check of the scenario found, as a record; `check` judges.

use serde::{Deserialize, Serialize};

/// What a check found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// The check in words: target, measure and part of the run.
    pub check: String,
    /// What was measured.
    pub measured: String,
    /// What was asked for.
    pub limit: String,
    /// Whether the measure was within its limits.
    pub pass: bool,
}

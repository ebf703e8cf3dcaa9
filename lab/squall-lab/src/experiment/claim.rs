//! Claims about the results of an experiment.

use std::collections::BTreeMap;
use std::iter;

use serde::{Deserialize, Serialize};

use crate::measure::{Best, Measure, Subject, Unit};

/// A statement about the results of one scheduler, alone or compared.
#[derive(Debug, Clone, PartialEq)]
pub struct Claim {
    /// Experiment of the paper that the claim is from: the experiment's own name, or one of
    /// [`super::Source::also`].
    pub id: String,
    /// The statement in words.
    pub says: String,
    /// Fixed axes, with the names of their points. The claim is about all points of the other axes.
    pub at: BTreeMap<String, String>,
    /// Way in which several cells are combined.
    pub over: Over,
    /// Way in which several runs are combined.
    pub of: Of,
    /// Measure of the claim.
    pub measure: Measure,
    /// Subject of the measure.
    pub subject: Subject,
    /// Scheduler whose results are judged.
    pub scheduler: String,
    /// Other side of a comparison; the scheduler itself if the claim compares nothing.
    pub against: Against,
    /// Expected result.
    pub expectation: Expectation,
    /// Explanation of the result, above all if the claim does not hold. A name of
    /// [`evidence`](Self::evidence) in braces stands for the measured value.
    pub finding: String,
    /// Figures of the finding, by name.
    pub evidence: BTreeMap<String, Evidence>,
}

/// A figure of a finding: the mean of the runs of a scheduler.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Evidence {
    /// Scheduler whose results are shown.
    pub scheduler: String,
    /// Points that add to or replace those of the claim, of axes and of at most one assumption.
    pub at: BTreeMap<String, String>,
    /// Measure to show.
    pub measure: Measure,
    /// Subject of the measure.
    pub subject: Subject,
}

/// Other side of a comparison.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Against {
    /// Scheduler to compare with.
    pub scheduler: String,
    /// Points that replace those of the claim.
    pub at: BTreeMap<String, String>,
    /// Subject to compare with, usually that of the claim.
    pub subject: Subject,
}

/// Direction of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Way {
    /// Lower.
    Less,
    /// Higher.
    More,
}

/// Combination of several cells.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Over {
    /// Mean of the cells, as in "on average".
    #[default]
    Mean,
    /// The cell with the greatest effect, as in "up to".
    Most,
    /// The cell with the least effect, as in "at least" and "everywhere".
    Least,
}

/// Combination of several runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Of {
    /// Mean of the seeds, in each cell.
    #[default]
    Mean,
    /// Median of the runs of all cells and seeds, as in "for half of the sessions".
    Median,
    /// Highest of all runs, as in "at most".
    Highest,
    /// Percentile over the blocks of all runs together, as in a distribution of all frames. For
    /// percentiles of the latency of a flow.
    Pooled,
}

/// Expected value of a measure, in its unit, or of its comparison with another.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Expectation {
    /// Equal to this value.
    Value(f64),
    /// Relative difference: −0.49 for −49 %.
    Change(f64),
    /// Ratio to the other value.
    Times(f64),
    /// Absolute difference.
    Difference(f64),
    /// Clearly lower, by any amount.
    Less,
    /// Clearly higher, by any amount.
    More,
    /// At least as good as every other scheduler of the experiment.
    Best(Best),
    /// Relative difference of at least this much: −0.01 for "no more than 1 % lower".
    ChangeAtLeast(f64),
    /// At least this value.
    AtLeast(f64),
    /// At most this value.
    AtMost(f64),
}

impl Expectation {
    /// `true` if the claim states a size and not only a direction.
    pub(super) fn has_size(self) -> bool {
        !matches!(self, Self::Less | Self::More | Self::Best(_))
    }

    /// `true` if every scheduler can meet the claim.
    pub(super) fn is_met_alike(self) -> bool {
        !self.compares() && !matches!(self, Self::Best(_)) || matches!(self, Self::ChangeAtLeast(_))
    }

    /// `true` if the claim compares two results.
    pub fn compares(self) -> bool {
        !matches!(self, Self::Value(_) | Self::Best(_) | Self::AtLeast(_) | Self::AtMost(_))
    }
}

impl Claim {
    /// Returns the claim with these stock schedulers in place of the schedulers that they stand
    /// for, also among the rivals of [`Expectation::Best`]. `None` if that changes nothing.
    pub(super) fn with(&self, stock: &BTreeMap<String, String>) -> Option<Self> {
        let replaced = |name: &String| stock.get(name).unwrap_or(name).clone();
        let scheduler = replaced(&self.scheduler);
        let against = Against { scheduler: replaced(&self.against.scheduler), ..self.against.clone() };
        let among_others = matches!(self.expectation, Expectation::Best(_)) && !stock.is_empty();
        let is_other = scheduler != self.scheduler || against != self.against || among_others;
        is_other.then(|| Self { scheduler, against, ..self.clone() })
    }

    /// Returns the finding with the measured values in place of the names. `None` if a figure was
    /// not measured.
    pub(super) fn reason(&self, measured: impl Fn(&Evidence) -> Option<String>) -> Option<String> {
        let mut text = String::new();
        for (words, name) in pieces(&self.finding) {
            text += words;
            if let Some(name) = name {
                text += &measured(self.evidence.get(name)?)?;
            }
        }
        Some(text)
    }

    /// Formats the expectation: `-49.0 %`.
    pub fn expected(&self) -> String {
        let unit = self.measure.unit();
        match self.expectation {
            Expectation::Value(value) => show(unit, value),
            Expectation::Change(share) => percent(share),
            Expectation::ChangeAtLeast(share) => format!("at least {}", percent(share)),
            Expectation::Times(times) => format!("× {times:.2}"),
            Expectation::Difference(value) => signed(value, &show(unit, value.abs())),
            Expectation::Less => "less".into(),
            Expectation::More => "more".into(),
            Expectation::Best(Best::Highest) => "highest".into(),
            Expectation::Best(Best::Lowest) => "lowest".into(),
            Expectation::AtLeast(value) => format!("at least {}", show(unit, value)),
            Expectation::AtMost(value) => format!("at most {}", show(unit, value)),
        }
    }
}

/// Names in braces in a finding.
pub(super) fn names(finding: &str) -> impl Iterator<Item = &str> {
    pieces(finding).filter_map(|(_, name)| name)
}

/// Splits a finding into pieces of text, each followed by the name in braces, if any.
fn pieces(finding: &str) -> impl Iterator<Item = (&str, Option<&str>)> {
    let mut rest = Some(finding);
    iter::from_fn(move || {
        let all = rest.take()?;
        let named = all.split_once('{').and_then(|(words, behind)| Some((words, behind.split_once('}')?)));
        let Some((words, (name, behind))) = named else { return Some((all, None)) };
        rest = Some(behind);
        Some((words, Some(name)))
    })
}

/// Formats a value with its unit for a table, with three digits.
pub(super) fn show(unit: Unit, value: f64) -> String {
    match unit {
        Unit::Ratio if value.abs() < 0.01 => format!("{:.2} %", value * 100.0),
        Unit::Ratio => format!("{:.1} %", value * 100.0),
        _ => unit.show(value),
    }
}

/// Formats a share as a percentage with its sign.
pub(super) fn percent(share: f64) -> String {
    format!("{:+.1} %", share * 100.0)
}

/// Prepends the sign of a value to a formatted magnitude.
pub(super) fn signed(value: f64, size: &str) -> String {
    format!("{}{size}", if value < 0.0 { '-' } else { '+' })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_is_words_and_names() {
        let pieces: Vec<_> = pieces("from {a} to {b}.").collect();
        assert_eq!(pieces, [("from ", Some("a")), (" to ", Some("b")), (".", None)]);
        assert_eq!(names("no figure").count(), 0);
        assert_eq!(super::pieces("{open").collect::<Vec<_>>(), [("{open", None)]);
    }
}

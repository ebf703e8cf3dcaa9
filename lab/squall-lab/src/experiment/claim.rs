//! What is claimed of an experiment.

use std::collections::BTreeMap;
use std::iter;

use serde::{Deserialize, Serialize};

use crate::measure::{Best, Measure, Subject, Unit};

/// A statement about the results of one scheduler, alone or compared.
#[derive(Debug, Clone, PartialEq)]
pub struct Claim {
    /// Which experiment of the paper it is from: the experiment's own name, or one of [`super::Source::also`].
    pub id: String,
    /// The statement in words.
    pub says: String,
    /// Axes that it fixes, with the names of their points; it is about all points of the others.
    pub at: BTreeMap<String, String>,
    /// What it says of several cells.
    pub over: Over,
    /// What it says of several runs.
    pub of: Of,
    /// What it measures.
    pub measure: Measure,
    /// Of what.
    pub subject: Subject,
    /// Whose results.
    pub scheduler: String,
    /// What they are compared with; itself for a claim that compares nothing.
    pub against: Against,
    /// What it says of them.
    pub expectation: Expectation,
    /// What we found to be the reason if it does not hold, or why it holds. A name of [`evidence`](Self::evidence) in braces
    /// stands for what was measured.
    pub finding: String,
    /// The figures of the finding, by name.
    pub evidence: BTreeMap<String, Evidence>,
}

/// A figure of a finding: the mean of the runs of a scheduler.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Evidence {
    /// Whose.
    pub scheduler: String,
    /// Points beside those of the claim, or in their place, of axes and of at most one assumption.
    pub at: BTreeMap<String, String>,
    /// What is measured.
    pub measure: Measure,
    /// Of what.
    pub subject: Subject,
}

/// What a claim compares with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Against {
    /// Which scheduler.
    pub scheduler: String,
    /// Points that replace those of the claim.
    pub at: BTreeMap<String, String>,
    /// Of what; mostly that of the claim.
    pub subject: Subject,
}

/// Which way a comparison goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Way {
    /// It is lower.
    Less,
    /// It is higher.
    More,
}

/// What a claim says of several cells together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Over {
    /// Their mean, as in "on average".
    #[default]
    Mean,
    /// The one in which the effect is greatest, as in "up to".
    Most,
    /// The one in which it is least, as in "at least" and "everywhere".
    Least,
}

/// What a claim says of several runs together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Of {
    /// In each cell, the mean of the seeds.
    #[default]
    Mean,
    /// The median of the runs of all cells and seeds, as in "for half of the sessions".
    Median,
    /// The highest of them, as in "at most".
    Highest,
    /// That of the blocks of all runs together, as in a distribution of all frames: for percentiles of the latency
    /// of a flow.
    Pooled,
}

/// What is claimed of a measure, in its unit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Expectation {
    /// It is this.
    Value(f64),
    /// Compared with another it is by this share higher or lower: −0.49 for −49 %.
    Change(f64),
    /// It is this many times that of another.
    Times(f64),
    /// It is higher or lower than another by this much.
    Difference(f64),
    /// It is clearly lower than another, whatever by.
    Less,
    /// It is clearly higher than another, whatever by.
    More,
    /// No other scheduler of the experiment has a better one.
    Best(Best),
    /// Compared with another it is not lower by more than this share: −0.01 for "as much".
    ChangeAtLeast(f64),
    /// It is not below.
    AtLeast(f64),
    /// It is not above.
    AtMost(f64),
}

impl Expectation {
    /// Whether it says how large something is, and not only which way it goes.
    pub(super) fn has_size(self) -> bool {
        !matches!(self, Self::Less | Self::More | Self::Best(_))
    }

    /// Whether it is about two results.
    pub fn compares(self) -> bool {
        !matches!(self, Self::Value(_) | Self::Best(_) | Self::AtLeast(_) | Self::AtMost(_))
    }
}

impl Claim {
    /// The same claim about these schedulers instead of those that they stand for; none if it is about none of them. What
    /// is best is so among them.
    pub(super) fn with(&self, stock: &BTreeMap<String, String>) -> Option<Self> {
        let replaced = |name: &String| stock.get(name).unwrap_or(name).clone();
        let scheduler = replaced(&self.scheduler);
        let against = Against { scheduler: replaced(&self.against.scheduler), ..self.against.clone() };
        let among_others = matches!(self.expectation, Expectation::Best(_)) && !stock.is_empty();
        let is_other = scheduler != self.scheduler || against != self.against || among_others;
        is_other.then(|| Self { scheduler, against, ..self.clone() })
    }

    /// The finding with what was measured in place of the names; none if a figure was not measured.
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

    /// What is claimed, in a few words: `-49.0 %`.
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

/// What stands in braces in a finding.
pub(super) fn names(finding: &str) -> impl Iterator<Item = &str> {
    pieces(finding).filter_map(|(_, name)| name)
}

/// Words, each with the name in braces behind them; none behind the last.
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

/// A value with its unit, in a table where three digits are enough.
pub(super) fn show(unit: Unit, value: f64) -> String {
    match unit {
        Unit::Ratio if value.abs() < 0.01 => format!("{:.2} %", value * 100.0),
        Unit::Ratio => format!("{:.1} %", value * 100.0),
        _ => unit.show(value),
    }
}

/// A share as per cent with its sign.
pub(super) fn percent(share: f64) -> String {
    format!("{:+.1} %", share * 100.0)
}

/// A size with the sign of a value.
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

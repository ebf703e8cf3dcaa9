//! What became of a claim.

use std::fmt::{self, Display, Formatter};

use serde::{Deserialize, Serialize};

use super::super::{Assumption, AxisPoint};

/// What became of a claim.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// The experiment.
    pub experiment: String,
    /// The experiment of the paper, which may be another that this one covers.
    #[serde(default)]
    pub id: String,
    /// What is claimed.
    pub says: String,
    /// What was to be expected: `-49.0 %`.
    pub expected: String,
    /// What was found: `-53.1 % ± 4.2`.
    pub found: String,
    /// Whether it holds.
    pub verdict: Verdict,
    /// How many seeds would probably decide what is unclear.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seeds: Option<u32>,
    /// The same where the baseline is over a stock transport, as the paper had it; none if the claim is about no such
    /// baseline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stock: Option<Stock>,
    /// What the two of a [challenged](super::super::Experiment::challenged_by) experiment have, which is beside each other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub values: Option<Values>,
    /// The same where what the paper leaves open is another than the scenario's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub alternatives: Vec<Alternative>,
    /// Why, if somebody looked into it.
    pub finding: String,
}

/// The values of a challenger and the system that it is compared with: `21.7 Mbps`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Values {
    /// The paper's system.
    pub system: String,
    /// What it has.
    pub of_system: String,
    /// The challenger.
    pub challenger: String,
    /// What it has.
    pub of_challenger: String,
}

/// What became of a claim under another assumption.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Alternative {
    /// Which assumption.
    pub assumption: String,
    /// What it is instead.
    pub point: String,
    /// What was found.
    pub found: String,
    /// Whether it holds.
    pub verdict: Verdict,
}

impl Finding {
    /// The alternatives under which the claim has another verdict, and not an unclear one.
    pub fn changes(&self) -> impl Iterator<Item = &Alternative> {
        let open = |verdict| matches!(verdict, Verdict::Unclear | Verdict::NotMeasured);
        self.alternatives.iter().filter(move |other| other.verdict != self.verdict && !open(other.verdict))
    }
}

impl Assumption {
    /// The claims that have another verdict where this is another value, with that verdict.
    pub fn changed<'a>(
        &self,
        value: &AxisPoint,
        findings: impl IntoIterator<Item = &'a Finding>,
    ) -> Vec<(&'a Finding, &'a Alternative)> {
        let is_it = |other: &&Alternative| other.assumption == self.name && other.point == value.name;
        let changed = |finding: &'a Finding| Some((finding, finding.changes().find(is_it)?));
        findings.into_iter().filter_map(changed).collect()
    }
}

/// What became of a claim over a stock transport: how many there are with such a verdict, and how many of them hold or exceed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OnStock {
    /// Claims about a baseline that runs over a stock transport as well.
    pub judged: usize,
    /// Those that hold or exceed.
    pub hold: usize,
}

impl OnStock {
    /// Of these findings; none if none is about such a baseline.
    pub fn of<'a>(findings: impl IntoIterator<Item = &'a Finding>) -> Option<Self> {
        let verdicts: Vec<Verdict> =
            findings.into_iter().filter_map(|one| one.stock.as_ref()).map(|stock| stock.verdict).collect();
        let hold = verdicts.iter().filter(|one| matches!(one, Verdict::Holds | Verdict::Exceeds)).count();
        (!verdicts.is_empty()).then_some(Self { judged: verdicts.len(), hold })
    }
}

impl Display for OnStock {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}", self.hold, self.judged)
    }
}

/// What became of a claim about a baseline over a stock transport.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Stock {
    /// What was found.
    pub found: String,
    /// Whether it holds.
    pub verdict: Verdict,
}

/// Whether a claim holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It does.
    Holds,
    /// The effect goes the way that is claimed, and is more than twice as large.
    Exceeds,
    /// The effect goes the way that is claimed, and is smaller, or not certain to be as large.
    DirectionOnly,
    /// None is ahead, but not all are behind; or what is claimed to differ does not.
    Tied,
    /// It does, and every other scheduler has the same.
    Saturated,
    /// It does not.
    DoesNotHold,
    /// What was found may be chance: more seeds would decide.
    Unclear,
    /// There was nothing to measure, or nothing to compare with.
    NotMeasured,
}

impl Verdict {
    /// Every one, the best first.
    pub const ALL: [Self; 8] = [
        Self::Holds,
        Self::Exceeds,
        Self::DirectionOnly,
        Self::Tied,
        Self::Saturated,
        Self::DoesNotHold,
        Self::Unclear,
        Self::NotMeasured,
    ];

    /// In words that follow a count of claims.
    pub fn of(self, count: usize) -> &'static str {
        match self {
            Self::Holds if count != 1 => "hold",
            Self::Exceeds if count != 1 => "exceed",
            Self::DoesNotHold if count != 1 => "do not hold",
            _ => self.as_str(),
        }
    }

    /// In words.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::Exceeds => "exceeds",
            Self::DirectionOnly => "direction only",
            Self::Tied => "tied",
            Self::Saturated => "saturated",
            Self::DoesNotHold => "does not hold",
            Self::Unclear => "unclear",
            Self::NotMeasured => "not measured",
        }
    }
}

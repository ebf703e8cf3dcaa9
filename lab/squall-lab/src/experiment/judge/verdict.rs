//! Verdicts on claims.

use std::fmt::{self, Display, Formatter};

use serde::{Deserialize, Serialize};

use super::super::{Assumption, AxisPoint};

/// Verdict on a claim, with the values that led to it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// Name of the experiment.
    pub experiment: String,
    /// Id of the paper's experiment, which may be another one that this experiment covers.
    #[serde(default)]
    pub id: String,
    /// The claim in words.
    pub says: String,
    /// Expected result: `-49.0 %`.
    pub expected: String,
    /// Measured result: `-53.1 % ± 4.2`.
    pub found: String,
    /// Verdict.
    pub verdict: Verdict,
    /// Number of seeds that would probably decide an unclear claim.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seeds: Option<u32>,
    /// Result with the baseline over a stock transport, as in the paper; `None` if the claim is
    /// about no such baseline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stock: Option<Stock>,
    /// Values of the two schedulers of a [challenged](super::super::Experiment::challenged_by)
    /// experiment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub values: Option<Values>,
    /// Results under other assumptions than the scenario's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub alternatives: Vec<Alternative>,
    /// Explanation of the result; empty if there is none.
    pub finding: String,
}

/// Values of a challenger and the system that it is compared with: `21.7 Mbps`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Values {
    /// The paper's system.
    pub system: String,
    /// Value of the system.
    pub of_system: String,
    /// The challenger.
    pub challenger: String,
    /// Value of the challenger.
    pub of_challenger: String,
}

/// Result of a claim under another assumption.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Alternative {
    /// Name of the assumption.
    pub assumption: String,
    /// Value of the assumption.
    pub point: String,
    /// Measured result.
    pub found: String,
    /// Verdict.
    pub verdict: Verdict,
}

impl Finding {
    /// Alternatives that change the verdict to another decided one.
    pub fn changes(&self) -> impl Iterator<Item = &Alternative> {
        let open = |verdict| matches!(verdict, Verdict::Unclear | Verdict::NotMeasured);
        self.alternatives.iter().filter(move |other| other.verdict != self.verdict && !open(other.verdict))
    }
}

impl Assumption {
    /// Returns the claims whose verdict changes if the assumption has this value, with that result.
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

/// Number of claims that were judged over a stock transport, and of those that hold or exceed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OnStock {
    /// Number of claims about a baseline that runs over a stock transport as well.
    pub judged: usize,
    /// Number of these that hold or exceed.
    pub hold: usize,
}

impl OnStock {
    /// Counts the verdicts of these findings; `None` if no finding is about such a baseline.
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

/// Result of a claim about a baseline over a stock transport.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Stock {
    /// Measured result.
    pub found: String,
    /// Verdict.
    pub verdict: Verdict,
}

/// Verdict on a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The claim holds.
    Holds,
    /// The effect has the claimed sign and is more than twice as large.
    Exceeds,
    /// The effect has the claimed sign but is smaller, or not certain to be as large.
    DirectionOnly,
    /// None is ahead, but not all are behind; or a claimed difference is absent.
    Tied,
    /// The claim holds, but every other scheduler has the same value.
    Saturated,
    /// The claim does not hold.
    DoesNotHold,
    /// The result may be chance; more seeds would decide.
    Unclear,
    /// A value to measure or to compare with is missing.
    NotMeasured,
}

impl Verdict {
    /// All verdicts, the best first.
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

    /// Returns the verdict in words that follow a count of claims.
    pub fn of(self, count: usize) -> &'static str {
        match self {
            Self::Holds if count != 1 => "hold",
            Self::Exceeds if count != 1 => "exceed",
            Self::DoesNotHold if count != 1 => "do not hold",
            _ => self.as_str(),
        }
    }

    /// Returns the verdict in words.
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

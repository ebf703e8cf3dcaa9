//! Measures of a run, by name: checks assert them, claims compare them, figures show them.
//!
//! `table` has one row per measure. A [`Subject`] selects the run, path, flow or class that it is
//! taken of.

mod kind;
mod subject;
mod table;
mod unit;

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

pub use kind::{Kind, View};
pub(crate) use subject::BY_RELIABILITY;
pub use subject::Subject;
use table::{QUANTILES, ROWS, Row, TIMES};
pub use table::{Quantile, Times};
pub use unit::{Best, Unit};

/// A numeric result of a run, a path, a flow or a class of a flow. Its text form is the name in
/// scenario files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Measure {
    /// A mean or percentile of times, in microseconds: `p99_latency`, `max_waiting`, `mean_packet_delay`.
    Time(Quantile, Times),
    /// Any other measure.
    Count(Count),
}

/// A measure that is not a percentile: the index of its row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Count(usize);

impl Count {
    fn row(self) -> &'static Row {
        &ROWS[self.0]
    }
}

impl Measure {
    /// All measures.
    pub fn all() -> impl Iterator<Item = Self> {
        let times = TIMES.iter().flat_map(|times| QUANTILES.iter().map(|row| Self::Time(row.0, times.0)));
        (0..ROWS.len()).map(|row| Self::Count(Count(row))).chain(times)
    }

    /// Unit of the measure.
    pub fn unit(self) -> Unit {
        match self {
            Measure::Time(..) => Unit::Time,
            Measure::Count(count) => count.row().unit,
        }
    }

    /// Direction in which the measure improves for users; `None` if neither is better, as for the
    /// share of a path.
    pub fn best(self) -> Option<Best> {
        match self {
            Measure::Time(_, Times::LeastLatency | Times::Rtt) => None,
            Measure::Time(..) => Some(Best::Lowest),
            Measure::Count(count) => count.row().better,
        }
    }

    /// `true` if subjects of this kind have the measure.
    pub fn is_of(self, kind: Kind) -> bool {
        match self {
            Measure::Time(_, times) => times.row().2.contains(&kind),
            Measure::Count(count) => count.row().kinds.contains(&kind),
        }
    }

    /// Measure of the clairvoyant bound that limits this one, if there is one. It is a limit for
    /// the subject alone: with others on the same network it may be out of reach. Latencies are
    /// those of delivered blocks, so a scheduler that drops slow blocks can be below the bound over
    /// all blocks.
    pub fn bound(self) -> Option<Self> {
        match self {
            Measure::Time(quantile, Times::Latency) => Some(Measure::Time(quantile, Times::LeastLatency)),
            Measure::Time(..) => None,
            Measure::Count(_) => format!("bound_{self}").parse().ok(),
        }
    }

    /// Share of blocks that a percentile of the latency stands for; `None` for other measures.
    pub(crate) fn share_of_latency(self) -> Option<f64> {
        let Measure::Time(quantile, Times::Latency) = self else { return None };
        match quantile {
            Quantile::Mean | Quantile::Min => None,
            Quantile::P50 => Some(0.5),
            Quantile::P90 => Some(0.9),
            Quantile::P95 => Some(0.95),
            Quantile::P99 => Some(0.99),
            Quantile::P999 => Some(0.999),
            Quantile::P9999 => Some(0.9999),
            Quantile::Max => Some(1.0),
        }
    }

    /// `true` if the measure can be taken over a part of the run.
    pub fn is_over_time(self) -> bool {
        self.to_string() == "goodput"
    }
}

impl fmt::Display for Measure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Measure::Time(quantile, times) => write!(f, "{}_{}", quantile.row().1, times.row().1),
            Measure::Count(count) => f.write_str(count.row().name),
        }
    }
}

impl From<Measure> for String {
    fn from(measure: Measure) -> Self {
        measure.to_string()
    }
}

impl FromStr for Measure {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        if let Some(measure) = Measure::all().find(|measure| measure.to_string() == name) {
            return Ok(measure);
        }
        if let Some(meant) = meant(name) {
            return Err(format!(
                "unknown measure {name:?}; did you mean {meant}? docs/scenarios.md lists all"
            ));
        }
        let list = |names: &mut dyn Iterator<Item = &'static str>| names.collect::<Vec<_>>().join(", ");
        Err(format!(
            "unknown measure {name:?}; there are {}, and {} with {} before it",
            list(&mut ROWS.iter().map(|row| row.name)),
            list(&mut TIMES.iter().map(|row| row.1)),
            QUANTILES.map(|row| format!("{}_", row.1)).join(", ")
        ))
    }
}

/// Returns the measure whose name is the most similar, for a suggestion.
fn meant(name: &str) -> Option<String> {
    let all = || Measure::all().map(|measure| measure.to_string());
    let begins = all().find(|known| name.len() > 2 && known.starts_with(name));
    let nearest = || {
        let near = all().map(|known| (strsim::jaro_winkler(name, &known), known));
        near.max_by(|a, b| a.0.total_cmp(&b.0)).filter(|(near, _)| *near > NEAR).map(|(_, known)| known)
    };
    begins.or_else(nearest)
}

/// Minimum similarity of a name for a suggestion, from 0 to 1 (Jaro-Winkler).
const NEAR: f64 = 0.88;

impl TryFrom<String> for Measure {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        name.parse()
    }
}

#[cfg(test)]
mod tests;

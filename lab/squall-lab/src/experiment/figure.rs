//! Figures that an experiment requests, as data.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::definition::{Axis, Point};
use crate::measure::{Measure, Subject};

/// A figure of the results.
#[derive(Debug, Clone, PartialEq)]
pub struct Plot {
    /// Title.
    pub title: String,
    /// Content of the figure.
    pub kind: PlotKind,
    /// Fixed axes, with the names of their points. The figure averages over all points of the other
    /// axes, except the one along which it is drawn.
    pub at: Point,
    /// Subject of the measures.
    pub subject: Subject,
    /// Schedulers to show, in this order. Empty: all.
    pub schedulers: Vec<String>,
}

/// Content of a figure.
#[derive(Debug, Clone, PartialEq)]
pub enum PlotKind {
    /// A measure, for each scheduler.
    Values {
        /// Horizontal axis.
        along: Along,
        /// Measure to show; several only for [`Along::Measures`].
        measure: Measure,
        /// Scale of the vertical axis. `None`: chosen from the values.
        scale: Option<PlotScale>,
        /// The paper's numbers: for each scheduler one per place of `along`, in the unit of the
        /// measure; `None` if the paper gives none.
        paper: BTreeMap<String, Vec<Option<f64>>>,
    },
    /// Measures of one unit from step to step, to show the contribution of each mechanism.
    Ladder {
        /// Steps, each with the scheduler that shows it.
        steps: Vec<Step>,
        /// Measures to show.
        measures: Vec<Measure>,
        /// Scale of the vertical axis. `None`: chosen from the values.
        scale: Option<PlotScale>,
    },
    /// Complementary cumulative distribution of the flow's block latencies, both axes logarithmic.
    Tail,
    /// Cumulative distribution of the flow's block latencies.
    Cdf,
}

/// A step of a ladder.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// Mechanism that the step adds.
    pub name: String,
    /// Scheduler, with suffixes, that has this mechanism and all before it.
    pub scheduler: String,
}

/// Horizontal axis of a figure.
#[derive(Debug, Clone, PartialEq)]
pub enum Along {
    /// The points of the axis of this name.
    Axis(String),
    /// Measures of one unit.
    Measures(Vec<Measure>),
    /// Classes of the flow.
    Classes(Vec<String>),
    /// A single place, with the schedulers beside each other.
    Nothing,
}

/// Scale of an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PlotScale {
    /// Linear.
    Linear,
    /// Logarithmic.
    Log,
}

impl Along {
    /// Number of places.
    pub(super) fn places(&self, axes: &[Axis]) -> usize {
        match self {
            Self::Axis(name) => {
                axes.iter().find(|axis| axis.name == *name).map_or(0, |axis| axis.points.len())
            }
            Self::Measures(measures) => measures.len(),
            Self::Classes(classes) => classes.len(),
            Self::Nothing => 1,
        }
    }
}

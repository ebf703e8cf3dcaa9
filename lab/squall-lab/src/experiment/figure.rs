//! The figures that an experiment asks for, as data.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::definition::{Axis, Point};
use crate::measure::{Measure, Subject};

/// A figure to draw of the results.
#[derive(Debug, Clone, PartialEq)]
pub struct Plot {
    /// Its title.
    pub title: String,
    /// What is drawn.
    pub kind: PlotKind,
    /// Axes that it fixes, with the names of their points; of the others, but the one that it goes along, it
    /// shows the mean over all points.
    pub at: Point,
    /// Of what.
    pub subject: Subject,
    /// Whose results, in this order; empty: everybody's.
    pub schedulers: Vec<String>,
}

/// What a figure shows.
#[derive(Debug, Clone, PartialEq)]
pub enum PlotKind {
    /// A measure, for each scheduler.
    Values {
        /// What varies from left to right.
        along: Along,
        /// What is measured; several only for [`Along::Measures`].
        measure: Measure,
        /// How the vertical axis goes; none: as it suits the values.
        scale: Option<PlotScale>,
        /// The numbers of the paper, for each scheduler one at each place of `along`, in the unit of the
        /// measure; none where the paper has none.
        paper: BTreeMap<String, Vec<Option<f64>>>,
    },
    /// Measures of one unit from step to step: what each mechanism adds to those before it.
    Ladder {
        /// What is added, and by which scheduler it is shown.
        steps: Vec<Step>,
        /// What is measured.
        measures: Vec<Measure>,
        /// How the vertical axis goes; none: as it suits the values.
        scale: Option<PlotScale>,
    },
    /// The share of blocks of the flow that took longer than a time, both on logarithmic axes.
    Tail,
    /// The share of blocks of the flow that took at most a time.
    Cdf,
}

/// A step of a ladder.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// What it adds.
    pub name: String,
    /// The scheduler, with suffixes, that has this and all before it.
    pub scheduler: String,
}

/// What varies from left to right.
#[derive(Debug, Clone, PartialEq)]
pub enum Along {
    /// The points of the axis of this name.
    Axis(String),
    /// Measures of one unit.
    Measures(Vec<Measure>),
    /// Classes of the flow.
    Classes(Vec<String>),
    /// Nothing: one place, for the schedulers beside each other.
    Nothing,
}

/// How an axis goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PlotScale {
    /// In even steps.
    Linear,
    /// In even ratios.
    Log,
}

impl Along {
    /// How many places there are.
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

//! The runs of an experiment, asked for a measure.

use std::collections::BTreeMap;

use crate::estimate::Estimate;
use crate::experiment::{Point, Record};
use crate::measure::{Measure, Subject, View};

/// The runs of one experiment.
#[derive(Debug, Clone, Copy)]
pub(super) struct Results<'a> {
    records: &'a [Record],
}

impl<'a> Results<'a> {
    pub(super) fn of(records: &'a [Record]) -> Self {
        Self { records }
    }

    /// Everybody who ran, in order of the runs.
    pub(super) fn schedulers(self) -> Vec<&'a str> {
        distinct(self.records.iter().map(|record| record.run.scheduler.as_str()))
    }

    /// The cells that are at these points, in order of the runs.
    pub(super) fn cells(self, at: &Point) -> Vec<&'a Point> {
        distinct(self.at(at).map(|record| &record.point))
    }

    /// The runs at these points.
    pub(super) fn at(self, at: &Point) -> impl Iterator<Item = &'a Record> {
        let at = at.clone();
        self.records.iter().filter(move |record| fits(&record.point, &at))
    }

    /// The measure by seed; the mean over all cells at these points, for seeds that ran in all of them.
    pub(super) fn values(self, scheduler: &str, at: &Point, subject: &Subject, measure: Measure) -> Vec<f64> {
        let mut by_seed: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
        for record in self.at(at).filter(|record| record.run.scheduler == scheduler) {
            if let Some(value) = subject.measure(measure, View::default(), &record.run) {
                by_seed.entry(record.run.seed).or_default().push(value);
            }
        }
        let cells = by_seed.values().map(Vec::len).max().unwrap_or(0);
        let whole = by_seed.into_values().filter(|values| values.len() == cells);
        whole.map(|values| values.iter().sum::<f64>() / values.len() as f64).collect()
    }

    /// The mean over the seeds.
    pub(super) fn estimate(
        self,
        scheduler: &str,
        at: &Point,
        subject: &Subject,
        measure: Measure,
    ) -> Option<Estimate> {
        Estimate::of(&self.values(scheduler, at, subject, measure))
    }
}

/// Whether a cell is at these points.
pub(super) fn fits(cell: &Point, at: &Point) -> bool {
    at.iter().all(|(axis, name)| cell.get(axis) == Some(name))
}

/// Each once, in order.
pub(super) fn distinct<T: PartialEq>(all: impl Iterator<Item = T>) -> Vec<T> {
    all.fold(Vec::new(), |mut seen, one| {
        if !seen.contains(&one) {
            seen.push(one);
        }
        seen
    })
}

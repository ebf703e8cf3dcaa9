//! Queries over the runs of an experiment, and names of measures, subjects and cells for figures.

use std::collections::BTreeMap;

use squall_lab::experiment::{Axis, Claim, Expectation, Experiment, Of, Over, Point, Record};
use squall_lab::measure::{Measure, Quantile, Subject, Unit, View};
use squall_lab::statistics::Estimate;

/// Runs of one experiment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Results<'a>(pub(crate) &'a [Record]);

impl<'a> Results<'a> {
    /// Returns every scheduler that ran, in order of the runs.
    pub(crate) fn schedulers(self) -> Vec<&'a str> {
        distinct(self.0.iter().map(|record| record.run.scheduler.as_str()))
    }

    /// Returns the cells at these points, in order of the runs.
    pub(crate) fn cells(self, at: &Point) -> Vec<&'a Point> {
        distinct(self.at(at).map(|record| &record.point))
    }

    /// Returns the runs at these points.
    pub(crate) fn at(self, at: &Point) -> impl Iterator<Item = &'a Record> + use<'a> {
        let at = at.clone();
        self.0.iter().filter(move |record| fits(&record.point, &at))
    }

    /// Returns the measure by seed: the mean over all cells at these points, for seeds that ran in
    /// all of them.
    pub(crate) fn values(self, scheduler: &str, at: &Point, subject: &Subject, measure: Measure) -> Vec<f64> {
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

    /// Returns the mean over the seeds.
    pub(crate) fn estimate(
        self,
        scheduler: &str,
        at: &Point,
        subject: &Subject,
        measure: Measure,
    ) -> Option<Estimate> {
        Estimate::of(&self.values(scheduler, at, subject, measure))
    }

    /// Returns the values of a scheduler that claims about exactly these cells require: the claimed
    /// value itself, or the value at the claimed distance from the other scheduler's measured one.
    pub(crate) fn claimed(
        self,
        experiment: Option<&Experiment>,
        scheduler: &str,
        at: &Point,
        subject: &Subject,
        measure: Measure,
    ) -> Vec<f64> {
        let cells = self.cells(at);
        let about = |claim: &&Claim| {
            claim.scheduler == scheduler
                && claim.measure == measure
                && claim.of == Of::Mean
                && claim.subject == *subject
                && (cells.len() == 1 || claim.over == Over::Mean)
                && !cells.is_empty()
                && self.cells(&claim.at) == cells
        };
        let value = |claim: &Claim| {
            let other = || {
                let mut elsewhere = at.clone();
                elsewhere.extend(claim.against.at.clone());
                let against = &claim.against;
                Some(self.estimate(&against.scheduler, &elsewhere, &against.subject, claim.measure)?.mean)
            };
            let value = match claim.expectation {
                Expectation::Value(value) => Some(value),
                Expectation::Change(share) => Some(other()? * (1.0 + share)),
                Expectation::Times(times) => Some(other()? * times),
                Expectation::Difference(by) => Some(other()? + by),
                _ => None,
            };
            // The other side's value may make the claim impossible, for example more than 100 %.
            value.filter(|value| *value >= 0.0 && (claim.measure.unit() != Unit::Ratio || *value <= 1.0))
        };
        experiment.iter().flat_map(|one| &one.claims).filter(about).filter_map(value).collect()
    }
}

/// `true` if a cell is at these points.
pub(crate) fn fits(cell: &Point, at: &Point) -> bool {
    at.iter().all(|(axis, name)| cell.get(axis) == Some(name))
}

/// Removes duplicates and keeps the order.
pub(crate) fn distinct<T: PartialEq>(all: impl Iterator<Item = T>) -> Vec<T> {
    all.fold(Vec::new(), |mut seen, one| {
        if !seen.contains(&one) {
            seen.push(one);
        }
        seen
    })
}

/// Words for measures that differ from their names.
const WORDS: [(&str, &str); 12] = [
    ("in_time_ratio", "blocks in time"),
    ("in_time_bytes_ratio", "bytes in time"),
    ("in_time_bitrate", "goodput in time"),
    ("mean_fps", "pictures a second"),
    ("below_smooth_ratio", "seconds below 24 pictures"),
    ("efficiency", "in time, of what was delivered"),
    ("retransmission_ratio", "sent again"),
    ("path_ratio", "share of the path"),
    ("perceived_ratio", "user-perceived ratio"),
    ("psnr", "mean PSNR"),
    ("median_psnr", "median PSNR"),
    ("p5_psnr", "PSNR, worst 5 %"),
];

/// Returns a measure in words.
pub(crate) fn measure_words(measure: Measure) -> String {
    let name = measure.to_string();
    let plain = |name: &str| name.replace('_', " ");
    match measure {
        Measure::Time(quantile, _) => {
            let times = times_words(measure).unwrap_or_default();
            match quantile {
                Quantile::Mean | Quantile::P50 | Quantile::Max | Quantile::Min => {
                    format!("{} {times}", quantile_words(quantile))
                }
                _ => format!("{times}, {}", quantile_words(quantile)),
            }
        }
        Measure::Count(_) => {
            WORDS.iter().find(|row| row.0 == name).map_or_else(|| plain(&name), |row| row.1.to_owned())
        }
    }
}

/// Returns, in words, the times of which a measure is a percentile.
fn times_words(measure: Measure) -> Option<String> {
    let name = measure.to_string();
    matches!(measure, Measure::Time(..))
        .then(|| name.split_once('_').map_or("", |name| name.1).replace('_', " "))
}

/// Returns, in words, the times of which all these measures are percentiles.
pub(crate) fn common_times(measures: &[Measure]) -> Option<String> {
    let first = times_words(*measures.first()?)?;
    measures.iter().all(|measure| times_words(*measure).as_ref() == Some(&first)).then_some(first)
}

/// Returns the label of the axis that measures of one unit share.
pub(crate) fn common_words(measures: &[Measure]) -> String {
    let is_time = |measure: &Measure| measure.unit() == Unit::Time;
    match common_times(measures) {
        Some(times) => times,
        None if measures.len() > 1 && measures.iter().all(is_time) => "delay".into(),
        None => measures.first().map_or(String::new(), |first| measure_words(*first)),
    }
}

/// Returns a percentile in words.
pub(crate) fn quantile_words(quantile: Quantile) -> &'static str {
    match quantile {
        Quantile::Mean => "mean",
        Quantile::P50 => "median",
        Quantile::P90 => "90 %",
        Quantile::P95 => "95 %",
        Quantile::P99 => "99 %",
        Quantile::P999 => "99.9 %",
        Quantile::P9999 => "99.99 %",
        Quantile::Max => "longest",
        Quantile::Min => "shortest",
    }
}

/// Returns a subject in words, each with a comma before it; empty for the whole run.
pub(crate) fn subject_words(subject: &Subject) -> String {
    let Subject { flow, class, path } = subject;
    let class = class.as_ref().map(|class| format!(", class {class}"));
    let flow = flow.as_ref().map(|flow| format!(", {flow}"));
    let path = path.as_ref().map(|path| format!(", path {path}"));
    [flow, class, path].into_iter().flatten().collect()
}

/// Returns a cell in words, such as `rtt 120 ms, setting 1`.
pub(crate) fn cell_words(point: &Point, axes: &[Axis]) -> String {
    let of = |axis: &Axis| {
        let name = point.get(&axis.name)?;
        // A name with letters, such as "3 s", contains its unit.
        let bare = !axis.unit.is_empty() && !name.chars().any(char::is_alphabetic);
        let unit = if bare { format!(" {}", axis.unit) } else { String::new() };
        Some(format!("{} {name}{unit}", axis.name))
    };
    axes.iter().filter_map(of).collect::<Vec<_>>().join(", ")
}

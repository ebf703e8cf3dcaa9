//! Figures for experiments that ask for none.

use super::Chapter;
use super::results::distinct;
use super::words;
use crate::experiment::{Along, Axis, Plot, PlotKind, Point};
use crate::measure::{Count, Measure, Quantile, Subject, Times};

/// Most figures of an experiment that asks for none.
const MOST: usize = 6;

/// What its claims are about; without claims, completion and latency of each flow.
pub(super) fn plots(chapter: &Chapter) -> Vec<Plot> {
    let axes = chapter.axes();
    let claims = chapter.experiment.iter().flat_map(|experiment| &experiment.claims);
    let mut about = distinct(claims.map(|claim| (claim.subject.clone(), claim.measure)));
    if about.is_empty() {
        about = usual(chapter);
    }
    about.into_iter().take(MOST).map(|(subject, measure)| plot(&axes, subject, measure)).collect()
}

fn plot(axes: &[Axis], subject: Subject, measure: Measure) -> Plot {
    let numbers = axes.iter().find(|axis| axis.points.iter().all(|point| point.at.is_some()));
    let along = numbers.or(axes.first()).map_or(Along::Nothing, |axis| Along::Axis(axis.name.clone()));
    let title = format!("{}{}", words::measure(measure), words::subject(&subject));
    let kind = PlotKind::Values { along, measure, scale: None, paper: [].into() };
    Plot { title, kind, at: Point::new(), subject, schedulers: Vec::new() }
}

fn usual(chapter: &Chapter) -> Vec<(Subject, Measure)> {
    let flows = chapter.records.iter().flat_map(|record| &record.run.flows);
    let flows = distinct(flows.map(|flow| (flow.name.as_str(), flow.deadline_us.is_some())));
    let measures = |timely: bool| {
        let in_time = timely.then_some(Measure::Count(Count::InTimeRatio));
        in_time.into_iter().chain([Measure::Time(Quantile::P99, Times::Latency)])
    };
    flows
        .into_iter()
        .flat_map(|(flow, timely)| measures(timely).map(move |measure| (Subject::flow(flow), measure)))
        .collect()
}

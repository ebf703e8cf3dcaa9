//! Figures of an experiment, drawn from its runs, and the styles of the schedulers in them.

use std::collections::BTreeMap;

use squall_lab::experiment::{Along, Axis, AxisPoint, Plot, PlotKind, PlotScale, Point, Step};
use squall_lab::measure::{Measure, Subject, Unit};

use crate::chart::{Chart, Row};
use crate::distribution::{self, Curve, Side};
use crate::experiments::Chapter;
use crate::results::{
    cell_words, common_times, common_words, distinct, measure_words, quantile_words, subject_words,
};
use crate::style::SERIES;
use crate::surface::Figure;

/// Maximum number of figures of an experiment that specifies none.
const MOST: usize = 6;

/// Style of each scheduler in each chapter, by chapter and scheduler.
pub(crate) struct Styles(BTreeMap<(String, String), usize>);

impl Styles {
    /// Assigns styles. Within a chapter no two schedulers look alike while styles last; each keeps
    /// the style of the chapter in which it appeared first, unless another one has it.
    pub(crate) fn of(chapters: &[Chapter]) -> Self {
        let mut first: BTreeMap<&str, usize> = BTreeMap::new();
        let mut all = BTreeMap::new();
        for chapter in chapters {
            let mut taken: Vec<usize> = Vec::new();
            let known = |name: &&str| first.contains_key(name);
            let (before, new): (Vec<&str>, Vec<&str>) =
                chapter.results().schedulers().into_iter().partition(known);
            for name in before.into_iter().chain(new) {
                let wish = first.get(name).copied().filter(|wish| !taken.contains(wish));
                let free = (0..SERIES).find(|style| !taken.contains(style)).unwrap_or(taken.len() % SERIES);
                let style = wish.unwrap_or(free);
                taken.push(style);
                first.entry(name).or_insert(style);
                all.insert((chapter.name.clone(), name.to_owned()), style);
            }
        }
        Self(all)
    }

    pub(crate) fn number(&self, chapter: &Chapter, scheduler: &str) -> usize {
        self.0.get(&(chapter.name.clone(), scheduler.to_owned())).copied().unwrap_or(0)
    }
}

/// Returns the figures that a chapter's file specifies, or else some derived from its claims.
pub(crate) fn plots(chapter: &Chapter) -> Vec<Plot> {
    match &chapter.experiment {
        Some(experiment) if !experiment.plots.is_empty() => experiment.plots.clone(),
        _ => derived(chapter),
    }
}

/// Derives figures for the subjects of the claims; without claims, for completion and latency of
/// each flow.
fn derived(chapter: &Chapter) -> Vec<Plot> {
    let claims = chapter.experiment.iter().flat_map(|experiment| &experiment.claims);
    let mut about = distinct(claims.map(|claim| (claim.subject.clone(), claim.measure)));
    if about.is_empty() {
        let flows = chapter.records.iter().flat_map(|record| &record.run.flows);
        for (flow, timely) in distinct(flows.map(|flow| (flow.name.as_str(), flow.deadline_us.is_some()))) {
            let measures = ["in_time_ratio", "p99_latency"].into_iter().skip(usize::from(!timely));
            about.extend(measures.map(|name| (Subject::flow(flow), name.parse().expect("is a measure"))));
        }
    }
    let axes = chapter.axes();
    let numbers = axes.iter().find(|axis| axis.points.iter().all(|point| point.at.is_some()));
    let along = numbers.or(axes.first()).map_or(Along::Nothing, |axis| Along::Axis(axis.name.clone()));
    let plot = |(subject, measure): (Subject, Measure)| Plot {
        title: format!("{}{}", measure_words(measure), subject_words(&subject)),
        kind: PlotKind::Values { along: along.clone(), measure, scale: None, paper: [].into() },
        at: Point::new(),
        subject,
        schedulers: Vec::new(),
    };
    about.into_iter().take(MOST).map(plot).collect()
}

/// Draws all figures for which there are runs.
pub(crate) fn drawn(chapter: &Chapter, styles: &Styles) -> Vec<Figure> {
    let figure = |plot: &Plot| match &plot.kind {
        PlotKind::Values { .. } => chart(chapter, styles, plot)?.figure(),
        PlotKind::Ladder { steps, measures, scale } => {
            ladder(chapter, plot, steps, measures, *scale).figure()
        }
        PlotKind::Tail => spread(chapter, styles, plot, Side::Longer),
        PlotKind::Cdf => spread(chapter, styles, plot, Side::Within),
    };
    plots(chapter).iter().filter_map(figure).collect()
}

/// A place of a figure: a measure of a subject at a point.
struct Site {
    name: String,
    /// Position on the axis, if it is a number.
    place: Option<f64>,
    at: Point,
    subject: Subject,
    measure: Measure,
    /// Index of its number among those of the paper.
    index: usize,
}

fn chart(chapter: &Chapter, styles: &Styles, plot: &Plot) -> Option<Chart> {
    let PlotKind::Values { along, measure, scale, paper } = &plot.kind else { return None };
    let sites = sites(chapter, plot, along, *measure);
    let first = sites.first()?;
    let (results, schedulers) = (chapter.results(), schedulers(chapter, plot));
    let row = |name: &String| {
        let number = |site: &Site| paper.get(name).and_then(|all| all.get(site.index).copied().flatten());
        let value = |site: &Site| results.estimate(name, &site.at, &site.subject, site.measure);
        // A number of the paper shows it already.
        let claimed = |site: &Site| match number(site) {
            Some(_) => Vec::new(),
            None => {
                let experiment = chapter.experiment.as_ref();
                results.claimed(experiment, name, &site.at, &site.subject, site.measure)
            }
        };
        Row {
            series: styles.number(chapter, name),
            name: name.clone(),
            values: sites.iter().map(value).collect(),
            paper: sites.iter().map(number).collect(),
            claimed: sites.iter().map(claimed).collect(),
        }
    };
    // Blocks may depend on deliveries, so the bound is the best of those found for any scheduler.
    let bound = |site: &Site| {
        let limit = site.measure.bound()?;
        let all = schedulers.iter().filter_map(|name| results.estimate(name, &site.at, &site.subject, limit));
        let best = if site.measure.unit() == Unit::Time { f64::min } else { f64::max };
        all.map(|estimate| estimate.mean).reduce(best)
    };
    let what = match along {
        Along::Measures(measures) => common_words(measures),
        _ => measure_words(*measure),
    };
    Some(Chart {
        title: plot.title.clone(),
        caption: caption(chapter, plot, &first.at),
        what: what + &subject_words(&plot.subject),
        unit: measure.unit(),
        log: scale.map(|scale| scale == PlotScale::Log),
        along: axis_words(chapter, along),
        rows: schedulers.iter().map(row).collect(),
        bound: sites.iter().map(bound).collect(),
        places: sites.into_iter().map(|site| (site.name, site.place)).collect(),
    })
}

/// Chart with a line for each measure, from step to step.
fn ladder(
    chapter: &Chapter,
    plot: &Plot,
    steps: &[Step],
    measures: &[Measure],
    scale: Option<PlotScale>,
) -> Chart {
    let results = chapter.results();
    let row = |(series, measure): (usize, &Measure)| Row {
        series,
        name: measure_words(*measure),
        values: steps
            .iter()
            .map(|one| results.estimate(&one.scheduler, &plot.at, &plot.subject, *measure))
            .collect(),
        paper: vec![None; steps.len()],
        claimed: vec![Vec::new(); steps.len()],
    };
    Chart {
        title: plot.title.clone(),
        caption: caption(chapter, plot, &plot.at),
        what: common_words(measures) + &subject_words(&plot.subject),
        unit: measures[0].unit(),
        log: scale.map(|scale| scale == PlotScale::Log),
        along: "each step has the mechanisms to its left".into(),
        rows: measures.iter().enumerate().map(row).collect(),
        bound: vec![None; steps.len()],
        places: steps.iter().map(|step| (step.name.clone(), None)).collect(),
    }
}

/// Returns the points that a figure is restricted to, and the number of cells that it averages.
fn caption(chapter: &Chapter, plot: &Plot, first: &Point) -> String {
    let cells = chapter.results().cells(first).len();
    let at = (!plot.at.is_empty()).then(|| format!("At {}.", cell_words(&plot.at, &chapter.axes())));
    let mean = (cells > 1).then(|| format!("Mean over {cells} cells."));
    at.into_iter().chain(mean).collect::<Vec<_>>().join(" ")
}

fn sites(chapter: &Chapter, plot: &Plot, along: &Along, measure: Measure) -> Vec<Site> {
    let site = |index: usize, name: String| Site {
        name,
        place: None,
        at: plot.at.clone(),
        subject: plot.subject.clone(),
        measure,
        index,
    };
    let sites: Vec<Site> = match along {
        Along::Nothing => vec![site(0, String::new())],
        Along::Axis(name) => {
            let axes = chapter.axes();
            let points = axes.iter().find(|axis| axis.name == *name).map_or(&[][..], |axis| &axis.points);
            let here = |(index, point): (usize, &AxisPoint)| {
                let mut site = Site { place: point.at, ..site(index, point.name.clone()) };
                site.at.insert(name.clone(), point.name.clone());
                site
            };
            points.iter().enumerate().map(here).collect()
        }
        Along::Measures(measures) => {
            let common = common_times(measures).is_some();
            let of = |(index, measure): (usize, &Measure)| {
                let name = match measure {
                    Measure::Time(quantile, _) if common => quantile_words(*quantile).to_owned(),
                    other => measure_words(*other),
                };
                Site { measure: *measure, ..site(index, name) }
            };
            measures.iter().enumerate().map(of).collect()
        }
        Along::Classes(classes) => {
            let of = |(index, class): (usize, &String)| {
                let subject = Subject { class: Some(class.clone()), ..plot.subject.clone() };
                Site { subject, ..site(index, class.clone()) }
            };
            classes.iter().enumerate().map(of).collect()
        }
    };
    sites.into_iter().filter(|site| !chapter.results().cells(&site.at).is_empty()).collect()
}

/// Returns the schedulers that the figure names, or all.
fn schedulers(chapter: &Chapter, plot: &Plot) -> Vec<String> {
    let all = chapter.results().schedulers();
    if plot.schedulers.is_empty() {
        return all.into_iter().map(str::to_owned).collect();
    }
    plot.schedulers.iter().filter(|name| all.contains(&name.as_str())).cloned().collect()
}

fn axis_words(chapter: &Chapter, along: &Along) -> String {
    let Along::Axis(name) = along else { return String::new() };
    let is_it = |axis: &&Axis| axis.name == *name && !axis.unit.is_empty();
    chapter.axes().iter().find(is_it).map_or_else(|| name.clone(), |axis| format!("{name}, {}", axis.unit))
}

fn spread(chapter: &Chapter, styles: &Styles, plot: &Plot, side: Side) -> Option<Figure> {
    let flow = plot.subject.flow.as_deref().unwrap_or_default();
    let curve = |name: String| {
        let runs = chapter.results().at(&plot.at).filter(|record| record.run.scheduler == name);
        let flows = runs.filter_map(|record| record.run.flows.iter().find(|one| one.name == flow));
        let flows = flows.filter(|flow| !flow.distribution.is_empty()).collect();
        Curve { series: styles.number(chapter, &name), flows, name }
    };
    let mut curves: Vec<Curve<'_>> = schedulers(chapter, plot).into_iter().map(curve).collect();
    curves.retain(|curve| !curve.flows.is_empty());
    distribution::of_schedulers(&plot.title, side, &curves)
}

//! The figures of a chapter, drawn from its runs.

use super::styles::Styles;
use super::{Chapter, asked, words};
use crate::experiment::{Along, Plot, PlotKind, PlotScale, Point};
use crate::measure::{Measure, Subject, Unit};
use crate::report::canvas::Figure;
use crate::report::chart::spread::{Curve, Side, Spread};
use crate::report::chart::{Chart, PlaceLabel, Row};

/// A place of a figure: what is measured there, and of what.
struct Site {
    label: PlaceLabel,
    at: Point,
    subject: Subject,
    measure: Measure,
    /// Which of the numbers of the paper is its own.
    index: usize,
}

/// All figures that there are runs for.
pub(super) fn drawn(chapter: &Chapter, styles: &Styles) -> Vec<Figure> {
    chapter
        .plots()
        .iter()
        .filter_map(|plot| match &plot.kind {
            PlotKind::Values { .. } => chart(chapter, styles, plot)?.figure(),
            PlotKind::Tail => spread(chapter, styles, plot, Side::Longer).figure(),
            PlotKind::Cdf => spread(chapter, styles, plot, Side::Within).figure(),
        })
        .collect()
}

fn chart(chapter: &Chapter, styles: &Styles, plot: &Plot) -> Option<Chart> {
    let PlotKind::Values { along, measure, scale, paper } = &plot.kind else { return None };
    let sites = sites(chapter, plot, along, *measure);
    let first = sites.first()?;
    let results = chapter.results();
    let row = |name: &str| {
        let told = |site: &Site| paper.get(name).and_then(|told| told.get(site.index).copied().flatten());
        let value = |site: &Site| results.estimate(name, &site.at, &site.subject, site.measure);
        // A number of the paper says it already.
        let asked = |site: &Site| match told(site) {
            Some(_) => Vec::new(),
            None => asked::values(chapter, name, &site.at, &site.subject, site.measure),
        };
        Row {
            series: styles.number(chapter, name),
            name: name.to_owned(),
            values: sites.iter().map(value).collect(),
            paper: sites.iter().map(told).collect(),
            asked: sites.iter().map(asked).collect(),
        }
    };
    let what = match along {
        Along::Measures(measures) => {
            words::common_times(measures).map_or_else(|| words::measure(*measure), words::times)
        }
        _ => words::measure(*measure),
    };
    Some(Chart {
        name: plot.title.clone(),
        title: plot.title.clone(),
        caption: caption(chapter, plot, first),
        what: what + &words::subject(&plot.subject),
        unit: measure.unit(),
        log: scale.map(|scale| scale == PlotScale::Log),
        along: axis_words(chapter, along),
        rows: schedulers(chapter, plot).iter().map(|name| row(name)).collect(),
        bound: sites.iter().map(|site| bound(chapter, plot, site)).collect(),
        places: sites.into_iter().map(|site| site.label).collect(),
    })
}

fn sites(chapter: &Chapter, plot: &Plot, along: &Along, measure: Measure) -> Vec<Site> {
    let site = |index: usize, name: String, at: Option<f64>| Site {
        label: PlaceLabel { name, at },
        at: plot.at.clone(),
        subject: plot.subject.clone(),
        measure,
        index,
    };
    let sites: Vec<Site> = match along {
        Along::Nothing => vec![site(0, String::new(), None)],
        Along::Axis(name) => {
            let axes = chapter.axes();
            let points = axes.iter().find(|axis| axis.name == *name).map_or(&[][..], |axis| &axis.points);
            let here = |(index, point): (usize, &crate::experiment::AxisPoint)| {
                let mut site = site(index, point.name.clone(), point.at);
                site.at.insert(name.clone(), point.name.clone());
                site
            };
            points.iter().enumerate().map(here).collect()
        }
        Along::Measures(measures) => {
            let common = words::common_times(measures).is_some();
            let of = |(index, measure): (usize, &Measure)| {
                let name = match measure {
                    Measure::Time(quantile, _) if common => words::quantile(*quantile),
                    other => words::measure(*other),
                };
                Site { measure: *measure, ..site(index, name, None) }
            };
            measures.iter().enumerate().map(of).collect()
        }
        Along::Classes(classes) => {
            let of = |(index, class): (usize, &String)| {
                let subject = Subject { class: Some(class.clone()), ..plot.subject.clone() };
                Site { subject, ..site(index, class.clone(), None) }
            };
            classes.iter().enumerate().map(of).collect()
        }
    };
    sites.into_iter().filter(|site| !chapter.results().cells(&site.at).is_empty()).collect()
}

/// What no scheduler can surpass at a place: as blocks may depend on what was delivered, the best of all that was
/// found for one of them.
fn bound(chapter: &Chapter, plot: &Plot, site: &Site) -> Option<f64> {
    let limit = site.measure.bound()?;
    let results = chapter.results();
    let found = schedulers(chapter, plot)
        .into_iter()
        .filter_map(|name| Some(results.estimate(&name, &site.at, &site.subject, limit)?.mean));
    if site.measure.unit() == Unit::Time { found.reduce(f64::min) } else { found.reduce(f64::max) }
}

/// Those that the figure names, or everybody.
fn schedulers(chapter: &Chapter, plot: &Plot) -> Vec<String> {
    let all = chapter.results().schedulers();
    if plot.schedulers.is_empty() {
        return all.into_iter().map(str::to_owned).collect();
    }
    plot.schedulers.iter().filter(|name| all.contains(&name.as_str())).cloned().collect()
}

fn axis_words(chapter: &Chapter, along: &Along) -> String {
    let Along::Axis(name) = along else { return String::new() };
    let axes = chapter.axes();
    let unit = axes.iter().find(|axis| axis.name == *name).map_or("", |axis| &axis.unit);
    if unit.is_empty() { name.clone() } else { format!("{name}, {unit}") }
}

/// Where the figure is, and over what it is a mean.
fn caption(chapter: &Chapter, plot: &Plot, first: &Site) -> String {
    let mut parts = Vec::new();
    if !plot.at.is_empty() {
        parts.push(format!("At {}.", words::cell(&plot.at, &chapter.axes())));
    }
    let cells = chapter.results().cells(&first.at).len();
    if cells > 1 {
        parts.push(format!("Mean over {cells} cells."));
    }
    parts.join(" ")
}

fn spread(chapter: &Chapter, styles: &Styles, plot: &Plot, side: Side) -> Spread {
    let name = plot.subject.flow.clone().unwrap_or_default();
    let flows = |scheduler: &str| {
        let scheduler = scheduler.to_owned();
        let flow = name.clone();
        let runs = chapter.results().at(&plot.at).filter(move |record| record.run.scheduler == scheduler);
        runs.filter_map(move |record| record.run.flows.iter().find(|one| one.name == flow))
    };
    let curve = |scheduler: &String| Curve {
        series: styles.number(chapter, scheduler),
        name: scheduler.clone(),
        runs: flows(scheduler)
            .filter(|flow| !flow.distribution.is_empty())
            .map(|flow| flow.distribution.iter().map(|point| (point.latency_us, point.later)).collect())
            .collect(),
    };
    let schedulers = schedulers(chapter, plot);
    let deadline_us =
        schedulers.iter().flat_map(|scheduler| flows(scheduler)).find_map(|flow| flow.deadline_us);
    let mut curves: Vec<Curve> = schedulers.iter().map(curve).collect();
    curves.retain(|curve| !curve.runs.is_empty());
    Spread { name: plot.title.clone(), title: plot.title.clone(), side, deadline_us, curves }
}

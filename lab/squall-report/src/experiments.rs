//! Report about experiments: claims with their findings, figures, and single runs over time.

use std::collections::BTreeSet;

use maud::{Markup, html};
use squall_lab::experiment::{
    Axis, AxisPoint, Experiment, Finding, OnStock, Plot, PlotKind, Point, Record, Step, Values, Verdict,
    judge,
};
use squall_lab::measure::{Measure, Subject};
use squall_lab::result::RunResult;
use squall_lab::statistics::Estimate;
use squall_lab::table::{Column, Table};
use squall_units::format;

use crate::figures::{Styles, drawn};
use crate::page::{self, file_name, note};
use crate::results::{Results, cell_words, distinct, fits, measure_words};
use crate::surface::Figure;
use crate::{runs, timeline};

/// Experiments with their results, and other runs.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// Title of the report.
    pub title: String,
    /// Experiments with their results.
    pub chapters: Vec<Chapter>,
    /// Runs of no experiment, for example of `squall-lab run --json`.
    pub runs: Vec<RunResult>,
}

/// An experiment with its results.
#[derive(Debug, Clone)]
pub struct Chapter {
    /// Name of the experiment.
    pub name: String,
    /// The experiment's file, if available: axes, claims and figures.
    pub experiment: Option<Experiment>,
    /// Runs of the experiment.
    pub records: Vec<Record>,
    /// Runs under other assumptions, used by claims only.
    pub others: Vec<Record>,
    /// Single runs over time.
    pub timelines: Vec<Timeline>,
}

/// Runs of one cell with their series over time.
#[derive(Debug, Clone)]
pub struct Timeline {
    /// The cell.
    pub point: Point,
    /// One run of each scheduler to show.
    pub runs: Vec<RunResult>,
    /// The runs are byte for byte the recorded ones.
    pub as_recorded: bool,
}

/// A figure as a separate file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Drawing {
    /// File name without a folder.
    pub file: String,
    /// Content of the file.
    pub svg: String,
}

impl Chapter {
    /// Groups runs into chapters, in order of the experiments' names, each with its experiment.
    pub fn of(records: Vec<Record>, mut experiments: Vec<Experiment>) -> Vec<Self> {
        let names: BTreeSet<String> = records.iter().map(|record| record.experiment.clone()).collect();
        let chapter = |name: String| {
            let place = experiments.iter().position(|experiment| experiment.name() == name);
            let experiment = place.map(|place| experiments.swap_remove(place));
            Self { name, experiment, records: Vec::new(), others: Vec::new(), timelines: Vec::new() }
        };
        let mut chapters: Vec<Self> = names.into_iter().map(chapter).collect();
        for record in records {
            if let Some(chapter) = chapters.iter_mut().find(|chapter| chapter.name == record.experiment) {
                let experiment = chapter.experiment.as_ref();
                let is_as_assumed = experiment.is_none_or(|one| one.is_as_assumed(&record.point));
                if is_as_assumed { &mut chapter.records } else { &mut chapter.others }.push(record);
            }
        }
        chapters
    }

    /// Returns the cell that most claims cover, and its first seed: by default the run to show over
    /// time.
    pub fn representative(&self) -> Option<(Point, u64)> {
        let claims = self.experiment.iter().flat_map(|experiment| &experiment.claims);
        let claimed: Vec<&Point> = claims.map(|claim| &claim.at).filter(|at| !at.is_empty()).collect();
        let count = |point: &Point| claimed.iter().filter(|at| fits(point, at)).count();
        // The first one if several cells tie.
        let first = self.records.iter().rev().max_by_key(|record| count(&record.point))?;
        let there = self.records.iter().filter(|record| record.point == first.point);
        Some((first.point.clone(), there.map(|record| record.run.seed).min()?))
    }

    /// Returns the findings about its claims.
    pub fn findings(&self) -> Vec<Finding> {
        self.experiment
            .as_ref()
            .map_or_else(Vec::new, |experiment| judge(experiment, self.records.iter().chain(&self.others)))
    }

    /// Returns its ladders as tables: a row for each measure, a column for each step, with the
    /// change relative to the step before.
    pub fn ladders(&self) -> Vec<Table> {
        let plots = self.experiment.iter().flat_map(|experiment| &experiment.plots);
        plots.filter_map(|plot| self.ladder(plot)).collect()
    }

    fn ladder(&self, plot: &Plot) -> Option<Table> {
        let PlotKind::Ladder { steps, measures, .. } = &plot.kind else { return None };
        let row = |measure: &Measure| {
            let mean = |step: &Step| {
                Some(self.results().estimate(&step.scheduler, &plot.at, &plot.subject, *measure)?.mean)
            };
            let means: Vec<Option<f64>> = steps.iter().map(mean).collect();
            let cell = |step: usize| {
                let Some(own) = means[step] else { return "–".to_owned() };
                let before =
                    step.checked_sub(1).and_then(|before| means[before]).filter(|before| *before > 0.0);
                let change = before.map(|before| format!(" ({:+.0} %)", 100.0 * (own / before - 1.0)));
                measure.unit().show(own) + &change.unwrap_or_default()
            };
            std::iter::once(measure_words(*measure)).chain((0..steps.len()).map(cell)).collect()
        };
        let names = steps.iter().map(|step| format!("{} ({})", step.name, step.scheduler));
        let columns = std::iter::once(String::new()).chain(names).map(|name| Column::text(&name)).collect();
        Some(Table { title: plot.title.clone(), columns, rows: measures.iter().map(row).collect() })
    }

    pub(crate) fn results(&self) -> Results<'_> {
        Results(&self.records)
    }

    /// Returns its axes; without the file, those on which its runs lie.
    pub(crate) fn axes(&self) -> Vec<Axis> {
        if let Some(experiment) = &self.experiment {
            return experiment.axes.clone();
        }
        let points = || self.records.iter().flat_map(|record| &record.point);
        let point = |name: &String| AxisPoint {
            name: name.clone(),
            at: name.parse::<f64>().ok(),
            set: Default::default(),
        };
        let axis = |axis: &String| -> Axis {
            let own = distinct(points().filter(|(name, _)| *name == axis).map(|(_, point)| point));
            let points = own.into_iter().map(point).collect();
            Axis { name: axis.clone(), unit: String::new(), base: None, points }
        };
        distinct(points().map(|(name, _)| name)).into_iter().map(axis).collect()
    }

    /// Draws its single runs.
    fn timelines(&self, styles: &Styles, shown: &Timeline) -> Vec<Figure> {
        let figure = |run: &RunResult| timeline::figure(styles.number(self, &run.scheduler), run);
        shown.runs.iter().filter_map(figure).collect()
    }
}

impl Report {
    /// Returns the report as an HTML page.
    pub fn html(&self) -> String {
        let styles = Styles::of(&self.chapters);
        let body = html! {
            @if !self.chapters.is_empty() {
                (note(HOW))
                (self.findings())
                h2 id="contents" { "Experiments" }
                ul class="contents" { @for chapter in &self.chapters { (entry(chapter)) } }
            }
            @for chapter in &self.chapters {
                (head(chapter))
                div class="pair" {
                    @for (number, figure) in (1..).zip(drawn(chapter, &styles)) {
                        (page::figure(&figure, &format!("{}-figure{number}", file_name(&chapter.name))))
                    }
                }
                (claims(&chapter.findings(), false))
                (assumptions(chapter))
                (numbers(chapter))
                (single_runs(chapter, &styles))
            }
            (runs::body(&self.runs))
        };
        page::page(&self.title, &body)
    }

    /// Returns each figure as a separate file.
    pub fn drawings(&self) -> Vec<Drawing> {
        let styles = Styles::of(&self.chapters);
        let mut named: Vec<(String, Figure)> = Vec::new();
        for chapter in &self.chapters {
            let name = file_name(&chapter.name);
            for (number, figure) in (1..).zip(drawn(chapter, &styles)) {
                named.push((format!("{name}-{number:02}-{}.svg", file_name(&figure.name)), figure));
            }
            for figure in chapter.timelines.iter().flat_map(|shown| chapter.timelines(&styles, shown)) {
                named.push((format!("{name}-{}.svg", file_name(&figure.name)), figure));
            }
        }
        named.extend(runs::named_figures(&self.runs));
        named.into_iter().map(|(file, figure)| Drawing { file, svg: figure.standalone() }).collect()
    }

    /// Lists all findings, with their number for each verdict.
    fn findings(&self) -> Markup {
        let all: Vec<Finding> = self.chapters.iter().flat_map(Chapter::findings).collect();
        let count = |verdict| all.iter().filter(|finding| finding.verdict == verdict).count();
        let counted = Verdict::ALL.map(|verdict| (verdict, count(verdict)));
        let counted = counted.into_iter().filter(|(_, count)| *count > 0).enumerate();
        html! {
            @if !all.is_empty() {
                h2 id="findings" { "Findings" }
                p {
                    (all.len()) " claim" @if all.len() != 1 { "s" } ": "
                    @for (place, (verdict, count)) in counted {
                        @if place > 0 { ", " }
                        (count) " " (badge(verdict, verdict.of(count)))
                    }
                    "."
                    @if let Some(on_stock) = OnStock::of(&all) {
                        " Against baselines over a stock transport " (on_stock) " hold."
                    }
                }
                (claims(&all, true))
            }
        }
    }
}

const HOW: &str = "Each value is the mean over the seeds, with its 95 % confidence interval (Student’s t) as a band \
    or a whisker; distributions have a band from the lowest to the highest run. Open markers are numbers that the paper \
    states in words or tables; ticks are what a claim asks for, calculated from the measured value of the other side; the \
    dotted line is the clairvoyant bound, which no scheduler can exceed, not even one that has the future of the \
    network. Schedulers differ by marker and dash as well as by colour.";

const DIFFERS: &str = "Run again for this page; the numbers are not those of the results above, which are of another \
    program or another state of the file.";

/// Line of a chapter in the contents.
fn entry(chapter: &Chapter) -> Markup {
    let (from, what) = chapter.experiment.as_ref().map_or_else(Default::default, |experiment| {
        (source(experiment), experiment.scenario.description.clone())
    });
    html! {
        li {
            a href=(format!("#{}", file_name(&chapter.name))) { (chapter.name) }
            @if !from.is_empty() { " (" (from) ")" }
            @if !what.is_empty() { ": " (what) }
        }
    }
}

fn source(experiment: &Experiment) -> String {
    format!("{} {}", experiment.source.paper, experiment.source.place).trim().to_owned()
}

/// Heading, source and setup of an experiment.
fn head(chapter: &Chapter) -> Markup {
    html! {
        h2 id=(file_name(&chapter.name)) { (chapter.name) }
        @if let Some(experiment) = &chapter.experiment {
            p class="lead" { (experiment.scenario.description) }
            @if !source(experiment).is_empty() {
                @let setup = experiment.source.setup.split_whitespace().collect::<Vec<_>>().join(" ");
                p { "From: " (source(experiment)) ". " (setup) }
            }
        }
        (note(&extent(chapter)))
    }
}

/// Describes the extent of the runs: seeds and cells.
fn extent(chapter: &Chapter) -> String {
    let Some(first) = chapter.records.first().map(|record| &record.run) else { return String::new() };
    let seeds: BTreeSet<u64> = chapter.records.iter().map(|record| record.run.seed).collect();
    let cells: BTreeSet<_> = chapter.records.iter().map(|record| &record.point).collect();
    let seeds = seeds.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
    let axes = chapter.axes();
    let varied: Vec<&str> = axes.iter().map(|axis| axis.name.as_str()).collect();
    let varied = if varied.is_empty() { String::new() } else { format!(" ({})", varied.join(" × ")) };
    let plural = if cells.len() == 1 { "cell" } else { "cells" };
    format!(
        "{} runs of {} each: {} {plural}{varied}, seeds {seeds}, congestion control {}, squall {}.",
        chapter.records.len(),
        format::time(first.duration_us),
        cells.len(),
        first.congestion,
        first.version
    )
}

/// Table of claims: expected value, finding and verdict.
fn claims(findings: &[Finding], named: bool) -> Markup {
    let with_stock = findings.iter().any(|finding| finding.stock.is_some());
    let row = |finding: &Finding| {
        let reason = finding.finding.trim();
        html! {
            tr {
                @if named {
                    td { a href=(format!("#{}", file_name(&finding.experiment))) { (finding.experiment) } }
                }
                th scope="row" {
                    (finding.says)
                    @if let Some(Values { system, of_system, challenger, of_challenger }) = &finding.values {
                        p { (challenger) ": " (of_challenger) ", " (system) ": " (of_system) }
                    }
                    @if !reason.is_empty() { p { "In full runs: " (reason) } }
                }
                td { (finding.expected) }
                td { (finding.found) @if let Some(seeds) = finding.seeds { " (about " (seeds) " seeds would decide)" } }
                td { (badge(finding.verdict, finding.verdict.as_str())) }
                @if with_stock {
                    td { @if let Some(stock) = &finding.stock { (stock.found) } }
                    td { @if let Some(stock) = &finding.stock { (badge(stock.verdict, stock.verdict.as_str())) } }
                }
            }
        }
    };
    let heads = ["experiment", "claim", "claimed", "here", "verdict", "stock baseline", "verdict"];
    let heads = &heads[usize::from(!named)..heads.len() - if with_stock { 0 } else { 2 }];
    html! {
        @if !findings.is_empty() {
            div class="scroll" {
                table class="claims" {
                    thead {
                        tr { @for head in heads { th scope="col" { (head) } } }
                    }
                    tbody { @for finding in findings { (row(finding)) } }
                }
            }
        }
    }
}

/// Lists the assumptions where the paper is silent: the value used, the alternatives, and the
/// claims whose verdict changes with each.
fn assumptions(chapter: &Chapter) -> Markup {
    let assumptions = chapter.experiment.as_ref().map_or(&[][..], |experiment| &experiment.assumptions);
    let findings = chapter.findings();
    html! {
        @if !assumptions.is_empty() && !chapter.others.is_empty() {
            div class="scroll" {
                table class="claims" {
                    thead {
                        tr { @for head in ["left open", "the paper", "here", "instead", "other verdicts"] { th scope="col" { (head) } } }
                    }
                    tbody {
                        @for assumption in assumptions {
                            @for point in &assumption.points {
                                @let changed = assumption.changed(point, &findings);
                                tr {
                                    th scope="row" { (assumption.name) }
                                    td { (assumption.published) }
                                    td { (assumption.ours) }
                                    td { (point.name) }
                                    td {
                                        @if changed.is_empty() { "none" }
                                        @for (finding, other) in changed {
                                            p { (finding.says) ": " (badge(other.verdict, other.verdict.as_str())) " " (other.found) }
                                        }
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Renders a verdict in these words, with a sign whose shape differs per verdict.
fn badge(verdict: Verdict, words: &str) -> Markup {
    let (class, sign) = match verdict {
        Verdict::Holds => ("holds", '●'),
        Verdict::Exceeds => ("holds", '▲'),
        Verdict::DirectionOnly => ("partly", '◐'),
        Verdict::Tied => ("partly", '='),
        Verdict::Saturated => ("partly", '≈'),
        Verdict::DoesNotHold => ("fails", '○'),
        Verdict::Unclear => ("open", '?'),
        Verdict::NotMeasured => ("open", '–'),
    };
    html! { span class=(format!("verdict {class}")) { (sign) "\u{a0}" (words.replace(' ', "\u{a0}")) } }
}

/// Number of rows above which a table is folded.
const MANY: usize = 12;

/// Columns for each flow: heading, unit, measure, factor, decimals, and `true` to show the
/// interval.
const SHOWN: [(&str, &str, &str, f64, usize, bool); 8] = [
    ("in time", "%", "in_time_ratio", 100.0, 1, true),
    ("bytes in time", "%", "in_time_bytes_ratio", 100.0, 1, true),
    ("limit", "%", "bound_in_time_bytes_ratio", 100.0, 1, false),
    ("latency 50 %", "ms", "p50_latency", 1e-3, 1, false),
    ("99 %", "ms", "p99_latency", 1e-3, 1, true),
    ("99.9 %", "ms", "p999_latency", 1e-3, 1, false),
    ("waiting 50 %", "ms", "p50_waiting", 1e-3, 1, false),
    ("longest", "ms", "max_waiting", 1e-3, 0, false),
];

/// Numbers behind the figures: a row for each cell, flow and scheduler.
fn numbers(chapter: &Chapter) -> Markup {
    let table = table(chapter);
    html! {
        @if !table.rows.is_empty() {
            details open[table.rows.len() <= MANY] {
                summary { "Numbers" }
                (page::table(&table))
            }
        }
    }
}

fn table(chapter: &Chapter) -> Table {
    let (results, axes) = (chapter.results(), chapter.axes());
    let claims = chapter.experiment.iter().flat_map(|experiment| &experiment.claims);
    let mut flows = distinct(claims.filter_map(|claim| claim.subject.flow.as_deref()));
    if flows.is_empty() {
        let all = chapter.records.iter().flat_map(|record| &record.run.flows);
        flows = distinct(all.map(|flow| flow.name.as_str()));
    }
    let paths = chapter.records.iter().flat_map(|record| &record.run.paths);
    let paths = distinct(paths.map(|path| path.name.as_str()));
    let several = flows.len() > 1;
    let mut columns = vec![Column::text("scheduler")];
    columns.extend(axes.iter().map(|axis| Column::text(&axis.name)));
    columns.extend(several.then(|| Column::text("flow")));
    columns.extend(SHOWN.iter().map(|(name, unit, ..)| Column::number(name, unit)));
    columns.extend(paths.iter().map(|path| Column::number(path, "%")));
    columns.push(Column::number("sent again", "%"));
    let mut rows = Vec::new();
    for cell in results.cells(&Point::new()) {
        for flow in &flows {
            for scheduler in results.schedulers() {
                if results.at(cell).all(|record| record.run.scheduler != scheduler) {
                    continue;
                }
                let show =
                    |subject: &Subject, measure: &str, factor: f64, decimals: usize, interval: bool| {
                        let measure: Measure = measure.parse().expect("is the name of one");
                        show(results.estimate(scheduler, cell, subject, measure), factor, decimals, interval)
                    };
                let own = Subject::flow(flow);
                let mut row = vec![scheduler.to_owned()];
                row.extend(axes.iter().map(|axis| cell.get(&axis.name).cloned().unwrap_or_default()));
                row.extend(several.then(|| (*flow).to_owned()));
                row.extend(SHOWN.map(|(_, _, measure, factor, decimals, interval)| {
                    show(&own, measure, factor, decimals, interval)
                }));
                row.extend(paths.iter().map(|path| {
                    let here = Subject { path: Some((*path).to_owned()), ..own.clone() };
                    show(&here, "path_ratio", 100.0, 1, false)
                }));
                row.push(show(&Subject::RUN, "retransmission_ratio", 100.0, 1, false));
                rows.push(row);
            }
        }
    }
    let title = "Means over the seeds, some ± half of the 95 % interval; under the names of paths, the share of the \
        flow’s data that they brought";
    Table { title: title.into(), columns, rows }
}

fn show(all: Option<Estimate>, factor: f64, decimals: usize, interval: bool) -> String {
    let Some(all) = all else { return "–".into() };
    let half = all.half.filter(|_| interval);
    let half = half.map_or(String::new(), |half| format!(" ± {:.decimals$}", half * factor));
    format!("{:.decimals$}{half}", all.mean * factor)
}

/// Renders single runs over time, folded.
fn single_runs(chapter: &Chapter, styles: &Styles) -> Markup {
    let mut number = 0;
    let mut id = || {
        number += 1;
        format!("{}-run{number}", file_name(&chapter.name))
    };
    html! {
        @for shown in &chapter.timelines {
            @let figures = chapter.timelines(styles, shown);
            @if let Some(run) = shown.runs.first().filter(|_| !figures.is_empty()) {
                @let at = cell_words(&shown.point, &chapter.axes());
                details {
                    summary { "Single runs" @if !at.is_empty() { " at " (at) } ", seed " (run.seed) }
                    (note(timeline::CAPTION))
                    @if !shown.as_recorded { (note(DIFFERS)) }
                    @for figure in &figures { (page::figure(figure, &id())) }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;

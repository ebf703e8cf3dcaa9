//! The report of experiments: what is claimed and what was found, the figures, and single runs to look into why.

mod asked;
mod contents;
mod derived;
mod figures;
mod findings;
mod results;
mod styles;
mod summary;
mod timelines;
mod words;

use std::collections::BTreeSet;

use super::canvas::Figure;
use super::html;
use crate::experiment::{Axis, AxisPoint, Experiment, Finding, Plot, Point, Record, judge};
use crate::result::RunResult;
use results::Results;
use styles::Styles;

/// Experiments with their results, and other runs.
#[derive(Debug, Clone, Default)]
pub struct Book {
    /// Its title.
    pub title: String,
    /// The experiments.
    pub chapters: Vec<Chapter>,
    /// Runs that belong to no experiment, as of `squall-lab run --json`.
    pub runs: Vec<RunResult>,
}

/// An experiment with its results.
#[derive(Debug, Clone)]
pub struct Chapter {
    /// Its name.
    pub name: String,
    /// What its file says, if that is at hand: axes, claims and figures.
    pub experiment: Option<Experiment>,
    /// Its runs.
    pub records: Vec<Record>,
    /// Some of them in full, to be looked into.
    pub timelines: Vec<Timeline>,
}

/// Runs with everything over time, at one cell.
#[derive(Debug, Clone)]
pub struct Timeline {
    /// The cell.
    pub point: Point,
    /// One run of each scheduler that is to be shown.
    pub runs: Vec<RunResult>,
    /// Whether they are, to the byte, the recorded ones.
    pub as_recorded: bool,
}

/// A figure as a file of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Drawing {
    /// Name of the file, without a folder.
    pub file: String,
    /// The file.
    pub svg: String,
}

impl Chapter {
    /// The chapters of these runs, in order of the experiments' names; each experiment goes to its runs.
    pub fn of(records: Vec<Record>, experiments: Vec<Experiment>) -> Vec<Self> {
        let names: BTreeSet<String> = records.iter().map(|record| record.experiment.clone()).collect();
        let mut experiments = experiments;
        let mut chapters: Vec<Self> = names
            .into_iter()
            .map(|name| {
                let place = experiments.iter().position(|experiment| experiment.name() == name);
                let experiment = place.map(|place| experiments.swap_remove(place));
                Self { name, experiment, records: Vec::new(), timelines: Vec::new() }
            })
            .collect();
        for record in records {
            if let Some(chapter) = chapters.iter_mut().find(|chapter| chapter.name == record.experiment) {
                chapter.records.push(record);
            }
        }
        chapters
    }

    /// The cell that most claims are about and its first seed: the one to look into if nobody says otherwise.
    pub fn telling(&self) -> Option<(Point, u64)> {
        let claims = self.experiment.iter().flat_map(|experiment| &experiment.claims);
        let asked: Vec<&Point> = claims.map(|claim| &claim.at).filter(|at| !at.is_empty()).collect();
        let fits = |point: &Point| {
            asked.iter().filter(|at| at.iter().all(|(axis, name)| point.get(axis) == Some(name))).count()
        };
        // Of several the first.
        let first = self.records.iter().rev().max_by_key(|record| fits(&record.point))?;
        let there = self.records.iter().filter(|record| record.point == first.point);
        Some((first.point.clone(), there.map(|record| record.run.seed).min()?))
    }

    /// What was found of its claims.
    pub fn findings(&self) -> Vec<Finding> {
        self.experiment.as_ref().map_or_else(Vec::new, |experiment| judge(experiment, &self.records))
    }

    fn results(&self) -> Results<'_> {
        Results::of(&self.records)
    }

    /// Its axes; without the file, those that its runs are on.
    fn axes(&self) -> Vec<Axis> {
        if let Some(experiment) = &self.experiment {
            return experiment.axes.clone();
        }
        let mut axes: Vec<Axis> = Vec::new();
        for (axis, name) in self.records.iter().flat_map(|record| &record.point) {
            let place = axes.iter().position(|known| known.name == *axis).unwrap_or_else(|| {
                axes.push(Axis { name: axis.clone(), unit: String::new(), points: Vec::new() });
                axes.len() - 1
            });
            if axes[place].points.iter().all(|known| known.name != *name) {
                let point = AxisPoint { name: name.clone(), at: name.parse().ok(), set: Vec::new() };
                axes[place].points.push(point);
            }
        }
        axes
    }

    /// The figures of its file, or some that suit its claims.
    fn plots(&self) -> Vec<Plot> {
        let own = self.experiment.as_ref().map_or(&[][..], |experiment| &experiment.plots);
        if own.is_empty() { derived::plots(self) } else { own.to_vec() }
    }
}

impl Book {
    /// The page.
    pub fn html(&self) -> String {
        let styles = Styles::of(&self.chapters);
        let mut body = contents::text(self);
        for chapter in &self.chapters {
            body.push_str(&contents::chapter_head(chapter));
            body.push_str("<div class=\"pair\">\n");
            for (number, figure) in figures::drawn(chapter, &styles).iter().enumerate() {
                let id = format!("{}-figure{}", contents::anchor(&chapter.name), number + 1);
                body.push_str(&html::figure(figure, &id));
            }
            body.push_str("</div>\n");
            body.push_str(&findings::of_chapter(chapter));
            body.push_str(&summary::text(chapter));
            body.push_str(&timelines::text(chapter, &styles));
        }
        if !self.runs.is_empty() {
            body.push_str(&super::body(&self.runs));
        }
        html::page(&self.title, &body)
    }

    /// Each figure as a file of its own.
    pub fn drawings(&self) -> Vec<Drawing> {
        let styles = Styles::of(&self.chapters);
        let mut drawings: Vec<Drawing> = Vec::new();
        let mut add = |file: String, figure: &Figure| {
            drawings.push(Drawing { file, svg: figure.standalone() });
        };
        for chapter in &self.chapters {
            let name = super::file_name(&chapter.name);
            for (number, figure) in figures::drawn(chapter, &styles).iter().enumerate() {
                add(format!("{name}-{:02}-{}.svg", number + 1, super::file_name(&figure.name)), figure);
            }
            for figure in timelines::drawn(chapter, &styles) {
                add(format!("{name}-{}.svg", super::file_name(&figure.name)), &figure);
            }
        }
        for (file, figure) in super::named_figures(&self.runs) {
            add(file, &figure);
        }
        drawings
    }
}

#[cfg(test)]
mod tests;

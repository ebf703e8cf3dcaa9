//! Subjects of measures.

use serde::{Deserialize, Serialize};

use super::Measure;
use super::kind::{Kind, View};
use super::table::Scope;
use crate::result::{ClassResult, Limit, RunResult, Tally, round6};

/// A whole run, one of its paths, one of its flows, or one class of a flow. A flow or class
/// together with a path stands for its data on that path. Names are those of the scenario.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Subject {
    /// Name of a flow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flow: Option<String>,
    /// Name of a class of the flow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<String>,
    /// Name of a path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
}

impl Subject {
    /// The whole run.
    pub const RUN: Self = Self { flow: None, class: None, path: None };

    /// Creates the subject of a path.
    pub fn path(name: &str) -> Self {
        Self { path: Some(name.to_owned()), ..Self::RUN }
    }

    /// Creates the subject of a flow.
    pub fn flow(name: &str) -> Self {
        Self { flow: Some(name.to_owned()), ..Self::RUN }
    }

    /// Returns all subjects of a run: the run, its paths, its flows and their classes, and their
    /// data on each path.
    pub fn all(run: &RunResult) -> Vec<Self> {
        let mut subjects = vec![Self::RUN];
        subjects.extend(run.paths.iter().map(|path| Self::path(&path.name)));
        for flow in &run.flows {
            let class = |name: &String| Self { class: Some(name.clone()), ..Self::flow(&flow.name) };
            let parts = || {
                std::iter::once(Self::flow(&flow.name)).chain(flow.classes.iter().map(|one| class(&one.name)))
            };
            subjects.extend(parts());
            for path in &run.paths {
                subjects.extend(parts().map(|part| Self { path: Some(path.name.clone()), ..part }));
            }
        }
        subjects
    }

    /// Kind of the subject. A class without a flow is ignored.
    pub fn kind(&self) -> Kind {
        match (&self.flow, &self.class, &self.path) {
            (None, _, None) => Kind::Run,
            (None, _, Some(_)) => Kind::Path,
            (Some(_), None, None) => Kind::Flow,
            (Some(_), Some(_), None) => Kind::Class,
            (Some(_), None, Some(_)) => Kind::FlowOnPath,
            (Some(_), Some(_), Some(_)) => Kind::ClassOnPath,
        }
    }

    /// `true` if subjects of its kind have the measure.
    pub fn has(&self, measure: Measure) -> bool {
        measure.is_of(self.kind())
    }

    /// `true` if the measure can be taken over a part of a run.
    pub fn has_over_time(&self, measure: Measure) -> bool {
        measure.is_over_time() && matches!(self.kind(), Kind::Path | Kind::Flow)
    }

    /// Takes the measure; `None` if subjects of its kind do not have it, or the run has no data for
    /// it.
    pub fn measure(&self, measure: Measure, view: View, run: &RunResult) -> Option<f64> {
        if !self.has(measure) {
            return None;
        }
        let scope = self.scope(view, run)?;
        match measure {
            Measure::Time(quantile, times) => Some((quantile.row().2)((times.row().3)(&scope)?) as f64),
            Measure::Count(count) => (count.row().take)(&scope),
        }
    }

    /// Collects the data of the subject; `None` if there is no such flow, class or path.
    fn scope<'a>(&self, view: View, run: &'a RunResult) -> Option<Scope<'a>> {
        let named = |name: &String| run.flows.iter().find(|flow| flow.name == *name);
        let flow = match &self.flow {
            Some(name) => Some(named(name)?),
            None => None,
        };
        let path = match &self.path {
            Some(name) => Some(run.paths.iter().position(|path| path.name == *name)?),
            None => None,
        };
        let class = self.class.as_ref().filter(|_| flow.is_some());
        let flows = flow.map_or(&run.flows[..], std::slice::from_ref);
        let classes = flows.iter().flat_map(|flow| &flow.classes);
        let classes: Vec<&ClassResult> =
            classes.filter(|one| class.is_none_or(|name| is_of(one, name))).collect();
        // Percentiles and bounds exist for single classes only.
        let single = class.and(classes.first().copied()).filter(|_| classes.len() == 1);
        if class.is_some() && path.is_none() && classes.is_empty() {
            return None;
        }
        let (latency, waiting, in_time_bytes_ratio, limit) = match (flow, class, single) {
            (None, ..) => (None, None, in_time_bytes_ratio(&classes), limit_of_run(run)),
            (Some(flow), None, _) => {
                (flow.latency.as_ref(), flow.waiting.as_ref(), flow.in_time_bytes_ratio, flow.bound)
            }
            (_, _, Some(class)) => {
                (class.latency.as_ref(), class.waiting.as_ref(), class.in_time_bytes_ratio, class.bound)
            }
            _ => (None, None, in_time_bytes_ratio(&classes), None),
        };
        let tally = match class {
            Some(_) => sum(classes.iter().map(|class| &class.tally)),
            None => sum(flows.iter().map(|flow| &flow.total)),
        };
        Some(Scope {
            kind: self.kind(),
            tally,
            latency,
            waiting,
            paths: path.map_or(&run.paths[..], |place| std::slice::from_ref(&run.paths[place])),
            run,
            view,
            path,
            flow,
            classes,
            in_time_bytes_ratio,
            limit,
        })
    }

    /// Describes the subject in words.
    pub fn describe(&self) -> String {
        let name = |word: &str, name: &Option<String>| name.as_ref().map(|name| format!("{word} {name}"));
        let parts = [name("flow", &self.flow), name("class", &self.class), name("path", &self.path)];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        if parts.is_empty() { "run".into() } else { parts.join(", ") }
    }
}

/// Names that stand for all reliable and all unreliable classes of a flow.
pub(crate) const BY_RELIABILITY: [&str; 2] = ["reliable", "unreliable"];

fn is_of(class: &ClassResult, name: &str) -> bool {
    class.name == name || name == BY_RELIABILITY[usize::from(!class.reliable)]
}

fn sum<'a>(tallies: impl Iterator<Item = &'a Tally>) -> Tally {
    tallies.fold(Tally::default(), |sum, one| sum.plus(one))
}

/// Averages the ratio over several classes, weighted by the bytes of their decided blocks.
fn in_time_bytes_ratio(classes: &[&ClassResult]) -> Option<f64> {
    let (timely, decided) = classes.iter().fold((0.0, 0.0), |sum, class| {
        let decided = (class.tally.offered_bytes - class.tally.open_bytes) as f64;
        (sum.0 + class.in_time_bytes_ratio.unwrap_or(0.0) * decided, sum.1 + decided)
    });
    (decided > 0.0).then(|| round6(timely / decided))
}

/// Bounds of both directions together, without percentiles.
fn limit_of_run(run: &RunResult) -> Option<Limit> {
    let totals = run.bounds.iter().map(|bound| bound.bound.total);
    totals.reduce(|sum, one| sum.plus(&one)).map(|sum| Limit { latency: None, ..sum })
}

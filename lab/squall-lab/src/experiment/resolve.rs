//! Resolves an experiment: checks names, claims and the scenario at every point.

use std::collections::BTreeMap;
use std::path::Path;

use squall_sched::Registry;

use super::claim::{self, Against, Way};
use super::file::{ClaimTable, EvidenceTable, ExperimentFile, IdsFile};
use super::{
    Assumption, Axis, AxisPoint, Claim, Evidence, Expectation, Experiment, MAX_CELLS, Of, Over, Source, cell,
    traces,
};
use crate::measure::{Measure, Subject};
use crate::scenario::{MAX_LIST, Place, Problem, Quantity, Scenario, ScenarioError, Text};
use crate::variant::Variant;

pub(super) fn load(file: &Path, registry: &Registry) -> Result<Experiment, ScenarioError> {
    let text = Text::read(file)?;
    let scenario = Scenario::load_with(file, registry)?;
    let tables: ExperimentFile = text.parse()?;
    let base = file.parent().unwrap_or(Path::new(""));
    let experiment = resolve(tables, scenario, &text).map_err(|problem| text.located(&problem))?;
    let axes = experiment.axes.iter().map(|axis| &axis.points).enumerate().map(|one| ("axis", one));
    let assumptions = experiment.assumptions.iter().map(|one| &one.points).enumerate();
    // Points are applied one at a time, so that an error is reported at its point.
    for (list, (index, points)) in axes.chain(assumptions.map(|one| ("assumption", one))) {
        for (at, point) in points.iter().enumerate() {
            let place = || Place::of(list).index(index).key("points").index(at).key("set");
            let refuse = |words: String| text.located(&Problem::at(place(), words));
            let patched = cell::patched(&experiment.text, point.set.clone()).map_err(refuse)?;
            let scenario = Scenario::load_text(&patched, &text.name, base)
                .map_err(|error| text.located(&Problem::at(place(), error.problem())))?;
            check_schedulers(&scenario, registry)
                .map_err(|words| text.located(&Problem::at(place(), words)))?;
        }
    }
    // Combinations of points may still be invalid.
    experiment.cells(false)?;
    experiment.cells(true)?;
    Ok(experiment)
}

pub(super) fn ids(file: &Path) -> Result<Vec<String>, ScenarioError> {
    let IdsFile { name, source } = Text::read(file)?.parse()?;
    Ok(std::iter::once(name).chain(source.also).collect())
}

pub(super) fn check_schedulers(scenario: &Scenario, registry: &Registry) -> Result<(), String> {
    scenario.schedulers.iter().try_for_each(|label| {
        Variant::of(&scenario.configured(label))
            .check_in(scenario, registry)
            .map_err(|error| format!("schedulers: {error}"))
    })
}

fn resolve(tables: ExperimentFile, scenario: Scenario, text: &Text) -> Result<Experiment, Problem> {
    let ExperimentFile { source, axes, assumptions, traces, reduced, thorough, claims, plots } = tables;
    check_axes(&axes)?;
    check_assumptions(&assumptions, &axes)?;
    let mut experiment = Experiment {
        file: text.file.clone(),
        source,
        axes,
        assumptions,
        reduced,
        thorough,
        is_thorough: false,
        scenario,
        claims: Vec::new(),
        plots: Vec::new(),
        traces,
        challenge: None,
        recorded: None,
        text: text.text.clone(),
    };
    check_reduced(&experiment)?;
    check_also(&experiment.source)?;
    check_system(&experiment)?;
    check_stock(&experiment)?;
    traces::axes(&experiment).map_err(|(key, words)| {
        let place = Place::of("traces");
        Problem::at(place, format!("{key}: {words}"))
    })?;
    for (list, count) in [("claim", claims.len()), ("figure", plots.len())] {
        if count > MAX_LIST {
            let words = format!("{count} [[{list}]] tables, expected at most {MAX_LIST}");
            return Err(Problem::at(Place::of(list), words));
        }
    }
    let claims = claims.into_iter().enumerate();
    let read = |(index, table)| Reader { list: "claim", index, experiment: &experiment }.claims(table);
    let read: Vec<Vec<Claim>> = claims.map(read).collect::<Result<_, _>>()?;
    experiment.claims = read.into_iter().flatten().collect();
    let plots = plots.into_iter().enumerate();
    experiment.plots = plots
        .map(|(index, table)| Reader { list: "figure", index, experiment: &experiment }.plot(table))
        .collect::<Result<_, _>>()?;
    Ok(experiment)
}

fn check_also(source: &Source) -> Result<(), Problem> {
    let bad = source.also.iter().position(|id| id.is_empty() || id.contains(char::is_whitespace));
    bad.map_or(Ok(()), |index| {
        let words = format!("also: {:?} is no name of an experiment", source.also[index]);
        Err(Problem::at(Place::of("paper").key("also").index(index), words))
    })
}

fn check_system(experiment: &Experiment) -> Result<(), Problem> {
    let name = &experiment.source.scheduler;
    if name.is_empty() || is_run(experiment, name) {
        return Ok(());
    }
    let words = format!("scheduler: the experiment does not run {name:?}");
    Err(Problem::at(Place::of("paper").key("scheduler"), words))
}

fn check_stock(experiment: &Experiment) -> Result<(), Problem> {
    let stock = &experiment.source.stock;
    let unknown = stock.iter().flat_map(|(own, other)| [own, other]).find(|name| !is_run(experiment, name));
    unknown.map_or(Ok(()), |name| {
        let place = Place::of("paper").key("stock");
        Err(Problem::at(place, format!("stock: the experiment does not run {name:?}")))
    })
}

/// `true` if a scheduler takes part. Points may set schedulers of their own.
fn is_run(experiment: &Experiment, scheduler: &str) -> bool {
    let points = experiment.axes.iter().flat_map(|axis| &axis.points);
    let set = points.flat_map(|point| &point.set).filter(|(name, _)| *name == "schedulers");
    let listed = set.filter_map(|(_, value)| value.as_array()).flatten().filter_map(toml::Value::as_str);
    let own = experiment.scenario.schedulers.iter().map(String::as_str);
    own.chain(listed).any(|known| known == scheduler)
}

fn check_axes(axes: &[Axis]) -> Result<(), Problem> {
    let mut cells = 1usize;
    for (index, axis) in axes.iter().enumerate() {
        let at = |place: Place, words: String| Err(Problem::at(place, words));
        let place = || Place::of("axis").index(index);
        if axes[..index].iter().any(|other| other.name == axis.name) {
            return at(place().key("name"), format!("name: {:?} is there twice", axis.name));
        }
        check_points(&axis.points, place)?;
        cells = cells.saturating_mul(axis.points.len());
        if cells > MAX_CELLS {
            return at(place(), format!("more than {MAX_CELLS} combinations of points"));
        }
        let is_point = |base: &String| axis.points.iter().any(|point| point.name == *base);
        if let Some(base) = axis.base.as_ref().filter(|base| !is_point(base)) {
            return at(place().key("base"), format!("base: there is no point {base:?}"));
        }
    }
    Ok(())
}

fn check_points(points: &[AxisPoint], list: impl Fn() -> Place) -> Result<(), Problem> {
    if points.is_empty() {
        return Err(Problem::at(list().key("points"), "points: there is none".to_owned()));
    }
    let twice = |(number, point): &(usize, &AxisPoint)| {
        points[..*number].iter().any(|other| other.name == point.name)
    };
    points.iter().enumerate().find(twice).map_or(Ok(()), |(number, point)| {
        let place = list().key("points").index(number).key("name");
        Err(Problem::at(place, format!("name: {:?} is there twice", point.name)))
    })
}

fn check_assumptions(assumptions: &[Assumption], axes: &[Axis]) -> Result<(), Problem> {
    let mut names: Vec<&str> = axes.iter().map(|axis| axis.name.as_str()).collect();
    for (index, assumption) in assumptions.iter().enumerate() {
        let place = || Place::of("assumption").index(index);
        if names.contains(&assumption.name.as_str()) {
            return Err(Problem::at(
                place().key("name"),
                format!("name: {:?} is there twice", assumption.name),
            ));
        }
        names.push(&assumption.name);
        check_points(&assumption.points, place)?;
        if assumption.points.iter().any(|point| point.name == assumption.ours) {
            let words = format!("ours: {:?} is one of the other points", assumption.ours);
            return Err(Problem::at(place().key("ours"), words));
        }
        if assumption.seeds == Some(0) {
            return Err(Problem::at(place().key("seeds"), "seeds: expected at least 1".to_owned()));
        }
    }
    Ok(())
}

fn check_reduced(experiment: &Experiment) -> Result<(), Problem> {
    let place = || Place::of("quick").key("points");
    for (name, kept) in &experiment.reduced.points {
        let Some(axis) = experiment.axes.iter().find(|axis| axis.name == *name) else {
            return Err(Problem::at(place(), format!("points: no axis is called {name:?}")));
        };
        if let Some(unknown) = kept.iter().find(|kept| axis.points.iter().all(|point| point.name != **kept)) {
            return Err(Problem::at(place(), format!("points: {name} has no point {unknown:?}")));
        }
        if kept.is_empty() {
            return Err(Problem::at(place(), format!("points: nothing is left of {name}")));
        }
    }
    Ok(())
}

/// Reader of the `index`th table of a list.
pub(super) struct Reader<'a> {
    pub(super) list: &'static str,
    pub(super) index: usize,
    pub(super) experiment: &'a Experiment,
}

impl Reader<'_> {
    /// Returns the claim, or one claim for each point of an axis.
    fn claims(&self, mut table: ClaimTable) -> Result<Vec<Claim>, Problem> {
        let Some(name) = table.each.take() else { return Ok(vec![self.claim(table)?]) };
        let axis = self.experiment.axes.iter().find(|axis| axis.name == name);
        let axis = axis.ok_or_else(|| self.at("each", format!("each: no axis is called {name:?}")))?;
        if table.at.contains_key(&name) {
            return Err(self.at("each", format!("each: at fixes {name}")));
        }
        let claim = self.claim(table)?;
        let at_point = |point: &AxisPoint| {
            let mut claim = Claim { says: format!("{}: {}", claim.says, point.name), ..claim.clone() };
            claim.at.insert(name.clone(), point.name.clone());
            claim
        };
        Ok(axis.points.iter().map(at_point).collect())
    }

    fn claim(&self, table: ClaimTable) -> Result<Claim, Problem> {
        let expectation = self.expectation(&table)?;
        let evidence = self.evidence(&table)?;
        self.points("at", &table.at)?;
        self.points("against_at", &table.against_at)?;
        self.runs("scheduler", &table.scheduler)?;
        if let Some(against) = &table.against {
            self.runs("against", against)?;
        }
        let compared =
            table.against.is_some() || !table.against_at.is_empty() || table.against_class.is_some();
        if expectation.compares() && !compared {
            return Err(self.at("scheduler", "the claim compares, and does not say with what: against"));
        }
        if compared && !expectation.compares() {
            return Err(
                self.at("against", "against: the claim does not compare: change, times, difference or is")
            );
        }
        let id = table.id.unwrap_or_else(|| self.experiment.name().to_owned());
        if !self.experiment.ids().any(|known| known == id) {
            let known: Vec<&str> = self.experiment.ids().collect();
            return Err(self.at("id", format!("id: {id:?} is none of {}", known.join(", "))));
        }
        if table.of != Of::Mean && (table.best.is_some() || table.over != Over::Mean) {
            return Err(self.at(
                "of",
                "of: median, highest and pooled are of all runs together, with neither best nor over",
            ));
        }
        if table.of == Of::Pooled && (table.measure.share_of_latency().is_none() || table.class.is_some()) {
            return Err(self.at("of", "of: pooled are only percentiles of the latency of a flow"));
        }
        let subject = Subject { flow: table.flow, class: table.class, path: table.path };
        let other = table
            .against_class
            .map_or_else(|| subject.clone(), |class| Subject { class: Some(class), ..subject.clone() });
        for subject in [&subject, &other] {
            self.subject(subject, table.measure)?;
        }
        Ok(Claim {
            id,
            says: table.says,
            over: table.over,
            of: table.of,
            measure: table.measure,
            against: Against {
                scheduler: table.against.unwrap_or_else(|| table.scheduler.clone()),
                at: table.against_at,
                subject: other,
            },
            at: table.at,
            subject,
            scheduler: table.scheduler,
            expectation,
            finding: table.finding,
            evidence,
        })
    }

    /// Returns the figures of a finding. They must be exactly those that its text names.
    fn evidence(&self, table: &ClaimTable) -> Result<BTreeMap<String, Evidence>, Problem> {
        let named: Vec<&str> = claim::names(&table.finding).collect();
        if let Some(unknown) = named.iter().find(|name| !table.evidence.contains_key(**name)) {
            return Err(self.at("finding", format!("finding: no evidence is called {unknown:?}")));
        }
        let known = |(name, one): (&String, &EvidenceTable)| {
            let read = if named.contains(&name.as_str()) {
                self.figure(table, one)
            } else {
                Err("the finding does not name it".to_owned())
            };
            let read = read.map_err(|words| self.at("evidence", format!("evidence: {name}: {words}")))?;
            Ok((name.clone(), read))
        };
        table.evidence.iter().map(known).collect()
    }

    fn figure(&self, claim: &ClaimTable, table: &EvidenceTable) -> Result<Evidence, String> {
        let scheduler = table.scheduler.as_ref().unwrap_or(&claim.scheduler);
        if !is_run(self.experiment, scheduler) {
            return Err(format!("the experiment does not run {scheduler:?}"));
        }
        let assumptions = self.experiment.assumptions.iter().map(|one| (&one.name, &one.points));
        let assumptions: Vec<_> = assumptions.collect();
        let axes = self.experiment.axes.iter().map(|one| (&one.name, &one.points));
        let all: Vec<_> = axes.chain(assumptions.iter().copied()).collect();
        for (name, point) in &table.at {
            let points = all.iter().find(|(known, _)| *known == name).map(|(_, points)| points);
            let points = points.ok_or_else(|| format!("at: no axis or assumption is called {name:?}"))?;
            if points.iter().all(|known| known.name != *point) {
                return Err(format!("at: {name} has no point {point:?}"));
            }
        }
        if table.at.keys().filter(|name| assumptions.iter().any(|(known, _)| known == name)).count() > 1 {
            return Err("at: one assumption is another at a time".to_owned());
        }
        let measure = table.measure.unwrap_or(claim.measure);
        let subject = subject_of(table, claim, measure);
        self.experiment.scenario.check_subject(&subject).map_err(|(_, words)| words)?;
        if !subject.has(measure) {
            return Err(format!("measure: a {} has no {measure}", subject.kind()));
        }
        Ok(Evidence { scheduler: scheduler.clone(), at: table.at.clone(), measure, subject })
    }

    fn expectation(&self, table: &ClaimTable) -> Result<Expectation, Problem> {
        let unit = table.measure.unit();
        let read = |field: &'static str, given: &Option<Quantity>| {
            let value = given.as_ref().map(|quantity| quantity.value(unit)).transpose();
            value.map_err(|words| self.at(field, format!("{field}: {words}")))
        };
        let difference = table.difference.as_ref().map(|quantity| quantity.signed_value(unit)).transpose();
        let difference = difference.map_err(|words| self.at("difference", format!("difference: {words}")))?;
        let all = [
            read("value", &table.value)?.map(Expectation::Value),
            table.change.map(Expectation::Change),
            table.change_at_least.map(Expectation::ChangeAtLeast),
            table.times.map(Expectation::Times),
            difference.map(Expectation::Difference),
            table.is.map(|way| match way {
                Way::Less => Expectation::Less,
                Way::More => Expectation::More,
            }),
            table.best.map(Expectation::Best),
            read("at_least", &table.at_least)?.map(Expectation::AtLeast),
            read("at_most", &table.at_most)?.map(Expectation::AtMost),
        ];
        let mut given = all.into_iter().flatten();
        match (given.next(), given.next()) {
            (Some(one), None) => Ok(one),
            _ => Err(self.at(
                "says",
                "a claim has one of value, change, change_at_least, times, difference, is, best, at_least and at_most",
            )),
        }
    }

    /// Checks that the subject exists and has the measure.
    pub(super) fn subject(&self, subject: &Subject, measure: Measure) -> Result<(), Problem> {
        let known = self.experiment.scenario.check_subject(subject);
        known.map_err(|(field, words)| self.at(field, words))?;
        if subject.has(measure) {
            return Ok(());
        }
        Err(self.at("measure", format!("measure: a {} has no {measure}", subject.kind())))
    }

    pub(super) fn points(&self, field: &'static str, at: &BTreeMap<String, String>) -> Result<(), Problem> {
        for (name, point) in at {
            let axis = self.experiment.axes.iter().find(|axis| axis.name == *name);
            let axis = axis.ok_or_else(|| self.at(field, format!("{field}: no axis is called {name:?}")))?;
            if axis.points.iter().all(|known| known.name != *point) {
                return Err(self.at(field, format!("{field}: {name} has no point {point:?}")));
            }
        }
        Ok(())
    }

    /// Checks that a scheduler takes part.
    pub(super) fn runs(&self, field: &'static str, scheduler: &str) -> Result<(), Problem> {
        if is_run(self.experiment, scheduler) {
            return Ok(());
        }
        Err(self.at(field, format!("{field}: the experiment does not run {scheduler:?}")))
    }

    pub(super) fn at(&self, field: &'static str, words: impl Into<String>) -> Problem {
        Problem::at(Place::of(self.list).index(self.index).key(field), words)
    }
}

/// Returns the subject of a figure: the one it names, or the innermost part of the claim's subject
/// that has the measure: class, flow or path, or the whole run.
fn subject_of(table: &EvidenceTable, claim: &ClaimTable, measure: Measure) -> Subject {
    let EvidenceTable { flow, class, path, .. } = table;
    if flow.is_some() || path.is_some() {
        return Subject { flow: flow.clone(), class: class.clone(), path: path.clone() };
    }
    let class = class.clone().or_else(|| claim.class.clone());
    let own = Subject { flow: claim.flow.clone(), class, path: claim.path.clone() };
    let wider = Subject { class: None, ..own.clone() };
    let fits = [own.clone(), wider, Subject::RUN].into_iter().find(|subject| subject.has(measure));
    if table.class.is_some() { own } else { fits.unwrap_or(own) }
}

//! Scenario files: an experiment as data, in TOML, format version 1.
//!
//! `docs/scenarios.md` describes every field. A loaded scenario is consistent: names resolve,
//! values are within their bounds, and all defaults are filled in. Errors give file, line, column
//! and field in one line.

mod checks;
mod definition;
mod file;
mod flows;
mod options;
mod paths;
mod place;
mod quantity;
mod signal;
mod text;

use std::path::Path;

use squall_net::PathConfig;
use squall_sched::{BuildError, Registry};

use crate::check::Verdict;
use crate::flow::{Direction, Flow};
use crate::measure::{BY_RELIABILITY, Subject};
use crate::result::{ClassResult, FlowResult, Interval, PathResult, RunResult};
use crate::variant::Variant;
use definition::check_name;
pub use definition::{
    MAX_DURATION_US, MAX_FLOWS, MAX_LIST, MAX_PATHS, OptionValue, Scenario, ScenarioError, SchedulerOptions,
};
use place::{Outline, problem};
pub(crate) use place::{Place, Problem, Step};
pub(crate) use quantity::Quantity;
pub(crate) use text::Text;

impl Scenario {
    /// Loads a scenario file and the traces and films it names, which are relative to its folder.
    ///
    /// # Errors
    /// [`ScenarioError`] names the file, the place and the problem.
    pub fn load(path: &Path) -> Result<Self, ScenarioError> {
        Self::load_checked(path, |_| Ok(()))
    }

    /// Like [`Self::load`], but also checks that the registry has the schedulers, the stream
    /// scheduler and the multiplexers.
    ///
    /// # Errors
    /// As [`Self::load`], and the first scheduler that is unknown or rejects its options.
    pub fn load_with(path: &Path, registry: &Registry) -> Result<Self, ScenarioError> {
        Self::load_checked(path, |scenario| scenario.check_schedulers(registry))
    }

    fn load_checked(
        path: &Path,
        check: impl Fn(&Self) -> Result<(), Problem>,
    ) -> Result<Self, ScenarioError> {
        let text = Text::read(path)?;
        let mut scenario = Self::parse(&text.text, &text.name)?;
        check(&scenario).map_err(|problem| text.located(&problem))?;
        scenario.load_files(&text, path.parent().unwrap_or(Path::new("")))?;
        Ok(scenario)
    }

    /// Checks that the registry has the schedulers, the stream scheduler and the multiplexers that
    /// the text of a scenario names. `name` stands for the file in errors.
    ///
    /// # Errors
    /// As [`Self::parse`], and the first scheduler that is unknown or rejects its options.
    pub fn check_text(text: &str, name: &str, registry: &Registry) -> Result<(), ScenarioError> {
        let whole = Text::new(text, name);
        Self::parse(text, name)?.check_schedulers(registry).map_err(|problem| whole.located(&problem))
    }

    /// Checks the stream scheduler and the multiplexers, except for errors that `leaves_out`
    /// accepts.
    fn check_components(
        &self,
        registry: &Registry,
        leaves_out: impl Fn(&BuildError) -> bool,
    ) -> Result<(), Problem> {
        if let Some(error) = registry.build_streams(&self.streams).err().filter(|error| !leaves_out(error)) {
            let place = vec![Step::Key("streams"), Step::Key("scheduler")];
            return Err(Problem { place, words: format!("streams: {error}") });
        }
        self.flows.iter().enumerate().try_for_each(|(index, flow)| {
            let checked = flows::check_channels(flow, registry, &leaves_out);
            checked.map_err(|(field, words)| problem(&["flow"], index, &[field], words))
        })
    }

    fn check_schedulers(&self, registry: &Registry) -> Result<(), Problem> {
        self.check_components(registry, |_| false)?;
        self.schedulers.iter().enumerate().try_for_each(|(index, scheduler)| {
            let known = Variant::of(&self.configured(scheduler)).check_in(self, registry);
            known.map_err(|error| problem(&["schedulers"], index, &[], error))
        })
    }

    /// Reads the text of a scenario, and the traces and films it names, which are relative to
    /// `base`. `name` stands for the file in errors.
    ///
    /// # Errors
    /// As [`Self::load`].
    pub fn load_text(text: &str, name: &str, base: &Path) -> Result<Self, ScenarioError> {
        let mut scenario = Self::parse(text, name)?;
        scenario.load_files(&Text::new(text, name), base)?;
        Ok(scenario)
    }

    fn load_files(&mut self, text: &Text, base: &Path) -> Result<(), ScenarioError> {
        for (index, path) in self.paths.iter_mut().enumerate() {
            path.load(base).map_err(|error| text.located(&problem(&["path"], index, &[], error)))?;
        }
        flows::load(&mut self.flows, base).map_err(|problem| text.located(&problem))
    }

    /// Parses the text of a scenario without loading traces and films. `name` stands for the file
    /// in errors.
    ///
    /// # Errors
    /// [`ScenarioError::Invalid`] with the place and the problem.
    pub fn parse(text: &str, name: &str) -> Result<Self, ScenarioError> {
        let whole = Text::new(text, name);
        let file: file::ScenarioFile = whole.parse()?;
        let outline = Outline::of(text);
        resolve(file, &outline).map_err(|problem| whole.located(&problem))
    }

    /// Direction of most flows; down if both have the same number.
    pub fn direction(&self) -> Direction {
        let up = self.flows.iter().filter(|flow| flow.direction == Direction::Up).count();
        if up * 2 > self.flows.len() { Direction::Up } else { Direction::Down }
    }

    /// Creates the record of a run before anything is measured: flows with their classes, paths
    /// with their scripted outages, and the planned length.
    pub(crate) fn unmeasured(&self, scheduler: &str, seed: u64) -> RunResult {
        let direction = self.direction();
        RunResult {
            scenario: self.name.clone(),
            scheduler: scheduler.to_owned(),
            congestion: self.congestion.to_string(),
            seed,
            duration_us: self.duration_us,
            direction,
            flows: self.flows.iter().map(FlowResult::from).collect(),
            paths: self
                .paths
                .iter()
                .map(|path| PathResult {
                    name: path.name.clone(),
                    metered: path.metered,
                    outages: outages(path, direction, self.duration_us),
                    ..PathResult::default()
                })
                .collect(),
            ..RunResult::default()
        }
    }

    /// Checks that the scenario has the subject of a measure. Returns the wrong field and the
    /// reason.
    pub(crate) fn check_subject(&self, subject: &Subject) -> Result<(), (&'static str, String)> {
        if let Some(name) = &subject.path
            && self.paths.iter().all(|known| known.name != *name)
        {
            return Err(("path", format!("path: no path is called {name:?}")));
        }
        let flow = match &subject.flow {
            Some(name) => self
                .flows
                .iter()
                .find(|known| known.name == *name)
                .map(Some)
                .ok_or_else(|| ("flow", format!("flow: no flow is called {name:?}")))?,
            None => None,
        };
        match (&subject.class, flow) {
            (None, _) => Ok(()),
            (Some(_), None) => Err(("class", "class: it needs the flow that it is of".into())),
            (Some(name), Some(flow)) => {
                let classes = flow.traffic.classes();
                if classes.iter().any(|class| class.name == *name) || BY_RELIABILITY.contains(&name.as_str())
                {
                    return Ok(());
                }
                let known: Vec<&str> = classes.iter().map(|class| class.name.as_str()).collect();
                Err((
                    "class",
                    format!("class: {name:?} is none of {}: it has {}", flow.name, known.join(", ")),
                ))
            }
        }
    }

    /// Evaluates all checks that concern the run's scheduler.
    pub fn judge(&self, run: &RunResult) -> Vec<Verdict> {
        self.checks.iter().filter_map(|check| check.judge(run)).collect()
    }
}

impl From<&Flow> for FlowResult {
    fn from(flow: &Flow) -> Self {
        Self {
            name: flow.name.clone(),
            kind: flow.traffic.kind().to_owned(),
            direction: flow.direction,
            deadline_us: flow.traffic.deadline_us(),
            classes: flow.traffic.classes().into_iter().map(ClassResult::from).collect(),
            picture_us: flow.traffic.picture_us(),
            ..Self::default()
        }
    }
}

/// Returns the scripted outages of one direction of a path, in order, with overlapping ones merged.
pub fn outages(path: &PathConfig, direction: Direction, duration_us: u64) -> Vec<Interval> {
    let mut all: Vec<Interval> = path
        .link(direction)
        .events
        .iter()
        .filter_map(|event| {
            let (from_us, length) = (event.at.micros(), event.outage?.micros());
            Some(Interval { from_us, to_us: from_us.saturating_add(length).min(duration_us) })
        })
        .collect();
    all.sort_by_key(|outage| outage.from_us);
    all.into_iter().fold(Vec::new(), |mut joined: Vec<Interval>, outage| {
        match joined.last_mut() {
            Some(last) if outage.from_us <= last.to_us => last.to_us = last.to_us.max(outage.to_us),
            _ => joined.push(outage),
        }
        joined
    })
}

fn resolve(file: file::ScenarioFile, outline: &Outline) -> Result<Scenario, Problem> {
    check_name(&file.name).map_err(|words| Problem::at_key("name", words))?;
    let duration_us = file.duration.micros();
    if !(1..=MAX_DURATION_US).contains(&duration_us) {
        return Err(Problem::at_key(
            "duration",
            format!("duration: {} is not within 1us and 24 h", file.duration),
        ));
    }
    let seeds = seeds(&file)?;
    check_schedulers(&file.schedulers)?;
    paths::check(&file.paths, duration_us)?;
    let flows = flows::resolve(file.flows.len(), duration_us, outline)?;
    let mut scenario = Scenario {
        name: file.name,
        description: file.description,
        duration_us,
        seeds,
        schedulers: file.schedulers,
        options: file.options,
        congestion: file.congestion,
        streams: file.streams.scheduler.unwrap_or_else(|| "fifo".to_owned()),
        signal: signal::resolve(&file.signal)?,
        timed: file.timed,
        has_axes: file.axes.is_some(),
        paths: file.paths,
        flows,
        checks: Vec::new(),
    };
    scenario.check_options()?;
    scenario.checks = checks::resolve(&file.checks, &scenario)?;
    // Components of other crates are checked later, against a registry that has them.
    scenario.check_components(&Registry::standard(), |error| matches!(error, BuildError::Unknown { .. }))?;
    Ok(scenario)
}

fn seeds(file: &file::ScenarioFile) -> Result<Vec<u64>, Problem> {
    match (&file.seeds, file.seed) {
        (Some(_), Some(_)) => Err(Problem::at_key("seed", "seed: give seed or seeds, not both")),
        (Some(seeds), None) => {
            check_list("seeds", seeds)?;
            Ok(seeds.clone())
        }
        (None, seed) => Ok(vec![seed.unwrap_or(1)]),
    }
}

fn check_schedulers(schedulers: &[String]) -> Result<(), Problem> {
    check_list("schedulers", schedulers)?;
    schedulers.iter().enumerate().try_for_each(|(index, scheduler)| {
        check_name(scheduler).map_err(|words| problem(&["schedulers"], index, &[], words))
    })
}

/// Checks that a list has 1 to [`MAX_LIST`] entries without duplicates.
fn check_list<T: PartialEq + std::fmt::Debug>(field: &'static str, list: &[T]) -> Result<(), Problem> {
    if !(1..=MAX_LIST).contains(&list.len()) {
        let words = format!("{field}: {} entries, expected 1 to {MAX_LIST}", list.len());
        return Err(Problem::at_key(field, words));
    }
    for (index, item) in list.iter().enumerate() {
        if list[..index].contains(item) {
            return Err(problem(&[field], index, &[], format!("{field}: {item:?} is there twice")));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;

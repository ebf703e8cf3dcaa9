//! Checks from the file: do their names exist, do measure, target and limits fit.

use std::fmt::Display;

use squall_net::{Rate, Ratio, Size, Span};

use super::file::{CheckTable, Quantity};
use super::place::{Problem, problem};
use super::{MAX_LIST, Scenario};
use crate::check::{Check, Measure, Target, Unit};
use crate::result::SAMPLE_INTERVAL_US;

/// Resolves all checks against the rest of the scenario.
pub(super) fn resolve(tables: &[CheckTable], scenario: &Scenario) -> Result<Vec<Check>, Problem> {
    if tables.len() > MAX_LIST {
        let words = format!("{} [[check]] tables, expected at most {MAX_LIST}", tables.len());
        return Err(Problem::at_key("check", words));
    }
    tables.iter().enumerate().map(|(index, table)| Reader { table, index, scenario }.check()).collect()
}

struct Reader<'a> {
    table: &'a CheckTable,
    index: usize,
    scenario: &'a Scenario,
}

impl Reader<'_> {
    fn check(&self) -> Result<Check, Problem> {
        let table = self.table;
        let target = self.target()?;
        let unknown = table.schedulers.iter().find(|name| !self.scenario.schedulers.contains(name));
        if let Some(name) = unknown {
            return Err(self.at("schedulers", format!("schedulers: the scenario does not run {name:?}")));
        }
        if table.direction.is_some() && !(table.measure == Measure::Goodput && table.path.is_some()) {
            return Err(self.at("direction", "direction: only the goodput of a path has one"));
        }
        let at_least = self.limit("at_least", table.at_least.as_ref())?;
        let at_most = self.limit("at_most", table.at_most.as_ref())?;
        match (at_least, at_most) {
            (None, None) => return Err(self.at("measure", "the check has neither at_least nor at_most")),
            (Some(least), Some(most)) if least > most => {
                return Err(self.at("at_most", "at_most: it is below at_least"));
            }
            _ => {}
        }
        Ok(Check {
            target,
            measure: table.measure,
            direction: table.direction,
            window_us: self.window()?,
            at_least,
            at_most,
            schedulers: table.schedulers.clone(),
        })
    }

    fn target(&self) -> Result<Target, Problem> {
        let measure = self.table.measure;
        match (&self.table.path, &self.table.flow) {
            (Some(path), None) => {
                if self.scenario.paths.iter().all(|known| known.name != *path) {
                    return Err(self.at("path", format!("path: no path is called {path:?}")));
                }
                if !measure.is_of_path() {
                    return Err(self.at("measure", format!("measure: a path has no {}", measure.as_str())));
                }
                Ok(Target::Path(path.clone()))
            }
            (None, Some(flow)) => {
                if self.scenario.flows.iter().all(|known| known.name != *flow) {
                    return Err(self.at("flow", format!("flow: no flow is called {flow:?}")));
                }
                if !measure.is_of_flow() {
                    return Err(self.at("measure", format!("measure: a flow has no {}", measure.as_str())));
                }
                Ok(Target::Flow(flow.clone()))
            }
            _ => Err(self.at("measure", "the check needs either path or flow")),
        }
    }

    /// Results are sampled, so a part of the run must be of whole samples.
    fn window(&self) -> Result<Option<(u64, u64)>, Problem> {
        let table = self.table;
        if table.from.is_none() && table.to.is_none() {
            return Ok(None);
        }
        let duration_us = self.scenario.duration_us;
        let from = table.from.map_or(0, Span::micros);
        let to = table.to.map_or(duration_us, Span::micros);
        let field = if table.from.is_some() { "from" } else { "to" };
        if !table.measure.is_over_time() {
            let words = format!("{field}: {} is only known for the whole run", table.measure.as_str());
            return Err(self.at(field, words));
        }
        for (field, given) in [("from", table.from), ("to", table.to)] {
            if let Some(time) = given.filter(|time| !time.micros().is_multiple_of(SAMPLE_INTERVAL_US)) {
                let words =
                    format!("{field}: {time} is not a multiple of {}", Span::from_micros(SAMPLE_INTERVAL_US));
                return Err(self.at(field, words));
            }
        }
        if from >= to {
            return Err(self.at(field, format!("{field}: the part of the run ends before it starts")));
        }
        if to > duration_us {
            return Err(self.at("to", "to: it is after the end of the run"));
        }
        Ok(Some((from, to)))
    }

    fn limit(&self, field: &'static str, given: Option<&Quantity>) -> Result<Option<f64>, Problem> {
        let Some(Quantity(text)) = given else { return Ok(None) };
        let refuse = |error: &dyn Display| self.at(field, format!("{field}: {error}"));
        let value = match self.table.measure.unit() {
            Unit::Rate => text.parse::<Rate>().map_err(|error| refuse(&error))?.bps() as f64,
            Unit::Size => text.parse::<Size>().map_err(|error| refuse(&error))?.bytes() as f64,
            Unit::Time => text.parse::<Span>().map_err(|error| refuse(&error))?.micros() as f64,
            Unit::Ratio => text.parse::<Ratio>().map_err(|error| refuse(&error))?.as_f64(),
        };
        Ok(Some(value))
    }

    fn at(&self, field: &'static str, words: impl Display) -> Problem {
        problem(&["check"], self.index, &[field], words)
    }
}

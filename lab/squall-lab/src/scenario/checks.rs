//! Resolves checks: names, measures, subjects and limits.

use std::fmt::Display;

use squall_units::Span;

use super::Quantity;
use super::definition::{MAX_LIST, Scenario};
use super::file::CheckTable;
use super::place::{Problem, problem};
use crate::check::Check;
use crate::measure::{Kind, Subject, View};
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
        let subject = self.subject()?;
        let unknown = table.schedulers.iter().find(|name| !self.scenario.schedulers.contains(name));
        if let Some(name) = unknown {
            return Err(self.at(
                "schedulers",
                format!(
                    "schedulers: the scenario does not run {name:?}, only {}",
                    self.scenario.schedulers.join(", ")
                ),
            ));
        }
        if table.direction.is_some()
            && !(subject.has_over_time(table.measure) && subject.kind() == Kind::Path)
        {
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
            measure: table.measure,
            view: View { direction: table.direction, window_us: self.window(&subject)? },
            subject,
            at_least,
            at_most,
            schedulers: if table.schedulers.is_empty() {
                self.scenario.schedulers.clone()
            } else {
                table.schedulers.clone()
            },
        })
    }

    fn subject(&self) -> Result<Subject, Problem> {
        let CheckTable { path, flow, class, measure, .. } = self.table;
        let subject = Subject { flow: flow.clone(), class: class.clone(), path: path.clone() };
        self.scenario.check_subject(&subject).map_err(|(field, words)| self.at(field, words))?;
        if !subject.has(*measure) {
            return Err(self.at("measure", format!("measure: a {} has no {measure}", subject.kind())));
        }
        Ok(subject)
    }

    /// Parses the time window. Results are sampled, so it must consist of whole samples.
    fn window(&self, subject: &Subject) -> Result<Option<(u64, u64)>, Problem> {
        let table = self.table;
        if table.from.is_none() && table.to.is_none() {
            return Ok(None);
        }
        let duration_us = self.scenario.duration_us;
        let from = table.from.map_or(0, Span::micros);
        let to = table.to.map_or(duration_us, Span::micros);
        let field = if table.from.is_some() { "from" } else { "to" };
        if !subject.has_over_time(table.measure) {
            let words = format!("{field}: {} is only known for the whole run", table.measure);
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
        let value = given.map(|quantity| quantity.value(self.table.measure.unit())).transpose();
        value.map_err(|words| self.at(field, format!("{field}: {words}")))
    }

    fn at(&self, field: &'static str, words: impl Display) -> Problem {
        problem(&["check"], self.index, &[field], words)
    }
}

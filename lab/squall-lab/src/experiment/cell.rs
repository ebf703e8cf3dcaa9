//! Scenarios of an experiment: the one in its file with the settings of the axes' points.

use std::path::Path;

use toml::{Table, Value};

use super::{Assumption, Axis, AxisPoint, Experiment, Point, reduced, traces};
use crate::scenario::{Scenario, ScenarioError};

/// The scenario at one combination of points.
#[derive(Debug, Clone, PartialEq)]
pub struct Cell {
    /// Points of the axes.
    pub point: Point,
    /// Scenario; its name is the experiment's, followed by the points.
    pub scenario: Scenario,
    /// Text that the scenario was read from.
    pub text: String,
}

impl Cell {
    /// Reads the text of a scenario at a point, with the traces and films it names, which are
    /// relative to `base`. `name` stands for the file in errors.
    ///
    /// # Errors
    /// As [`Scenario::load_text`].
    pub fn load(text: String, name: &str, base: &Path, point: Point) -> Result<Self, ScenarioError> {
        let mut scenario = Scenario::load_text(&text, name, base)?;
        scenario.name.push_str(&suffix(&point));
        Ok(Self { point, scenario, text })
    }

    /// Name of the experiment; without points, that of the scenario.
    pub fn experiment(&self) -> &str {
        let name = self.scenario.name.as_str();
        name.strip_suffix(&suffix(&self.point)).unwrap_or(name)
    }
}

/// Suffix of a scenario's name for a point.
fn suffix(point: &Point) -> String {
    point.iter().map(|(axis, point)| format!(" {axis}={point}")).collect()
}

/// Tables of a file that are not part of the scenario.
const OURS: [&str; 8] = ["paper", "axis", "assumption", "traces", "quick", "verdict", "claim", "figure"];

pub(super) fn cells(experiment: &Experiment, quick: bool) -> Result<Vec<Cell>, ScenarioError> {
    let base = experiment.file.parent().unwrap_or(Path::new(""));
    let name = experiment.file.display().to_string();
    let as_assumed = combinations(experiment, quick);
    let mut cells: Vec<Combination<'_>> =
        as_assumed.iter().map(|points| Combination { points: points.clone(), other: None }).collect();
    let others = experiment.assumptions.iter().filter(|_| !quick);
    for (assumption, point) in others.flat_map(|one| one.points.iter().map(move |point| (one, point))) {
        let claimed = as_assumed.iter().filter(|points| {
            is_claimed(experiment, points, true) || is_evidence(experiment, points, assumption, point)
        });
        cells.extend(
            claimed.map(|points| Combination { points: points.clone(), other: Some((assumption, point)) }),
        );
    }
    let load = |cell: Combination<'_>| {
        let text = patched(&experiment.text, cell.settings(experiment, quick)).map_err(|words| {
            ScenarioError::Invalid { name: name.clone(), line: 1, column: 1, problem: words }
        })?;
        Cell::load(text, &name, base, cell.point())
    };
    cells.into_iter().map(load).collect()
}

/// A point of each axis.
type Points<'a> = Vec<(&'a str, &'a AxisPoint)>;

/// A point of each axis, and at most one assumption with another value than the scenario's.
struct Combination<'a> {
    points: Points<'a>,
    other: Option<(&'a Assumption, &'a AxisPoint)>,
}

impl Combination<'_> {
    fn settings(&self, experiment: &Experiment, quick: bool) -> Vec<(String, Value)> {
        let mut settings = traces::settings(experiment);
        settings.extend(self.points.iter().flat_map(|(_, point)| point.set.clone()));
        let thorough = experiment.thorough.filter(|_| experiment.is_thorough);
        settings.extend(thorough.map(|thorough| reduced::seeds(thorough.seeds)));
        if quick {
            settings.extend(experiment.reduced.settings());
        }
        if let Some((assumption, point)) = self.other {
            settings.extend(point.set.clone());
            settings.extend(assumption.seeds.map(reduced::seeds));
            let set = settings.iter().rfind(|(field, _)| field == SCHEDULERS).map(|(_, value)| value.clone());
            settings.extend(judged(experiment, set).map(|value| (SCHEDULERS.to_owned(), value)));
        }
        settings
    }

    fn point(&self) -> Point {
        let axes = self.points.iter().map(|(axis, point)| ((*axis).to_owned(), point.name.clone()));
        let other = self.other.map(|(assumption, point)| (assumption.name.clone(), point.name.clone()));
        axes.chain(other).collect()
    }
}

/// Field of the scenario that lists its schedulers.
const SCHEDULERS: &str = "schedulers";

/// Returns the schedulers of a cell under another assumption, without those baselines over a stock
/// transport that no claim or figure is about, as they are not judged there. `None` if all remain.
fn judged(experiment: &Experiment, set: Option<Value>) -> Option<Value> {
    let all: Vec<String> = match set {
        Some(value) => value.try_into().ok()?,
        None => experiment.scenario.schedulers.clone(),
    };
    let is_named = |name: &String| {
        experiment.claims.iter().any(|claim| {
            let figures = claim.evidence.values().any(|one| one.scheduler == *name);
            claim.scheduler == *name || claim.against.scheduler == *name || figures
        })
    };
    let is_stock = |name: &String| experiment.source.stock.values().any(|stock| stock == name);
    let left: Vec<String> = all.iter().filter(|name| !is_stock(name) || is_named(name)).cloned().collect();
    (left.len() < all.len()).then(|| Value::from(left))
}

/// Returns all combinations of the points of the axes.
fn combinations(experiment: &Experiment, quick: bool) -> Vec<Points<'_>> {
    let mut combinations: Vec<Points<'_>> = vec![Vec::new()];
    for axis in &experiment.axes {
        let kept = |point: &&AxisPoint| !quick || experiment.reduced.keeps(&axis.name, &point.name);
        let points: Vec<&AxisPoint> = axis.points.iter().filter(kept).collect();
        combinations = combinations
            .iter()
            .flat_map(|before| {
                points.iter().map(|point| [before.as_slice(), &[(axis.name.as_str(), *point)]].concat())
            })
            .collect();
    }
    combinations
        .into_iter()
        .filter(|points| {
            let moved = |(axis, (_, point)): &(&Axis, &(&str, &AxisPoint))| {
                axis.base.as_ref().is_some_and(|base| *base != point.name)
            };
            experiment.axes.iter().zip(points).filter(moved).count() <= 1
        })
        .filter(|points| experiment.challenge.is_none() || is_claimed(experiment, points, false))
        .collect()
}

/// `true` if a claim is about the combination or, if `compared`, compares with it.
fn is_claimed(experiment: &Experiment, points: &Points<'_>, compared: bool) -> bool {
    let is_there = |axis: &String, at: &String| {
        points.iter().any(|(name, point)| *name == axis.as_str() && point.name == *at)
    };
    experiment.claims.iter().any(|claim| {
        let other = &claim.against.at;
        claim.at.iter().all(|(axis, at)| is_there(axis, at))
            || compared
                && !other.is_empty()
                && claim.at.iter().all(|(axis, at)| is_there(axis, other.get(axis).unwrap_or(at)))
                && other.iter().all(|(axis, at)| is_there(axis, at))
    })
}

/// `true` if a figure of a finding is about the combination under this assumption.
fn is_evidence(
    experiment: &Experiment,
    points: &Points<'_>,
    assumption: &Assumption,
    other: &AxisPoint,
) -> bool {
    experiment.claims.iter().any(|claim| {
        claim.evidence.values().filter(|one| one.at.get(&assumption.name) == Some(&other.name)).any(|one| {
            points.iter().all(|(axis, point)| {
                one.at.get(*axis).or_else(|| claim.at.get(*axis)).is_none_or(|at| *at == point.name)
            })
        })
    })
}

/// Returns the text of a scenario with some of its fields set.
///
/// # Errors
/// A description of the first field that does not exist.
pub(super) fn patched(
    text: &str,
    settings: impl IntoIterator<Item = (String, Value)>,
) -> Result<String, String> {
    let mut table: Table = text.parse().map_err(|error: toml::de::Error| error.message().to_owned())?;
    for ours in OURS {
        table.remove(ours);
    }
    for (field, value) in settings {
        set(&mut table, &field, &value)?;
    }
    toml::to_string(&table).map_err(|error| error.to_string())
}

/// Sets a field such as `duration`, `path.fast.rate`, `path.*.radio.late` or
/// `path.fast.events.0.at`. Entries of lists are addressed by name or index, `*` stands for every
/// entry; missing tables are created.
fn set(table: &mut Table, field: &str, value: &Value) -> Result<(), String> {
    let steps: Vec<&str> = field.split('.').collect();
    match steps[..] {
        [.., ""] => Err("the name of a field is empty".into()),
        [name] => {
            table.insert(name.to_owned(), value.clone());
            Ok(())
        }
        [first, ref others @ ..] => inside(table, first)
            .and_then(|here| set_in(here, others, value))
            .map_err(|words| format!("{field}: {words}")),
        [] => unreachable!("a text has at least one part"),
    }
}

fn set_in(here: &mut Value, steps: &[&str], value: &Value) -> Result<(), String> {
    let Some((step, others)) = steps.split_first() else {
        *here = value.clone();
        return Ok(());
    };
    match here {
        Value::Array(list) if *step == "*" => {
            list.iter_mut().try_for_each(|entry| set_in(entry, others, value))
        }
        Value::Array(list) => set_in(entry(list, step)?, others, value),
        Value::Table(table) if others.is_empty() => {
            table.insert((*step).to_owned(), value.clone());
            Ok(())
        }
        Value::Table(table) => set_in(inside(table, step)?, others, value),
        _ if others.is_empty() => Err(format!("there is no table to set {step:?} in")),
        _ => Err(format!("{step:?} is in no table or list")),
    }
}

/// Returns the value of a key, which is a new table if absent.
fn inside<'a>(table: &'a mut Table, step: &str) -> Result<&'a mut Value, String> {
    if matches!(step, "path" | "flow") && !table.contains_key(step) {
        return Err(format!("there is no {step}"));
    }
    Ok(table.entry(step).or_insert_with(|| Value::Table(Table::new())))
}

/// Returns an entry of a list, by its name or its index from 0.
fn entry<'a>(list: &'a mut [Value], step: &str) -> Result<&'a mut Value, String> {
    let named = list.iter().position(|entry| entry.get("name").and_then(Value::as_str) == Some(step));
    let place = named.or_else(|| step.parse().ok().filter(|place| *place < list.len()));
    let names: Vec<&str> = list.iter().filter_map(|entry| entry.get("name")?.as_str()).collect();
    let known = if names.is_empty() { format!("0 to {}", list.len().max(1) - 1) } else { names.join(", ") };
    match place {
        Some(place) => Ok(&mut list[place]),
        None => Err(format!("there is no {step:?}, only {known}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "duration = \"1s\"\n[[path]]\nname = \"a\"\nevents = [{ at = \"1s\" }]\n\
                        [[path]]\nname = \"b\"\n[quick]\nduration = \"2s\"\n";

    fn with(field: &str, value: &str) -> Result<Table, String> {
        let text = patched(TEXT, [(field.to_owned(), Value::from(value))])?;
        Ok(text.parse().expect("is TOML"))
    }

    #[test]
    fn fields_are_set_where_they_are() {
        assert_eq!(with("duration", "5s").unwrap()["duration"].as_str(), Some("5s"));
        assert_eq!(with("path.b.rate", "9mbps").unwrap()["path"][1]["rate"].as_str(), Some("9mbps"));
        let moved = with("path.a.events.0.at", "2s").unwrap();
        assert_eq!(moved["path"][0]["events"][0]["at"].as_str(), Some("2s"));
        let made = with("path.a.radio.late", "10ms").unwrap();
        assert_eq!(made["path"][0]["radio"]["late"].as_str(), Some("10ms"));
        assert!(!made.contains_key("quick"), "what is not the scenario's is gone");
        let all = with("path.*.radio.late", "10ms").unwrap();
        for path in 0..2 {
            assert_eq!(all["path"][path]["radio"]["late"].as_str(), Some("10ms"));
        }
    }

    #[test]
    fn the_message_names_what_is_missing() {
        let error = |field: &str| with(field, "x").unwrap_err();
        assert_eq!(error("path.c.rate"), "path.c.rate: there is no \"c\", only a, b");
        assert_eq!(error("path.a.events.1.at"), "path.a.events.1.at: there is no \"1\", only 0 to 0");
        assert_eq!(error("flow.f.size"), "flow.f.size: there is no flow");
        assert_eq!(error("duration.x"), "duration.x: there is no table to set \"x\" in");
        assert_eq!(error(""), "the name of a field is empty");
    }
}

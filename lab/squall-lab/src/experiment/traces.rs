//! Recordings that replace synthetic inputs of an experiment: single fields, or all points of an
//! axis.

use std::path::Path;

use toml::Value;

use super::{AxisPoint, Experiment, Point};

/// Fields of a series or trace that name a file.
const FILES: [&str; 2] = ["csv", "mahimahi"];

/// Prefix of keys that replace the points of an axis, as in `axis.place`.
const AXIS: &str = "axis.";

/// Fields that the recordings set, if they are used.
pub(super) fn settings(experiment: &Experiment) -> Vec<(String, Value)> {
    let Some(folder) = &experiment.recorded else { return Vec::new() };
    let set = experiment.traces.clone().into_iter().filter(|(field, _)| !field.starts_with(AXIS));
    set.map(|(field, value)| (field, placed(value, folder))).collect()
}

/// The name of an axis, and its recorded points.
type Recorded = (String, Vec<AxisPoint>);

/// Returns the recorded points by the name of their axis.
///
/// # Errors
/// The key of an invalid entry and a description of the error.
pub(super) fn axes(experiment: &Experiment) -> Result<Vec<Recorded>, (String, String)> {
    let named =
        experiment.traces.iter().filter_map(|(key, points)| Some((key, key.strip_prefix(AXIS)?, points)));
    named
        .map(|(key, name, points)| {
            if experiment.axes.iter().all(|axis| axis.name != name) {
                return Err((key.clone(), format!("no axis is called {name:?}")));
            }
            let points: Vec<AxisPoint> = points
                .clone()
                .try_into()
                .map_err(|error: toml::de::Error| (key.clone(), error.message().to_owned()))?;
            if points.is_empty() {
                return Err((key.clone(), "there is no point".into()));
            }
            Ok((name.to_owned(), points))
        })
        .collect()
}

/// Replaces the points of axes by recorded ones. Claims and figures about points that disappear are
/// removed.
pub(super) fn replace_axes(experiment: &mut Experiment, folder: &Path) {
    let recorded = axes(experiment).expect("they were checked when the file was read");
    for (name, mut points) in recorded {
        for point in &mut points {
            for (_, value) in &mut point.set {
                *value = placed(value.clone(), folder);
            }
        }
        let is_there =
            |at: &Point| at.get(&name).is_none_or(|at| points.iter().any(|point| point.name == *at));
        experiment.claims.retain(|claim| is_there(&claim.at) && is_there(&claim.against.at));
        experiment.plots.retain(|plot| is_there(&plot.at));
        experiment.reduced.points.remove(&name);
        if let Some(axis) = experiment.axes.iter_mut().find(|axis| axis.name == name) {
            axis.points = points;
        }
    }
}

/// Returns the value with its file names resolved relative to the folder.
fn placed(mut value: Value, folder: &Path) -> Value {
    match &mut value {
        Value::Table(table) => {
            for (name, inner) in table.iter_mut() {
                *inner = match inner {
                    Value::String(file) if FILES.contains(&name.as_str()) => {
                        // A relative path would be resolved against the folder of the experiment.
                        let place = folder.join(&*file);
                        Value::String(std::path::absolute(&place).unwrap_or(place).display().to_string())
                    }
                    _ => placed(inner.clone(), folder),
                };
            }
        }
        Value::Array(all) => all.iter_mut().for_each(|one| *one = placed(one.clone(), folder)),
        _ => {}
    }
    value
}

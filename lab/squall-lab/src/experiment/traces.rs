//! Recordings in place of what an experiment makes up.

use std::path::Path;

use toml::Value;

use super::Experiment;

/// Fields of a series or trace that name a file.
const FILES: [&str; 2] = ["csv", "mahimahi"];

/// The fields that they set, if they are to be used.
pub(super) fn settings(experiment: &Experiment) -> Vec<(String, Value)> {
    let Some(folder) = &experiment.recorded else { return Vec::new() };
    let set = experiment.traces.clone().into_iter();
    set.map(|(field, value)| (field, placed(value, folder))).collect()
}

/// A table with its files in this folder.
fn placed(mut value: Value, folder: &Path) -> Value {
    let Value::Table(table) = &mut value else { return value };
    for name in FILES {
        if let Some(Value::String(file)) = table.get_mut(name) {
            // A relative path would be taken from the folder of the experiment.
            let place = folder.join(&*file);
            *file = std::path::absolute(&place).unwrap_or(place).display().to_string();
        }
    }
    value
}

//! What the result of a run depends on, as a short text.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;

use super::Cell;
use crate::file::FileError;

/// The keys of the runs of a cell: texts that stand for everything that a result depends on. Two runs with the same key give
/// the same result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Keys {
    common: u64,
}

impl Keys {
    /// Those of a cell.
    ///
    /// # Panics
    /// If the text of the cell is not that of its scenario.
    pub fn of(cell: &Cell) -> Self {
        let mut table: toml::Table = cell.text.parse().expect("the scenario was read from it");
        for each in ["seed", "seeds", "schedulers", "description"] {
            table.remove(each);
        }
        let mut hasher = DefaultHasher::new();
        table.to_string().hash(&mut hasher);
        // The traces are in the scenario, which has read them.
        format!("{:?}", cell.scenario.paths).hash(&mut hasher);
        format!("{:?}", cell.scenario.flows).hash(&mut hasher);
        Self { common: hasher.finish() }
    }

    /// The key of a run. `program` stands for everything in the program that results depend on; see [`program`].
    pub fn key(self, scheduler: &str, seed: u64, program: u64) -> String {
        let mut hasher = DefaultHasher::new();
        (self.common, scheduler, seed, program).hash(&mut hasher);
        format!("{:016x}", hasher.finish())
    }
}

/// Stands for a program by the content of its file: results of another one are not taken for its own.
///
/// # Errors
/// If the file can't be read.
pub fn program(file: &Path) -> Result<u64, FileError> {
    let bytes = fs::read(file).map_err(FileError::of(file))?;
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    Ok(hasher.finish())
}

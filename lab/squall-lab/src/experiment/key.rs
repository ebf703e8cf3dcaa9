//! Short keys of everything that the result of a run depends on.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;

use super::Cell;
use crate::file::FileError;

/// Keys of the runs of a cell. A key is a hash of everything that a result depends on: two runs
/// with the same key have the same result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Keys {
    common: u64,
}

impl Keys {
    /// Keys of a cell.
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
        // The scenario contains the contents of the traces.
        format!("{:?}", cell.scenario.paths).hash(&mut hasher);
        format!("{:?}", cell.scenario.flows).hash(&mut hasher);
        Self { common: hasher.finish() }
    }

    /// Returns the key of a run. `program` identifies everything in the program that results depend
    /// on; see [`program`].
    pub fn key(self, scheduler: &str, seed: u64, program: u64) -> String {
        let mut hasher = DefaultHasher::new();
        (self.common, scheduler, seed, program).hash(&mut hasher);
        format!("{:016x}", hasher.finish())
    }
}

/// Hashes the file of a program, so that results of another build are not reused.
///
/// # Errors
/// If the file can't be read.
pub fn program(file: &Path) -> Result<u64, FileError> {
    let bytes = fs::read(file).map_err(FileError::of(file))?;
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    Ok(hasher.finish())
}

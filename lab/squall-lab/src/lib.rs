//! The laboratory: experiments as data, results as records.
//!
//! An experiment is a [`Scenario`] file: emulated paths, flows of blocks, schedulers to compare,
//! and checks that make the file a test. [`traffic`] turns its flows into a deterministic list of
//! [`Offer`]s. The driver of the blocks (the virtual-time runner or a live session) reports the
//! outcome of each to a recorder and gets a [`RunResult`], a plain record that is byte-identical
//! for identical runs. [`measure`] names its numbers, [`summary`] shows them in the terminal, and
//! the crate `squall-report` draws them.

pub mod bound;
pub mod check;
pub mod experiment;
mod file;
pub mod flow;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzz;
pub mod life;
pub mod measure;
mod message_log;
pub mod offer;
pub mod parallel;
pub mod result;
pub mod runner;
pub mod scenario;
pub mod statistics;
pub mod summary;
pub mod table;
pub mod traffic;
pub mod variant;
pub mod video;
pub mod world;

pub use check::{Check, Verdict};
pub use file::FileError;
pub use flow::{Direction, Flow};
pub use measure::{Measure, Subject};
pub use offer::Offer;
pub use result::RunResult;
pub use runner::{Batch, RunError, run};
pub use scenario::{Scenario, ScenarioError};
pub use traffic::{Generator, Traffic};
pub use variant::Variant;

//! What the lead of a radio is worth, and how much noise and lateness take of it.
//!
//! A [`Study`] sweeps three [`Parameter`]s of the radios of a scenario, one after the other: the value is set for
//! every path, and all else stays as the file has it. At each value the two contenders that go by the radio run
//! with the same seeds; what they would do without it, and so at any value, is run once. A [`Gain`] holds what
//! was measured, [`text()`] and [`svg`] show it.
//!
//! # The same way for all
//!
//! The levels of a seed are the same for all contenders and at all values. With a lead L a link is where its
//! radio was L ago, so links are moved in time by what the sweep sets; flows and events are moved with them. What
//! a link does to a flow at a time of its own is therefore the same at each value, and only what is known of it
//! differs. Rates and delays that change in steps or by a file keep their times. A radio whose link follows a
//! measured rate stays where it is in any case: there it is the reports that are moved.

mod figure;
mod measure;
mod panel;
mod parameter;
mod study;
mod table;
mod variant;

pub use crate::estimate::Estimate;
pub use figure::svg;
pub use measure::{Measure, Measures};
pub use parameter::Parameter;
pub use study::{Cell, Gain, GainError, Point, Study, Sweep};
pub use table::text;

/// Who takes part, with the one that is the same without the signal.
pub const CONTENDERS: [Competitor; 4] = [
    Competitor { label: "minrtt", without: None },
    Competitor { label: "minrtt+swm", without: Some("minrtt") },
    Competitor { label: "ras", without: None },
    Competitor { label: "storm", without: Some("ras") },
];

/// Who takes part in a [`Study`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Competitor {
    /// Its name, as [`Contender`](crate::Contender) takes it.
    pub label: &'static str,
    /// The same without the signal; none for one that does not go by it.
    pub without: Option<&'static str>,
}

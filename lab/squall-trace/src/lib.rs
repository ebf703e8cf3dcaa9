//! Recorded networks: reports of a radio, and the behaviour of the network at the same time.
//!
//! [`Recording::load`] detects the [`Format`] of a file and reads it: Squall's own table (see
//! [`COLUMNS`]), or one of the formats in which recordings are published. A [`Recording`] has rows
//! of rates, round trips, levels and events by time, or delivery opportunities instead of rates;
//! [`Recording::supply`] computes from both the bytes that the link carried up to any moment,
//! [`Recording::readings`] returns the radio's reports.
//!
//! [`LinkSurvey`] and [`SignalSurvey`] summarise a recording. [`Recording::part`] and
//! [`Recording::scaled`] derive another one, [`Recording::mahimahi`] and [`Recording::table`]
//! convert it to the two forms that a path of a scenario can have. [`column()`] reads a column of
//! any table by the unit in its name.

mod bounds;
mod column;
mod correlation;
mod edit;
mod error;
mod event;
mod format;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzz;
mod import;
pub mod mahimahi;
mod own;
mod quantity;
mod recording;
mod row;
mod schedule;
mod sheet;
mod supply;
mod survey;
mod tech;

pub use bounds::{LONGEST, MAX_OPPORTUNITIES, MAX_ROWS};
pub use column::{Sample, column, has_column};
pub use correlation::{LAGS, Lag, rank_correlation};
pub use error::{RecordingError, TraceError};
pub use event::Event;
pub use format::Format;
pub use import::{Input, Wishes, read_text};
pub use own::COLUMNS;
pub use quantity::Quantity;
pub use recording::Recording;
pub use row::Row;
pub use supply::{Gaps, Supply};
pub use survey::{LinkSurvey, RateSurvey, SignalSurvey, Spread};
pub use tech::Tech;

/// A point in time or a span of it, in microseconds. The caller chooses the epoch: the start of a run or of a recording.
pub type Micros = u64;

/// Bytes of an IP packet that one delivery opportunity of mahimahi carries.
pub const PACKET: u64 = 1_500;

/// A link that needs longer than this for one [`PACKET`] is in an outage, in microseconds.
pub const OUTAGE: Micros = 200_000;

/// The rate below which one [`PACKET`] takes longer than an [`OUTAGE`], in bits per second.
pub const OUTAGE_BPS: u64 = PACKET * 8 * 1_000_000 / OUTAGE;

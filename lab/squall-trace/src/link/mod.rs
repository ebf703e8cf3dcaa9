//! Recorded links: reading them in the formats of the field, telling what is in them, and writing them as paths.
//!
//! [`Recording::load`] recognises the [`Format`] of a file and reads it. The file is a table of rates and round
//! trips or a list of delivery opportunities; [`Recording::supply`] says of both how much the link carried up to
//! any moment. A [`Survey`] sums that up, [`Recording::mahimahi`] and [`Recording::table`] bring it into the two
//! forms that a path of a scenario can have, and [`Recording::part`] and [`Recording::scaled`] make another link
//! of it.
//!
//! Logs with radio columns are read by [`crate`], and tables have its columns.

mod edit;
mod format;
mod read;
mod recording;
mod schedule;
mod supply;
mod survey;

pub use edit::EditError;
pub use format::Format;
pub use recording::{Column, LONGEST, Recording, RecordingError, Wishes};
pub use schedule::{MAX_OPPORTUNITIES, ScheduleError, text};
pub use supply::{Gaps, Supply};
pub use survey::{Outages, Percentiles, RateSurvey, Survey};

/// Bytes of an IP packet that one delivery opportunity of mahimahi carries.
pub const PACKET: u64 = 1_500;

/// A link that needs longer than this for one [`PACKET`] is in an outage, in microseconds.
pub const OUTAGE: squall_units::Micros = 200_000;

/// The rate below which one [`PACKET`] takes longer than an [`OUTAGE`], in bits per second.
pub const OUTAGE_BPS: u64 = PACKET * 8 * 1_000_000 / OUTAGE;

//! Bounds of recordings.

use crate::Micros;

/// Maximum number of rows of a recording: 23 days at one a second, 8 hours at one in 15 ms.
pub const MAX_ROWS: usize = 2_000_000;

/// Maximum number of opportunities of a recording, read or generated from a table: 100 Mbit/s for
/// 20 minutes.
pub const MAX_OPPORTUNITIES: u64 = 10_000_000;

/// Maximum length of a link, in microseconds: a week. A few digits can claim ages, and the survey
/// of a link takes time and memory for each second.
pub const LONGEST: Micros = 7 * 86_400_000_000;

//! Bounds of recordings.

use crate::Micros;

/// Most rows of a recording: 23 days at one a second, 8 hours at one in 15 ms.
pub const MAX_ROWS: usize = 2_000_000;

/// Most opportunities of a recording, read or made of a table: 100 Mbit/s for 20 minutes.
pub const MAX_OPPORTUNITIES: u64 = 10_000_000;

/// The longest link that is read, in microseconds: a week. A few digits can claim ages, and what is measured of a
/// link takes time and memory for each second.
pub const LONGEST: Micros = 7 * 86_400_000_000;

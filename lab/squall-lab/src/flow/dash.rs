//! A film in segments, which a player with a small buffer asks for.

use super::{Class, Kind};

/// Segments of a film and the player that asks for them, one after the other (NineTails §V-C, with DASH over
/// MPQUIC: 6,592 kbps, segments of 200 ms, a buffer of two).
#[derive(Debug, Clone, PartialEq)]
pub struct Dash {
    /// Bits per second of the film.
    pub bitrate_bps: u64,
    /// Length of a segment in microseconds.
    pub segment_us: u64,
    /// Segments that the player holds beside the one it plays, at least 1.
    pub buffer: u64,
    /// Size of a request in bytes.
    pub request: u64,
    /// Sizes of segments vary uniformly by up to this share in both directions, 0 to 1.
    pub size_jitter: f64,
    /// Deadline in microseconds after a segment is offered, if it has one. What misses it is asked for again.
    pub deadline_us: Option<u64>,
    /// Priority of segments and requests, 0 first.
    pub priority: u8,
}

impl Dash {
    /// Mean size of a segment in bytes, at least 1.
    pub fn segment_size(&self) -> u64 {
        let bytes = u128::from(self.bitrate_bps) * u128::from(self.segment_us) / 8_000_000;
        u64::try_from(bytes).unwrap_or(u64::MAX).max(1)
    }

    /// Largest segment in bytes.
    pub fn largest_segment(&self) -> u64 {
        (self.segment_size() as f64 * (1.0 + self.size_jitter)) as u64
    }
}

impl Kind for Dash {
    fn name(&self) -> &'static str {
        "dash"
    }

    fn classes(&self) -> Vec<Class> {
        vec![Class::new("segment", true, self.priority)]
    }

    fn deadline_us(&self) -> Option<u64> {
        self.deadline_us
    }
}

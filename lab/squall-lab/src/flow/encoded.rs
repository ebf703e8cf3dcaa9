//! A film that was encoded before: real frames, each with its own deadline, once.

use std::sync::Arc;

use super::{Class, Kind};

/// The frames of a film from the first to the last, in the order in which they are sent.
///
/// Their content stays with whoever encoded them: what counts here is their size. When each arrived is told by
/// [`FlowResult::arrivals_us`](crate::result::FlowResult::arrivals_us).
#[derive(Debug, Clone, PartialEq)]
pub struct Encoded {
    /// The frames.
    pub cues: Arc<[Cue]>,
    /// What [`Cue::class`] is a place in.
    pub classes: Vec<Class>,
    /// From taking a picture to showing it, in microseconds.
    pub latency_us: u64,
    /// From one picture to the next, in microseconds.
    pub interval_us: u64,
}

/// A frame, and what becomes of it when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cue {
    /// When it is offered, in microseconds from the start of the film.
    pub at_us: u64,
    /// When its picture is shown, in microseconds from the start of the film. After `at_us`.
    pub due_us: u64,
    /// Size in bytes, at least 1.
    pub size: u64,
    /// Its class.
    pub class: u16,
    /// Its picture, counted from 0 in the order of display.
    pub picture: u64,
    /// Frames before it, counted from 0, that it cannot be decoded without.
    pub needs: [Option<u64>; 2],
}

impl Kind for Encoded {
    fn name(&self) -> &'static str {
        "encoded"
    }

    fn classes(&self) -> Vec<Class> {
        self.classes.clone()
    }

    fn deadline_us(&self) -> Option<u64> {
        Some(self.latency_us)
    }

    fn picture_us(&self) -> Option<u64> {
        Some(self.interval_us)
    }
}

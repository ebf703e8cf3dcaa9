//! Frames in a fixed order, repeated to the end of the flow.

use rand_pcg::Pcg64Mcg;

use super::source::{Source, jittered};
use crate::offer::{Class, Frame, Offer};

/// A frame of a `Cycle`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CycleFrame {
    /// Offer time in microseconds from the start of the cycle.
    pub at_us: u64,
    /// Deadline in microseconds after it is offered.
    pub deadline_us: Option<u64>,
    /// Mean size in bytes, at least 1.
    pub size: u64,
    /// Class of the frame.
    pub class: u16,
    /// Picture of the frame, counted from 0 in display order.
    pub picture: u64,
    /// The picture can be shown with this frame alone.
    pub base: bool,
    /// Dependencies, as indices from the first frame of the cycle. Negative indices are frames of
    /// the previous cycle; the first cycle ignores them.
    pub needs: [Option<i64>; 2],
}

/// The frames of one cycle, in the order in which they are offered.
#[derive(Debug, Default)]
pub(super) struct Cycle {
    pub(super) frames: Vec<CycleFrame>,
    pub(super) pictures: u64,
    /// Length of the cycle in microseconds.
    pub(super) period_us: u64,
}

/// Offers a cycle repeatedly.
#[derive(Debug)]
pub(super) struct Repeater {
    cycle: Cycle,
    /// Sizes vary uniformly by up to this share in both directions.
    jitter: f64,
    classes: Vec<Class>,
    rng: Pcg64Mcg,
    next: u64,
}

impl Repeater {
    pub(super) fn new(cycle: Cycle, jitter: f64, classes: Vec<Class>, rng: Pcg64Mcg) -> Self {
        Self { cycle, jitter, classes, rng, next: 0 }
    }
}

impl Source for Repeater {
    fn next(&mut self) -> Option<Offer> {
        let length = self.cycle.frames.len() as u64;
        let (round, place) = (self.next.checked_div(length)?, self.next.checked_rem(length)?);
        let frame = self.cycle.frames[place as usize];
        let at_us = round.checked_mul(self.cycle.period_us)?.checked_add(frame.at_us)?;
        let first = self.next - place;
        let needs = frame.needs.map(|need| first.checked_add_signed(need?));
        let picture = round * self.cycle.pictures + frame.picture;
        self.next += 1;
        let size = jittered(frame.size, self.jitter, &mut self.rng);
        Some(Offer {
            deadline_us: frame.deadline_us,
            frame: Some(Frame { picture, base: frame.base, needs }),
            ..Offer::new(at_us, size, frame.class, &self.classes[usize::from(frame.class)])
        })
    }
}

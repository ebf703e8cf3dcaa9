//! A reel of frames, shown over and over.

use rand_pcg::Pcg64Mcg;

use super::source::{Source, jittered};
use super::{Frame, Offer};
use crate::flow::Class;

/// A frame of a reel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shot {
    /// When it is offered, in microseconds from the start of the reel.
    pub(super) at_us: u64,
    /// Mean size in bytes.
    pub(super) size: u64,
    pub(super) class: u16,
    /// Its picture, counted from 0 in the order in which those of the reel are shown.
    pub(super) picture: u64,
    /// Whether the picture can be shown with it alone.
    pub(super) base: bool,
    /// Shots that it cannot be decoded without, counted from the first of the reel; those below 0 are the last of
    /// the reel before, and the first reel does without them.
    pub(super) needs: [Option<i64>; 2],
}

/// The shots of one reel, in the order in which they are offered.
#[derive(Debug, Default)]
pub(super) struct Reel {
    pub(super) shots: Vec<Shot>,
    pub(super) pictures: u64,
    /// Time from its start to its next start, in microseconds.
    pub(super) period_us: u64,
}

#[derive(Debug)]
pub(super) struct Projector {
    reel: Reel,
    deadline_us: Option<u64>,
    /// Sizes vary uniformly by up to this share.
    jitter: f64,
    classes: Vec<Class>,
    rng: Pcg64Mcg,
    next: u64,
}

impl Projector {
    pub(super) fn new(
        reel: Reel,
        deadline_us: Option<u64>,
        jitter: f64,
        classes: Vec<Class>,
        rng: Pcg64Mcg,
    ) -> Self {
        Self { reel, deadline_us, jitter, classes, rng, next: 0 }
    }
}

impl Source for Projector {
    fn next(&mut self) -> Option<Offer> {
        let length = self.reel.shots.len() as u64;
        let (round, place) = (self.next.checked_div(length)?, self.next.checked_rem(length)?);
        let shot = self.reel.shots[place as usize];
        let at_us = round.checked_mul(self.reel.period_us)?.checked_add(shot.at_us)?;
        let first = self.next - place;
        let needs = shot.needs.map(|need| first.checked_add_signed(need?));
        let picture = round * self.reel.pictures + shot.picture;
        self.next += 1;
        let size = jittered(shot.size, self.jitter, &mut self.rng);
        Some(Offer {
            deadline_us: self.deadline_us,
            frame: Some(Frame { picture, base: shot.base, needs }),
            ..Offer::new(at_us, size, shot.class, &self.classes[usize::from(shot.class)])
        })
    }
}

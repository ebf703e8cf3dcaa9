//! Key frames and delta frames at a steady pace.

use rand_pcg::Pcg64Mcg;

use super::source::{Source, jittered};
use super::{Frame, Offer};
use crate::flow::{Class, Video};

#[derive(Debug)]
pub(super) struct Frames {
    video: Video,
    classes: Vec<Class>,
    rng: Pcg64Mcg,
    next: u64,
}

impl Frames {
    pub(super) fn new(video: &Video, classes: Vec<Class>, rng: Pcg64Mcg) -> Self {
        Self { video: video.clone(), classes, rng, next: 0 }
    }
}

impl Source for Frames {
    fn next(&mut self) -> Option<Offer> {
        let (video, index) = (&self.video, self.next);
        let at_us = index.checked_mul(1_000_000)? / u64::from(video.fps);
        self.next += 1;
        let key = index.is_multiple_of(video.group);
        let size = jittered(video.frame_size(key), video.size_jitter, &mut self.rng);
        let class = usize::from(!key);
        Some(Offer {
            deadline_us: video.deadline_us,
            frame: Some(Frame::in_sequence(index, key)),
            ..Offer::new(at_us, size, class as u16, &self.classes[class])
        })
    }
}

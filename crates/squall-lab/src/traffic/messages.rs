//! Messages of random sizes at random times.

use rand_pcg::Pcg64Mcg;

use super::Offer;
use super::draw::Draw;
use super::source::Source;
use crate::flow::{Class, Messages};

#[derive(Debug)]
pub(super) struct Irregular {
    size: Draw,
    interval: Draw,
    deadline_us: Option<u64>,
    classes: Vec<Class>,
    rng: Pcg64Mcg,
    at_us: u64,
}

impl Irregular {
    pub(super) fn new(messages: &Messages, classes: Vec<Class>, rng: Pcg64Mcg) -> Self {
        let size = Draw::new(messages.size, Messages::SIZES);
        let interval = Draw::new(messages.interval, Messages::INTERVALS_US);
        Self { size, interval, deadline_us: messages.deadline_us, classes, rng, at_us: 0 }
    }
}

impl Source for Irregular {
    fn next(&mut self) -> Option<Offer> {
        let at_us = self.at_us;
        let size = self.size.next(&mut self.rng);
        self.at_us = at_us.checked_add(self.interval.next(&mut self.rng))?;
        let offer = Offer::new(at_us, size, 0, &self.classes[0]);
        Some(Offer { deadline_us: self.deadline_us, ..offer })
    }
}

//! Blocks of one size at a steady pace.

use super::Offer;
use super::source::Source;
use crate::flow::{Blocks, Class};

#[derive(Debug)]
pub(super) struct Steady {
    blocks: Blocks,
    classes: Vec<Class>,
    next: u64,
}

impl Steady {
    pub(super) fn new(blocks: &Blocks, classes: Vec<Class>) -> Self {
        Self { blocks: blocks.clone(), classes, next: 0 }
    }
}

impl Source for Steady {
    fn next(&mut self) -> Option<Offer> {
        let at_us = self.next.checked_mul(self.blocks.interval_us)?;
        self.next += 1;
        let offer = Offer::new(at_us, self.blocks.size, 0, &self.classes[0]);
        Some(Offer { deadline_us: self.blocks.deadline_us, ..offer })
    }
}

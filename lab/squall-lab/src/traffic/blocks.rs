//! Blocks of one size at a steady pace.

use rand_pcg::Pcg64Mcg;
use squall_units::{Size, Span};

use super::fields::{Checked, MAX_BLOCK, bytes_within, interval, priority};
use super::frame_type::ReliableFrames;
use super::source::{Kind, Source};
use crate::offer::{Class, Offer};

/// Blocks of one size at a steady pace: game messages, audio chunks, tiles.
#[derive(Debug, Clone, PartialEq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Blocks {
    /// Size of a block.
    pub size: Size,
    /// Interval between blocks.
    pub interval: Span,
    /// Deadline after a block is offered.
    pub deadline: Option<Span>,
    /// Priority, 0 first.
    #[serde(default)]
    pub priority: u8,
    /// Lost data is repaired until it arrives: for all blocks or none.
    #[serde(default)]
    pub reliable: ReliableFrames,
}

impl Kind for Blocks {
    fn kind(&self) -> &'static str {
        "blocks"
    }

    fn validate(&self) -> Checked {
        interval(self.interval)?;
        bytes_within("size", self.size.bytes(), MAX_BLOCK)?;
        priority("priority", self.priority)?;
        self.reliable.check_blocks()
    }

    fn classes(&self) -> Vec<Class> {
        self.reliable.class("block", self.priority)
    }

    fn deadline(&self) -> Option<Span> {
        self.deadline
    }

    fn source(&self, _rng: Pcg64Mcg, _length_us: u64) -> Box<dyn Source> {
        Box::new(Steady { blocks: self.clone(), classes: self.classes(), next: 0 })
    }
}

#[derive(Debug)]
struct Steady {
    blocks: Blocks,
    classes: Vec<Class>,
    next: u64,
}

impl Source for Steady {
    fn next(&mut self) -> Option<Offer> {
        let at_us = self.next.checked_mul(self.blocks.interval.micros())?;
        self.next += 1;
        let offer = Offer::new(at_us, self.blocks.size.bytes(), 0, &self.classes[0]);
        Some(Offer { deadline_us: self.blocks.deadline_us(), ..offer })
    }
}

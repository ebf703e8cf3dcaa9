//! As many reliable blocks as the session takes.

use super::Offer;
use super::source::Source;
use crate::flow::{Bulk, Class};

#[derive(Debug)]
pub(super) struct Endless {
    size: u64,
    classes: Vec<Class>,
}

impl Endless {
    pub(super) fn new(bulk: &Bulk, classes: Vec<Class>) -> Self {
        Self { size: bulk.size, classes }
    }
}

impl Source for Endless {
    fn next(&mut self) -> Option<Offer> {
        Some(Offer::new(0, self.size, 0, &self.classes[0]))
    }
}

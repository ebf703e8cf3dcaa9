//! The schedulers that are available by name: one file each, which begins with its source.

pub mod minrtt;
pub mod redundant;
mod round_robin;
mod single_path;
pub mod squall;

use crate::{Entry, Fifo, Registry, multiplexers, weighted_round_robin};

const FIFO: Entry = Entry {
    name: "fifo",
    summary: "the oldest block, whatever its channel",
    source: "first come, first served",
    options: &[],
    signal: false,
};

impl Registry {
    /// Creates a registry with all schedulers, stream schedulers and multiplexers of this crate.
    pub fn standard() -> Self {
        let mut registry = Self::empty();
        registry.register_streams(FIFO, |_| Ok(Box::new(Fifo)));
        registry.register_streams(weighted_round_robin::ENTRY, weighted_round_robin::build);
        multiplexers::register(&mut registry);
        registry.register(minrtt::ENTRY, minrtt::build);
        registry.register(redundant::ENTRY, redundant::build);
        registry.register(round_robin::ENTRY, round_robin::build);
        registry.register(single_path::ENTRY, single_path::build);
        registry.register(squall::ENTRY, squall::build);
        registry
    }
}

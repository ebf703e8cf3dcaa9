//! The schedulers that can be picked by name: one file each, opening with its source.

pub mod minrtt;
pub mod redundant;
mod round_robin;
mod single_path;
pub mod squall;

use crate::Registry;

impl Registry {
    /// All schedulers of this crate.
    pub fn standard() -> Self {
        let mut registry = Self::empty();
        registry.register(minrtt::ENTRY, minrtt::build);
        registry.register(redundant::ENTRY, redundant::build);
        registry.register(round_robin::ENTRY, round_robin::build);
        registry.register(single_path::ENTRY, single_path::build);
        registry.register(squall::ENTRY, squall::build);
        registry
    }
}

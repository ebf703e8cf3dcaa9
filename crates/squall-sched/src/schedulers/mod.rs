//! The schedulers that can be picked by name: one file each, opening with its source.

pub mod minrtt;
pub mod redundant;
pub mod round_robin;
pub mod single_path;
pub mod squall;

use crate::Registry;

/// Adds every scheduler of this crate.
pub(crate) fn register_all(registry: &mut Registry) {
    registry.register(minrtt::ENTRY, minrtt::build);
    registry.register(redundant::ENTRY, redundant::build);
    registry.register(round_robin::ENTRY, round_robin::build);
    registry.register(single_path::ENTRY, single_path::build);
    registry.register(squall::ENTRY, squall::build);
}

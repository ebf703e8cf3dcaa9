//! The schedulers that can be picked by name: one file each, opening with its source.

pub mod augur;
pub mod blest;
pub mod dams;
pub mod dems;
pub mod ecf;
pub mod minrtt;
pub mod ninetails;
pub mod ras;
pub mod raven;
pub mod redundant;
pub mod round_robin;
pub mod single_path;
pub mod squall;
pub mod srpt_ecf;

use crate::Registry;

/// Adds every scheduler of this crate.
pub(crate) fn register_all(registry: &mut Registry) {
    registry.register(augur::AUGUR, augur::build_augur);
    registry.register(augur::RETRANSMIT, augur::build_retransmit);
    registry.register(augur::SWITCH, augur::build_switch);
    registry.register(blest::ENTRY, blest::build);
    registry.register(dams::DAMS, dams::build);
    registry.register(dams::DAMS_C, dams::build_c);
    registry.register(dams::DAMS_ROBUST, dams::build_robust);
    registry.register(dems::ENTRY, dems::build);
    registry.register(ecf::ENTRY, ecf::build);
    registry.register(minrtt::ENTRY, minrtt::build);
    registry.register(ninetails::ENTRY, ninetails::build);
    registry.register(ras::ENTRY, ras::build);
    registry.register(raven::ENTRY, raven::build);
    registry.register(redundant::ENTRY, redundant::build);
    registry.register(round_robin::ENTRY, round_robin::build);
    registry.register(single_path::ENTRY, single_path::build);
    registry.register(squall::ENTRY, squall::build);
    registry.register(srpt_ecf::ENTRY, srpt_ecf::build);
    registry.register(ras::STORM, ras::build);
}

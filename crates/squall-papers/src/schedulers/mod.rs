//! Schedulers of published systems: one file or folder each, which starts with its source.

pub mod augur;
pub mod blest;
pub mod dams;
pub mod dems;
pub mod ecf;
pub mod ninetails;
pub mod ras;
pub mod raven;
pub mod srpt_ecf;

use squall_sched::Registry;

/// Adds the schedulers of this crate to a registry.
pub fn register(registry: &mut Registry) {
    augur::register(registry);
    registry.register(blest::ENTRY, blest::build);
    registry.register(dams::DAMS, dams::build);
    registry.register(dams::DAMS_C, dams::build_c);
    registry.register(dams::DAMS_ROBUST, dams::build_robust);
    registry.register(dems::ENTRY, dems::build);
    registry.register(ecf::ENTRY, ecf::build);
    registry.register(ninetails::ENTRY, ninetails::build);
    registry.register(ras::ENTRY, ras::build);
    registry.register(ras::STORM, ras::build);
    registry.register(raven::ENTRY, raven::build);
    registry.register(srpt_ecf::ENTRY, srpt_ecf::build);
}

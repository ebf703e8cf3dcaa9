//! Congestion controllers of published systems: one file each, which starts with its source.

pub mod cubic;
pub mod salsify;
pub mod sqp;
mod train;

use squall_proto::{CongestionControl, congestion::Registry};

/// Adds the controllers of this crate to a registry.
pub fn register(registry: &mut Registry) {
    registry.register_family(cubic::of_connections(2), cubic::find);
    registry.register(CongestionControl::new("sqp", sqp::SqpConfig::default()));
    registry.register(CongestionControl::new("salsify", salsify::SalsifyConfig::default()));
}

/// Returns the acknowledgement of a packet in a session that always has data.
#[cfg(test)]
fn ack(packet: u64, sent: squall_sched::Time, bytes: u64) -> squall_proto::congestion::Ack {
    squall_proto::congestion::Ack {
        packet,
        sent,
        bytes,
        is_app_limited: false,
        smallest_rtt: squall_sched::Span::ZERO,
    }
}

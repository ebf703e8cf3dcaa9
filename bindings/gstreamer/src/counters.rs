//! The property `stats`.

use gstreamer::{self as gst, glib};
use squall::{PathInfo, Session};

/// Returns the counters of a session and its paths as a structure; empty without a session.
pub(crate) fn of_session(session: Option<&Session>) -> gst::structure::Builder {
    let stats = gst::Structure::builder("application/x-squall-stats").field("connected", session.is_some());
    let Some(session) = session else { return stats };
    let counters = session.stats();
    let capacity = session.capacity();
    stats
        .field("blocks-offered", counters.blocks_offered)
        .field("blocks-delivered", counters.blocks_delivered)
        .field("blocks-expired", counters.blocks_expired)
        .field("blocks-lost", counters.blocks_lost)
        .field("blocks-cancelled", counters.blocks_cancelled)
        .field("blocks-received", counters.blocks_received)
        .field("blocks-rebuilt", counters.blocks_rebuilt)
        .field("blocks-missed", counters.blocks_missed)
        .field("bytes-offered", counters.bytes_offered)
        .field("bytes-delivered", counters.bytes_delivered)
        .field("bytes-received", counters.bytes_received)
        .field("bytes-queued", counters.queued_bytes)
        .field("capacity", capacity.now)
        .field("capacity-safe", capacity.safe)
        .field("paths", session.paths().iter().map(path).collect::<gst::Array>())
}

fn path(path: &PathInfo) -> glib::SendValue {
    let stats = &path.stats;
    let structure = gst::Structure::builder("path")
        .field("interface", path.interface.clone().unwrap_or_default())
        .field("local", path.local.to_string())
        .field("remote", path.remote.to_string())
        .field("state", stats.state.to_string())
        .field("rtt-us", micros(stats.srtt))
        .field("min-rtt-us", micros(stats.min_rtt))
        .field("loss", stats.loss)
        .field("capacity", stats.capacity.unwrap_or(0))
        .field("sent-bytes", stats.sent_bytes)
        .field("received-bytes", stats.received_bytes)
        .field("repair-bytes", stats.repair_bytes)
        .field("lost-packets", stats.lost_packets)
        .field("suspicions", stats.suspicions);
    glib::prelude::ToSendValue::to_send_value(&structure.build())
}

fn micros(time: std::time::Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

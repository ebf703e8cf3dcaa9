//! The stream of a comparison, and its way into a relay and out of it: what relays over different connections share.
//!
//! A relay takes [`frames`] from the source, sends each over its connection, and has a [`Scatter`] hand its packets to the sink.

#![cfg(target_os = "linux")]
#![forbid(unsafe_code)]

mod ports;
mod queue;
mod stream;

pub use ports::{PORT, SINK_PORT, SOURCE_PORT};
pub use queue::{Frame, Scatter, frames};
pub use stream::{PACKET, Stamp, Stream, read};

//! Stream of a comparison with its entry into a relay and its exit: code that relays over different
//! connections share.
//!
//! A relay takes [`frames`] from the source, sends each over its connection, and passes the
//! received bytes to a [`Scatter`], which sends the packets to the sink.

#![cfg(target_os = "linux")]
#![forbid(unsafe_code)]

mod ports;
mod queue;
mod stream;

pub use ports::{PORT, SINK_PORT, SOURCE_PORT};
pub use queue::{Frame, Scatter, frames};
pub use stream::{PACKET, Stamp, Stream, read};

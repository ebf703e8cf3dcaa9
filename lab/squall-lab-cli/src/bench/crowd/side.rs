//! The sides of the comparison.

use std::time::Instant;

use bytes::Bytes;
use squall_testkit::world::End;

/// One side: all its connections.
pub(super) trait Side: End {
    /// Bytes of media that have arrived since the last call.
    fn received(&mut self) -> u64 {
        0
    }

    /// Connects once more.
    fn connect(&mut self, _: Instant) -> anyhow::Result<()> {
        Ok(())
    }

    /// Sends a frame on the connection with this number.
    fn send(&mut self, _: Instant, _connection: usize, _: Bytes) {}
}

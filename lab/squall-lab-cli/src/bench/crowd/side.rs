//! Interface of the sides in the comparison.

use std::time::Instant;

use bytes::Bytes;
use squall_testkit::world::End;

/// One side with all its connections.
pub(super) trait Side: End {
    /// Returns the bytes of media received since the last call.
    fn received(&mut self) -> u64 {
        0
    }

    /// Opens another connection.
    fn connect(&mut self, _: Instant) -> anyhow::Result<()> {
        Ok(())
    }

    /// Sends a frame on a connection.
    fn send(&mut self, _: Instant, _connection: usize, _: Bytes) {}
}

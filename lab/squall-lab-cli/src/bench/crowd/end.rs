//! The sides of the comparison.

use std::time::Instant;

use bytes::{Bytes, BytesMut};

/// One side: all its connections.
pub(super) trait End {
    fn take_in(&mut self, now: Instant, packet: BytesMut);

    /// Lets timers act that are due.
    fn on_time(&mut self, now: Instant);

    /// When they are due next.
    fn due(&mut self) -> Option<Instant>;

    /// The next packets to send, written to `buf`, which is empty: the size of each.
    fn send_out(&mut self, now: Instant, buf: &mut Vec<u8>) -> Option<usize>;

    /// Bytes of media that have arrived since the last call.
    fn received(&mut self) -> u64;
}

/// The side that sends media.
pub(super) trait Source: End {
    fn connect(&mut self, now: Instant) -> anyhow::Result<()>;

    /// Sends a frame on the connection with this number.
    fn send(&mut self, now: Instant, connection: usize, frame: Bytes);
}

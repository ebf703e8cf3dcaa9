//! Congestion controllers made for real-time media: [`sqp`] and [`salsify`].
//!
//! Both want to know when packets *arrived*, not only that they did. What they get, and how exact it is:
//!
//! - Every packet that leaves, is acknowledged or is lost, by number ([`Controller::on_sent`],
//!   [`Controller::on_ack`], [`Controller::on_loss`]). Acknowledgements ride on FEEDBACK datagrams, so
//!   they come a few packets at a time.
//! - The time of arrival of one packet of each such lump ([`Controller::on_arrival`]): FEEDBACK tells the
//!   one-way delay of the data packet that arrived last on each path, and the session takes it for that of
//!   the newest data packet acknowledged in the same datagram, or in the next one if a packet is reported
//!   before it is acknowledged. Where packets were reordered the time is wrong by as much as they were, and
//!   where acknowledgements overtake reports (on the data of a session that sends both ways) by what the
//!   delay changes within a lump; the way back, and its queues, play no part. Where no time comes with a
//!   lump, its bytes count with the next one.
//! - Times of arrival are on the receiver's clock, whose offset is unknown. Both controllers use
//!   differences only.
//!
//! Nothing here reads a clock: `now` is an argument, in microseconds since the path was made.

mod minimum;
mod origin;
pub mod salsify;
pub mod sqp;
mod train;

use std::fmt;

use squall_sched::Micros;

pub(crate) use origin::Origin;
pub use salsify::{Salsify, SalsifyConfig};
pub use sqp::{Sqp, SqpConfig};

/// Packets that a path starts with, before anything is known of it (RFC 9002 §7.2).
pub const INITIAL_PACKETS: u64 = 10;

/// No window is ever larger, in bytes: 100 ms of 1 Gbit/s. It keeps a mistaken estimate from filling
/// any memory.
pub const MAX_WINDOW: u64 = 12_500_000;

/// When a packet arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Number of the packet.
    pub packet: u64,
    /// When it left, in microseconds.
    pub sent: Micros,
    /// When it arrived, in microseconds on the receiver's clock.
    pub at: i64,
}

impl Arrival {
    /// One-way delay in microseconds, up to the offset of the receiver's clock.
    pub fn delay(&self) -> i64 {
        self.at - self.sent as i64
    }
}

/// What decides how much may be in flight on one path, and how fast it leaves.
pub trait Controller: fmt::Debug + Send {
    /// A packet of `bytes` left.
    fn on_sent(&mut self, now: Micros, packet: u64, bytes: u64);

    /// A packet of `bytes`, sent at `sent`, is acknowledged.
    fn on_ack(&mut self, now: Micros, packet: u64, sent: Micros, bytes: u64);

    /// All acknowledgements that came together have been told; `in_flight` bytes remain.
    fn on_end_acks(&mut self, now: Micros, in_flight: u64);

    /// The time of arrival of a packet that was acknowledged just now, the newest of its lump.
    fn on_arrival(&mut self, now: Micros, arrival: Arrival);

    /// A packet of `bytes` is lost.
    fn on_loss(&mut self, now: Micros, packet: u64, bytes: u64);

    /// Everything sent over a long time was lost (persistent congestion, RFC 9002 §7.6).
    fn on_persistent_congestion(&mut self, now: Micros);

    /// Packets may be up to `bytes` large from now on.
    fn on_mtu(&mut self, bytes: u64);

    /// Bytes that may be in flight.
    fn window(&self) -> u64;

    /// Rate at which packets leave, in bits per second; `None` leaves it to the window over the RTT.
    fn pacing_rate(&self) -> Option<u64>;
}

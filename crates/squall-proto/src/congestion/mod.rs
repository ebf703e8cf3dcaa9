//! Congestion controllers: the interface for own ones, and [`Steady`], which is made for real-time
//! media.
//!
//! A controller of an own crate implements [`Controller`] and [`ControllerFactory`], and is used by
//! [`CongestionControl::new`]. It gets the times at which packets *arrived*, not only their
//! acknowledgements:
//!
//! - Every packet that leaves, is acknowledged or is lost, by number ([`Controller::on_sent`],
//!   [`Controller::on_ack`], [`Controller::on_loss`]). Acknowledgements share packets with FEEDBACK
//!   datagrams, so they arrive a few packets at a time.
//! - The time of arrival of one packet of each such batch ([`Controller::on_arrival`]): FEEDBACK
//!   reports the one-way delay of the newest data packet that arrived on each path, and its
//!   departure, so that the session recognizes it. Only the newest acknowledged packet counts; the
//!   way back, and its queues, have no influence. Where reports and acknowledgements overtake each
//!   other a batch has no time, and its bytes count with the next one.
//! - Times of arrival are on the receiver's clock, whose offset is unknown. All controllers use
//!   differences only.
//!
//! Nothing here reads a clock: `now` is an argument, counted from the opening of the path.

mod control;
mod minimum;
mod origin;
mod registry;
mod silences;
mod steady;

use std::fmt;

use squall_sched::{Span, Time};

pub(crate) use control::Kind;
pub use control::{CongestionControl, ControllerFactory, Evidence, NewPath};
pub use minimum::Minimum;
pub(crate) use origin::Origin;
pub use registry::{Registry, UnknownController};
pub use silences::Silences;
pub use steady::{Group, Steady, SteadyConfig};

/// Initial window in packets (RFC 9002 §7.2).
pub const INITIAL_PACKETS: u64 = 10;

/// Largest window in bytes: 100 ms of 1 Gbit/s. It keeps a mistaken estimate from filling any
/// memory.
pub const MAX_WINDOW: u64 = 12_500_000;

/// Arrival of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Number of the packet.
    pub packet: u64,
    /// Departure of the packet.
    pub sent: Time,
    /// Arrival of the packet, in microseconds on the receiver's clock.
    pub at: i64,
}

impl Arrival {
    /// Returns the one-way delay in microseconds, up to the offset of the receiver's clock.
    pub fn delay(&self) -> i64 {
        self.at - self.sent.micros() as i64
    }
}

/// An acknowledgement of one packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ack {
    /// Number of the packet.
    pub packet: u64,
    /// Departure of the packet.
    pub sent: Time,
    /// Size of the packet in bytes.
    pub bytes: u64,
    /// The application, not the window, limits the bytes in flight.
    pub is_app_limited: bool,
    /// Smallest round trip of the path so far.
    pub smallest_rtt: Span,
}

/// Decides how many bytes may be in flight on one path, and how fast they leave.
pub trait Controller: fmt::Debug + Send {
    /// Called when a packet of `bytes` left.
    fn on_sent(&mut self, now: Time, packet: u64, bytes: u64);

    /// Called whenever nothing more can leave for the moment. `waits` if data waits for the window
    /// or the pacer: then the path, not the application, limits the rate. `is_alone` if the session
    /// has no other path.
    fn on_waiting(&mut self, _now: Time, _waits: bool, _is_alone: bool) {}

    /// Called when a packet is acknowledged.
    fn on_ack(&mut self, now: Time, ack: &Ack);

    /// Called after all acknowledgements that arrived together; `in_flight` bytes remain.
    fn on_end_acks(&mut self, now: Time, in_flight: u64);

    /// Called with the time of arrival of a packet that was acknowledged just now, the newest of
    /// its batch.
    fn on_arrival(&mut self, now: Time, arrival: Arrival);

    /// Called when a packet of `bytes` is lost.
    fn on_loss(&mut self, now: Time, packet: u64, bytes: u64);

    /// Called after all losses that were detected together; `newest` is the last of these packets.
    fn on_end_losses(&mut self, _now: Time, _newest: u64) {}

    /// Called when a packet of `bytes` that left during an outage is lost: it is no longer in
    /// flight, and is no measure of the path.
    fn on_forgiven(&mut self, _bytes: u64) {}

    /// Called when packets up to this one were marked by a router with congestion (ECN, RFC 3168).
    fn on_mark(&mut self, _now: Time, _packet: u64) {}

    /// Called when the last losses with a response were spurious: packets were late or overtaken.
    fn on_spurious_loss(&mut self) {}

    /// Called when all packets sent over a long time were lost (persistent congestion, RFC 9002
    /// §7.6).
    fn on_persistent_congestion(&mut self, now: Time);

    /// Called when packets may be up to `bytes` large from now on.
    fn on_mtu(&mut self, bytes: u64);

    /// Returns the bytes that may be in flight.
    fn window(&self) -> u64;

    /// Returns `true` while the window doubles with each round trip; then packets leave at twice
    /// the window per round trip.
    fn is_in_slow_start(&self) -> bool {
        false
    }

    /// Returns the present rate of the path in bits per second, if the controller estimates it.
    fn capacity(&self) -> Option<u64> {
        None
    }

    /// Returns the present delay of our own queue on the path, if the controller distinguishes it
    /// from the delay of the path itself.
    fn queue(&self) -> Option<Span> {
        None
    }

    /// Returns the time for which the path has held packets, while they arrive earlier by that much
    /// than the rate implies; else zero.
    fn held(&self) -> Span {
        Span::ZERO
    }

    /// Returns the rate at which packets leave, in bits per second; `None` for the window over the
    /// RTT.
    fn pacing_rate(&self) -> Option<u64>;
}

//! Congestion controllers: the interface of own ones, and [`Steady`], which is made for real-time media.
//!
//! A controller of an own crate implements [`Controller`] and [`ControllerFactory`], and is used by
//! [`CongestionControl::new`]. It learns when packets *arrived*, not only that they did:
//!
//! - Every packet that leaves, is acknowledged or is lost, by number ([`Controller::on_sent`],
//!   [`Controller::on_ack`], [`Controller::on_loss`]). Acknowledgements ride on FEEDBACK datagrams, so
//!   they come a few packets at a time.
//! - The time of arrival of one packet of each such lump ([`Controller::on_arrival`]): FEEDBACK reports the one-way delay of
//!   the newest data packet that arrived on each path, and when it departed, so that the session recognizes it. Only the
//!   newest packet that is acknowledged counts; the way back, and its queues, play no part. Where reports and
//!   acknowledgements overtake each other no time comes with a lump, and its bytes count with the next one.
//! - Times of arrival are on the receiver's clock, whose offset is unknown. All controllers use differences only.
//!
//! Nothing here reads a clock: `now` is an argument, counted from when the path was made.

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
    /// When it left.
    pub sent: Time,
    /// When it arrived, in microseconds on the receiver's clock.
    pub at: i64,
}

impl Arrival {
    /// One-way delay in microseconds, up to the offset of the receiver's clock.
    pub fn delay(&self) -> i64 {
        self.at - self.sent.micros() as i64
    }
}

/// An acknowledgement of one packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ack {
    /// Number of the packet.
    pub packet: u64,
    /// When it left.
    pub sent: Time,
    /// Its size.
    pub bytes: u64,
    /// The application, not the window, limits what is in flight.
    pub is_app_limited: bool,
    /// Smallest round trip of the path so far.
    pub smallest_rtt: Span,
}

/// What decides how much may be in flight on one path, and how fast it leaves.
pub trait Controller: fmt::Debug + Send {
    /// A packet of `bytes` left.
    fn on_sent(&mut self, now: Time, packet: u64, bytes: u64);

    /// Whether data waits for the window or the pacer: then the path, not the application, limits the rate. Reported
    /// whenever nothing more can leave for the moment. `is_alone`: the session has no other path.
    fn on_waiting(&mut self, _now: Time, _waits: bool, _is_alone: bool) {}

    /// A packet is acknowledged.
    fn on_ack(&mut self, now: Time, ack: &Ack);

    /// All acknowledgements that came together have been reported; `in_flight` bytes remain.
    fn on_end_acks(&mut self, now: Time, in_flight: u64);

    /// The time of arrival of a packet that was acknowledged just now, the newest of its lump.
    fn on_arrival(&mut self, now: Time, arrival: Arrival);

    /// A packet of `bytes` is lost.
    fn on_loss(&mut self, now: Time, packet: u64, bytes: u64);

    /// All losses that were found together have been reported; `newest` is the last of these packets.
    fn on_end_losses(&mut self, _now: Time, _newest: u64) {}

    /// A packet of `bytes` that left during an outage is lost: it is no longer in flight, and says nothing of the path.
    fn on_forgiven(&mut self, _bytes: u64) {}

    /// Packets up to this one were marked by a router that meets congestion (ECN, RFC 3168).
    fn on_mark(&mut self, _now: Time, _packet: u64) {}

    /// The losses that were last answered had not happened: packets were late or overtaken.
    fn on_spurious_loss(&mut self) {}

    /// Everything sent over a long time was lost (persistent congestion, RFC 9002 §7.6).
    fn on_persistent_congestion(&mut self, now: Time);

    /// Packets may be up to `bytes` large from now on.
    fn on_mtu(&mut self, bytes: u64);

    /// Bytes that may be in flight.
    fn window(&self) -> u64;

    /// Whether the window still doubles with each round trip; then packets leave at twice the window per round trip.
    fn is_in_slow_start(&self) -> bool {
        false
    }

    /// What the path carries at present, in bits per second, if the controller estimates it.
    fn capacity(&self) -> Option<u64> {
        None
    }

    /// Queue of our own that stands on the path at present, if the controller distinguishes it from the delay of the
    /// path itself.
    fn queue(&self) -> Option<Span> {
        None
    }

    /// Time for which the path has held packets, while they arrive that much sooner than the rate says; else zero.
    fn held(&self) -> Span {
        Span::ZERO
    }

    /// Rate at which packets leave, in bits per second; `None` leaves it to the window over the RTT.
    fn pacing_rate(&self) -> Option<u64>;
}

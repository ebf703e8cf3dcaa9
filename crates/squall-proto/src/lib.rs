//! The sans-IO session: blocks in, packets out, over several paths.
//!
//! Nothing here reads a clock, sleeps, touches a socket or draws unseeded randomness: the same code
//! runs in virtual time and on real networks. A driver owns an [`Endpoint`] and keeps this contract:
//!
//! 1. Whenever a UDP datagram arrives: [`Endpoint::handle`].
//! 2. Whenever the time of [`Endpoint::poll_timeout`] has come: [`Endpoint::handle_timeout`].
//! 3. After either, and after every call on a [`Session`]: [`Endpoint::poll_transmit`] until it
//!    answers `None`, each transmit being sent from the local interface it names.
//! 4. Then [`Endpoint::poll`] until `None`.
//! 5. Then wait for the next datagram, until [`Endpoint::poll_timeout`].
//!
//! `now` never goes backwards between calls.
//!
//! A block's way: [`Session::send`] → `outbox` → [`Scheduler`](squall_sched::Scheduler) →
//! [`wire`] → `steering` → noq → the driver. Back: packet → noq → [`wire`] → `inbox` → event. The fate
//! of every packet comes from QUIC's own acknowledgements through the ledger in `steering`.

#![forbid(unsafe_code)]

mod attempts;
mod block;
mod capacity;
mod config;
pub mod congestion;
pub mod drive;
mod endpoint;
mod event;
mod feedback;
#[doc(hidden)]
pub mod inbox;
mod limiter;
mod metering;
mod newcomers;
mod outbox;
mod pacer;
#[doc(hidden)]
pub mod parity;
mod path;
pub mod quic_lb;
pub mod quota;
mod race;
mod radios;
mod session;
mod stalls;
mod stats;
mod steering;
mod tally;
mod varint;
#[doc(hidden)]
pub mod wire;
mod worker;

pub use attempts::host_network;
pub use block::{Block, BlockOptions, Channel, Depends, OptionError, PathHint, Priority};
pub use capacity::{Capacity, Limit, PathCapacity};
#[cfg(feature = "lab")]
pub use config::LabConfig;
pub use config::{AcceptFilter, Config, Interface, Limits, NetPath, SchedulerFactory, StreamsFactory};
pub use congestion::CongestionControl;
pub use endpoint::{Endpoint, SessionId};
pub use event::{
    CloseReason, ConnectError, Event, Missed, OpenError, Outcome, Part, PathChange, Received, SendError,
    TransportError, WeightError, WriteError,
};
pub use limiter::RateLimit;
pub use metering::QuotaShare;
pub use newcomers::AdmissionStats;
pub use race::Target;
pub use rustls::{self, pki_types};
#[cfg(feature = "trace")]
pub use session::trace::{ArrivalLog, ChunkLog, PacketLog};
pub use session::{
    Session,
    log::{DecisionLog, LossLog, PacketFate, Reasons},
};
pub use squall_sched as sched;
pub use squall_signal as signal;
pub use squall_units::Role;
pub use stats::{PathStats, PredictionStats, SessionStats};
pub use steering::{
    Ecn, Transmit,
    tls::{ALPN, ClientTls, Fingerprint, FingerprintError, ServerTls, TlsError, fingerprint_of},
};
pub use wire::{CancelReason, MAX_CHANNELS, RefuseReason};
pub use worker::{LONG_ID_AT, MAX_WORKERS, SHORT_ID_AT, destination_id, worker_of};

/// Compiles and runs the example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

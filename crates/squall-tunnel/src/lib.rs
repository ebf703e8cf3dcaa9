//! Tunnels: existing flows (UDP, RTP, MPEG-TS) between two hosts, over all their networks.
//!
//! The *entry* connects to the *exit*; flows run in either direction. Datagrams that enter at an `in` end leave at the
//! `out` end of the same name on the other side, byte for byte and in order. The datagrams of a video frame travel as one
//! block, with a class, a priority and a deadline.
//!
//! The way of a datagram: `flow/inlet` reads it, `media` finds its place among frames, `gather` adds it to a `frame`, of a
//! transport stream without what `nulls` deletes, `flow/uplink` passes the frame to the squall session. At the other end
//! `session` receives its parts, `reorder` restores the order, `nulls` the datagram, and the socket of the flow sends it. The flows of a TUN device, one for each traffic class of packets, have
//! the reader `tun_inlet` and the writer of `tun` instead. `docs/tunnel.md` is for users.
//!
//! ```no_run
//! use squall_tunnel::{Config, Tunnel};
//!
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! let config = Config::load("/etc/squall/tunnel.toml".as_ref())?;
//! let tunnel = Tunnel::start(config).await?;
//! println!("{} sessions", tunnel.status().sessions.len());
//! # Ok(())
//! # }
//! ```

#![forbid(unsafe_code)]

mod clock;
pub mod config;
mod control;
mod counters;
mod entry;
mod error;
mod exit;
mod exits;
mod flow;
mod frame;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzz;
mod gather;
mod journal;
pub mod limiter;
mod media;
mod memory;
mod metrics;
mod nulls;
mod offset;
mod race;
mod reorder;
#[cfg(unix)]
mod rpc;
mod session;
mod settings;
mod shared;
mod srv;
pub mod status;
mod supervise;
mod tenants;
mod totals;
mod tun;
mod tun_inlet;
mod tunnel;
mod wait;
mod web;
mod why;

pub use config::{Config, ConfigError, FlowConfig};
pub use error::StartError;
pub use flow::FlowError;
pub use media::{Class, Media};
pub use shared::Bitrate;
pub use status::Status;
pub use tun::TunError;
pub use tunnel::Tunnel;
pub use web::WebError;

/// The example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

//! Tunnels: flows that exist (UDP, RTP, MPEG-TS) between two hosts, over all their networks.
//!
//! The *entry* connects to the *exit*; flows run either way. Datagrams that come in at an `in` end leave at the `out`
//! end of the same name on the other side, byte for byte and in order. What belongs to a video frame travels as one
//! block, with the class, priority and deadline that it deserves.
//!
//! The way of a datagram: `flow/inlet` takes it in, `media` tells where it stands among frames, `gather` puts the
//! frame together as a `parcel`, `flow/uplink` hands it to the session; at the other end `link` takes it from the
//! session, `order` waits for what is missing, and the flow's socket lets it out. `docs/tunnel.md` is for users.
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
mod delay;
mod entry;
mod exit;
mod flow;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzz;
mod gather;
mod guard;
mod journal;
mod link;
mod media;
mod memory;
mod metrics;
mod order;
mod parcel;
pub mod status;
mod supervise;
mod tally;
mod tunnel;
mod web;

pub use config::{Config, ConfigError, FlowConfig};
pub use media::{Class, Media};
pub use status::Status;
pub use tunnel::{Bitrate, FlowError, StartError, Tunnel};
pub use web::WebError;

//! Tunnels: existing flows (UDP, RTP, MPEG-TS) between two hosts, over all their networks.
//!
//! The *entry* connects to the *exit*; flows run in either direction. Datagrams that enter at an `in` end leave at the
//! `out` end of the same name on the other side, byte for byte and in order. The datagrams of a video frame travel as one
//! block, with a class, a priority and a deadline.
//!
//! The path of a datagram: `flow/inlet` reads it, `media` finds its position among frames,
//! `flow/gather` adds it to a `wire/frame` (of a transport stream without the null packets, which
//! `wire/nulls` removes), and `flow/uplink` passes the frame to the squall session. At the other
//! end, `session` receives its parts, `flow/reorder` restores the order, `wire/nulls` the datagram,
//! and the socket of the flow sends it. The flows of a TUN device, one for each traffic class of
//! packets, use the reader `flow/tun_inlet` and the writer of `tun` instead.
//!
//! Modules by layer; each imports only those of lower layers: `tunnel`; `entry`, `exit`; `session`,
//! `rpc`; `shared`; `flow`; `wire`, `tun`, `tenant`; `config`; `media`, `code`. Status and metrics
//! are in `squall-observe`. `docs/tunnel.md` is the documentation for users.
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

// Unit tests use the helpers of the tests in `tests/`.
#[cfg(test)]
extern crate self as squall_tunnel;

mod code;
#[cfg(test)]
#[path = "../tests/common/mod.rs"]
mod common;
pub mod config;
mod entry;
mod exit;
mod flow;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
#[path = "../../../fuzz/harness/tunnel.rs"]
pub mod fuzz;
mod media;
#[cfg(test)]
mod panics;
#[cfg(unix)]
mod rpc;
mod session;
mod shared;
mod tenant;
mod tun;
mod tunnel;
mod wire;

pub use config::{Config, ConfigError, FlowConfig};
pub use flow::FlowError;
pub use media::{Class, Media};
pub use shared::{Bitrate, StartError};
pub use squall_observe::{Status, web::WebError};
pub use tun::TunError;
pub use tunnel::Tunnel;

/// Panics in tests if data ends with these words.
#[cfg(test)]
fn trap(data: &[u8], words: &[u8]) {
    assert!(!data.ends_with(words), "a test asked for it");
}

/// Compiles the example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

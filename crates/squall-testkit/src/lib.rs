//! Test kit of all crates; no part of the product. `make soak` watches a player with its program `interruptions`.

#![forbid(unsafe_code)]

pub mod browser;
mod certificate;
mod corpus;
pub mod foreign;
mod help;
mod input;
#[cfg(target_os = "linux")]
pub mod namespace;
pub mod network;
mod outcomes;
mod peer;
mod port;
mod probe;
mod processors;
pub mod program;
mod real_time;
mod stranger;
mod unjudged;
mod wire;
pub mod world;

pub use certificate::certificate;
pub use corpus::replay;
pub use help::check_help;
pub use input::Input;
pub use outcomes::Outcomes;
pub use peer::{NAME, Peer, Tls, tls};
pub use port::reserve_port;
pub use real_time::in_real_time;
#[doc(hidden)]
pub use real_time::too_late;
pub use stranger::Stranger;
pub use unjudged::skipped;

/// Returns pseudorandom bytes that depend on the seed.
pub fn pattern(len: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}

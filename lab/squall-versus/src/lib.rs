//! Comparison of Squall with its alternatives: each transport carries the same stream of frames
//! through the same emulated links.
//!
//! On the client side of a [shell](squall_shell), a `source` sends packets of frames to a *carrier*
//! over a local UDP socket. On the server side a `sink` receives them from the carrier's other end
//! in the same way, and records when each frame is complete. Carriers are real programs: Squall's
//! tunnel, SRT's and RIST's tools, and small relays over MPTCP and plain QUIC (`carrier`, and
//! `lab/versus-tquic`, which is built separately), so the two local hops cost all of them the same.
//! SRT, RIST and plain UDP see packets; Squall's tunnel finds frames by RTP's marker, and the
//! relays over MPTCP and QUIC by the stamp after it: they pass a frame on when its last packet has
//! arrived, which costs them up to the 5 ms that a source takes for a frame.
//!
//! Each side is a separate process ([`side`]); both use the same clock.

#![cfg(target_os = "linux")]
#![forbid(unsafe_code)]

mod carrier;
mod clock;
mod figures;
mod frames;
mod programs;
mod run;
mod side;
mod sink;
mod source;
mod spec;
mod table;
mod transport;

pub use carrier::{Relay, RelayEnd, relay};
pub use figures::Figures;
pub use frames::{Best, video};
pub use run::{Plan, run, takes};
pub use side::side;
pub use spec::{End, SideSpec};
pub use squall_versus_stream::Stream;
pub use table::{MARK, markdown, text};
pub use transport::Transport;

//! Any program behind emulated links: two network namespaces, with a link between them for each path.
//!
//! Programs on the *client* side see an interface for each path, named after it, and so do programs
//! on the *server* side. A packet sent into one comes out of the other after it has passed the
//! path's [`Network`](squall_net::Network) link in real time: both ends are TUN devices, and one
//! thread carries packets between them. The role is that of mahimahi's mpshell, without its limit
//! of two links.
//!
//! | | client side | server side |
//! | --- | --- | --- |
//! | path 1 | 10.77.1.2, fd77:1::2 | 10.77.1.1, fd77:1::1 |
//! | path 2 | 10.77.2.2, fd77:2::2 | 10.77.2.1, fd77:2::1 |
//! | over any path | | 10.77.0.1, fd77::1 |
//!
//! On the client's side each path has its own routing table. A socket bound to a path's address or
//! interface uses that path; an unbound one uses the first path. The server answers over the path
//! to whose address the client sent. A path carries IPv4 and IPv6, or IPv6 alone, and treats them
//! alike.
//!
//! Nothing outlives the program that created it, however that ends: the devices are not persistent,
//! the namespaces have no names, and the programs have a process namespace whose first process dies
//! with the shell ([`init`]).
//!
//! Linux only; without root it needs a user namespace ([`acquire`]).

#![cfg(target_os = "linux")]
#![forbid(unsafe_code)]

mod address;
mod awake;
mod device;
mod error;
pub mod init;
mod join;
mod logs;
mod nat;
mod ports;
mod privilege;
mod radios;
mod report;
mod shell;
mod side;
mod wiring;

pub use address::{Addresses, Family, server};
pub use awake::Awake;
pub use error::ShellError;
pub use join::{End, Joined, join};
pub use privilege::{Privilege, acquire};
pub use report::ShellReport;
pub use shell::{Prepared, Shell};
pub use side::{Program, Side, terminate};

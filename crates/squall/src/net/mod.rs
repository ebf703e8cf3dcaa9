//! Interfaces of this machine, and sockets on them.

pub(crate) mod interfaces;
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(crate) mod kernel;
pub(crate) mod listen;
pub(crate) mod network;
pub(crate) mod routes;
mod send_errors;
pub(crate) mod socket;
pub(crate) mod sockets;
pub(crate) mod view;
pub(crate) mod watch;

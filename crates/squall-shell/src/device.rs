//! The ends of links.

use std::io;

use tun_rs::{DeviceBuilder, SyncDevice};

use crate::error::ShellError;

/// A TUN device in the network namespace of the calling thread. It is down and has no address.
pub(crate) fn open(name: &str) -> Result<SyncDevice, ShellError> {
    let build = || -> io::Result<SyncDevice> {
        let device = DeviceBuilder::new().name(name).enable(false).build_sync()?;
        device.set_nonblocking(true)?;
        Ok(device)
    };
    build().map_err(|problem| ShellError::Tun { problem })
}

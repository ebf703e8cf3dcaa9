//! TUN devices at the ends of links.

use std::io::{self, ErrorKind};

use nix::libc::ENODEV;
use tun_rs::{DeviceBuilder, SyncDevice};

use crate::error::ShellError;

/// Opens a TUN device in the network namespace of the calling thread. It is down and has no
/// address.
pub(crate) fn open(name: &str) -> Result<SyncDevice, ShellError> {
    let build = || -> io::Result<SyncDevice> {
        let device = DeviceBuilder::new().name(name).enable(false).build_sync()?;
        device.set_nonblocking(true)?;
        Ok(device)
    };
    build().map_err(|problem| refused(name, problem))
}

/// Distinguishes a system without TUN devices from a refusal of this one.
fn refused(name: &str, problem: io::Error) -> ShellError {
    let is_missing = problem.raw_os_error() == Some(ENODEV);
    if is_missing || matches!(problem.kind(), ErrorKind::NotFound | ErrorKind::PermissionDenied) {
        ShellError::Tun { problem }
    } else {
        ShellError::Device { name: name.to_owned(), problem }
    }
}

#[cfg(test)]
mod tests {
    use nix::libc::{EBUSY, EINVAL, ENOENT, EPERM};

    use super::*;

    #[test]
    fn only_a_system_without_devices_is_reported_as_such() {
        let said = |number| refused("wifi", io::Error::from_raw_os_error(number)).to_string();
        for number in [ENOENT, EPERM, ENODEV] {
            assert!(said(number).starts_with("/dev/net/tun cannot be used"), "{}", said(number));
        }
        for number in [EBUSY, EINVAL] {
            assert!(said(number).starts_with("the device wifi cannot be made: "), "{}", said(number));
        }
    }
}

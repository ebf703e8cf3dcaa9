//! The TUN device of the system.

use std::io;

use crate::config::TunConfig;

/// A device that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("the TUN device '{name}' cannot be used: {problem}")]
pub struct TunError {
    name: String,
    problem: String,
}

impl TunError {
    fn new(config: &TunConfig, problem: impl Into<String>) -> Self {
        Self { name: config.device.clone(), problem: problem.into() }
    }
}

/// A device that is up. It disappears when this is dropped.
#[cfg(target_os = "linux")]
pub(super) struct Io(tun_rs::AsyncDevice);

#[cfg(target_os = "linux")]
impl Io {
    /// Creates the device with its addresses.
    pub(super) fn open(config: &TunConfig) -> Result<Self, TunError> {
        use std::net::IpAddr;
        let mut builder = tun_rs::DeviceBuilder::new().name(&config.device).mtu(config.mtu);
        for address in &config.addresses {
            builder = match address.ip {
                IpAddr::V4(ip) => builder.ipv4(ip, address.prefix, None),
                IpAddr::V6(ip) => builder.ipv6(ip, address.prefix),
            };
        }
        builder.build_async().map(Self).map_err(|error| {
            let problem = match error.kind() {
                io::ErrorKind::PermissionDenied => "it needs root or CAP_NET_ADMIN".to_owned(),
                io::ErrorKind::NotFound => "/dev/net/tun is missing: modprobe tun".to_owned(),
                io::ErrorKind::ResourceBusy => "another program uses it".to_owned(),
                _ => error.to_string(),
            };
            TunError::new(config, problem)
        })
    }

    /// Waits for a packet. Cancel safe.
    pub(super) async fn readable(&self) -> io::Result<()> {
        self.0.readable().await
    }

    /// Reads a packet, if there is one.
    pub(super) fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.try_recv(buffer)
    }

    /// Writes a packet.
    pub(super) fn write(&self, packet: &[u8]) -> io::Result<usize> {
        self.0.try_send(packet)
    }
}

/// There is none on this system.
#[cfg(not(target_os = "linux"))]
pub(super) enum Io {}

#[cfg(not(target_os = "linux"))]
impl Io {
    pub(super) fn open(config: &TunConfig) -> Result<Self, TunError> {
        Err(TunError::new(config, "TUN devices need Linux"))
    }

    pub(super) async fn readable(&self) -> io::Result<()> {
        match *self {}
    }

    pub(super) fn read(&self, _: &mut [u8]) -> io::Result<usize> {
        match *self {}
    }

    pub(super) fn write(&self, _: &[u8]) -> io::Result<usize> {
        match *self {}
    }
}

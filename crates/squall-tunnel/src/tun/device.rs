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
    /// Creates the device with its addresses. The kernel adds none of its own, and takes none from the other end.
    pub(super) fn open(config: &TunConfig) -> Result<Self, TunError> {
        use std::net::IpAddr;
        let mut builder = tun_rs::DeviceBuilder::new().name(&config.device).mtu(config.mtu).enable(false);
        for address in &config.addresses {
            builder = match address.ip {
                IpAddr::V4(ip) => builder.ipv4(ip, address.prefix, None),
                IpAddr::V6(ip) => builder.ipv6(ip, address.prefix),
            };
        }
        let open = || {
            let device = builder.build_async()?;
            configure(config);
            device.enabled(true)?;
            Ok(Self(device))
        };
        open().map_err(|error: io::Error| {
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

/// Has the kernel leave the device as it was configured: no router advertisement changes it, and it has IPv6 only with an address
/// of it. Packets that could do otherwise are dropped before they reach it, so the tunnel works without.
#[cfg(target_os = "linux")]
fn configure(config: &TunConfig) {
    let disable = if config.addresses.iter().any(|address| address.ip.is_ipv6()) { "0" } else { "1" };
    let net = std::path::Path::new("/proc/sys/net");
    let folder = net.join("ipv6/conf").join(&config.device);
    if net.exists() && !folder.exists() {
        // The kernel has no IPv6, or none with such an MTU.
        return;
    }
    let set = |(key, value): (&str, &str)| std::fs::write(folder.join(key), value);
    // 1 is IN6_ADDR_GEN_MODE_NONE.
    let keys = [("accept_ra", "0"), ("autoconf", "0"), ("addr_gen_mode", "1"), ("disable_ipv6", disable)];
    if let Err(error) = keys.into_iter().try_for_each(set) {
        let device = &config.device;
        tracing::warn!(device, %error, "{} cannot be written: IPv6 has the kernel's defaults", folder.display());
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

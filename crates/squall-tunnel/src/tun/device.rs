//! TUN device of the system.

use std::io;

use super::offload::Read;
#[cfg(target_os = "linux")]
use super::offload::{self, Cut, VNET, WHOLE};
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

/// An active device. Dropping it removes the device.
#[cfg(target_os = "linux")]
pub(super) struct Io(tun_rs::AsyncDevice);

#[cfg(target_os = "linux")]
impl Io {
    /// Creates the device with its addresses. The kernel adds no addresses of its own, nor from the
    /// other end.
    pub(super) fn open(config: &TunConfig) -> Result<Self, TunError> {
        use std::net::IpAddr;
        let mut builder = tun_rs::DeviceBuilder::new().name(&config.device).mtu(config.mtu).enable(false);
        builder = builder.with(|builder| _ = builder.offload(true));
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

    /// Reads a packet or a burst, if there is one. `None` if it is malformed.
    pub(super) fn read<'a>(&self, buffer: &'a mut [u8]) -> io::Result<Option<Read<'a>>> {
        let length = self.0.try_recv(buffer)?;
        Ok(offload::read(&mut buffer[..length]))
    }

    /// Writes a packet, or a burst with its cut.
    pub(super) fn write(&self, packet: &[u8], cut: Option<Cut>) -> io::Result<()> {
        match cut {
            Some(cut) if cut.is_udp() && !self.0.udp_gso() => {
                let mut written = Ok(());
                cut.split(packet, |packet| {
                    let now = self.write_behind(&WHOLE, packet);
                    // Retrying would repeat the packets before.
                    if written.is_ok() {
                        written = now;
                    }
                });
                written.or_else(
                    |error| if error.kind() == io::ErrorKind::WouldBlock { Ok(()) } else { Err(error) },
                )
            }
            Some(cut) => self.write_behind(&cut.header(packet), packet),
            None => self.write_behind(&WHOLE, packet),
        }
    }

    fn write_behind(&self, header: &[u8; VNET], packet: &[u8]) -> io::Result<()> {
        self.0.try_send_vectored(&[io::IoSlice::new(header), io::IoSlice::new(packet)]).map(|_| ())
    }
}

/// Prevents the kernel from changing the configuration of the device: router advertisements are
/// ignored, and IPv6 is enabled only if the device has an IPv6 address. The tunnel also works
/// without this, because packets that could change the device are dropped before they reach it.
#[cfg(target_os = "linux")]
fn configure(config: &TunConfig) {
    let disable = if config.addresses.iter().any(|address| address.ip.is_ipv6()) { "0" } else { "1" };
    let net = std::path::Path::new("/proc/sys/net");
    let folder = net.join("ipv6/conf").join(&config.device);
    if net.exists() && !folder.exists() {
        // The kernel has no IPv6, or does not support it with this MTU.
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

/// Not available on this system.
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

    pub(super) fn read<'a>(&self, _: &'a mut [u8]) -> io::Result<Option<Read<'a>>> {
        match *self {}
    }

    pub(super) fn write(&self, _: &[u8], _: Option<super::offload::Cut>) -> io::Result<()> {
        match *self {}
    }
}

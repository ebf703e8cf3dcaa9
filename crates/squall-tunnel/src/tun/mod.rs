//! IP packets of a TUN device. Each traffic class of each entry is a flow; each packet is a block
//! of it.
//!
//! The path of a packet: `tun_inlet` reads it from the device, [`table`] finds the entry that owns
//! its destination and the traffic class, the flow sends it. At the other end, the session passes
//! it to the flow, and [`Port::write`] to the device, unless [`Table::admits`] refuses it: the
//! sender may be hostile, so the receiver filters.

mod device;
mod packet;
mod table;

use std::{
    fmt, io,
    net::{IpAddr, SocketAddr},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use squall_observe::{clock::lock, status::TunStatus};

use self::device::Io;
pub use self::device::TunError;
pub(crate) use self::{packet::Packet, table::Table};
use crate::config::{Config, TunConfig};

/// A TUN device and the routing of its packets.
pub(crate) struct Tun {
    io: Io,
    is_entry: bool,
    config: TunConfig,
    table: Mutex<Arc<Table>>,
    /// Address of the exit in the current session, at an entry.
    exit: Mutex<Option<SocketAddr>>,
    /// Packets for addresses that no entry owns.
    pub(crate) unrouted: AtomicU64,
    /// Packets of the tunnel itself that a route directed into the device.
    pub(crate) looped: AtomicU64,
}

impl fmt::Debug for Tun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tun").field("device", &self.config.device).finish_non_exhaustive()
    }
}

/// Result of writing a packet that leaves the tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Written {
    Yes,
    /// The system has no room for it now.
    Later,
    /// The system refuses it.
    Refused,
    /// Its addresses are not those of this peer and this end.
    Foreign,
}

/// End of a traffic class at the device.
#[derive(Clone, Debug)]
pub(crate) struct Port {
    tun: Arc<Tun>,
    /// Entry that the traffic class belongs to.
    peer: String,
}

impl Port {
    /// Returns the end for the flow of this name.
    pub(crate) fn new(tun: Arc<Tun>, flow: &str) -> Self {
        let peer = flow.rsplit_once('.').map_or(flow, |(peer, _)| peer).to_owned();
        Self { tun, peer }
    }

    /// Returns the name of the device.
    pub(crate) fn device(&self) -> &str {
        &self.tun.config.device
    }

    /// Writes a packet to the device.
    pub(crate) fn write(&self, bytes: &[u8]) -> Written {
        let Some(packet) = Packet::parse(bytes) else { return Written::Refused };
        if !self.tun.table().admits(&self.peer, &packet) {
            return Written::Foreign;
        }
        match self.tun.io.write(bytes) {
            Ok(_) => Written::Yes,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Written::Later,
            Err(_) => Written::Refused,
        }
    }
}

impl Tun {
    /// Opens the device of a configuration, if it has one.
    pub(crate) fn open(config: &Config) -> Result<Option<Arc<Self>>, TunError> {
        let is_entry = config.is_entry();
        let open = |tun: &TunConfig| {
            Ok(Arc::new(Self {
                io: Io::open(tun)?,
                is_entry,
                config: tun.clone(),
                table: Mutex::new(Arc::new(Table::new(tun, is_entry))),
                exit: Mutex::default(),
                unrouted: AtomicU64::new(0),
                looped: AtomicU64::new(0),
            }))
        };
        config.tun.as_ref().map(open).transpose()
    }

    /// Sets the address of the exit in the current session.
    pub(crate) fn set_exit(&self, address: SocketAddr) {
        *lock(&self.exit) = Some(address);
    }

    /// `true` if packets to this address and port are those of the tunnel itself.
    pub(crate) fn is_exit(&self, address: IpAddr, port: Option<u16>) -> bool {
        lock(&self.exit)
            .is_some_and(|exit| exit.ip() == address && port.is_none_or(|port| port == exit.port()))
    }

    /// Replaces peers, networks behind, rules and traffic classes. Device, addresses and MTU stay.
    pub(crate) fn set(&self, config: &TunConfig) {
        let TunConfig { device, addresses, mtu, .. } = self.config.clone();
        let config = TunConfig { device, addresses, mtu, ..config.clone() };
        *lock(&self.table) = Arc::new(Table::new(&config, self.is_entry));
    }

    pub(crate) fn table(&self) -> Arc<Table> {
        lock(&self.table).clone()
    }

    /// Waits for a packet. Cancel safe.
    pub(crate) async fn readable(&self) -> io::Result<()> {
        self.io.readable().await
    }

    /// Reads a packet, if there is one.
    pub(crate) fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.io.read(buffer)
    }

    pub(crate) fn status(&self) -> TunStatus {
        TunStatus {
            device: self.config.device.clone(),
            addresses: self.config.addresses.iter().map(ToString::to_string).collect(),
            mtu: self.config.mtu,
            unrouted: self.unrouted.load(Relaxed),
            looped: self.looped.load(Relaxed),
        }
    }
}

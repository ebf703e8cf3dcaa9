//! IP packets of a TUN device. Each traffic class of each entry is a flow; each packet is a block
//! of it.
//!
//! The path of a packet: `tun_inlet` reads it from the device, [`table`] finds the entry that owns
//! its destination and the traffic class, the flow sends it. At the other end, the session passes
//! it to the flow, and [`Port::write`] to the device, unless [`Table::admits`] refuses it: the
//! sender may be hostile, so the receiver filters.

mod device;
mod offload;
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
use tokio::sync::Notify;

pub use self::device::TunError;
use self::{
    device::Io,
    offload::{Cut, Read},
};
pub(crate) use self::{packet::Packet, table::Table};
use crate::config::{Config, TunConfig};

/// Bytes before each packet in the tunnel: the size of the segments of a burst.
pub(crate) const SEGMENT: usize = 2;

/// A TUN device and the routing of its packets.
pub(crate) struct Tun {
    io: Io,
    is_entry: bool,
    config: TunConfig,
    table: Mutex<Arc<Table>>,
    /// Address of the exit in the current session, at an entry.
    exit: Mutex<Option<SocketAddr>>,
    /// Notified when a session may have room for packets.
    room: Notify,
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

    /// Announces that a session may have room for packets.
    pub(crate) fn announce_room(&self) {
        self.tun.room.notify_one();
    }

    /// Writes a [record](Tun::read) to the device.
    pub(crate) fn write(&self, record: &[u8]) -> Written {
        let Some((bytes, cut)) = parse(record) else { return Written::Refused };
        let Some(packet) = Packet::parse(bytes) else { return Written::Refused };
        if !self.tun.table().admits(&self.peer, &packet) {
            return Written::Foreign;
        }
        match self.tun.io.write(bytes, cut) {
            Ok(()) => Written::Yes,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Written::Later,
            Err(_) => Written::Refused,
        }
    }
}

/// Returns the packet of a record, with its cut if it is a burst; `None` if it cannot be cut.
fn parse(record: &[u8]) -> Option<(&[u8], Option<Cut>)> {
    let (segment, packet) = record.split_first_chunk::<SEGMENT>()?;
    match u16::from_be_bytes(*segment) {
        0 => Some((packet, None)),
        segment => Some((packet, Some(Cut::of(packet, segment)?))),
    }
}

/// Returns the number of packets of a record.
pub(crate) fn packets(record: &[u8]) -> u64 {
    parse(record).and_then(|(packet, cut)| Some(cut?.segments(packet))).unwrap_or(1) as u64
}

/// Marks the packets of a record with ECN, if their sender supports it. Returns `true` if it does.
pub(crate) fn mark(record: &mut [u8]) -> bool {
    record.get_mut(SEGMENT..).is_some_and(packet::mark)
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
                room: Notify::new(),
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

    /// Waits until a session may have room for packets. Cancel safe.
    pub(crate) async fn room(&self) {
        self.room.notified().await;
    }

    /// Waits for a packet. Cancel safe.
    pub(crate) async fn readable(&self) -> io::Result<()> {
        self.io.readable().await
    }

    /// Reads a packet or a burst, if there is one, and passes it as it travels: behind the size of
    /// its segments, which is 0 for a packet.
    pub(crate) fn read(&self, buffer: &mut [u8], mut take: impl FnMut(&[u8])) -> io::Result<()> {
        let Some(read) = self.io.read(buffer)? else { return Ok(()) };
        let mut pass = |packet: &[u8], segment: u16| {
            let mut record = Vec::with_capacity(SEGMENT + packet.len());
            record.extend_from_slice(&segment.to_be_bytes());
            record.extend_from_slice(packet);
            take(&record);
        };
        match read {
            Read::Packet(packet) => pass(packet, 0),
            Read::Burst(packet, cut) => match cut.in_record(packet) {
                Some(segment) => pass(packet, segment),
                None => cut.split(packet, |packet| pass(packet, 0)),
            },
        }
        Ok(())
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

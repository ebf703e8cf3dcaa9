//! IP packets of a TUN device. Each lane of each entry is a flow; a packet is a block of it.
//!
//! The way of a packet: [`Tun::run`] reads it from the device, [`table`] finds the entry that owns its destination and the
//! lane, the flow sends it. At the other end the session passes it to the flow, and [`Port::write`] to the device. An exit
//! drops packets whose source the entry does not own.

mod device;
mod packet;
mod table;

use std::{
    fmt, io,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

pub use self::device::TunError;
use self::{device::Io, packet::Packet, table::Table};
use crate::{
    clock::lock,
    config::{Config, Lane, TunConfig, flow_name},
    flow::Flow,
    frame::Frame,
    media::Class,
    shared::Shared,
    status::TunStatus,
};

/// Packets that are read at once before other tasks run.
const BATCH: usize = 64;

/// Largest packet.
const MAX_PACKET: usize = 65_536;

/// A TUN device, and the flows of its packets.
pub(crate) struct Tun {
    io: Io,
    is_entry: bool,
    config: TunConfig,
    table: Mutex<Arc<Table>>,
    /// Packets for addresses that no entry owns.
    unrouted: AtomicU64,
    /// Packets of the tunnel itself, which a route sent into the device.
    looped: AtomicU64,
}

impl fmt::Debug for Tun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tun").field("device", &self.config.device).finish_non_exhaustive()
    }
}

/// What a packet that leaves the tunnel becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Written {
    Yes,
    /// The system has no room for it now.
    Later,
    /// The system refuses it.
    Refused,
    /// The entry does not own its source.
    Foreign,
}

/// The end of a lane at the device.
#[derive(Clone, Debug)]
pub(crate) struct Port {
    tun: Arc<Tun>,
    /// The entry that the lane belongs to.
    peer: String,
}

impl Port {
    /// The end of the flow of this name.
    pub(crate) fn new(tun: Arc<Tun>, flow: &str) -> Self {
        let peer = flow.rsplit_once('.').map_or(flow, |(peer, _)| peer).to_owned();
        Self { tun, peer }
    }

    /// Name of the device.
    pub(crate) fn device(&self) -> &str {
        &self.tun.config.device
    }

    /// Writes a packet to the device.
    pub(crate) fn write(&self, bytes: &[u8]) -> Written {
        let Some(packet) = Packet::parse(bytes) else { return Written::Refused };
        if !self.tun.is_entry && !self.tun.table().owns(&self.peer, packet.source) {
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
                unrouted: AtomicU64::new(0),
                looped: AtomicU64::new(0),
            }))
        };
        config.tun.as_ref().map(open).transpose()
    }

    /// Takes over peers, rules and lanes. Device, addresses and MTU stay.
    pub(crate) fn set(&self, config: &TunConfig) {
        let TunConfig { device, addresses, mtu, .. } = self.config.clone();
        let config = TunConfig { device, addresses, mtu, ..config.clone() };
        *lock(&self.table) = Arc::new(Table::new(&config, self.is_entry));
    }

    fn table(&self) -> Arc<Table> {
        lock(&self.table).clone()
    }

    /// Reads packets until it is aborted, or the device cannot be read.
    pub(crate) async fn run(self: Arc<Self>, shared: Arc<Shared>) -> Result<(), String> {
        let mut changed = shared.registry.subscribe();
        let mut buffer = vec![0; MAX_PACKET];
        loop {
            changed.borrow_and_update();
            let lanes = Lanes::new(self.table(), &shared);
            while !changed.has_changed().unwrap_or(false) {
                tokio::select! {
                    biased;
                    _ = changed.changed() => break,
                    ready = self.io.readable() => {
                        ready.map_err(|error| format!("the device cannot be read: {error}"))?;
                        self.read_batch(&shared, &lanes, &mut buffer)?;
                    }
                }
            }
        }
    }

    fn read_batch(&self, shared: &Shared, lanes: &Lanes, buffer: &mut [u8]) -> Result<(), String> {
        for _ in 0..BATCH {
            match self.io.read(buffer) {
                Ok(length) => self.take(shared, lanes, &buffer[..length]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(format!("the device cannot be read: {error}")),
            }
        }
        Ok(())
    }

    /// Sends a packet of this machine to the other end.
    fn take(&self, shared: &Shared, lanes: &Lanes, bytes: &[u8]) {
        let Some(packet) = Packet::parse(bytes).filter(|packet| !packet.is_of_the_link()) else { return };
        if self.is_entry && shared.is_exit(packet.destination, packet.ports.map(|(_, port)| port)) {
            self.looped.fetch_add(1, Relaxed);
            return;
        }
        let Some(flow) = lanes.flow(&packet) else {
            self.unrouted.fetch_add(1, Relaxed);
            return;
        };
        let now = shared.clock.now();
        let mut frame = Frame::new(now, 0);
        frame.push(now, bytes);
        (frame.class, frame.ends) = (Class::Data, true);
        flow.enters();
        flow.dispatch(frame);
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

/// The flows of the entries.
struct Lanes {
    table: Arc<Table>,
    /// By entry and lane.
    flows: Vec<[Option<Arc<Flow>>; Lane::ALL.len()]>,
}

impl Lanes {
    fn new(table: Arc<Table>, shared: &Shared) -> Self {
        let flow = |name: &str, lane| shared.registry.get(&flow_name(name, lane));
        let flows = table.peers().iter().map(|peer| Lane::ALL.map(|lane| flow(&peer.name, lane))).collect();
        Self { table, flows }
    }

    /// The flow of a packet, if an entry owns its destination.
    fn flow(&self, packet: &Packet) -> Option<&Arc<Flow>> {
        let owner = self.table.owner(packet.destination)?;
        self.flows[owner][self.table.lane(packet) as usize].as_ref()
    }
}

//! Reads the packets of a TUN device, and sends each, or each burst, through the flow of its entry and traffic
//! class.

use std::{
    hash::{BuildHasher, RandomState},
    io,
    sync::{Arc, atomic::Ordering::Relaxed},
};

use super::{Flow, Registry};
use crate::{
    config::{TrafficClass, flow_name},
    media::Class,
    tun::{self, Packet, SEGMENT, Table, Tun},
    wire::frame::{Frame, STRANDS},
};

/// Maximum number of packets that are read before other tasks run.
const BATCH: usize = 64;

/// Maximum size of a burst with the header of the kernel, in bytes.
const MAX_READ: usize = 65_536 + 10;

/// Flows of the entries.
struct ClassFlows {
    table: Arc<Table>,
    /// Flows by entry and traffic class.
    flows: Vec<[Option<Arc<Flow>>; TrafficClass::ALL.len()]>,
    /// Selects strands.
    hash: RandomState,
}

/// Reads packets until the task is aborted or the device fails.
pub(crate) async fn run(tun: Arc<Tun>, registry: Arc<Registry>) -> Result<(), String> {
    let mut changed = registry.subscribe();
    let mut buffer = vec![0; MAX_READ];
    let hash = RandomState::new();
    loop {
        changed.borrow_and_update();
        let classes = ClassFlows::new(tun.table(), &registry, hash.clone());
        while !changed.has_changed().unwrap_or(false) {
            tokio::select! {
                biased;
                _ = changed.changed() => break,
                ready = tun.readable() => {
                    ready.map_err(|error| format!("the device cannot be read: {error}"))?;
                    read_batch(&tun, &classes, &mut buffer)?;
                }
            }
        }
    }
}

fn read_batch(tun: &Tun, classes: &ClassFlows, buffer: &mut [u8]) -> Result<(), String> {
    for _ in 0..BATCH {
        match tun.read(buffer, |record| send(tun, classes, record)) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
            Err(error) => return Err(format!("the device cannot be read: {error}")),
        }
    }
    Ok(())
}

/// Sends a record of this machine to the other end.
fn send(tun: &Tun, classes: &ClassFlows, record: &[u8]) {
    let packet = record.get(SEGMENT..).and_then(Packet::parse);
    let Some(packet) = packet.filter(|packet| !classes.table.is_of_the_link(packet)) else {
        return;
    };
    if tun.is_exit(packet.destination, packet.ports.map(|(_, port)| port)) {
        tun.looped.fetch_add(1, Relaxed);
        return;
    }
    let Some(flow) = classes.flow(&packet) else {
        tun.unrouted.fetch_add(1, Relaxed);
        return;
    };
    let now = flow.clock.now();
    let mut frame = Frame::new(now, 0);
    frame.push(now, record);
    (frame.class, frame.ends) = (Class::Data, true);
    frame.strand = classes.strand(&packet);
    flow.enters(tun::packets(record));
    flow.dispatch(frame);
}

impl ClassFlows {
    fn new(table: Arc<Table>, registry: &Registry, hash: RandomState) -> Self {
        let flow = |name: &str, class| registry.get(&flow_name(name, class));
        let flows =
            table.peers().iter().map(|peer| TrafficClass::ALL.map(|class| flow(&peer.name, class))).collect();
        Self { table, flows, hash }
    }

    /// Returns the strand of a packet: that of its connection.
    fn strand(&self, packet: &Packet) -> u16 {
        let Packet { source, destination, protocol, ports, .. } = *packet;
        (self.hash.hash_one((source, destination, protocol, ports)) % u64::from(STRANDS)) as u16
    }

    /// Returns the flow of a packet, if an entry owns its destination.
    fn flow(&self, packet: &Packet) -> Option<&Arc<Flow>> {
        let owner = self.table.owner(packet.destination)?;
        self.flows[owner][self.table.class(packet) as usize].as_ref()
    }
}

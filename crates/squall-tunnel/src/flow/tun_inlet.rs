//! Reads the packets of a TUN device into the queue of their entry and traffic class, and sends
//! them while the session has room.

use std::{
    collections::HashMap,
    hash::{BuildHasher, RandomState},
    io,
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};

use squall_units::Time;

use super::{
    Flow, Registry,
    fair::{FairQueue, Turn, Waiting},
};
use crate::{
    config::{TrafficClass, flow_name},
    media::Class,
    tun::{self, Packet, SEGMENT, Table, Tun},
    wire::frame::{Frame, STRANDS},
};

/// Maximum number of reads before packets are sent, and of bytes.
const BATCH: usize = 64;
const BATCH_BYTES: usize = 256 << 10;

/// Maximum size of a burst with the header of the kernel, in bytes.
const MAX_READ: usize = 65_536 + 10;

/// Interval at which a session is asked for room while packets wait. Acknowledgements are more
/// frequent on most paths.
const TICK: Duration = Duration::from_millis(1);

/// Bytes that a connection sends in its turn: those of a millisecond, within these bounds. A round
/// of all connections is short, and on a fast path blocks have several packets.
const QUANTUM: std::ops::RangeInclusive<usize> = 1_500..=16_384;

/// Queues of one entry, by traffic class.
type Queues = [FairQueue; TrafficClass::ALL.len()];

/// Flows of the entries.
struct ClassFlows {
    table: Arc<Table>,
    /// Flows by entry and traffic class, and their queues.
    entries: Vec<([Option<Arc<Flow>>; TrafficClass::ALL.len()], Queues)>,
    /// Selects strands.
    hash: RandomState,
}

/// Reads packets until the task is aborted or the device fails.
pub(crate) async fn run(tun: Arc<Tun>, registry: Arc<Registry>) -> Result<(), String> {
    let mut changed = registry.subscribe();
    let mut buffer = vec![0; MAX_READ];
    let (mut queues, hash) = (HashMap::new(), RandomState::new());
    loop {
        changed.borrow_and_update();
        let mut classes = ClassFlows::new(tun.table(), &registry, queues, hash.clone());
        while !changed.has_changed().unwrap_or(false) {
            let waits = classes.send();
            tokio::select! {
                biased;
                _ = changed.changed() => break,
                ready = tun.readable() => {
                    ready.map_err(|error| format!("the device cannot be read: {error}"))?;
                    read_batch(&tun, &mut classes, &mut buffer)?;
                }
                () = tun.room() => {}
                () = tokio::time::sleep(TICK), if waits => {}
            }
        }
        queues = classes.into_queues();
    }
}

fn read_batch(tun: &Tun, classes: &mut ClassFlows, buffer: &mut [u8]) -> Result<(), String> {
    let mut bytes = 0;
    for _ in 0..BATCH {
        let read = tun.read(buffer, |record| {
            bytes += record.len();
            classes.enter(tun, record);
        });
        match read {
            Ok(()) if bytes >= BATCH_BYTES => break,
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
            Err(error) => return Err(format!("the device cannot be read: {error}")),
        }
    }
    Ok(())
}

impl ClassFlows {
    /// Finds the flows, and takes their queues from those before.
    fn new(
        table: Arc<Table>,
        registry: &Registry,
        mut queues: HashMap<String, Queues>,
        hash: RandomState,
    ) -> Self {
        let flow = |name: &str, class| registry.get(&flow_name(name, class));
        let peers = table.peers().iter();
        let entries = peers.map(|peer| {
            let queues = queues.remove(&peer.name).unwrap_or_default();
            (TrafficClass::ALL.map(|class| flow(&peer.name, class)), queues)
        });
        Self { entries: entries.collect(), table, hash }
    }

    /// Returns the queues by the name of their entry.
    fn into_queues(self) -> HashMap<String, Queues> {
        let names = self.table.peers().iter().map(|peer| peer.name.clone());
        names.zip(self.entries.into_iter().map(|(_, queues)| queues)).collect()
    }

    /// Queues a record of this machine for the other end.
    fn enter(&mut self, tun: &Tun, record: &[u8]) {
        let packet = record.get(SEGMENT..).and_then(Packet::parse);
        let Some(packet) = packet.filter(|packet| !self.table.is_of_the_link(packet)) else { return };
        if tun.is_exit(packet.destination, packet.ports.map(|(_, port)| port)) {
            tun.looped.fetch_add(1, Relaxed);
            return;
        }
        let class = self.table.class(&packet) as usize;
        let entry = self.table.owner(packet.destination).and_then(|owner| self.entries.get_mut(owner));
        let Some((Some(flow), queue)) = entry.map(|(flows, queues)| (&flows[class], &mut queues[class]))
        else {
            tun.unrouted.fetch_add(1, Relaxed);
            return;
        };
        flow.enters(tun::packets(record));
        let Packet { source, destination, protocol, ports, .. } = packet;
        let strand = (self.hash.hash_one((source, destination, protocol, ports)) % u64::from(STRANDS)) as u16;
        queue.push(strand, Waiting { stamp: flow.clock.now(), record: record.to_vec() }, *QUANTUM.start());
    }

    /// Sends packets while the sessions have room, those of the first traffic classes first.
    /// Returns `true` if packets wait.
    fn send(&mut self) -> bool {
        for (flows, queues) in &mut self.entries {
            for ((flow, queue), class) in flows.iter().zip(queues).zip(TrafficClass::ALL) {
                if let Some(flow) = flow.as_ref().filter(|_| !queue.is_empty()) {
                    send(flow, queue, class);
                }
            }
        }
        self.entries.iter().any(|(_, queues)| queues.iter().any(|queue| !queue.is_empty()))
    }
}

/// Sends packets of a traffic class while its session has room.
fn send(flow: &Arc<Flow>, queue: &mut FairQueue, class: TrafficClass) {
    let (now, latency) = (flow.clock.now(), flow.config().latency_or_default().into());
    match flow.room() {
        Some(mut room) => {
            let quantum = (room.per_ms as usize).clamp(*QUANTUM.start(), *QUANTUM.end());
            let comes_first = matches!(class, TrafficClass::Voice | TrafficClass::Video);
            // Packets of connections that begin to send need not wait for those that fill the room.
            while room.unsent < 2 * room.limit {
                let only_new = room.unsent >= room.limit && !comes_first;
                let Some(turn) = queue.pop(now, latency, quantum, only_new) else { break };
                room.unsent += send_turn(flow, &turn);
            }
        }
        None => queue.expire(now, latency),
    }
    flow.counters.overflowed.fetch_add(queue.take_dropped(), Relaxed);
}

/// Sends packets as one block. Returns its bytes.
fn send_turn(flow: &Arc<Flow>, turn: &Turn) -> u64 {
    let stamp = turn.packets.first().map_or(Time::EPOCH, |packet| packet.stamp);
    let mut frame = Frame::new(stamp, 0);
    turn.packets.iter().for_each(|packet| frame.push(packet.stamp, &packet.record));
    (frame.class, frame.ends) = (Class::Data, true);
    (frame.strand, frame.is_urgent) = (turn.strand, turn.is_new);
    let bytes = frame.len() as u64;
    flow.dispatch(frame);
    bytes
}

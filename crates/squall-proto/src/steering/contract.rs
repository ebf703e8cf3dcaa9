//! Tests of the behaviour of noq that Squall relies on. When an upgrade of noq makes one of them
//! fail, review the steering before trusting it.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    time::{Duration, Instant},
};

use bytes::Bytes;
use squall_sched::PathId;
use squall_testkit::world::{End, Packet, SERVER, Wire, World};

use super::{
    Connection, Gate, Incoming, Listener, QuicEvent, QuicPath, Server,
    tls::{ClientTls, ServerTls},
};
use crate::{Config, Interface, NetPath, newcomers::Admission, pacer::MAX_BURST_PACKETS, worker::Worker};

const DELAY: Duration = Duration::from_millis(10);

/// A connection whose payloads are numbers that identify datagrams.
type Conn = Connection<u32, QuicPath>;

/// A packet that left, with its path and its payloads.
#[derive(Debug, PartialEq)]
struct Left {
    path: usize,
    packets: Vec<u64>,
    payloads: Vec<u32>,
    size: usize,
}

const CLIENT_SIDE: usize = 0;
const SERVER_SIDE: usize = 1;

fn client_net(path: usize) -> NetPath {
    NetPath { local: Interface(path as u32), remote: SERVER }
}

/// Returns the address of the client on a path.
fn client_address(path: usize) -> IpAddr {
    Ipv4Addr::new(10, 0, path as u8, 1).into()
}

/// Returns the path of a packet.
fn path_of(packet: &Packet) -> usize {
    usize::from([packet.from.ip(), packet.to.ip()].contains(&client_address(1)))
}

/// A connection, with every gate open.
struct Side {
    is_server: bool,
    listener: Listener,
    conn: Option<Box<Conn>>,
    events: Vec<QuicEvent>,
    /// Datagrams that arrived.
    arrived: Vec<Bytes>,
}

impl Side {
    fn new(config: &Config, server: Option<Server>, seed: u8) -> Self {
        let is_server = server.is_some();
        let listener = Listener::new(config, server, Some([seed; 32]), Worker::ALONE);
        Self { is_server, listener, conn: None, events: Vec::new(), arrived: Vec::new() }
    }

    /// Polls once. Returns the departures, and the packets.
    fn poll(&mut self, gate: Gate, now: Instant, max: usize) -> Option<(Left, Vec<Packet>)> {
        let (conn, mut buf) = (self.conn.as_mut()?, Vec::new());
        let transmit = conn.poll_transmit(gate, now, max, &mut buf)?;
        let sent = std::mem::take(&mut conn.departures);
        conn.exchange(&mut self.listener.inner);
        let local = client_address(transmit.path.local.0 as usize);
        let from = if self.is_server { SERVER } else { SocketAddr::new(local, 0) };
        let to = transmit.path.remote;
        let packets = buf[..transmit.size].chunks(transmit.segment_size.unwrap_or(transmit.size));
        let packets: Vec<_> = packets.map(|data| Packet { from, to, data: data.into() }).collect();
        let left = Left {
            path: path_of(&packets[0]),
            packets: sent.iter().filter(|s| s.bytes > 0).map(|s| s.packet).collect(),
            payloads: sent.iter().filter_map(|s| s.payload).collect(),
            size: transmit.size,
        };
        Some((left, packets))
    }
}

impl End for Side {
    fn is_at(&self, address: SocketAddr) -> bool {
        self.is_server == (address == SERVER)
    }

    fn due(&mut self) -> Option<Instant> {
        self.conn.as_ref()?.timeout()
    }

    fn receive(&mut self, now: Instant, packet: Packet) {
        let number = if self.is_server { 0 } else { path_of(&packet) };
        let net = NetPath { local: Interface(number as u32), remote: packet.from };
        let accept = |_| Admission::Accept;
        match self.listener.receive(now, net, None, packet.data, accept, &mut Vec::new()) {
            Incoming::Packet(_, event) => {
                let Some(conn) = &mut self.conn else { return };
                conn.on_event(event);
                conn.exchange(&mut self.listener.inner);
                self.events.extend(std::iter::from_fn(|| conn.poll()));
                self.arrived.extend(std::iter::from_fn(|| conn.recv()));
            }
            Incoming::New(conn, _) => self.conn = Some(conn),
            Incoming::Refused(_) | Incoming::Unknown(_) => {}
        }
    }

    fn on_timeout(&mut self, now: Instant) {
        if let Some(conn) = &mut self.conn {
            conn.on_timeout(now);
            conn.exchange(&mut self.listener.inner);
        }
    }

    fn transmit(&mut self, now: Instant, send: &mut dyn FnMut(Packet)) {
        while let Some((_, packets)) = self.poll(Gate::Open, now, 1) {
            packets.into_iter().for_each(&mut *send);
        }
    }
}

/// Two connections with two paths between them, each of which can be cut.
struct Pair {
    world: World<Side>,
    network: Network,
}

struct Network {
    cut: [bool; 2],
    /// Port of the client as seen by the server, by path.
    ports: [u16; 2],
}

impl Network {
    fn carry(&self, now: Instant, mut packet: Packet, wire: &mut Wire) {
        let path = path_of(&packet);
        if packet.to == SERVER {
            packet.from.set_port(self.ports[path]);
        }
        if !self.cut[path] {
            wire.put(now + DELAY, packet);
        }
    }
}

impl Pair {
    /// Creates a pair with both paths up and nothing pending.
    fn new() -> Self {
        let (der, key) = squall_testkit::certificate("squall.test");
        let server = ServerTls::new(vec![der.clone()], key).unwrap();
        let tls = ClientTls::with_roots(&[der]).unwrap();
        let config = Config::default();
        let now = Instant::now();
        let server = Side::new(&config, Some(Server::new(&config, &server, None)), 2);
        let mut client = Side::new(&config, None, 1);
        let conn = client.listener.connect(now, &config, &tls, "squall.test", client_net(0)).unwrap();
        client.conn = Some(Box::new(conn));
        let network = Network { cut: [false; 2], ports: [1000; 2] };
        let mut pair = Self { world: World::new(now, server, vec![client]), network };
        pair.settle(Duration::from_secs(1));
        let at = pair.world.now;
        pair.client().open_path(client_net(1), at).unwrap();
        pair.settle(Duration::from_secs(1));
        for side in [CLIENT_SIDE, SERVER_SIDE] {
            for number in 0..2 {
                assert_eq!(pair.conn(side).admit(number, |_, path| path), Some(PathId(number as u8)));
            }
            assert_eq!(pair.conn(side).admit(2, |_, path| path), None);
        }
        pair
    }

    fn side(&mut self, side: usize) -> &mut Side {
        if side == CLIENT_SIDE { &mut self.world.clients[0] } else { &mut self.world.server }
    }

    fn conn(&mut self, side: usize) -> &mut Conn {
        self.side(side).conn.as_mut().unwrap()
    }

    fn client(&mut self) -> &mut Conn {
        self.conn(CLIENT_SIDE)
    }

    fn server(&mut self) -> &mut Conn {
        self.conn(SERVER_SIDE)
    }

    /// Advances the time, with every gate open.
    fn settle(&mut self, time: Duration) {
        self.world.run(time, |now, packet, wire| self.network.carry(now, packet, wire));
    }

    /// Delivers packets in flight, and nothing else.
    fn deliver(&mut self) {
        self.world.now += DELAY;
        while let Some(packet) = self.world.wire.arrive(self.world.now) {
            let (side, now) = (usize::from(packet.to == SERVER), self.world.now);
            self.side(side).receive(now, packet);
        }
    }

    /// Polls once: with every gate open, or only that of one path. Returns the departures.
    fn poll(&mut self, side: usize, gate: Option<usize>) -> Vec<Left> {
        self.poll_many(side, gate, 1)
    }

    fn poll_many(&mut self, side: usize, gate: Option<usize>, max: usize) -> Vec<Left> {
        let (gate, now) = (gate.map_or(Gate::Open, |path| Gate::Only(PathId(path as u8))), self.world.now);
        let Some((left, packets)) = self.side(side).poll(gate, now, max) else { return Vec::new() };
        packets.into_iter().for_each(|packet| self.network.carry(now, packet, &mut self.world.wire));
        vec![left]
    }

    /// Queues a datagram of `size` bytes inside noq.
    fn queue(&mut self, side: usize, size: usize, payload: u32) {
        self.conn(side).queue(vec![payload as u8; size].into(), payload).unwrap();
    }

    /// Returns the fates of the packets of a path so far: (packet, acknowledged).
    fn fates(&mut self, side: usize, path: usize) -> Vec<(u64, bool)> {
        let ledger = &self.conn(side).paths[PathId(path as u8)].ledger;
        ledger.lock().fates.drain(..).map(|f| (f.packet, f.acked)).collect()
    }
}

#[test]
fn with_every_gate_open_a_datagram_takes_the_lowest_path() {
    let mut pair = Pair::new();
    pair.queue(SERVER_SIDE, 500, 1);
    let left = pair.poll(SERVER_SIDE, None);
    assert_eq!((left[0].path, &left[0].payloads[..]), (0, &[1][..]));
}

#[test]
fn a_datagram_takes_the_path_whose_gate_is_open() {
    let mut pair = Pair::new();
    for i in 0..20 {
        let path = i as usize % 2;
        pair.queue(SERVER_SIDE, 900, i);
        let left = pair.poll(SERVER_SIDE, Some(path));
        assert_eq!((left[0].path, &left[0].payloads[..]), (path, &[i][..]));
        assert_eq!(left[0].packets.len(), 1);
        assert!(pair.poll(SERVER_SIDE, Some(path)).is_empty());
    }
}

#[test]
fn with_every_gate_closed_a_datagram_stays() {
    let mut pair = Pair::new();
    pair.queue(SERVER_SIDE, 500, 1);
    let now = pair.world.now;
    assert_eq!(pair.server().poll_transmit(Gate::Closed, now, 1, &mut Vec::new()), None);
    assert!(pair.server().has_queued());
    assert_eq!(pair.poll(SERVER_SIDE, Some(1))[0].payloads, [1]);
}

#[test]
fn the_pacer_of_noq_lets_our_largest_burst_pass() {
    let mut pair = Pair::new();
    for burst in 0..8 {
        for i in 0..MAX_BURST_PACKETS as u32 + 16 {
            pair.queue(SERVER_SIDE, 1100, i);
            assert_eq!(pair.poll(SERVER_SIDE, Some(1)).len(), 1, "packet {i} of burst {burst}");
        }
        pair.world.now += Duration::from_micros(1);
    }
}

#[test]
fn a_batch_for_one_path_leaves_as_segments_one_datagram_each() {
    let mut pair = Pair::new();
    let size = pair.server().max_datagram();
    for i in 0..8 {
        pair.queue(SERVER_SIDE, size, i);
    }
    let left = pair.poll_many(SERVER_SIDE, Some(1), 8);
    assert_eq!((left.len(), left[0].path), (1, 1));
    assert_eq!(left[0].payloads, [0, 1, 2, 3, 4, 5, 6, 7]);
    assert_eq!(left[0].packets.len(), 8);
}

#[test]
fn the_ledger_names_the_packet_that_is_acknowledged() {
    let mut pair = Pair::new();
    pair.fates(SERVER_SIDE, 0);
    pair.fates(SERVER_SIDE, 1);
    pair.queue(SERVER_SIDE, 500, 1);
    let on_1 = pair.poll(SERVER_SIDE, Some(1)).remove(0).packets;
    pair.queue(SERVER_SIDE, 500, 2);
    let on_0 = pair.poll(SERVER_SIDE, Some(0)).remove(0).packets;
    pair.settle(Duration::from_millis(300));
    assert!(pair.fates(SERVER_SIDE, 1).contains(&(on_1[0], true)));
    assert!(pair.fates(SERVER_SIDE, 0).contains(&(on_0[0], true)));
}

#[test]
fn the_ledger_names_the_packet_that_is_lost() {
    let mut pair = Pair::new();
    pair.network.cut[1] = true;
    pair.queue(SERVER_SIDE, 500, 1);
    let lost = pair.poll(SERVER_SIDE, Some(1)).remove(0).packets[0];
    pair.network.cut[1] = false;
    for i in 0..40 {
        pair.queue(SERVER_SIDE, 500, i);
        pair.poll(SERVER_SIDE, Some(1));
    }
    pair.settle(Duration::from_millis(300));
    let fates = pair.fates(SERVER_SIDE, 1);
    assert!(fates.contains(&(lost, false)));
    assert_eq!(fates.iter().filter(|(_, acked)| !acked).count(), 1);
}

/// Returns how long noq waits for a packet that others have overtaken, with departures dated back
/// by `lead`.
fn waits_for(lead: Duration) -> Duration {
    let mut pair = Pair::new();
    pair.server().paths[PathId(0)].ledger.set_lead(lead.into());
    let send = |pair: &mut Pair, arrives: bool| {
        pair.network.cut[0] = !arrives;
        pair.queue(SERVER_SIDE, 1000, 1);
        let left = pair.poll(SERVER_SIDE, Some(0)).remove(0);
        pair.network.cut[0] = false;
        left.packets[0]
    };
    // Round trips with the lead replace the earlier ones.
    for _ in 0..50 {
        send(&mut pair, true);
        pair.settle(Duration::from_millis(100));
    }
    pair.fates(SERVER_SIDE, 0);
    let (lost, began) = (send(&mut pair, false), pair.world.now);
    (0..40).for_each(|_| _ = send(&mut pair, true));
    while !pair.fates(SERVER_SIDE, 0).contains(&(lost, false)) {
        pair.settle(Duration::from_millis(1));
    }
    pair.world.now - began
}

#[test]
fn an_overtaken_packet_is_waited_for_as_long_as_the_session_may_need() {
    let in_order = waits_for(Duration::ZERO);
    assert!((60..80).contains(&in_order.as_millis()), "three round trips of 20 ms: {in_order:?}");
    let (lead, ahead) = (Duration::from_millis(30), waits_for(Duration::from_millis(30)));
    // Three round trips of 50 ms, 30 ms of which have passed when it leaves.
    assert!(ahead >= in_order + 2 * lead - Duration::from_millis(10), "{ahead:?} after {in_order:?}");
}

#[test]
fn acknowledgements_ride_on_the_packet_of_the_open_gate() {
    let mut pair = Pair::new();
    for path in [1, 0] {
        for i in 0..4 {
            pair.queue(SERVER_SIDE, 500, i);
            pair.poll(SERVER_SIDE, Some(i as usize % 2));
        }
        pair.deliver();
        pair.fates(SERVER_SIDE, 0);
        pair.fates(SERVER_SIDE, 1);
        // The other path is dead in both directions: acknowledgements on it would not arrive.
        pair.network.cut[1 - path] = true;
        pair.queue(CLIENT_SIDE, 20, 9);
        assert_eq!(pair.poll(CLIENT_SIDE, Some(path))[0].path, path);
        pair.deliver();
        let acked = |fates: Vec<(u64, bool)>| fates.iter().filter(|(_, acked)| *acked).count();
        assert_eq!(acked(pair.fates(SERVER_SIDE, 0)), 2);
        assert_eq!(acked(pair.fates(SERVER_SIDE, 1)), 2);
        pair.network.cut = [false; 2];
        pair.settle(Duration::from_secs(1));
    }
}

#[test]
fn a_tail_loss_probe_passes_a_closed_gate_and_takes_a_queued_datagram_along() {
    let mut pair = Pair::new();
    pair.network.cut[0] = true;
    pair.queue(SERVER_SIDE, 500, 1);
    pair.poll(SERVER_SIDE, Some(0));
    let due = pair.server().timeout().unwrap();
    pair.world.now = due;
    let now = pair.world.now;
    pair.server().on_timeout(now);
    pair.queue(SERVER_SIDE, 500, 2);
    let left = pair.poll(SERVER_SIDE, Some(1));
    assert_eq!((left[0].path, &left[0].payloads[..]), (0, &[2][..]), "believe the ledger, not the intention");
}

#[test]
fn with_nothing_queued_a_tail_loss_probe_is_a_ping() {
    let mut pair = Pair::new();
    pair.network.cut[0] = true;
    pair.queue(SERVER_SIDE, 500, 1);
    pair.poll(SERVER_SIDE, Some(0));
    pair.world.now = pair.server().timeout().unwrap();
    let now = pair.world.now;
    pair.server().on_timeout(now);
    let transmit = pair.server().poll_transmit(Gate::Closed, now, 1, &mut Vec::new()).expect("a probe");
    assert!(transmit.size < 60, "{} bytes", transmit.size);
    assert!(pair.server().departures.iter().all(|s| s.payload.is_none() && s.path == 0));
}

#[test]
fn of_two_tail_loss_probes_the_second_takes_what_is_queued_after_the_first() {
    let mut pair = Pair::new();
    pair.network.cut[0] = true;
    pair.queue(SERVER_SIDE, 500, 1);
    pair.poll(SERVER_SIDE, Some(0));
    pair.world.now = pair.server().timeout().unwrap();
    let now = pair.world.now;
    pair.server().on_timeout(now);
    let first = pair.server().poll_transmit(Gate::Closed, now, 1, &mut Vec::new()).expect("a probe");
    assert!(first.size < 60, "{} bytes", first.size);
    pair.server().departures.clear();
    pair.queue(SERVER_SIDE, 500, 2);
    let second = pair.poll(SERVER_SIDE, Some(1));
    assert_eq!((second[0].path, &second[0].payloads[..]), (0, &[2][..]));
    assert!(
        pair.server().poll_transmit(Gate::Closed, now, 1, &mut Vec::new()).is_none(),
        "there is no third"
    );
}

#[test]
fn a_backup_path_carries_pings_but_no_datagram_and_no_acknowledgement() {
    let mut pair = Pair::new();
    pair.server().set_backup(PathId(0), true);
    pair.settle(Duration::from_millis(200));
    pair.fates(CLIENT_SIDE, 1);
    // Acknowledgements fall due at the server.
    for i in 0..2 {
        pair.queue(CLIENT_SIDE, 100, i);
        pair.poll(CLIENT_SIDE, Some(1));
    }
    pair.deliver();
    pair.server().ping(PathId(0));
    pair.queue(SERVER_SIDE, 500, 1);
    let ping = pair.poll(SERVER_SIDE, Some(0)).remove(0);
    assert_eq!((ping.path, ping.payloads.len()), (0, 0));
    pair.deliver();
    assert!(pair.fates(CLIENT_SIDE, 1).is_empty(), "the ping took acknowledgements along");
    let data = pair.poll(SERVER_SIDE, Some(1)).remove(0);
    assert_eq!((data.path, &data.payloads[..]), (1, &[1][..]));
}

#[test]
fn the_peer_is_notified_of_a_backup_path() {
    let mut pair = Pair::new();
    pair.server().set_backup(PathId(1), true);
    while !pair.poll(SERVER_SIDE, None).is_empty() {}
    pair.side(CLIENT_SIDE).events.clear();
    pair.deliver();
    let is_notice = |event: &QuicEvent| matches!(event, QuicEvent::RemoteStatus { number: 1, backup: true });
    assert!(pair.side(CLIENT_SIDE).events.iter().any(is_notice));
}

#[test]
fn every_path_has_a_controller_of_its_own() {
    let mut pair = Pair::new();
    for side in [CLIENT_SIDE, SERVER_SIDE] {
        let conn = pair.conn(side);
        assert_eq!(conn.paths.iter().map(|p| p.number).collect::<Vec<_>>(), [0, 1]);
        let [first, second] = [0, 1].map(|id| &conn.paths[PathId(id)].ledger);
        assert!(!std::sync::Arc::ptr_eq(first, second));
    }
    let before = pair.client().paths[PathId(1)].ledger.lock().window;
    assert!(before >= 2 * 1200, "the window of the controller inside is known from the start");
}

#[test]
fn after_a_rebinding_older_packets_get_no_acknowledgement() {
    let mut pair = Pair::new();
    pair.queue(SERVER_SIDE, 500, 1);
    let old = pair.poll(SERVER_SIDE, Some(1)).remove(0).packets[0];
    pair.network.ports[1] = 2000;
    // A packet of the client from the new port arrives before the acknowledgement.
    pair.queue(CLIENT_SIDE, 100, 2);
    pair.poll(CLIENT_SIDE, Some(1));
    pair.settle(Duration::from_millis(500));
    assert!(!pair.fates(SERVER_SIDE, 1).contains(&(old, true)));
    assert_eq!(pair.server().refresh_addresses(), [PathId(1)]);
    assert_eq!(pair.server().paths[PathId(1)].net.remote.port(), 2000);
}

#[test]
fn the_largest_datagram_fits_every_path() {
    let mut pair = Pair::new();
    let size = pair.server().max_datagram();
    for path in [0, 1] {
        pair.queue(SERVER_SIDE, size, 1);
        let left = pair.poll(SERVER_SIDE, Some(path)).remove(0);
        assert_eq!((left.path, left.payloads.len()), (path, 1));
        assert!(left.size <= 1452);
    }
    assert!(pair.server().queue(vec![0; size + 1].into(), 1).is_err());
}

#[test]
fn a_filled_packet_has_the_size_of_the_mtu() {
    let mut pair = Pair::new();
    // The length of the padding takes one byte or two.
    for (size, count) in [(1_200, 1), (1_300, 40), (1_360, 1), (1_361, 1), (1_362, 1), (1_405, 1)] {
        for payload in 0..count {
            pair.queue(SERVER_SIDE, size, payload);
            assert!(pair.server().fill(PathId(1), size, 0, 1_000), "{size}");
            let left = pair.poll(SERVER_SIDE, Some(1)).remove(0);
            assert_eq!(left.payloads.first(), Some(&payload));
            assert!((1_451..=1_452).contains(&left.size), "{size}: {}", left.size);
        }
    }
    pair.queue(SERVER_SIDE, 900, 1);
    assert!(!pair.server().fill(PathId(1), 900, 0, 1_000));
    let left = pair.poll(SERVER_SIDE, Some(1)).remove(0);
    assert!(left.size < 950 && left.payloads == [1], "a small packet is left as it is: {left:?}");
}

#[test]
fn a_datagram_that_is_dropped_inside_is_named() {
    let mut pair = Pair::new();
    for i in 0..4 {
        // Large packets vanish, small ones get through: the path's MTU has shrunk.
        pair.network.cut[0] = true;
        pair.queue(SERVER_SIDE, 1350, i);
        pair.poll(SERVER_SIDE, Some(0));
        pair.network.cut[0] = false;
        for _ in 0..4 {
            pair.queue(SERVER_SIDE, 100, i);
            pair.poll(SERVER_SIDE, Some(0));
        }
    }
    pair.deliver();
    while !pair.poll(CLIENT_SIDE, None).is_empty() {}
    for (size, payload) in [(1300, 10), (500, 11), (1350, 12), (1300, 13)] {
        pair.queue(SERVER_SIDE, size, payload);
    }
    let before = pair.server().max_datagram();
    pair.deliver();
    let at = pair.server().timeout().unwrap();
    pair.server().on_timeout(at);
    assert!(pair.server().max_datagram() < 1300 && before > 1350, "{before} bytes before");
    let mut dropped = std::mem::take(&mut pair.server().dropped);
    dropped.sort_unstable();
    assert_eq!(dropped, [10, 12, 13]);
    assert_eq!(pair.poll(SERVER_SIDE, Some(0))[0].payloads, [11]);
    assert!(!pair.server().has_queued());
}

#[test]
fn what_is_queued_can_be_pushed_out() {
    let mut pair = Pair::new();
    assert!(!pair.server().drop_oversized(), "nothing is queued");
    let size = pair.server().max_datagram();
    (0..32).for_each(|i| pair.queue(SERVER_SIDE, if i == 10 { size } else { 1000 }, i));
    assert!(!pair.server().drop_oversized(), "all of it fits");
    // A path begins with the smallest packets.
    let at = pair.world.now;
    pair.client().close_path(PathId(1), at, 0).unwrap();
    pair.client().open_path(client_net(1), at).unwrap();
    while !pair.poll(CLIENT_SIDE, None).is_empty() {}
    pair.deliver();
    assert!(pair.server().max_datagram() < size);
    assert!(pair.server().drop_oversized());
    assert_eq!(std::mem::take(&mut pair.server().dropped).len(), 32);
    assert!(!pair.server().has_queued());
    pair.queue(SERVER_SIDE, 500, 32);
    let packets = (1..).find(|_| pair.poll(SERVER_SIDE, Some(0))[0].payloads == [32]).unwrap();
    assert!(packets <= 5, "{packets} packets");
    pair.deliver();
    let arrived = pair.side(CLIENT_SIDE).arrived.iter().map(Bytes::len);
    assert_eq!(arrived.filter(|len| *len > 0).collect::<Vec<_>>(), [500]);
}

#[test]
fn a_path_that_has_moved_back_carries_no_data() {
    let mut pair = Pair::new();
    for port in [2000, 3000] {
        pair.network.ports[1] = port;
        pair.queue(CLIENT_SIDE, 100, 1);
        pair.poll(CLIENT_SIDE, Some(1));
        pair.deliver();
        // No answer arrives: neither address is validated.
        pair.network.cut[1] = true;
        while !pair.poll(SERVER_SIDE, None).is_empty() {}
        pair.network.cut[1] = false;
    }
    pair.network.cut[1] = true;
    pair.settle(Duration::from_secs(1));
    assert_eq!(pair.server().refresh_addresses(), [PathId(1)]);
    assert_eq!(pair.server().paths[PathId(1)].net.remote.port(), 2000);
    (pair.network.ports[1], pair.network.cut[1]) = (2000, false);
    for _ in 0..10 {
        pair.queue(CLIENT_SIDE, 100, 1);
        pair.poll(CLIENT_SIDE, Some(1));
        pair.settle(Duration::from_millis(100));
    }
    pair.queue(SERVER_SIDE, 500, 2);
    while let [left, ..] = &pair.poll(SERVER_SIDE, Some(1))[..] {
        assert!(left.payloads.is_empty());
    }
    assert_eq!(pair.poll(SERVER_SIDE, Some(0))[0].payloads, [2]);
}

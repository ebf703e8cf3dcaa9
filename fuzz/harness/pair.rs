//! Two sessions, the applications at both ends, and an arbitrary network.
//!
//! The applications call every function in any order. The network loses, duplicates, delays,
//! reorders, truncates and damages packets, repeats old ones, forges some, moves a client to
//! another address, and fails. Data arrives as it was sent, every block ends once at each side,
//! memory is bounded, time passes, and once the network has recovered, everything arrives.

use std::{
    collections::{BTreeMap, VecDeque},
    net::{IpAddr, Ipv4Addr, SocketAddr},
    ops::Range,
    sync::{Arc, LazyLock},
    time::{Duration, Instant},
};

use bytes::Bytes;
use squall_proto::{
    Block, BlockOptions, Channel, Config, Depends, Event, Interface, LabConfig, NetPath, PathHint, Priority,
    QuotaShare, RateLimit, Role, Session, congestion,
    sched::{BlockId, PathId, Registry, Sharing},
    signal::{Reading, Technology, Time},
};
use squall_testkit::{
    Input, Outcomes, Peer,
    world::{Packet, SERVER, Wire, World},
};

const LINKS: usize = 3;
const REASSEMBLY: u64 = 100_000;
const QUEUED_BYTES: u64 = 150_000;
const OPEN_BLOCKS: usize = 16;
const CLIENT: usize = 0;

/// Maximum virtual time of an input.
const MOST_TIME: Duration = Duration::from_secs(150);

static SCHEDULERS: LazyLock<Registry> = LazyLock::new(Registry::standard);

/// Panics if two sessions break a guarantee.
pub(crate) fn check(input: &[u8]) {
    let mut input = Input(input);
    let mut pair = Pair::new(&mut input);
    while let Some(op) = input.byte() {
        pair.step(op, &mut input);
        pair.run(Duration::ZERO);
        pair.check();
    }
    pair.recover();
    pair.part();
}

/// Builds a configuration from two bytes of the input.
fn config(input: &mut Input<'_>) -> Config {
    let (which, flags) = (usize::from(input.or_zero()), input.or_zero());
    let name = SCHEDULERS.entries().nth(which % SCHEDULERS.entries().count()).expect("there are some").name;
    let controls = congestion::Registry::standard();
    let congestion =
        controls.controls().nth(usize::from(flags) % controls.controls().count()).expect("there are some");
    let round_robin = flags & 8 != 0 && SCHEDULERS.build(name).expect("is standard").profile().follows_queue;
    Config::default()
        .scheduler(Arc::new(move || SCHEDULERS.build(name).expect("is standard")))
        .streams(Arc::new(move || {
            SCHEDULERS.build_streams(if round_robin { "wrr" } else { "fifo" }).expect("is standard")
        }))
        .congestion(congestion.clone())
        .lab(LabConfig {
            all_reliable: flags & 0x10 != 0,
            expire: flags & 0x20 == 0,
            liveness: flags & 0x40 == 0,
            steer_acks: flags & 0x80 == 0,
            probe_with_data: flags & 0x40 != 0,
            ..LabConfig::default()
        })
        .distrust(which & 0x80 != 0)
        .max_block(60_000)
        .queued_bytes(QUEUED_BYTES)
        .reassembly(REASSEMBLY)
        .open_blocks(OPEN_BLOCKS)
        .max_paths(4)
        .handshakes(8)
        .handshakes_per_host(4)
        .max_sessions(4)
}

/// Application of an end.
struct Side {
    /// Number of the next block.
    next: u64,
    outcomes: Outcomes,
    /// Growing blocks, with the number of bytes written.
    growing: BTreeMap<BlockId, u32>,
    /// Final lengths of blocks that no longer grow, to compare.
    lengths: BTreeMap<BlockId, u32>,
    /// Division of data among paths by its scheduler.
    sharing: Sharing,
}

/// An interface of the client with its network.
#[derive(Clone, Copy)]
struct Link {
    delay: Duration,
    down: bool,
    /// Bit n: the n-th of eight packets is lost.
    loss: u8,
    /// Largest packet in bytes; larger ones are lost.
    mtu: usize,
    /// Port of the client's address as the server sees it.
    port: u16,
}

/// Smallest MTU that QUIC permits (RFC 9000 §14).
const SMALLEST_MTU: usize = 1_200;

const GOOD: Link = Link { delay: Duration::from_millis(10), down: false, loss: 0, mtu: 1_500, port: 1_000 };

/// Effect of the network on a packet.
#[derive(Clone, Copy)]
enum Fate {
    Lost,
    Twice(Duration),
    Late(Duration),
    Damaged(usize, u8),
    Short(usize),
    /// Comes from another address.
    Moved(u8),
}

struct Pair {
    world: World,
    start: Instant,
    sides: [Side; 2],
    network: Network,
}

/// Links, and the state of the network.
struct Network {
    links: [Link; LINKS],
    /// Number of packets sent, repeated or forged.
    sent: u64,
    /// Fates of the next packets.
    fates: VecDeque<Fate>,
    /// Recorded packets, to be repeated.
    recorded: VecDeque<Packet>,
}

/// The only interface of the server.
const AT_SERVER: Interface = Interface(LINKS as u32);

/// Returns the interface of a link at a side.
fn interface(side: usize, link: usize) -> Interface {
    if side == CLIENT { Interface(link as u32) } else { AT_SERVER }
}

/// Returns the address of the client on a link.
fn address(link: usize) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(10, 0, link as u8, 1))
}

fn client_path(link: usize) -> NetPath {
    NetPath { local: interface(CLIENT, link), remote: SERVER }
}

/// Returns the byte of a block at an offset.
fn byte(side: usize, id: BlockId, at: u32) -> u8 {
    (id.0 as u8).wrapping_mul(37) ^ (at as u8).wrapping_mul(11) ^ (at >> 8) as u8 ^ (side as u8) << 7
}

/// Returns a hint for the paths of a link or a name, or none.
fn hint(number: u32) -> Option<PathHint> {
    let path = ["10.0.1.1", "10.0.2.1", "#1", "a"][number as usize >> 2 & 3];
    match number & 3 {
        0 => None,
        1 => Some(PathHint::prefer(path)),
        2 => Some(PathHint::avoid(path)),
        _ => Some(PathHint::only(path)),
    }
}

fn payload(side: usize, id: BlockId, from: u32, len: u32) -> Vec<u8> {
    (from..from + len).map(|at| byte(side, id, at)).collect()
}

impl Pair {
    fn new(input: &mut Input<'_>) -> Self {
        let now = Instant::now();
        let (server, client) = (config(input), config(input));
        let sides = [&client, &server].map(|config| Side {
            sharing: (config.scheduler)().profile().sharing,
            next: 0,
            outcomes: Outcomes::default(),
            growing: BTreeMap::new(),
            lengths: BTreeMap::new(),
        });
        let addresses: Vec<_> = (0..LINKS).map(|link| SocketAddr::new(address(link), GOOD.port)).collect();
        let client = Peer { batch: 4, ..Peer::client(client, 1, now, &addresses) };
        // In the order in which the client has the interfaces.
        let own = (0..LINKS as u16).map(|port| SocketAddr::new(SERVER.ip(), port)).chain([SERVER]).collect();
        let server = Peer { batch: 4, addresses: own, ..Peer::server(server, 2, now) };
        let world = World::new(now, server, vec![client]);
        let (fates, recorded) = (VecDeque::new(), VecDeque::new());
        Self { world, start: now, sides, network: Network { links: [GOOD; LINKS], sent: 0, fates, recorded } }
    }

    fn peer(&mut self, side: usize) -> &mut Peer {
        if side == CLIENT { &mut self.world.clients[0] } else { &mut self.world.server }
    }

    fn session(&mut self, side: usize) -> Option<&mut Session> {
        self.peer(side).find()
    }

    /// `true` if a side sends on a single path that is gone, so that its blocks wait for it without
    /// end.
    fn is_without_its_path(&mut self, side: usize) -> bool {
        let Sharing::Only(path) = self.sides[side].sharing else { return false };
        self.session(side).is_none_or(|session| session.path_stats().iter().all(|(id, ..)| *id != path))
    }

    fn step(&mut self, op: u8, input: &mut Input<'_>) {
        let side = usize::from(op >> 7);
        match op & 0x1f {
            0..=4 => self.send(side, input),
            5..=8 => self.write(side, input),
            9 => self.cancel(side, input),
            10..=14 => self.run(Duration::from_micros(u64::from(input.number()) * 4)),
            15 => self.run(Duration::from_millis(u64::from(input.number()) % 40_000)),
            16..=20 => self.disturb(input),
            21 | 22 => self.change_link(input),
            23 => self.repeat(input),
            24 => self.forge(input),
            25 => self.change_paths(side, input),
            26 => self.set_up(side, input),
            27 => self.cost(side, input),
            28 => self.radio(side, input),
            29 => self.ask(side, input),
            30 => {
                let (now, link) = (self.world.now, usize::from(input.or_zero()) % LINKS);
                let (at, port) = (interface(side, link), self.network.links[link].port);
                let remote = if side == CLIENT { SERVER } else { SocketAddr::new(address(link), port) };
                let remote = Some(remote).filter(|_| op & 0x20 != 0);
                self.peer(side).endpoint.handle_unreachable(now, at, remote);
            }
            _ if op & 0x60 == 0x60 => {
                let now = self.world.now;
                if let Some(session) = self.session(side) {
                    session.close(now, input.or_zero().into(), "enough");
                }
            }
            _ => {}
        }
    }

    fn send(&mut self, side: usize, input: &mut Input<'_>) {
        let (now, flags, len, deadline) = (self.world.now, input.or_zero(), input.number(), input.number());
        let (channel, next) = (Channel::new(u16::from(flags >> 1 & 3)), self.sides[side].next);
        let Some(session) = self.session(side) else { return };
        let id = BlockId(next);
        let len = if flags & 0x80 == 0 { len % 3_000 } else { len };
        let depends = match deadline % 5 {
            0 => Depends::Key,
            1 => Depends::Reference,
            2 => Depends::Disposable,
            _ => Depends::Nothing,
        };
        let options = BlockOptions::new()
            .channel(channel)
            .priority(Priority::new(flags >> 3 & 7))
            .reliable(flags & 1 == 0)
            .partial(deadline & 0x400 != 0)
            .ordered(flags & 0x40 == 0)
            .hint(hint(deadline >> 12))
            .deadline((deadline % 4 != 0).then(|| Duration::from_micros(u64::from(deadline) * 10)))
            .depends(depends);
        if let Ok(sent) = session.send(now, Block::with(payload(side, id, 0, len), options)) {
            assert_eq!(sent, id);
            let side = &mut self.sides[side];
            side.next += 1;
            side.outcomes.open.insert(id);
            side.lengths.insert(id, len);
        }
    }

    /// Opens a growing block, writes to one, or finishes it.
    fn write(&mut self, side: usize, input: &mut Input<'_>) {
        let (now, flags, len) = (self.world.now, input.or_zero(), input.number() % 20_000);
        let chosen = self.sides[side].growing.iter().nth(usize::from(flags >> 3 & 1));
        let chosen = chosen.map(|(id, written)| (*id, *written));
        let Some(session) = self.session(side) else { return };
        let Some((id, written)) = chosen.filter(|_| flags & 7 != 0) else {
            let options = BlockOptions::new()
                .channel(Channel::new(u16::from(flags >> 4 & 3)))
                .deadline((len % 3 != 0).then(|| Duration::from_millis(len.into())))
                .ordered(flags & 0x40 != 0)
                .reliable(flags & 0x80 == 0)
                .partial(len & 4 != 0)
                .hint(hint(len >> 3));
            if let Ok(id) = session.open(now, &options) {
                self.sides[side].next += 1;
                self.sides[side].growing.insert(id, 0);
                self.sides[side].outcomes.open.insert(id);
            }
            return;
        };
        if flags & 7 == 7 {
            let _ = session.finish(now, id);
            self.finished(side, id);
        } else if session.append(id, payload(side, id, written, len).into()).is_ok() {
            *self.sides[side].growing.get_mut(&id).expect("grows") += len;
        }
    }

    fn finished(&mut self, side: usize, id: BlockId) {
        let side = &mut self.sides[side];
        if let Some(written) = side.growing.remove(&id) {
            side.lengths.insert(id, written);
        }
    }

    fn cancel(&mut self, side: usize, input: &mut Input<'_>) {
        let (now, which) = (self.world.now, input.or_zero());
        let open = &self.sides[side].outcomes.open;
        // Usually an open block.
        let id = open.iter().nth(usize::from(which & 7)).copied().unwrap_or(BlockId(u64::from(which)));
        if let Some(session) = self.session(side) {
            session.cancel(now, id);
        }
    }

    fn disturb(&mut self, input: &mut Input<'_>) {
        let (kind, number) = (input.or_zero(), input.number());
        let time = Duration::from_micros(u64::from(number) * 8);
        let fate = match kind % 8 {
            0 | 1 => Fate::Lost,
            2 => Fate::Twice(time),
            3 | 4 => Fate::Late(time),
            5 => Fate::Damaged(number as usize, kind | 1),
            6 => Fate::Short(number as usize),
            _ => Fate::Moved(kind >> 3),
        };
        for _ in 0..=usize::from(kind >> 3 & 3) {
            self.network.fates.push_back(fate);
        }
        self.network.fates.truncate(64);
    }

    fn change_link(&mut self, input: &mut Input<'_>) {
        let (which, number) = (input.or_zero(), input.number());
        let link = &mut self.network.links[usize::from(which) % LINKS];
        match which >> 2 & 7 {
            0 => link.down = true,
            1 => link.down = false,
            2 => link.loss = number as u8,
            3 => link.delay = Duration::from_micros(u64::from(number) * 16),
            4 => link.mtu = 300 + number as usize % 1_300,
            5 => link.port = 1_000 + number as u16 % 4,
            6 => *link = GOOD,
            // All links at once.
            _ => self.network.links.iter_mut().for_each(|link| link.down = number & 1 == 0),
        }
    }

    /// Repeats an old packet.
    fn repeat(&mut self, input: &mut Input<'_>) {
        let which = usize::from(input.or_zero());
        let recorded = &self.network.recorded;
        if let Some(packet) = recorded.get(which % recorded.len().max(1)) {
            self.world.wire.put(self.world.now, packet.clone());
            self.network.sent += 1;
        }
    }

    /// Sends a forged packet.
    fn forge(&mut self, input: &mut Input<'_>) {
        let (flags, length) = (input.or_zero(), usize::from(input.or_zero()) * 6);
        let mut data = input.bytes(length);
        data.resize(length, flags);
        let link = usize::from(flags & 3) % LINKS;
        let to_server = flags & 4 == 0;
        // The first bytes of a sent packet contain the connection id.
        if let Some(other) = self.network.recorded.get(usize::from(flags >> 3)) {
            let head = other.data.len().min(length).min(24);
            data[..head].copy_from_slice(&other.data[..head]);
        }
        let (from, to) = addresses(to_server, link, self.network.links[link].port);
        self.world.wire.put(self.world.now, Packet { from, to, data: data[..].into() });
        self.network.sent += 1;
    }

    fn change_paths(&mut self, side: usize, input: &mut Input<'_>) {
        let (now, which) = (self.world.now, input.or_zero());
        let link = usize::from(which) % LINKS;
        let Some(session) = self.session(side) else { return };
        match which >> 2 & 3 {
            0 => session.remove_interface(now, interface(side, link)),
            1 | 2 => session.add_path(now, client_path(link)),
            _ => session.probe(now, PathId(which >> 4)),
        }
    }

    fn set_up(&mut self, side: usize, input: &mut Input<'_>) {
        let (now, flags) = (self.world.now, input.or_zero());
        let channel = Channel::new(u16::from(flags & 3));
        let Some(session) = self.session(side) else { return };
        match flags >> 3 & 3 {
            0 | 1 => session.set_in_parts(channel, flags & 4 != 0),
            2 => drop(session.set_channel_weight(channel, input.number() as u16 % 300)),
            _ => session.trust(now),
        }
    }

    fn cost(&mut self, side: usize, input: &mut Input<'_>) {
        let (now, flags, bytes) = (self.world.now, input.or_zero(), input.number());
        let at = interface(side, usize::from(flags) % LINKS);
        let Some(session) = self.session(side) else { return };
        let some = flags & 0x20 == 0;
        match flags >> 2 & 7 {
            0 => session.set_metered(now, at, some),
            1 => session.set_budget(at, some.then(|| u64::from(bytes) * 8)),
            2 => {
                let (is_held, is_last) = (flags & 0x40 != 0, flags & 0x80 != 0);
                let share = QuotaShare { left: u64::from(bytes) * 8, is_held, is_last };
                session.set_quota(now, at, some.then_some(share));
            }
            3 => session.set_role(now, at, Role::ALL[bytes as usize % Role::ALL.len()].1),
            4 => session.set_rate_limit(now, at, some.then(|| RateLimit::new(u64::from(bytes) * 1_000))),
            5 => {
                let limit = RateLimit { bits_per_second: u64::from(bytes) * 100, burst: bytes.into() };
                session.set_rate_limit(now, at, Some(limit));
            }
            6 => session.set_labels(at, [if some { "a" } else { "b" }]),
            _ => drop(session.usage(at)),
        }
    }

    fn radio(&mut self, side: usize, input: &mut Input<'_>) {
        let (now, flags, level) = (self.world.now, input.or_zero(), input.number());
        let at = interface(side, usize::from(flags) % LINKS);
        let time = Time::EPOCH + (now - self.start).into();
        let level = -f64::from(level) / 500.0;
        let reading = match flags >> 2 & 3 {
            0 | 1 => Reading::wifi(time, level),
            2 => Reading::lte(time, level, level / 4.0),
            _ => Reading::disconnected(time, Technology::Wifi),
        };
        if let Some(session) = self.session(side) {
            session.on_signal(now, at, &reading);
        }
    }

    fn ask(&mut self, side: usize, input: &mut Input<'_>) {
        let (now, flags, number) = (self.world.now, input.or_zero(), input.number());
        let Some(session) = self.session(side) else { return };
        match flags % 4 {
            0 => session.request_bitrate(Some(100_000 + u64::from(number) * 100)),
            1 => session.request_bitrate(None),
            2 => {
                let within = Duration::from_millis(number.into());
                let probability = f64::from(flags) / 200.0;
                let bytes = session.deliverable(now, within, probability);
                assert!(bytes < 1 << 50, "{bytes} bytes in {within:?}");
            }
            _ => drop(session.capacity(now)),
        }
    }

    /// Runs the world for this time.
    fn run(&mut self, time: Duration) {
        if self.world.now + time > self.start + MOST_TIME {
            return;
        }
        let network = &mut self.network;
        self.world.run(time, |now, packet, wire| network.carry(now, packet, wire));
        for side in 0..self.sides.len() {
            while let Some((id, event)) = self.peer(side).events.pop_front() {
                assert_eq!(self.peer(side).id, Some(id), "one client has two sessions");
                self.on_event(side, &event);
            }
        }
    }

    fn on_event(&mut self, side: usize, event: &Event) {
        self.sides[side].outcomes.on_event(event);
        let (id, from, data, missing, is_last): (_, _, &Bytes, &[_], _) = match event {
            Event::Received(block) => (block.id, 0, &block.data, &block.missing, true),
            Event::Part(part) => (part.id, part.offset, &part.data, &part.missing, part.is_last),
            _ => return,
        };
        let whole = is_last && missing.is_empty();
        let peer = &self.sides[1 - side];
        let length = peer.lengths.get(&id).or_else(|| peer.growing.get(&id));
        let length = *length.unwrap_or_else(|| panic!("{id:?} was never sent"));
        let end = from + data.len() as u32;
        assert!(if whole { end == length } else { end <= length }, "{id:?} has {end} of {length} bytes");
        let is_missing = |at| missing.iter().any(|range: &Range<u32>| range.contains(&at));
        let right = (from..).zip(data).all(|(at, found)| is_missing(at) || *found == byte(1 - side, id, at));
        assert!(right, "{id:?} has other bytes than were sent");
    }

    fn check(&mut self) {
        for side in 0..self.sides.len() {
            // Blocks that have ended no longer grow.
            let Side { growing, outcomes, .. } = &self.sides[side];
            let over: Vec<BlockId> =
                growing.keys().filter(|id| !outcomes.open.contains(id)).copied().collect();
            over.into_iter().for_each(|id| self.finished(side, id));
            let Some(session) = self.session(side) else { continue };
            let stats = session.stats();
            assert!(stats.held_bytes <= REASSEMBLY, "{} bytes are held", stats.held_bytes);
            assert!(stats.queued_bytes <= QUEUED_BYTES, "{} bytes are queued", stats.queued_bytes);
            assert!(stats.open_blocks <= OPEN_BLOCKS, "{} blocks are open", stats.open_blocks);
        }
    }

    /// Restores the network, except for packets larger than QUIC needs, and resets the
    /// applications: all data that can arrive must arrive.
    fn recover(&mut self) {
        self.network
            .links
            .iter_mut()
            .for_each(|link| *link = Link { mtu: link.mtu.max(SMALLEST_MTU), ..GOOD });
        self.network.fates.clear();
        let (now, time) = (self.world.now, Time::EPOCH + (self.world.now - self.start).into());
        for side in 0..self.sides.len() {
            let growing: Vec<BlockId> = self.sides[side].growing.keys().copied().collect();
            let Some(session) = self.session(side) else { continue };
            session.request_bitrate(None);
            for at in (0..=LINKS as u32).map(Interface) {
                session.set_budget(at, None);
                session.set_metered(now, at, false);
                session.set_quota(now, at, None);
                session.set_role(now, at, Role::Primary);
                session.set_rate_limit(now, at, None);
                session.on_signal(now, at, &Reading::wifi(time, -40.0));
                // A path over the server's interface would lead nowhere, and the close would wait
                // for its timeouts.
                if side == CLIENT && at != AT_SERVER {
                    session.add_path(now, NetPath { local: at, remote: SERVER });
                }
            }
            for id in growing {
                if let Some(session) = self.session(side) {
                    let _ = session.finish(now, id);
                }
                self.finished(side, id);
            }
        }
        self.start = self.world.now;
        self.run(Duration::from_secs(60));
        self.check();
        if (0..self.sides.len()).any(|side| self.peer(side).is_closed()) {
            return;
        }
        for side in 0..self.sides.len() {
            let waits = self.is_without_its_path(side);
            let (own, peer) = (&self.sides[side].outcomes, &self.sides[1 - side].outcomes);
            assert!(own.open.is_empty() || waits, "{:?} of side {side} do not end", own.open);
            let lost = own.delivered.difference(&peer.ended).next();
            assert!(lost.is_none(), "{lost:?} of side {side} was delivered and is nowhere");
        }
    }

    /// Closes both sessions; no state may be left.
    fn part(&mut self) {
        let now = self.world.now;
        for side in 0..self.sides.len() {
            if let Some(session) = self.session(side) {
                session.close(now, 0, "");
            }
        }
        self.start = self.world.now;
        self.run(Config::default().idle_timeout + Duration::from_secs(1));
        for side in 0..self.sides.len() {
            assert!(self.peer(side).endpoint.is_empty(), "something is left of two sessions that are over");
            assert!(self.sides[side].outcomes.open.is_empty(), "blocks outlive their session");
        }
    }
}

/// Returns source and destination of a packet as its receiver sees them.
fn addresses(to_server: bool, link: usize, port: u16) -> (SocketAddr, SocketAddr) {
    if to_server {
        (SocketAddr::new(address(link), port), SERVER)
    } else {
        (SERVER, SocketAddr::new(address(link), GOOD.port))
    }
}

impl Network {
    /// Carries a packet from an end.
    fn carry(&mut self, now: Instant, mut packet: Packet, wire: &mut Wire) {
        let to_server = packet.to == SERVER;
        let client = if to_server { packet.from } else { packet.to };
        let Some(link) = (0..LINKS).find(|link| address(*link) == client.ip()) else { return };
        let Link { delay, down, loss, mtu, port } = self.links[link];
        // Sent to a former address of the client.
        let stale = !to_server && client.port() != port;
        let lost = loss >> (self.sent % 8) & 1 == 1;
        (packet.from, packet.to) = addresses(to_server, link, port);
        if self.sent.is_multiple_of(4) || self.recorded.len() < 8 {
            self.recorded.push_front(packet.clone());
            self.recorded.truncate(32);
        }
        let mut at = now + delay;
        self.sent += 1;
        if down || lost || stale || packet.data.len() > mtu {
            return;
        }
        match self.fates.pop_front() {
            Some(Fate::Lost) => return,
            Some(Fate::Twice(later)) => {
                wire.put(at + later, packet.clone());
                self.sent += 1;
            }
            Some(Fate::Late(later)) => at += later,
            Some(Fate::Damaged(place, with)) => {
                let place = place % packet.data.len();
                packet.data[place] ^= with;
            }
            Some(Fate::Short(length)) => packet.data.truncate(length % packet.data.len()),
            Some(Fate::Moved(to)) => {
                let elsewhere = usize::from(to & 3) % LINKS;
                (packet.from, packet.to) = addresses(to_server, elsewhere, 1_000 + u16::from(to >> 2));
            }
            None => {}
        }
        self.sent += 1;
        wire.put(at, packet);
    }
}

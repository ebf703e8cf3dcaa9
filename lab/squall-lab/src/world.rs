//! Two endpoints and the networks between them, in virtual time.
//!
//! The endpoints and the loop that drives them are those of the product; clock and network differ. A second of session takes a few
//! hundredths of a second here, and every run with the same seed is the same to the byte.

use std::{
    collections::VecDeque,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    time::{Duration, Instant},
};

use bytes::BytesMut;
use squall_net::{Arrival, ConfigError, Direction, Ecn, LinkState, Network, PathConfig};
use squall_proto::{
    ClientTls, Config, Endpoint, Event, Interface, NetPath, QuotaShare, RateLimit, Role, ServerTls, Session,
    SessionId, Target, TlsError, Transmit,
    drive::{self, Datagram, Io, Unreachable},
    pki_types::{CertificateDer, PrivateKeyDer},
    signal::Reading,
};
use squall_trace::Micros;

/// Bytes of IPv4 and UDP headers around a UDP payload.
pub const UDP_OVERHEAD: usize = 28;

/// What a handshake packet is charged with. Its true size depends on random bytes of TLS, and would
/// make runs differ by microseconds.
const LONG_HEADER_SIZE: usize = 1200;

/// Packets that leave back to back at most.
const BATCH: usize = 32;

/// Datagrams that the socket of a suspended side holds.
const SOCKET: usize = 256;

/// What the monotonic clock of a side does while it is suspended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Monotonic {
    /// It runs, as for a process that is stopped: its socket takes in what arrives.
    Runs,
    /// It stops, as Linux has it while a machine sleeps: what arrives is lost.
    Stops,
}

/// One of the two ends, the client first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// Has one interface for each path, and connects.
    Client,
    /// Has one address.
    Server,
}

/// What becomes of the bytes of packets in virtual time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protection {
    /// They stay as they are, with a checksum in the place of the tag. Everything that happens is the same as with
    /// [`Self::Tls`], in less time.
    #[default]
    Checksum,
    /// They are encrypted, as on a network.
    Tls,
}

/// Why a world could not be made.
#[derive(Debug, thiserror::Error)]
pub enum WorldError {
    /// A path is described wrongly.
    #[error(transparent)]
    Path(#[from] ConfigError),
    /// The TLS library refused.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The certificate could not be made.
    #[error("certificate: {0}")]
    Certificate(#[from] rcgen::Error),
    /// The connection could not be started.
    #[error(transparent)]
    Connect(#[from] squall_proto::ConnectError),
}

/// A client, a server, and the paths between them.
pub struct World {
    /// The emulated paths.
    pub network: Network<BytesMut>,
    /// Time 0 of the network.
    origin: Micros,
    /// The network before the last [`Self::enter`], and its time 0: what is under way there still arrives.
    former: Option<(Network<BytesMut>, Micros)>,
    client: Node,
    server: Node,
    now: Micros,
    /// How long a side takes to write a batch of packets.
    write_time: Micros,
    epoch: Instant,
    /// What an end starts with, at first and after a restart: the client's and the server's.
    configs: [Config; 2],
    tls: (ServerTls, ClientTls),
    seed: u64,
    /// Endpoints that were started: none has the random numbers of another.
    starts: u64,
    /// The port under which the server sees the client, by path; a rebinding changes it.
    ports: Vec<u16>,
    /// Takes the packets that leave.
    buf: Vec<u8>,
}

/// The ECN field of a packet that leaves.
fn marks(codepoint: Option<squall_proto::Ecn>) -> Ecn {
    match codepoint {
        None => Ecn::NotCapable,
        Some(squall_proto::Ecn::Ce) => Ecn::Congestion,
        Some(squall_proto::Ecn::Ect0 | squall_proto::Ecn::Ect1) => Ecn::Capable,
    }
}

/// What a socket reports of a packet that arrived.
fn codepoint(ecn: Ecn) -> Option<squall_proto::Ecn> {
    match ecn {
        Ecn::NotCapable => None,
        Ecn::Capable => Some(squall_proto::Ecn::Ect0),
        Ecn::Congestion => Some(squall_proto::Ecn::Ce),
    }
}

struct Node {
    endpoint: Endpoint,
    session: Option<SessionId>,
    /// Whether the session is up.
    connected: bool,
    /// Something happened since it was last driven.
    touched: bool,
    /// The application is busy elsewhere.
    held: bool,
    /// What has arrived and was not taken in.
    arrived: VecDeque<Datagram>,
    /// When its machine continues, while it is suspended.
    suspended: Option<(Micros, Monotonic)>,
    /// For how long its clock will have been stopped then.
    slept: Micros,
    /// How far its clock is behind.
    behind: Micros,
}

/// A side of a world, as the loop of the endpoint sees it.
struct At<'a> {
    world: &'a mut World,
    side: Side,
}

impl Node {
    fn new(endpoint: Endpoint) -> Self {
        let arrived = VecDeque::new();
        Self {
            endpoint,
            session: None,
            connected: false,
            touched: false,
            held: false,
            arrived,
            suspended: None,
            slept: 0,
            behind: 0,
        }
    }

    /// When it has something to do next.
    fn next_moment(&mut self, epoch: Instant) -> Option<Micros> {
        self.suspended.map(|(until, _)| until).or_else(|| {
            let due = self.endpoint.poll_timeout()?;
            Some(micros_up(due.saturating_duration_since(epoch)) + self.behind)
        })
    }
}

impl World {
    /// Two endpoints that connect over all paths from time 0 on. `configs` are the client's and the
    /// server's.
    ///
    /// # Errors
    /// If a path is described wrongly.
    pub fn new(paths: &[PathConfig], client: Config, server: Config, seed: u64) -> Result<Self, WorldError> {
        Self::protected(Protection::default(), paths, client, server, seed)
    }

    /// As [`Self::new`], with a choice of what becomes of the bytes of packets.
    ///
    /// # Errors
    /// If a path is described wrongly.
    pub fn protected(
        protection: Protection,
        paths: &[PathConfig],
        client: Config,
        server: Config,
        seed: u64,
    ) -> Result<Self, WorldError> {
        let network = Network::new(paths, seed)?;
        let (server_tls, client_tls) = match protection {
            Protection::Tls => identity()?,
            Protection::Checksum => {
                let (server, client) = identity()?;
                (server.unprotected(), client.unprotected())
            }
        };
        let epoch = Instant::now();
        let configs = [client, server];
        let [client, server] = &configs;
        let mut world = Self {
            network,
            origin: 0,
            former: None,
            client: Node::new(Endpoint::new(client.clone(), None, Some(endpoint_seed(seed, 1, 0)), epoch)),
            server: Node::new(Endpoint::new(
                server.clone(),
                Some(&server_tls),
                Some(endpoint_seed(seed, 2, 0)),
                epoch,
            )),
            now: 0,
            write_time: 0,
            epoch,
            configs,
            tls: (server_tls, client_tls),
            seed,
            starts: 0,
            ports: vec![CLIENT_PORT; paths.len()],
            buf: Vec::with_capacity(BATCH * 1500),
        };
        world.reconnect()?;
        Ok(world)
    }

    /// The client connects, again if it did before. A session that it has is left to itself: close it first.
    ///
    /// # Errors
    /// If the connection cannot be started.
    pub fn reconnect(&mut self) -> Result<(), squall_proto::ConnectError> {
        let target = Target {
            tls: self.tls.1.clone(),
            server_name: "squall.test".into(),
            interfaces: (0..self.ports.len()).map(|path| vec![client_path(path)]).collect(),
            config: None,
        };
        let now = self.instant();
        self.client.session = Some(self.client.endpoint.connect(now, target)?);
        self.client.touched = true;
        self.client.connected = false;
        self.server.connected = false;
        // The one that says hello next.
        self.server.session = None;
        Ok(())
    }

    /// A side starts again, as after a power failure: nothing is sent, and no session is left of it. A client connects at
    /// once. A server has its key from before.
    ///
    /// # Errors
    /// If the connection cannot be started.
    pub fn restart(&mut self, side: Side) -> Result<(), squall_proto::ConnectError> {
        self.starts += 1;
        let seed = Some(endpoint_seed(self.seed, side as u8 + 1, self.starts));
        let tls = (side == Side::Server).then_some(&self.tls.0);
        let config = self.configs[side as usize].clone();
        let node = Node::new(Endpoint::new(config, tls, seed, self.instant()));
        *self.node(side) = node;
        if side == Side::Client { self.reconnect() } else { Ok(()) }
    }

    /// Packets that leave from now on pass through these paths, as many as before, whose time 0 is now.
    ///
    /// # Errors
    /// If a path is described wrongly.
    pub fn enter(&mut self, paths: &[PathConfig], seed: u64) -> Result<(), ConfigError> {
        let former = std::mem::replace(&mut self.network, Network::new(paths, seed)?);
        self.former = Some((former, self.origin));
        self.origin = self.now;
        Ok(())
    }

    /// What one direction of a path is like now.
    pub fn link(&mut self, path: usize, direction: Direction) -> LinkState {
        self.network.state(self.now - self.origin, path, direction)
    }

    /// How far the last level that the radio of a path reported is from the one that the path follows, as a share of
    /// that: of RSRP in dBm, or of RSSI where there is none.
    pub fn signal_bias(&mut self, path: usize) -> Option<f64> {
        let now = self.now - self.origin;
        let reported = self.network.report(now, path).filter(|reading| !reading.disconnected)?;
        let levels = self.network.air(now, path)?.levels;
        let both = reported.rsrp.zip(levels.rsrp).or(reported.rssi.zip(levels.rssi));
        both.filter(|(_, truth)| *truth != 0.0).map(|(reported, truth)| ((reported - truth) / truth).abs())
    }

    /// Microseconds since the start.
    pub fn now(&self) -> Micros {
        self.now
    }

    /// The time as the endpoints see it.
    pub fn instant(&self) -> Instant {
        self.epoch + Duration::from_micros(self.now)
    }

    /// The time as the endpoint of a side sees it.
    pub fn instant_of(&self, side: Side) -> Instant {
        let node = if side == Side::Client { &self.client } else { &self.server };
        self.epoch + Duration::from_micros(self.now - node.behind)
    }

    /// Microseconds from the start to `at`.
    pub fn micros(&self, at: Instant) -> Micros {
        at.saturating_duration_since(self.epoch).as_micros() as Micros
    }

    /// Whether the session is up at both ends.
    pub fn is_connected(&self) -> bool {
        self.client.connected && self.server.connected
    }

    /// The session of a side, once there is one.
    pub fn session(&mut self, side: Side) -> Option<&mut Session> {
        let node = self.node(side);
        node.touched = true;
        node.endpoint.session(node.session?)
    }

    /// The session of a side, once there is one, to take what it has logged: that causes no packets.
    pub fn look_at(&mut self, side: Side) -> Option<&mut Session> {
        let node = self.node(side);
        node.endpoint.session(node.session?)
    }

    /// The index of the path that a session's pair of ends runs over.
    pub fn path_of(&self, side: Side, net: NetPath) -> Option<usize> {
        let is_over = |path: &usize| match side {
            Side::Client => interface(*path) == net.local,
            Side::Server => client_address(*path) == net.remote.ip(),
        };
        (0..self.ports.len()).find(is_over)
    }

    /// Reports to the client whether a path costs money, if its session is up.
    pub fn set_metered(&mut self, path: usize, metered: bool) {
        let now = self.instant();
        if let Some(session) = self.session(Side::Client) {
            session.set_metered(now, interface(path), metered);
        }
    }

    /// Has the client say what a path is used for, if its session is up.
    pub fn set_role(&mut self, path: usize, role: Role) {
        let now = self.instant();
        if let Some(session) = self.session(Side::Client) {
            session.set_role(now, interface(path), role);
        }
    }

    /// Has the client bound what each side sends on a path, if its session is up.
    pub fn set_rate_limit(&mut self, path: usize, limit: Option<RateLimit>) {
        let now = self.instant();
        if let Some(session) = self.session(Side::Client) {
            session.set_rate_limit(now, interface(path), limit);
        }
    }

    /// Has the client have this much of the quota of a path, or lifts the quota, if its session is up.
    pub fn set_quota(&mut self, path: usize, share: Option<QuotaShare>) {
        let now = self.instant();
        if let Some(session) = self.session(Side::Client) {
            session.set_quota(now, interface(path), share);
        }
    }

    /// Bytes of IP packets that the client has sent and received on a path.
    pub fn usage(&mut self, path: usize) -> u64 {
        self.look_at(Side::Client).map_or(0, |session| session.usage(interface(path)))
    }

    /// Has both sides know a path by its name, for hints of blocks.
    pub fn set_label(&mut self, path: usize, label: &str) {
        if let Some(session) = self.session(Side::Client) {
            session.set_labels(interface(path), [label]);
        }
    }

    /// Gives the client a reading of the radio behind a path; once its session is up.
    pub fn signal(&mut self, path: usize, reading: &Reading) {
        let now = self.instant();
        if let Some(session) = self.session(Side::Client) {
            session.on_signal(now, interface(path), reading);
        }
    }

    /// Sets how many bytes the client may send on a path, or lifts that; once its session is up.
    pub fn set_budget(&mut self, path: usize, budget: Option<u64>) {
        if let Some(session) = self.session(Side::Client) {
            session.set_budget(interface(path), budget);
        }
    }

    /// Sets how many microseconds pass whenever a side writes a batch of packets; 0 by default.
    pub fn set_write_time(&mut self, time: Micros) {
        self.write_time = time;
    }

    /// Makes a side's application stop to take events, or go on.
    pub fn hold_events(&mut self, side: Side, hold: bool) {
        self.node(side).held = hold;
        // So that the session is looked at again.
        let _ = self.session(side);
    }

    /// Suspends a side for this time, in which it does nothing.
    pub fn suspend(&mut self, side: Side, time: Micros, clock: Monotonic) {
        let until = self.now + time;
        let node = self.node(side);
        node.suspended = Some((until, clock));
        node.slept = if clock == Monotonic::Stops { time } else { 0 };
    }

    /// Takes a path's interface away from the client.
    pub fn remove_interface(&mut self, path: usize) {
        let now = self.instant();
        if let Some(session) = self.session(Side::Client) {
            session.remove_interface(now, interface(path));
        }
    }

    /// Gives the client a path's interface (again).
    pub fn add_interface(&mut self, path: usize) {
        let now = self.instant();
        if let Some(session) = self.session(Side::Client) {
            session.add_path(now, client_path(path));
        }
    }

    /// Runs until both sides are up, at most until `limit`. Returns whether they are.
    pub fn connect(&mut self, limit: Micros) -> bool {
        while !self.is_connected() && self.step(limit) {
            self.drain(&mut |_, _, _| {});
        }
        self.is_connected()
    }

    /// Runs until `end`, and gives every event to `on_event`, which may act on the world.
    pub fn run_until(&mut self, end: Micros, mut on_event: impl FnMut(&mut Self, Side, Event)) {
        while self.advance(end, &mut on_event) {}
    }

    /// Runs until the next moment at which something happens, but not past `end`, and gives every event to
    /// `on_event`, which may act on the world. Returns false when `end` is reached.
    pub fn advance(&mut self, end: Micros, on_event: &mut impl FnMut(&mut Self, Side, Event)) -> bool {
        self.drain(on_event);
        let more = self.step(end);
        self.drain(on_event);
        more
    }

    /// Sends what there is to send, then goes on to the next moment at which something happens, but not
    /// past `end`. Returns false when `end` is reached.
    fn step(&mut self, end: Micros) -> bool {
        for side in [Side::Client, Side::Server] {
            if self.node(side).suspended.is_none() {
                self.drive(side);
            }
        }
        let next = self.next_moment().max(self.now);
        if next > end {
            self.now = self.now.max(end);
            return false;
        }
        self.now = next;
        self.rebind();
        self.receive();
        for side in [Side::Client, Side::Server] {
            if self.node(side).suspended.is_some_and(|(until, _)| until > self.now) {
                continue;
            }
            let node = self.node(side);
            node.suspended = None;
            node.behind += std::mem::take(&mut node.slept);
            let acted = drive::take_in(&mut At { world: self, side });
            self.node(side).touched |= acted;
        }
        true
    }

    /// When something happens next; the end of all time if nothing does.
    fn next_moment(&mut self) -> Micros {
        let epoch = self.epoch;
        let client = self.client.next_moment(epoch);
        let ends = client.into_iter().chain(self.server.next_moment(epoch)).min();
        let network = self.network.poll_timeout().into_iter().chain(self.network.next_report()).min();
        let network = network.map(|at| at + self.origin);
        let former = self.former.as_ref().and_then(|(old, origin)| Some(old.poll_timeout()? + origin));
        let or_never = |at: Option<Micros>| at.unwrap_or(Micros::MAX);
        or_never(ends).min(or_never(network)).min(or_never(former))
    }

    fn rebind(&mut self) {
        while let Some(path) = self.network.poll_rebind(self.now - self.origin) {
            self.ports[path] += 1;
        }
    }

    /// Sorts what has arrived to the two sides.
    fn receive(&mut self) {
        while let Some(arrival) = self.arrival() {
            let mut data = arrival.item;
            if let Some(damage) = arrival.damage {
                damage.apply(&mut data);
            }
            let (side, path) = match arrival.direction {
                Direction::Up => {
                    let remote = SocketAddr::new(client_address(arrival.path), self.ports[arrival.path]);
                    (Side::Server, NetPath { local: Interface(0), remote })
                }
                Direction::Down => (Side::Client, client_path(arrival.path)),
            };
            let node = self.node(side);
            let room = match node.suspended {
                None => usize::MAX,
                Some((_, Monotonic::Runs)) => SOCKET,
                Some((_, Monotonic::Stops)) => 0,
            };
            if node.arrived.len() < room {
                node.arrived.push_back(Datagram { path, ecn: codepoint(arrival.ecn), data });
            }
        }
    }

    fn arrival(&mut self) -> Option<Arrival<BytesMut>> {
        if let Some((old, origin)) = &mut self.former {
            if let Some(arrival) = old.poll(self.now - *origin) {
                return Some(arrival);
            }
            if old.poll_timeout().is_none() {
                self.former = None;
            }
        }
        self.network.poll(self.now - self.origin)
    }

    fn drive(&mut self, side: Side) {
        if std::mem::take(&mut self.node(side).touched) {
            let mut buf = std::mem::take(&mut self.buf);
            drive::send_out(&mut At { world: self, side }, usize::MAX, &mut buf);
            self.buf = buf;
        }
    }

    fn send(&mut self, side: Side, transmit: &Transmit, data: &[u8]) {
        let direction = match side {
            Side::Client => Direction::Up,
            Side::Server => Direction::Down,
        };
        let Some(path) = self.path_of(side, transmit.path) else { return };
        // The NAT has forgotten the port: the packet has no receiver.
        if side == Side::Server && transmit.path.remote.port() != self.ports[path] {
            return;
        }
        for packet in data.chunks(transmit.segment_size.unwrap_or(data.len()).max(1)) {
            let long_header = packet[0] & 0x80 != 0;
            let size = if long_header { LONG_HEADER_SIZE } else { packet.len() };
            let _ = self.network.send_marked(
                self.now - self.origin,
                path,
                direction,
                size + UDP_OVERHEAD,
                marks(transmit.ecn),
                BytesMut::from(packet),
            );
        }
    }

    fn drain(&mut self, on_event: &mut impl FnMut(&mut Self, Side, Event)) {
        for side in [Side::Client, Side::Server] {
            if self.node(side).held || self.node(side).suspended.is_some() {
                continue;
            }
            while let Some(id) = self.node(side).endpoint.poll_ready() {
                while let Some(event) = self.node(side).endpoint.poll_event(id) {
                    self.node(side).touched = true;
                    if event == Event::Connected {
                        let node = self.node(side);
                        // A server has one session here: the first that says hello.
                        node.session.get_or_insert(id);
                        node.connected = true;
                        if let Some(session) = node.endpoint.session(id) {
                            session.report_outcomes(true);
                        }
                    }
                    if self.node(side).session == Some(id) {
                        on_event(self, side, event);
                    }
                }
            }
        }
    }

    fn node(&mut self, side: Side) -> &mut Node {
        match side {
            Side::Client => &mut self.client,
            Side::Server => &mut self.server,
        }
    }
}

impl Io for At<'_> {
    fn endpoint(&mut self) -> &mut Endpoint {
        &mut self.world.node(self.side).endpoint
    }

    fn now(&self) -> Instant {
        self.world.instant_of(self.side)
    }

    fn receive(&mut self) -> Option<Datagram> {
        self.world.node(self.side).arrived.pop_front()
    }

    fn read_radios(&mut self) {
        let world = &mut *self.world;
        while self.side == Side::Client
            && let Some((path, reading)) = world.network.poll_report(world.now - world.origin)
        {
            world.signal(path, &reading);
        }
    }

    fn max_packets(&self) -> usize {
        BATCH
    }

    fn send(&mut self, transmit: &Transmit, data: &[u8]) -> Result<(), Unreachable> {
        self.world.send(self.side, transmit, data);
        self.world.now += self.world.write_time;
        Ok(())
    }
}

const SERVER: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), 4433);
const CLIENT_PORT: u16 = 1000;

fn client_address(path: usize) -> IpAddr {
    Ipv4Addr::new(10, path as u8, 0, 1).into()
}

/// The client's end of a path.
fn interface(path: usize) -> Interface {
    Interface(path as u32)
}

fn client_path(path: usize) -> NetPath {
    NetPath { local: interface(path), remote: SERVER }
}

/// The random numbers of an endpoint: of a side, and of each start of it.
fn endpoint_seed(seed: u64, side: u8, starts: u64) -> [u8; 32] {
    let mut bytes = [side; 32];
    bytes[..8].copy_from_slice(&(seed ^ starts.rotate_right(16)).to_le_bytes());
    bytes
}

/// The first whole microsecond not before `duration`.
fn micros_up(duration: Duration) -> Micros {
    duration.as_secs() * 1_000_000 + Micros::from(duration.subsec_nanos().div_ceil(1000))
}

/// A server that the client trusts. Ed25519, whose signatures all have one size.
fn identity() -> Result<(ServerTls, ClientTls), WorldError> {
    let key = rcgen::KeyPair::generate_for(&rcgen::PKCS_ED25519)?;
    let certificate = rcgen::CertificateParams::new(vec!["squall.test".to_owned()])?.self_signed(&key)?;
    let der: CertificateDer<'static> = certificate.der().clone();
    let key = PrivateKeyDer::Pkcs8(key.serialize_der().into());
    Ok((ServerTls::new(vec![der.clone()], key)?, ClientTls::with_roots(&[der])?))
}

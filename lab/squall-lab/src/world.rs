//! Two endpoints and the networks between them, in virtual time.
//!
//! The endpoints and the loop that drives them are those of the product; only clock and network
//! differ. One second of a session takes a few hundredths of a second, and all runs with the same
//! seed are identical to the byte.

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

/// Size that handshake packets are charged with. Their true size depends on random bytes of TLS and
/// would make runs differ by microseconds.
const LONG_HEADER_SIZE: usize = 1200;

/// Maximum number of packets sent back to back.
const BATCH: usize = 32;

/// Datagrams that the socket buffer of a suspended side holds.
const SOCKET: usize = 256;

/// Behaviour of a side's monotonic clock while the side is suspended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Monotonic {
    /// The clock runs, as for a stopped process. The socket buffers arriving packets.
    Runs,
    /// The clock stops, as on Linux while the machine sleeps. Arriving packets are lost.
    Stops,
}

/// The two ends, the client first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// Has one interface for each path, and connects.
    Client,
    /// Has one address.
    Server,
}

/// Treatment of packet contents in virtual time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protection {
    /// Unencrypted, with a checksum in place of the tag. Behaves exactly as [`Self::Tls`], but
    /// takes less time.
    #[default]
    Checksum,
    /// Encrypted, as on a real network.
    Tls,
}

/// Reasons why a world could not be created.
#[derive(Debug, thiserror::Error)]
pub enum WorldError {
    /// The configuration of a path is invalid.
    #[error(transparent)]
    Path(#[from] ConfigError),
    /// The TLS library reported an error.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The certificate could not be created.
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
    /// The network before the last [`Self::enter`] and its time 0. Packets in flight there still
    /// arrive.
    former: Option<(Network<BytesMut>, Micros)>,
    client: Node,
    server: Node,
    now: Micros,
    /// Time that a side takes to write a batch of packets.
    write_time: Micros,
    epoch: Instant,
    /// Initial configuration of the client and the server, also used after a restart.
    configs: [Config; 2],
    tls: (ServerTls, ClientTls),
    seed: u64,
    /// Number of endpoints started so far; gives each one random numbers of its own.
    starts: u64,
    /// Port under which the server sees the client on each path. A NAT rebinding changes it.
    ports: Vec<u16>,
    /// Buffer for outgoing packets.
    buf: Vec<u8>,
}

/// Converts the ECN field of an outgoing packet.
fn marks(codepoint: Option<squall_proto::Ecn>) -> Ecn {
    match codepoint {
        None => Ecn::NotCapable,
        Some(squall_proto::Ecn::Ce) => Ecn::Congestion,
        Some(squall_proto::Ecn::Ect0 | squall_proto::Ecn::Ect1) => Ecn::Capable,
    }
}

/// Converts the ECN field of an arriving packet to the one that a socket would report.
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
    /// The session is established.
    connected: bool,
    /// An event has occurred since the node was last driven.
    touched: bool,
    /// The application takes no events.
    held: bool,
    /// Datagrams that have arrived and are not yet processed.
    arrived: VecDeque<Datagram>,
    /// End of the current suspension.
    suspended: Option<(Micros, Monotonic)>,
    /// Time by which the clock falls behind in the current suspension.
    slept: Micros,
    /// Time by which the clock is behind.
    behind: Micros,
}

/// One side of a world, as seen by the loop of its endpoint.
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

    /// Returns the time of the node's next action.
    fn next_moment(&mut self, epoch: Instant) -> Option<Micros> {
        self.suspended.map(|(until, _)| until).or_else(|| {
            let due = self.endpoint.poll_timeout()?;
            Some(micros_up(due.saturating_duration_since(epoch)) + self.behind)
        })
    }
}

impl World {
    /// Creates two endpoints that connect over all paths from time 0. `configs` are those of the
    /// client and the server.
    ///
    /// # Errors
    /// If the configuration of a path is invalid.
    pub fn new(paths: &[PathConfig], client: Config, server: Config, seed: u64) -> Result<Self, WorldError> {
        Self::protected(Protection::default(), paths, client, server, seed)
    }

    /// Like [`Self::new`], with a choice for the treatment of packet contents.
    ///
    /// # Errors
    /// If the configuration of a path is invalid.
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

    /// Connects the client, again if it already had a session. The old session stays open; close it
    /// first.
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
        // The server takes the next session that arrives.
        self.server.session = None;
        Ok(())
    }

    /// Restarts a side as after a power failure: it sends nothing and loses its session. A client
    /// reconnects at once. A server keeps its key.
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

    /// Replaces the paths. Packets sent from now on pass through these, which must be as many as
    /// before; their time 0 is now.
    ///
    /// # Errors
    /// If the configuration of a path is invalid.
    pub fn enter(&mut self, paths: &[PathConfig], seed: u64) -> Result<(), ConfigError> {
        let former = std::mem::replace(&mut self.network, Network::new(paths, seed)?);
        self.former = Some((former, self.origin));
        self.origin = self.now;
        Ok(())
    }

    /// Returns the current state of one direction of a path.
    pub fn link(&mut self, path: usize, direction: Direction) -> LinkState {
        self.network.state(self.now - self.origin, path, direction)
    }

    /// Returns the deviation of the latest reported level of a path's radio from the true one, as a
    /// fraction of the true one: of RSRP in dBm, or of RSSI if there is no RSRP.
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

    /// Current time of the network as an instant.
    pub fn instant(&self) -> Instant {
        self.epoch + Duration::from_micros(self.now)
    }

    /// Current time on the clock of a side's endpoint.
    pub fn instant_of(&self, side: Side) -> Instant {
        let node = if side == Side::Client { &self.client } else { &self.server };
        self.epoch + Duration::from_micros(self.now - node.behind)
    }

    /// Converts an instant to microseconds since the start.
    pub fn micros(&self, at: Instant) -> Micros {
        at.saturating_duration_since(self.epoch).as_micros() as Micros
    }

    /// `true` if the session is established at both ends.
    pub fn is_connected(&self) -> bool {
        self.client.connected && self.server.connected
    }

    /// Returns the session of a side, if it has one.
    pub fn session(&mut self, side: Side) -> Option<&mut Session> {
        let node = self.node(side);
        node.touched = true;
        node.endpoint.session(node.session?)
    }

    /// Returns the session of a side, if it has one, without driving it afterwards: for reading its
    /// logs.
    pub fn look_at(&mut self, side: Side) -> Option<&mut Session> {
        let node = self.node(side);
        node.endpoint.session(node.session?)
    }

    /// Returns the index of the path that a session's pair of addresses belongs to.
    pub fn path_of(&self, side: Side, net: NetPath) -> Option<usize> {
        let is_over = |path: &usize| match side {
            Side::Client => interface(*path) == net.local,
            Side::Server => client_address(*path) == net.remote.ip(),
        };
        (0..self.ports.len()).find(is_over)
    }

    /// Sets for the client, if its session is established, whether a path is metered.
    pub fn set_metered(&mut self, path: usize, metered: bool) {
        let now = self.instant();
        if let Some(session) = self.session(Side::Client) {
            session.set_metered(now, interface(path), metered);
        }
    }

    /// Sets the role of a path at the client, if its session is established.
    pub fn set_role(&mut self, path: usize, role: Role) {
        let now = self.instant();
        if let Some(session) = self.session(Side::Client) {
            session.set_role(now, interface(path), role);
        }
    }

    /// Sets through the client, if its session is established, the rate limit of both sides on a
    /// path.
    pub fn set_rate_limit(&mut self, path: usize, limit: Option<RateLimit>) {
        let now = self.instant();
        if let Some(session) = self.session(Side::Client) {
            session.set_rate_limit(now, interface(path), limit);
        }
    }

    /// Sets the client's share of the quota of a path or lifts the quota, if its session is
    /// established.
    pub fn set_quota(&mut self, path: usize, share: Option<QuotaShare>) {
        let now = self.instant();
        if let Some(session) = self.session(Side::Client) {
            session.set_quota(now, interface(path), share);
        }
    }

    /// Returns the bytes of IP packets that the client has sent and received on a path.
    pub fn usage(&mut self, path: usize) -> u64 {
        self.look_at(Side::Client).map_or(0, |session| session.usage(interface(path)))
    }

    /// Gives a path a label at both sides, for the hints of blocks.
    pub fn set_label(&mut self, path: usize, label: &str) {
        if let Some(session) = self.session(Side::Client) {
            session.set_labels(interface(path), [label]);
        }
    }

    /// Passes a reading of a path's radio to the client, once its session is established.
    pub fn signal(&mut self, path: usize, reading: &Reading) {
        let now = self.instant();
        if let Some(session) = self.session(Side::Client) {
            session.on_signal(now, interface(path), reading);
        }
    }

    /// Sets the number of bytes that the client may send on a path or lifts the limit, once its
    /// session is established.
    pub fn set_budget(&mut self, path: usize, budget: Option<u64>) {
        if let Some(session) = self.session(Side::Client) {
            session.set_budget(interface(path), budget);
        }
    }

    /// Sets the time in microseconds that a side takes to write a batch of packets. Default: 0.
    pub fn set_write_time(&mut self, time: Micros) {
        self.write_time = time;
    }

    /// Makes the application of a side stop or resume taking events.
    pub fn hold_events(&mut self, side: Side, hold: bool) {
        self.node(side).held = hold;
        // Marks the node so that it is driven again.
        let _ = self.session(side);
    }

    /// Suspends a side for this time.
    pub fn suspend(&mut self, side: Side, time: Micros, clock: Monotonic) {
        let until = self.now + time;
        let node = self.node(side);
        node.suspended = Some((until, clock));
        node.slept = if clock == Monotonic::Stops { time } else { 0 };
    }

    /// Removes the client's interface of a path.
    pub fn remove_interface(&mut self, path: usize) {
        let now = self.instant();
        if let Some(session) = self.session(Side::Client) {
            session.remove_interface(now, interface(path));
        }
    }

    /// Adds the client's interface of a path (again).
    pub fn add_interface(&mut self, path: usize) {
        let now = self.instant();
        if let Some(session) = self.session(Side::Client) {
            session.add_path(now, client_path(path));
        }
    }

    /// Runs until both sides are connected, at most until `limit`. Returns `true` if they are.
    pub fn connect(&mut self, limit: Micros) -> bool {
        while !self.is_connected() && self.step(limit) {
            self.drain(&mut |_, _, _| {});
        }
        self.is_connected()
    }

    /// Runs until `end` and passes every event to `on_event`, which may act on the world.
    pub fn run_until(&mut self, end: Micros, mut on_event: impl FnMut(&mut Self, Side, Event)) {
        while self.advance(end, &mut on_event) {}
    }

    /// Runs until the next event, but not past `end`, and passes every event to `on_event`, which
    /// may act on the world. Returns `false` at `end`.
    pub fn advance(&mut self, end: Micros, on_event: &mut impl FnMut(&mut Self, Side, Event)) -> bool {
        self.drain(on_event);
        let more = self.step(end);
        self.drain(on_event);
        more
    }

    /// Sends all pending packets, then advances to the next event, but not past `end`. Returns
    /// `false` at `end`.
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

    /// Returns the time of the next event, or the maximum if there is none.
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

    /// Distributes arrived packets to the two sides.
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
        // The NAT no longer maps this port: the packet is lost.
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
                        // The server accepts one session, the first that arrives.
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

/// Seed of an endpoint's random numbers, different for each side and start.
fn endpoint_seed(seed: u64, side: u8, starts: u64) -> [u8; 32] {
    let mut bytes = [side; 32];
    bytes[..8].copy_from_slice(&(seed ^ starts.rotate_right(16)).to_le_bytes());
    bytes
}

/// Converts a duration to microseconds, rounded up.
fn micros_up(duration: Duration) -> Micros {
    duration.as_secs() * 1_000_000 + Micros::from(duration.subsec_nanos().div_ceil(1000))
}

/// Creates a server identity that the client trusts. Ed25519, because all its signatures have the
/// same size.
fn identity() -> Result<(ServerTls, ClientTls), WorldError> {
    let key = rcgen::KeyPair::generate_for(&rcgen::PKCS_ED25519)?;
    let certificate = rcgen::CertificateParams::new(vec!["squall.test".to_owned()])?.self_signed(&key)?;
    let der: CertificateDer<'static> = certificate.der().clone();
    let key = PrivateKeyDer::Pkcs8(key.serialize_der().into());
    Ok((ServerTls::new(vec![der.clone()], key)?, ClientTls::with_roots(&[der])?))
}

//! What somebody beside the path, or on it, or a peer, can do to a session: in virtual time, packet by packet.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::BytesMut;
use noq_proto::{DatagramEvent, FourTuple, PathStatus, crypto::rustls::QuicClientConfig};
use rustls::RootCertStore;
use squall_proto::{
    ALPN, Block, BlockOptions, ClientTls, Config, Endpoint, Event, Interface, Limits, NetPath, PathChange,
    ServerTls, SessionId, Target, pki_types::CertificateDer,
};

/// Time of a packet on its way, and the step of the clock.
const WAY: Duration = Duration::from_millis(2);

const fn address(last: u8, port: u16) -> SocketAddr {
    SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 9, 9, last)), port)
}

const SERVER: SocketAddr = address(9, 4433);
const CLIENT: SocketAddr = address(1, 7);
/// Where the client has a second network, if it has one.
const CELLULAR: SocketAddr = address(3, 7);
/// Sends nothing.
const VICTIM: SocketAddr = address(2, 53);

fn server_config() -> Config {
    let limits = Limits { handshakes: 8, handshakes_per_host: 8, sessions: 8, ..Limits::default() };
    Config { limits, announce_timeout: Duration::from_secs(5), ..Config::default() }
}

fn identity() -> (ServerTls, CertificateDer<'static>) {
    let (certificate, key) = squall_testkit::certificate("localhost");
    (ServerTls::new(vec![certificate.clone()], key).expect("belong together"), certificate)
}

type Packet = (SocketAddr, SocketAddr, Vec<u8>);

/// What has an [`Interface`] here, by its number.
const INTERFACES: [SocketAddr; 3] = [SERVER, CLIENT, CELLULAR];

fn net(local: SocketAddr, remote: SocketAddr) -> NetPath {
    let number = INTERFACES.iter().position(|one| *one == local).expect("is one");
    NetPath { local: Interface(number as u32), remote }
}

/// A server and a client, and packets between them.
struct World {
    now: Instant,
    tls: ServerTls,
    server: Endpoint,
    client: Endpoint,
    id: SessionId,
    wire: Vec<Packet>,
    /// Every packet that the server received, with its source, and those that it sent.
    to_server: Vec<(SocketAddr, Vec<u8>)>,
    sent: Vec<(SocketAddr, usize)>,
    /// Sessions of the server.
    announced: Vec<SessionId>,
    received: usize,
    /// When the server noticed which change of a path.
    changes: Vec<(Instant, PathChange)>,
}

impl World {
    fn new() -> Self {
        Self::over(&[CLIENT])
    }

    /// With a client that has these networks.
    fn over(networks: &[SocketAddr]) -> Self {
        let (now, (tls, certificate)) = (Instant::now(), identity());
        let server = Endpoint::new(server_config(), Some(&tls), Some([1; 32]), now);
        let mut client = Endpoint::new(Config::default(), None, Some([2; 32]), now);
        let target = Target {
            tls: ClientTls::with_roots(&[certificate]).expect("is usable"),
            server_name: "localhost".into(),
            interfaces: networks.iter().map(|at| vec![net(*at, SERVER)]).collect(),
        };
        let id = client.connect(now, target).expect("has a path");
        let (wire, to_server, sent, announced) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Self {
            now,
            tls,
            server,
            client,
            id,
            wire,
            to_server,
            sent,
            announced,
            received: 0,
            changes: Vec::new(),
        }
    }

    /// The packets on the way, which `change` may change, arrive; then both ends act.
    fn step(&mut self, change: &mut dyn FnMut(&mut Vec<Packet>)) {
        self.now += WAY;
        let now = self.now;
        change(&mut self.wire);
        for (from, to, data) in std::mem::take(&mut self.wire) {
            if to == SERVER {
                self.server.handle(now, net(to, from), None, BytesMut::from(&data[..]));
                self.to_server.push((from, data));
            } else if to == CLIENT || to == CELLULAR {
                self.client.handle(now, net(to, from), None, BytesMut::from(&data[..]));
            }
        }
        for (at, end) in [(SERVER, &mut self.server), (CLIENT, &mut self.client)] {
            if end.poll_timeout().is_some_and(|due| due <= now) {
                end.handle_timeout(now);
            }
            let mut buf = Vec::new();
            while let Some(out) = end.poll_transmit(now, 1, &mut buf) {
                if at == SERVER {
                    self.sent.push((out.path.remote, out.size));
                }
                let from = INTERFACES[out.path.local.0 as usize];
                self.wire.push((from, out.path.remote, buf[..out.size].to_vec()));
                buf.clear();
            }
            while let Some(id) = end.poll_ready() {
                while let Some(event) = end.poll_event(id) {
                    match event {
                        Event::Connected if at == SERVER => self.announced.push(id),
                        Event::Received(block) => self.received += block.data.len(),
                        Event::Path(_, change) if at == SERVER => self.changes.push((now, change)),
                        _ => {}
                    }
                }
            }
        }
    }

    fn run(&mut self, time: Duration, mut change: impl FnMut(&mut Vec<Packet>)) {
        let end = self.now + time;
        while self.now < end {
            self.step(&mut change);
        }
    }

    /// With a session that is up.
    fn connected() -> Self {
        let mut world = Self::new();
        world.run(Duration::from_millis(100), |_| {});
        assert_eq!(world.announced.len(), 1);
        world
    }

    /// The server hands over 30 kB each 10 ms, for a second.
    fn stream(&mut self, mut change: impl FnMut(&mut Vec<Packet>)) {
        for _ in 0..100 {
            let now = self.now;
            if let Some(session) = self.server.session(self.announced[0]) {
                let _ = session.send(
                    now,
                    Block::with(vec![7; 30_000], BlockOptions::new().deadline(Duration::from_millis(500))),
                );
            }
            self.run(Duration::from_millis(10), &mut change);
        }
    }

    /// Bytes that the server received from there, and sent to there.
    fn exchanged(&self, with: SocketAddr) -> (usize, usize) {
        let from = self.to_server.iter().filter(|(from, _)| *from == with).map(|(_, data)| data.len()).sum();
        (from, self.sent.iter().filter(|(to, _)| *to == with).map(|(_, size)| size).sum())
    }
}

#[test]
fn an_address_that_is_not_its_senders_is_sent_three_times_as_much_at_most() {
    let mut world = World::new();
    world.run(Duration::from_secs(40), |wire| {
        wire.retain(|(_, to, _)| *to == SERVER);
        wire.iter_mut().for_each(|(from, ..)| *from = VICTIM);
    });
    let (received, sent) = world.exchanged(VICTIM);
    assert!(received > 1_200 && sent > 1_200, "{received} and {sent} bytes");
    assert!(sent <= 3 * received, "{sent} bytes for {received}");
    // A single packet, of which the server repeats its answer.
    let mut world = World::new();
    let mut taken = 0;
    world.run(Duration::from_secs(40), |wire| {
        wire.retain(|(_, to, _)| *to == SERVER && taken == 0);
        taken += wire.len();
        wire.iter_mut().for_each(|(from, ..)| *from = VICTIM);
    });
    let (received, sent) = world.exchanged(VICTIM);
    assert!(received >= 1_200 && sent <= 3 * received, "{sent} bytes for {received}");
    assert!(world.server.is_empty(), "it is forgotten");
}

/// Somebody on the path gives some packets of the client the address of somebody else (RFC 9000 §9.3.1).
#[test]
fn a_session_does_not_move_to_an_address_that_does_not_answer() {
    let mut world = World::connected();
    let mut count = 0;
    world.stream(|wire| {
        for (from, to, _) in wire.iter_mut() {
            count += usize::from(*to == SERVER);
            if *to == SERVER && count % 10 == 9 {
                *from = VICTIM;
            }
        }
    });
    // noq starts to count again with every change of the address, and lets a packet leave as soon as one byte may.
    let moves = world.to_server.iter().filter(|(from, _)| *from == VICTIM).count();
    let (_, sent) = world.exchanged(VICTIM);
    assert!(moves > 10, "it was moved {moves} times");
    assert!(sent <= moves * 2 * 1_452, "{sent} bytes for {moves} packets");
    // Nothing else moves: the session goes on where it was.
    let before = world.received;
    world.stream(|_| {});
    assert!(world.received > before + 1_000_000, "{} bytes", world.received - before);
    assert!(!world.server.session(world.announced[0]).expect("is up").is_closed());
}

/// All packets of the client, from the first second on, come from the victim.
#[test]
fn a_flood_is_not_turned_to_an_address_that_does_not_answer() {
    let mut world = World::connected();
    world.stream(|wire| {
        for (from, to, _) in wire.iter_mut().filter(|(_, to, _)| *to == SERVER) {
            let _ = to;
            *from = VICTIM;
        }
    });
    let (received, sent) = world.exchanged(VICTIM);
    assert!(sent <= 3 * received, "{sent} bytes for {received}");
}

/// Somebody on one of two paths gives its packets another address every 200 ms, and passes on what comes back: each is validated.
#[test]
fn a_path_that_moves_again_and_again_is_closed() {
    const ALIAS: SocketAddr = address(4, 7);
    let mut world = World::over(&[CLIENT, CELLULAR]);
    world.run(Duration::from_millis(500), |_| {});
    let (start, mut step, before) = (world.now, 0_u32, world.changes.len());
    for _ in 0..10 {
        world.stream(|wire| {
            step += 1;
            for (from, to, _) in wire.iter_mut() {
                if *from == CLIENT && (step / 100).is_multiple_of(2) {
                    *from = ALIAS;
                } else if *to == ALIAS {
                    *to = CLIENT;
                }
            }
        });
    }
    // Nine moves of the path close it. The client opens it again.
    let mut moves = 0;
    let mut closed = 0;
    for (at, change) in &world.changes[before..] {
        match change {
            PathChange::Rebound(_) => moves += 1,
            PathChange::Down => {
                assert!(moves <= 9, "{moves} moves before {:?}", *at - start);
                (moves, closed) = (0, closed + 1);
            }
            _ => {}
        }
    }
    assert!(closed > 0 && moves <= 9, "{:?}", world.changes);
    assert!(world.received > 25_000_000, "{} of 30,000,000 bytes", world.received);
    assert!(!world.server.session(world.announced[0]).expect("is up").is_closed());
}

/// A server closes the only path that is up, as it moves again and again, while another one of the client never comes up. Nothing that the
/// server sends arrives any more, and whatever the client sends does.
#[test]
fn a_session_without_a_path_ends_although_its_client_sends() {
    const ALIAS: SocketAddr = address(4, 7);
    let mut world = World::over(&[CLIENT, CELLULAR]);
    let mut step = 0_u32;
    let mut change = |wire: &mut Vec<Packet>| {
        step += 1;
        wire.retain(|(_, to, _)| *to != CELLULAR);
        for (from, to, _) in wire.iter_mut() {
            if *from == CLIENT && (step / 100) % 2 == 1 {
                *from = ALIAS;
            } else if *to == ALIAS {
                *to = CLIENT;
            }
        }
    };
    world.run(Duration::from_millis(500), &mut change);
    let is_there = |world: &mut World| {
        let session = world.server.session(world.announced[0]).expect("is up");
        session.path_stats().iter().any(|(_, net, _)| net.remote != CELLULAR)
    };
    for _ in 0..10_000 {
        if !is_there(&mut world) {
            break;
        }
        let now = world.now;
        if let Some(session) = world.server.session(world.announced[0]) {
            let _ = session.send(
                now,
                Block::with(vec![7; 6_000], BlockOptions::new().deadline(Duration::from_millis(500))),
            );
        }
        world.run(WAY, &mut change);
    }
    assert!(!is_there(&mut world), "the path stays: {:?}", world.changes);
    let (without, received) = (world.now, world.to_server.len());
    let is_open = |world: &mut World| {
        world.server.session(world.announced[0]).is_some_and(|session| !session.is_closed())
    };
    while is_open(&mut world) && world.now < without + Duration::from_secs(90) {
        world.run(WAY, |wire| wire.retain(|(_, to, _)| *to == SERVER));
    }
    let lasted = world.now - without;
    let late = Config::default().idle_timeout + Duration::from_secs(1);
    let received = world.to_server.len() - received;
    assert!(lasted <= late && received > 50, "{lasted:?}, with {received} packets of the client");
}

/// A router gives a path another address, somebody gives one packet of it a third one, and nothing arrives for four seconds. noq goes back to
/// the second one, and never validates it: the path would carry no data of the server for good.
#[test]
fn a_path_without_validation_is_closed_and_the_last_one_ends_its_session() {
    const ALIAS: SocketAddr = address(4, 7);
    for networks in [&[CLIENT][..], &[CLIENT, CELLULAR]] {
        let mut world = World::over(networks);
        world.run(Duration::from_millis(500), |_| {});
        let (mut count, before, now) = (0, world.changes.len(), world.now);
        let session = world.client.session(world.id).expect("is up");
        session.send(now, Block::new(vec![7; 3_000])).expect("is taken");
        let mut cut = |wire: &mut Vec<Packet>| {
            for (from, to, _) in wire.iter_mut() {
                let is_lost = match *from {
                    CLIENT => {
                        count += 1;
                        *from = if count == 2 { VICTIM } else { ALIAS };
                        count > 2
                    }
                    SERVER => *to != CELLULAR,
                    _ => false,
                };
                *to = if is_lost { VICTIM } else { *to };
            }
        };
        for _ in 0..4 {
            world.stream(&mut cut);
        }
        let received = world.received;
        for _ in 0..3 {
            world.stream(|wire| {
                for (from, to, _) in wire.iter_mut() {
                    *from = if *from == CLIENT { ALIAS } else { *from };
                    *to = if *to == ALIAS { CLIENT } else { *to };
                }
            });
        }
        let moves = world.changes[before..].iter();
        assert_eq!(moves.filter(|(_, change)| matches!(change, PathChange::Rebound(_))).count(), 3);
        let ended = world.server.session(world.announced[0]).is_none_or(|session| session.is_closed());
        let at_client = world.client.session(world.id).is_none_or(|session| session.is_closed());
        assert_eq!((ended, at_client), (networks.len() == 1, networks.len() == 1), "{networks:?}");
        let received = world.received - received;
        assert!(ended || received > 8_500_000, "{received} of 9,000,000 bytes");
    }
}

/// A client with two networks has its session over one, and one of its packets is given the address of the other.
#[test]
fn a_packet_with_another_address_of_the_client_moves_nothing_for_long() {
    for forged in 1..=20 {
        let mut world = World::connected();
        let mut count = 0;
        let mut change = |wire: &mut Vec<Packet>| {
            for (from, ..) in wire.iter_mut().filter(|(from, ..)| *from == CLIENT) {
                count += 1;
                if count == forged {
                    *from = CELLULAR;
                }
            }
        };
        world.stream(&mut change);
        world.stream(&mut change);
        let moves =
            world.changes.iter().filter(|(_, change)| matches!(change, PathChange::Rebound(_))).count();
        assert!((1..=2).contains(&moves), "packet {forged}: {moves} moves");
        assert!(world.received > 5_000_000, "packet {forged}: {} of 6,000,000 bytes", world.received);
    }
}

/// On one of two paths somebody drops what has the size of data, and lets probes pass, which are smaller or larger.
#[test]
fn a_path_that_drops_the_sizes_of_data_carries_none() {
    for size in [150, 400, 700, 1_050] {
        let mut world = World::over(&[CLIENT, CELLULAR]);
        world.run(Duration::from_secs(1), |_| {});
        let sizes = size - 20..size + 100;
        let stream = |world: &mut World, seconds: u32, drops: bool| {
            let mut dropped = 0;
            for _ in 0..seconds * 100 {
                let now = world.now;
                if let Some(session) = world.server.session(world.announced[0]) {
                    let block = || {
                        Block::with(vec![7; size], BlockOptions::new().deadline(Duration::from_millis(100)))
                    };
                    (0..2).for_each(|_| _ = session.send(now, block()));
                }
                world.run(Duration::from_millis(10), |wire| {
                    let hits = |(_, to, data): &Packet| *to == CLIENT && sizes.contains(&data.len());
                    dropped += wire.iter().filter(|packet| hits(packet)).count();
                    wire.retain(|packet| !(drops && hits(packet)));
                });
            }
            dropped
        };
        let used = stream(&mut world, 2, false);
        assert!(used > 100, "{size} bytes: {used} packets took the path");
        stream(&mut world, 4, true);
        let received = world.received;
        let lost = stream(&mut world, 8, true);
        assert!(lost < 20, "{size} bytes: {lost} packets were given to it");
        let received = world.received - received;
        assert!(received >= 1_590 * size, "{size} bytes: {received} of {} arrived", 1_600 * size);
        stream(&mut world, 9, false);
        let used = stream(&mut world, 2, false);
        assert!(used > 100, "{size} bytes: {used} packets took the path that is well again");
    }
}

/// The last path in use carries data of any size as well as it can, be it the only one or the one that remains.
#[test]
fn the_last_path_is_used_whatever_it_drops() {
    for networks in [&[CLIENT][..], &[CLIENT, CELLULAR]] {
        let mut world = World::over(networks);
        world.run(Duration::from_secs(1), |_| {});
        let stream = |world: &mut World, seconds: u32, is_dark: bool| {
            let (mut given, mut silent) = (0, 0);
            for _ in 0..seconds * 100 {
                let now = world.now;
                if let Some(session) = world.server.session(world.announced[0]) {
                    silent += u32::from(session.capacity(now).now == 0);
                    let block = || {
                        Block::with(vec![7; 700], BlockOptions::new().deadline(Duration::from_millis(100)))
                    };
                    (0..2).for_each(|_| _ = session.send(now, block()));
                }
                world.run(Duration::from_millis(10), |wire| {
                    wire.retain(|(from, to, data)| {
                        let hits = *to == CLIENT && (650..850).contains(&data.len());
                        given += usize::from(hits);
                        let is_lost = is_dark && (*to == CELLULAR || *from == CELLULAR);
                        !is_lost && (!hits || given % 20 == 0)
                    });
                });
            }
            (given, silent)
        };
        stream(&mut world, 4, false);
        // The other path goes dark where there is one.
        let (given, silent) = stream(&mut world, 8, true);
        assert!(given > 800, "{} paths: {given} packets", networks.len());
        // An encoder that follows the forecast sends nothing meanwhile.
        assert!(silent < 50, "for {silent} hundredths of a second nothing can be sent");
        let suspicions =
            |(_, change): &&(Instant, PathChange)| matches!(change, PathChange::Suspected { .. });
        let suspicions = world.changes.iter().filter(suspicions).count();
        assert!(suspicions <= 4 * (networks.len() - 1), "{suspicions} suspicions");
    }
}

#[test]
fn a_forged_stateless_reset_ends_nothing() {
    let mut world = World::connected();
    let mut state = 1_u64;
    world.stream(|wire| {
        let mut forged = Vec::new();
        for (from, to, data) in wire.iter().filter(|(.., data)| data.len() > 40) {
            // The connection id is known on the path, the token is not.
            let mut packet = data.clone();
            packet.truncate(64);
            for byte in packet.iter_mut().skip(9) {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                *byte = (state >> 33) as u8;
            }
            forged.push((*from, *to, packet));
        }
        wire.extend(forged);
    });
    assert!(world.received > 1_000_000, "{} bytes", world.received);
    assert!(!world.server.session(world.announced[0]).expect("is up").is_closed());
    assert!(!world.client.session(world.id).expect("is up").is_closed());
}

#[test]
fn a_recorded_session_opens_no_other() {
    for restarted in [false, true] {
        let mut world = World::connected();
        let now = world.now;
        let session = world.client.session(world.id).expect("is up");
        session.send(now, Block::new(vec![7; 30_000])).expect("there is room");
        world.run(Duration::from_millis(200), |_| {});
        assert_eq!(world.received, 30_000);
        world.client.session(world.id).expect("is up").close(world.now, 0, "");
        world.run(Duration::from_secs(5), |_| {});
        assert!(world.server.is_empty());
        let recorded = std::mem::take(&mut world.to_server);
        if restarted {
            world.server = Endpoint::new(server_config(), Some(&world.tls), Some([3; 32]), world.now);
        }
        for from in [CLIENT, VICTIM] {
            for (_, data) in &recorded {
                world.wire.push((from, SERVER, data.clone()));
                world.run(WAY, |_| {});
            }
        }
        world.run(Duration::from_secs(10), |_| {});
        assert_eq!((world.announced.len(), world.received), (1, 30_000));
        assert!(world.server.is_empty(), "the handshake without an end is forgotten");
        let (received, sent) = world.exchanged(VICTIM);
        assert!(sent <= 3 * received, "{sent} bytes for {received}");
    }
}

/// A client of QUIC that is not Squall's.
struct Foreign {
    endpoint: noq_proto::Endpoint,
    handle: noq_proto::ConnectionHandle,
    connection: noq_proto::Connection,
}

impl Foreign {
    fn new(now: Instant, config: noq_proto::ClientConfig) -> Self {
        let mut endpoint = noq_proto::Endpoint::new(Arc::default(), None, true);
        let (handle, connection) = endpoint.connect(now, config, SERVER, "localhost").expect("is valid");
        Self { endpoint, handle, connection }
    }

    /// One that has a session with a server.
    fn greeted(now: &mut Instant) -> (Endpoint, Self, SessionId) {
        Self::greeted_by(server_config(), now)
    }

    /// The same, with a server of this configuration.
    fn greeted_by(config: Config, now: &mut Instant) -> (Endpoint, Self, SessionId) {
        let (tls, certificate) = identity();
        let mut server = Endpoint::new(config, Some(&tls), Some([1; 32]), *now);
        let mut foreign = Self::new(*now, Self::config(certificate));
        foreign.run(now, Duration::from_millis(100), &mut server);
        foreign.say_hello();
        foreign.run(now, Duration::from_millis(100), &mut server);
        let id = server.sessions().next().expect("is up");
        (server, foreign, id)
    }

    fn config(certificate: CertificateDer<'static>) -> noq_proto::ClientConfig {
        let mut roots = RootCertStore::empty();
        roots.add(certificate).expect("is usable");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = rustls::ClientConfig::builder_with_provider(provider);
        let tls = tls.with_protocol_versions(&[&rustls::version::TLS13]).expect("is supported");
        let mut tls = tls.with_root_certificates(roots).with_no_client_auth();
        tls.alpn_protocols = vec![ALPN.to_vec()];
        tls.enable_early_data = true;
        let mut config =
            noq_proto::ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls).expect("is usable")));
        let mut transport = noq_proto::TransportConfig::default();
        transport.max_concurrent_multipath_paths(512);
        config.transport_config(Arc::new(transport));
        config
    }

    fn run(&mut self, now: &mut Instant, time: Duration, server: &mut Endpoint) {
        let end = *now + time;
        while *now < end {
            *now += WAY;
            self.step(*now, server);
        }
    }

    fn step(&mut self, now: Instant, server: &mut Endpoint) {
        if self.connection.poll_timeout().is_some_and(|at| at <= now) {
            self.connection.handle_timeout(now);
        }
        while let Some(event) = self.connection.poll_endpoint_events() {
            if let Some(answer) = self.endpoint.handle_event(self.handle, event) {
                self.connection.handle_event(answer);
            }
        }
        while self.connection.poll().is_some() {}
        let mut buf = Vec::new();
        while let Some(out) = self.connection.poll_transmit(now, 1.try_into().expect("is 1"), &mut buf) {
            let from = SocketAddr::new(out.src_ip.unwrap_or(CLIENT.ip()), CLIENT.port());
            server.handle(now, net(SERVER, from), None, BytesMut::from(&buf[..out.size]));
            buf.clear();
        }
        if server.poll_timeout().is_some_and(|at| at <= now) {
            server.handle_timeout(now);
        }
        while let Some(out) = server.poll_transmit(now, 1, &mut buf) {
            let path = FourTuple::new(SERVER, Some(out.path.remote.ip()));
            let (data, mut reply) = (BytesMut::from(&buf[..out.size]), Vec::new());
            let event = self.endpoint.handle(now, path, None, data, &mut reply);
            if let Some(DatagramEvent::ConnectionEvent(_, event)) = event {
                self.connection.handle_event(event);
            }
            buf.clear();
        }
    }

    fn say_hello(&mut self) {
        let id = self.connection.streams().open(noq_proto::Dir::Uni).expect("one is allowed");
        let mut stream = self.connection.send_stream(id);
        stream.write(&[1, 0x40, 0x40, 1]).expect("there is room");
        stream.finish().expect("is open");
    }
}

/// Data of a handshake that is not over could be replayed (RFC 8446 §8); a client that wants to send some has no ticket.
#[test]
fn there_is_no_data_before_the_handshake() {
    let (mut now, (tls, certificate)) = (Instant::now(), identity());
    let mut server = Endpoint::new(server_config(), Some(&tls), Some([1; 32]), now);
    let config = Foreign::config(certificate);
    for _ in 0..2 {
        let mut foreign = Foreign::new(now, config.clone());
        assert!(!foreign.connection.has_0rtt());
        foreign.run(&mut now, Duration::from_millis(200), &mut server);
        assert!(!foreign.connection.is_handshaking() && !foreign.connection.is_closed());
    }
}

/// Each number keeps connection ids at the server, also that of a path which was abandoned before a packet of it arrived.
#[test]
fn numbers_of_paths_are_granted_slowly_and_not_without_end() {
    let mut now = Instant::now();
    let (mut server, mut foreign, id) = Foreign::greeted(&mut now);
    let mut opened = 0;
    for tenth in 0..4_000 {
        let path = FourTuple::new(SERVER, Some(IpAddr::V4(Ipv4Addr::new(10, 8, 1, 1))));
        if let Ok(number) = foreign.connection.open_path(path, PathStatus::Available, now) {
            opened += 1;
            foreign.connection.close_path(now, number, 0_u8.into()).expect("is not the last one");
        }
        foreign.run(&mut now, Duration::from_millis(100), &mut server);
        while server.poll_event(id).is_some() {}
        assert!(
            opened <= Limits::default().paths + 1 + tenth / 10,
            "{opened} paths after {tenth} tenths of a second"
        );
    }
    assert!((250..=264).contains(&opened), "{opened} paths");
    assert!(!server.session(id).expect("is up").is_closed());
}

#[test]
fn a_peer_has_as_many_paths_as_allowed_and_no_more() {
    for most in [3, Limits::default().paths] {
        let mut now = Instant::now();
        let config = server_config();
        let limits = Limits { paths: most, ..config.limits };
        let (mut server, mut foreign, id) = Foreign::greeted_by(Config { limits, ..config }, &mut now);
        let mut opened = 0;
        for n in 0..60 {
            let local = IpAddr::V4(Ipv4Addr::new(10, 8, n, 1));
            let path = FourTuple::new(SERVER, Some(local));
            opened += usize::from(foreign.connection.open_path(path, PathStatus::Available, now).is_ok());
            foreign.run(&mut now, Duration::from_millis(50), &mut server);
            while server.poll_event(id).is_some() {}
            let paths = server.session(id).expect("is up").path_stats().len();
            assert!(paths <= most, "{paths} paths of {most}");
        }
        assert!(opened >= most / 2, "{opened} paths of {most}");
    }
}

//! Attacks beside the path, on it, or by a peer, on a session: in virtual time, packet by packet.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    time::{Duration, Instant},
};

use noq_proto::{FourTuple, PathStatus, TransportConfig};
use squall_proto::{Block, BlockOptions, Config, Event, PathChange};
use squall_testkit::{
    Peer, Stranger,
    world::{Packet, SERVER, Wire, World, after},
};

/// One-way delay of a packet: the step of the clock.
const WAY: Duration = Duration::from_millis(2);

const fn address(last: u8, port: u16) -> SocketAddr {
    SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 9, 9, last)), port)
}

const CLIENT: SocketAddr = address(1, 7);
/// Second network of the client, if it has one.
const CELLULAR: SocketAddr = address(3, 7);
/// A host that sends nothing.
const VICTIM: SocketAddr = address(2, 53);

fn server_config() -> Config {
    Config::default()
        .handshakes(8)
        .handshakes_per_host(8)
        .max_sessions(8)
        .announce_timeout(Duration::from_secs(5))
}

/// Creates a block of this size with a deadline in milliseconds.
fn within(size: usize, deadline: u64) -> Block {
    Block::with(vec![7; size], BlockOptions::new().deadline(Duration::from_millis(deadline)))
}

/// A server and a client, an attacker between them, and observations of them.
struct Scene {
    world: World,
    /// Every packet for the server.
    to_server: Vec<Packet>,
    /// Destinations and sizes of the packets of the server.
    sent: Vec<(SocketAddr, usize)>,
    /// Number of sessions that the server announced.
    announced: usize,
    /// Bytes of blocks that were received.
    received: usize,
    /// Changes of paths that the server reported.
    changes: Vec<PathChange>,
}

impl Scene {
    fn new() -> Self {
        Self::over(&[CLIENT])
    }

    /// Creates a client with these networks.
    fn over(networks: &[SocketAddr]) -> Self {
        let now = Instant::now();
        let client = Peer::client(Config::default(), 2, now, networks);
        let world = World::new(now, Peer::server(server_config(), 1, now), vec![client]);
        Self { world, to_server: vec![], sent: vec![], announced: 0, received: 0, changes: vec![] }
    }

    /// Advances the time; `change` gets each packet that leaves, and may drop it, change it or add
    /// others.
    fn run(&mut self, time: Duration, mut change: impl FnMut(Instant, &mut Vec<Packet>)) {
        let Self { world, to_server, sent, .. } = self;
        let mut network = |now, packet: Packet, wire: &mut Wire| {
            if packet.from == SERVER {
                sent.push((packet.to, packet.data.len()));
            }
            let mut packets = vec![packet];
            change(now, &mut packets);
            for packet in packets {
                if packet.to == SERVER {
                    to_server.push(packet.clone());
                }
                wire.put(now, packet);
            }
        };
        let end = world.now + time;
        while world.now < end {
            world.now += WAY;
            world.turn(&mut network);
        }
        for (_, event) in world.server.events.drain(..) {
            match event {
                Event::Connected => self.announced += 1,
                Event::Received(block) => self.received += block.data.len(),
                Event::Path(_, change) => self.changes.push(change),
                _ => {}
            }
        }
        for (_, event) in world.clients[0].events.drain(..) {
            if let Event::Received(block) = event {
                self.received += block.data.len();
            }
        }
    }

    /// Creates a session that is up.
    fn connected() -> Self {
        let mut scene = Self::new();
        scene.run(Duration::from_millis(100), |_, _| {});
        assert_eq!(scene.announced, 1);
        scene
    }

    fn client(&mut self) -> &mut Peer {
        &mut self.world.clients[0]
    }

    /// Sends blocks from the server, up to the room of the session.
    fn send(&mut self, block: impl Fn() -> Block, count: u32) {
        let now = self.world.now;
        if let Some(session) = self.world.server.find() {
            (0..count).for_each(|_| _ = session.send(now, block()));
        }
    }

    /// Hands over 30 kB each 10 ms at the server, for a second.
    fn stream(&mut self, mut change: impl FnMut(Instant, &mut Vec<Packet>)) {
        for _ in 0..100 {
            self.send(|| within(30_000, 500), 1);
            self.run(Duration::from_millis(10), &mut change);
        }
    }

    /// Returns the bytes that the server received from there, and sent to there.
    fn exchanged(&self, with: SocketAddr) -> (usize, usize) {
        let from = self.to_server.iter().filter(|packet| packet.from == with);
        let to = self.sent.iter().filter(|(to, _)| *to == with);
        (from.map(|packet| packet.data.len()).sum(), to.map(|(_, size)| size).sum())
    }

    fn moves(&self) -> usize {
        self.changes.iter().filter(|change| matches!(change, PathChange::Rebound(_))).count()
    }
}

/// Emulates a router that changes the client's address every 200 ms, and back again.
fn rebind(now: Instant, start: Instant, packets: &mut [Packet]) {
    for packet in packets {
        if packet.from == CLIENT && (now - start).as_millis() / 200 % 2 == 1 {
            packet.from = ALIAS;
        } else if packet.to == ALIAS {
            packet.to = CLIENT;
        }
    }
}

/// Another address of the client, of a router.
const ALIAS: SocketAddr = address(4, 7);

#[test]
fn an_address_that_is_not_its_senders_is_sent_three_times_as_much_at_most() {
    let mut scene = Scene::new();
    scene.run(Duration::from_secs(40), |_, packets| {
        packets.retain(|packet| packet.to == SERVER);
        packets.iter_mut().for_each(|packet| packet.from = VICTIM);
    });
    let (received, sent) = scene.exchanged(VICTIM);
    assert!(received > 1_200 && sent > 1_200, "{received} and {sent} bytes");
    assert!(sent <= 3 * received, "{sent} bytes for {received}");
    // A single packet, whose answer the server repeats.
    let mut scene = Scene::new();
    let mut taken = 0;
    scene.run(Duration::from_secs(40), |_, packets| {
        packets.retain(|packet| packet.to == SERVER && taken == 0);
        taken += packets.len();
        packets.iter_mut().for_each(|packet| packet.from = VICTIM);
    });
    let (received, sent) = scene.exchanged(VICTIM);
    assert!(received >= 1_200 && sent <= 3 * received, "{sent} bytes for {received}");
    assert!(scene.world.server.endpoint.is_empty(), "it is forgotten");
}

/// An attacker on the path rewrites the source of some packets of the client to that of another
/// host (RFC 9000 §9.3.1).
#[test]
fn a_session_does_not_move_to_an_address_that_does_not_answer() {
    let mut scene = Scene::connected();
    let mut count = 0;
    scene.stream(|_, packets| {
        for packet in packets.iter_mut().filter(|packet| packet.to == SERVER) {
            count += 1;
            if count % 10 == 9 {
                packet.from = VICTIM;
            }
        }
    });
    // noq restarts its count with every change of the address, and lets a packet leave as soon as
    // one byte may.
    let moves = scene.to_server.iter().filter(|packet| packet.from == VICTIM).count();
    let (_, sent) = scene.exchanged(VICTIM);
    assert!(moves > 10, "it was moved {moves} times");
    assert!(sent <= moves * 2 * 1_452, "{sent} bytes for {moves} packets");
    // Nothing else moves: the session continues on its path.
    let before = scene.received;
    scene.stream(|_, _| {});
    assert!(scene.received > before + 1_000_000, "{} bytes", scene.received - before);
    assert!(!scene.world.server.is_closed());
}

/// All packets of the client, from the first second on, have the source of the victim.
#[test]
fn a_flood_is_not_turned_to_an_address_that_does_not_answer() {
    let mut scene = Scene::connected();
    scene.stream(|_, packets| {
        packets.iter_mut().filter(|packet| packet.to == SERVER).for_each(|packet| packet.from = VICTIM);
    });
    let (received, sent) = scene.exchanged(VICTIM);
    assert!(sent <= 3 * received, "{sent} bytes for {received}");
}

/// An attacker on one of two paths rewrites the source of its packets every 200 ms, and forwards
/// the replies: each is validated.
#[test]
fn a_path_that_moves_again_and_again_is_closed() {
    let mut scene = Scene::over(&[CLIENT, CELLULAR]);
    scene.run(Duration::from_millis(500), |_, _| {});
    let (start, before) = (scene.world.now, scene.changes.len());
    for _ in 0..10 {
        scene.stream(|now, packets| rebind(now, start, packets));
    }
    // Nine moves of the path close it. The client opens it again.
    let mut moves = 0;
    let mut closed = 0;
    for change in &scene.changes[before..] {
        match change {
            PathChange::Rebound(_) => moves += 1,
            PathChange::Down => {
                assert!(moves <= 9, "{moves} moves before it is closed");
                (moves, closed) = (0, closed + 1);
            }
            _ => {}
        }
    }
    assert!(closed > 0 && moves <= 9, "{:?}", scene.changes);
    assert!(scene.received > 25_000_000, "{} of 30,000,000 bytes", scene.received);
    assert!(!scene.world.server.is_closed());
}

/// A server closes the only path that is up, as it moves again and again, while another one of the
/// client is never up. Packets of the server no longer arrive, and those of the client do.
#[test]
fn a_session_without_a_path_ends_although_its_client_sends() {
    let mut scene = Scene::over(&[CLIENT, CELLULAR]);
    let start = scene.world.now;
    let mut change = |now, packets: &mut Vec<Packet>| {
        packets.retain(|packet| packet.to != CELLULAR);
        rebind(now, start, packets);
    };
    scene.run(Duration::from_millis(500), &mut change);
    let is_there = |scene: &mut Scene| {
        let paths = scene.world.server.session().path_stats();
        paths.iter().any(|(_, net, _)| net.remote != CELLULAR)
    };
    for _ in 0..10_000 {
        if !is_there(&mut scene) {
            break;
        }
        scene.send(|| within(6_000, 500), 1);
        scene.run(WAY, &mut change);
    }
    assert!(!is_there(&mut scene), "the path stays: {:?}", scene.changes);
    let (without, received) = (scene.world.now, scene.to_server.len());
    while !scene.world.server.is_closed() && scene.world.now < without + Duration::from_secs(90) {
        scene.run(WAY, |_, packets| packets.retain(|packet| packet.to == SERVER));
    }
    let lasted = scene.world.now - without;
    let late = Config::default().idle_timeout + Duration::from_secs(1);
    let received = scene.to_server.len() - received;
    assert!(lasted <= late && received > 50, "{lasted:?}, with {received} packets of the client");
}

/// A router changes the address of a path, an attacker changes that of one packet to a third one,
/// and nothing arrives for four seconds. noq moves back to the second one, and never validates it:
/// the path would never carry data of the server again.
#[test]
fn a_path_without_validation_is_closed_and_the_last_one_ends_its_session() {
    for networks in [&[CLIENT][..], &[CLIENT, CELLULAR]] {
        let mut scene = Scene::over(networks);
        scene.run(Duration::from_millis(500), |_, _| {});
        let (mut count, before, now) = (0, scene.moves(), scene.world.now);
        scene.client().session().send(now, Block::new(vec![7; 3_000])).expect("is taken");
        let mut cut = |_, packets: &mut Vec<Packet>| {
            packets.retain_mut(|packet| match packet.from {
                CLIENT => {
                    count += 1;
                    packet.from = if count == 2 { VICTIM } else { ALIAS };
                    count <= 2
                }
                SERVER => packet.to == CELLULAR,
                _ => true,
            });
        };
        for _ in 0..4 {
            scene.stream(&mut cut);
        }
        let received = scene.received;
        for _ in 0..3 {
            scene.stream(|_, packets| {
                for packet in packets {
                    packet.from = if packet.from == CLIENT { ALIAS } else { packet.from };
                    packet.to = if packet.to == ALIAS { CLIENT } else { packet.to };
                }
            });
        }
        assert_eq!(scene.moves() - before, 3);
        let (ended, at_client) = (scene.world.server.is_closed(), scene.client().is_closed());
        assert_eq!((ended, at_client), (networks.len() == 1, networks.len() == 1), "{networks:?}");
        let received = scene.received - received;
        assert!(ended || received > 8_500_000, "{received} of 9,000,000 bytes");
    }
}

/// A client with two networks has its session over one, and one of its packets gets the address of
/// the other.
#[test]
fn a_packet_with_another_address_of_the_client_moves_nothing_for_long() {
    for forged in 1..=20 {
        let mut scene = Scene::connected();
        scene.client().addresses.push(CELLULAR);
        let mut count = 0;
        let mut change = |_, packets: &mut Vec<Packet>| {
            for packet in packets.iter_mut().filter(|packet| packet.from == CLIENT) {
                count += 1;
                if count == forged {
                    packet.from = CELLULAR;
                }
            }
        };
        scene.stream(&mut change);
        scene.stream(&mut change);
        let moves = scene.moves();
        assert!((1..=2).contains(&moves), "packet {forged}: {moves} moves");
        assert!(scene.received > 5_000_000, "packet {forged}: {} of 6,000,000 bytes", scene.received);
    }
}

/// A device on one of two paths drops packets of the size of data, and lets probes pass, which are
/// smaller or larger.
#[test]
fn a_path_that_drops_the_sizes_of_data_carries_none() {
    for size in [150, 400, 700, 1_050] {
        let mut scene = Scene::over(&[CLIENT, CELLULAR]);
        scene.run(Duration::from_secs(1), |_, _| {});
        let sizes = size - 20..size + 100;
        let stream = |scene: &mut Scene, seconds: u32, drops: bool| {
            let mut dropped = 0;
            for _ in 0..seconds * 100 {
                scene.send(|| within(size, 100), 2);
                scene.run(Duration::from_millis(10), |_, packets| {
                    let hits = |packet: &Packet| packet.to == CLIENT && sizes.contains(&packet.data.len());
                    dropped += packets.iter().filter(|packet| hits(packet)).count();
                    packets.retain(|packet| !(drops && hits(packet)));
                });
            }
            dropped
        };
        let used = stream(&mut scene, 2, false);
        assert!(used > 100, "{size} bytes: {used} packets took the path");
        stream(&mut scene, 4, true);
        let received = scene.received;
        let lost = stream(&mut scene, 8, true);
        assert!(lost < 20, "{size} bytes: {lost} packets were given to it");
        let received = scene.received - received;
        assert!(received >= 1_590 * size, "{size} bytes: {received} of {} arrived", 1_600 * size);
        stream(&mut scene, 9, false);
        let used = stream(&mut scene, 2, false);
        assert!(used > 100, "{size} bytes: {used} packets took the path that is well again");
    }
}

/// The last path in use carries data of any size as well as it can, whether it is the only one or
/// the one that remains.
#[test]
fn the_last_path_is_used_whatever_it_drops() {
    for networks in [&[CLIENT][..], &[CLIENT, CELLULAR]] {
        let mut scene = Scene::over(networks);
        scene.run(Duration::from_secs(1), |_, _| {});
        let stream = |scene: &mut Scene, seconds: u32, is_dark: bool| {
            let (mut given, mut silent) = (0, 0);
            for _ in 0..seconds * 100 {
                let now = scene.world.now;
                if let Some(session) = scene.world.server.find() {
                    silent += u32::from(session.capacity(now).now == 0);
                }
                scene.send(|| within(700, 100), 2);
                scene.run(Duration::from_millis(10), |_, packets| {
                    packets.retain(|packet| {
                        let hits = packet.to == CLIENT && (650..850).contains(&packet.data.len());
                        given += usize::from(hits);
                        let is_lost = is_dark && (packet.to == CELLULAR || packet.from == CELLULAR);
                        !is_lost && (!hits || given % 20 == 0)
                    });
                });
            }
            (given, silent)
        };
        stream(&mut scene, 4, false);
        // The other path fails where there is one.
        let (given, silent) = stream(&mut scene, 8, true);
        assert!(given > 800, "{} paths: {given} packets", networks.len());
        // An encoder that follows the forecast sends nothing meanwhile.
        assert!(silent < 50, "for {silent} hundredths of a second nothing can be sent");
        let suspicions = |change: &&PathChange| matches!(change, PathChange::Suspected { .. });
        let suspicions = scene.changes.iter().filter(suspicions).count();
        assert!(suspicions <= 4 * (networks.len() - 1), "{suspicions} suspicions");
    }
}

#[test]
fn a_forged_stateless_reset_ends_nothing() {
    let mut scene = Scene::connected();
    let mut state = 1_u64;
    scene.stream(|_, packets| {
        let mut forged = packets.clone();
        forged.retain(|packet| packet.data.len() > 40);
        for packet in &mut forged {
            // The connection id is used on the path, the token is not.
            packet.data.truncate(64);
            for byte in packet.data.iter_mut().skip(9) {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                *byte = (state >> 33) as u8;
            }
        }
        packets.extend(forged);
    });
    assert!(scene.received > 1_000_000, "{} bytes", scene.received);
    assert!(!scene.world.server.is_closed());
    assert!(!scene.client().is_closed());
}

#[test]
fn a_recorded_session_opens_no_other() {
    for restarted in [false, true] {
        let mut scene = Scene::connected();
        let now = scene.world.now;
        scene.client().session().send(now, Block::new(vec![7; 30_000])).expect("there is room");
        scene.run(Duration::from_millis(200), |_, _| {});
        assert_eq!(scene.received, 30_000);
        let now = scene.world.now;
        scene.client().session().close(now, 0, "");
        scene.run(Duration::from_secs(5), |_, _| {});
        assert!(scene.world.server.endpoint.is_empty());
        let recorded = std::mem::take(&mut scene.to_server);
        if restarted {
            scene.world.server = Peer::server(server_config(), 3, scene.world.now);
        }
        for from in [CLIENT, VICTIM] {
            for packet in &recorded {
                let (now, data) = (scene.world.now, packet.data.clone());
                scene.world.wire.put(now, Packet { from, to: SERVER, data: data.clone() });
                scene.to_server.push(Packet { from, to: SERVER, data });
                scene.run(WAY, |_, _| {});
            }
        }
        scene.run(Duration::from_secs(10), |_, _| {});
        assert_eq!((scene.announced, scene.received), (1, 30_000));
        assert!(scene.world.server.endpoint.is_empty(), "the handshake without an end is forgotten");
        let (received, sent) = scene.exchanged(VICTIM);
        assert!(sent <= 3 * received, "{sent} bytes for {received}");
    }
}

/// Creates a server of this configuration, and a foreign QUIC client that has a session with it.
fn greeted_by(config: Config) -> World {
    let mut transport = TransportConfig::default();
    transport.max_concurrent_multipath_paths(512);
    let now = Instant::now();
    let mut world = World::new(now, Peer::server(config, 1, now), Vec::new());
    world.tick = WAY;
    world.strangers.push(Stranger::new(now, CLIENT, 1, Stranger::config(transport)));
    world.strangers[0].hello = Some(vec![1, 0x40, 0x40, 1]);
    world.run(Duration::from_millis(200), after(Duration::ZERO));
    assert!(world.server.find().is_some(), "it is up");
    world
}

/// Data of a handshake that is not over could be replayed (RFC 8446 §8); a client that wants to
/// send some has no ticket.
#[test]
fn there_is_no_data_before_the_handshake() {
    let now = Instant::now();
    let mut world: World = World::new(now, Peer::server(server_config(), 1, now), Vec::new());
    world.tick = WAY;
    let config = Stranger::config(TransportConfig::default());
    for seed in 1..=2 {
        let stranger = Stranger::new(world.now, CLIENT, seed, config.clone());
        assert!(!stranger.connection.has_0rtt());
        world.strangers = vec![stranger];
        world.run(Duration::from_millis(200), after(Duration::ZERO));
        let connection = &world.strangers[0].connection;
        assert!(!connection.is_handshaking() && !connection.is_closed());
    }
}

/// Each number keeps connection ids at the server, also that of a path which was abandoned before a
/// packet of it arrived.
#[test]
fn numbers_of_paths_are_granted_slowly_and_not_without_end() {
    let mut world = greeted_by(server_config());
    let mut opened = 0;
    for tenth in 0..4_000 {
        let path = FourTuple::new(SERVER, Some(IpAddr::V4(Ipv4Addr::new(10, 8, 1, 1))));
        let (now, connection) = (world.now, &mut world.strangers[0].connection);
        if let Ok(number) = connection.open_path(path, PathStatus::Available, now) {
            opened += 1;
            connection.close_path(now, number, 0_u8.into()).expect("is not the last one");
        }
        world.run(Duration::from_millis(100), after(Duration::ZERO));
        world.server.events.clear();
        assert!(
            opened <= Config::default().limits.max_paths + 1 + tenth / 10,
            "{opened} paths after {tenth} tenths of a second"
        );
    }
    assert!((250..=264).contains(&opened), "{opened} paths");
    assert!(!world.server.is_closed());
}

#[test]
fn a_peer_has_as_many_paths_as_allowed_and_no_more() {
    for most in [3, Config::default().limits.max_paths] {
        let config = server_config();
        let mut world = greeted_by(config.max_paths(most));
        let mut opened = 0;
        for n in 0..60 {
            let path = FourTuple::new(SERVER, Some(IpAddr::V4(Ipv4Addr::new(10, 8, n, 1))));
            let (now, connection) = (world.now, &mut world.strangers[0].connection);
            opened += usize::from(connection.open_path(path, PathStatus::Available, now).is_ok());
            world.run(Duration::from_millis(50), after(Duration::ZERO));
            world.server.events.clear();
            let paths = world.server.session().path_stats().len();
            assert!(paths <= most, "{paths} paths of {most}");
        }
        assert!(opened >= most / 2, "{opened} paths of {most}");
    }
}

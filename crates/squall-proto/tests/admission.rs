//! Attacks of unknown peers on a server, in virtual time.

use std::{
    collections::BTreeMap,
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::{Duration, Instant},
};

use noq_proto::TransportConfig;
use squall_proto::{
    AcceptFilter, AdmissionStats, Block, ClientTls, CloseReason, Config, Event, Fingerprint, Session,
    SessionId, TransportError,
    rustls::{CertificateError, Error},
};
use squall_testkit::{
    Peer, Stranger,
    world::{SERVER, World},
};

/// One-way delay of a packet, and step of the clock.
const WAY: Duration = Duration::from_millis(2);

/// Limits of a server with a token.
fn server_config() -> Config {
    Config::default()
        .handshakes(32)
        .handshakes_per_host(8)
        .max_sessions(16)
        .announce_timeout(Duration::from_secs(5))
        .distrust(true)
}

fn server(config: Config, seed: u8, now: Instant) -> Peer {
    Peer { holds_events: true, ..Peer::server(config, seed, now) }
}

/// A server, its unknown peers and Squall's own clients on one network. No application takes events
/// by itself.
struct Scene {
    world: World,
    /// Number of unknown peers so far.
    strangers: u32,
    /// Forged addresses, from each of which one packet is sent, and whether it is still to leave.
    spoofed: BTreeMap<SocketAddr, bool>,
    /// Delay of each packet.
    delay: Duration,
    /// Largest number of connections that had not announced themselves.
    most: usize,
}

impl Scene {
    fn new() -> Self {
        Self::with(server_config())
    }

    fn with(config: Config) -> Self {
        let now = Instant::now();
        let mut world = World::new(now, server(config, 1, now), Vec::new());
        world.most = u32::MAX;
        Self { world, strangers: 0, spoofed: BTreeMap::new(), delay: Duration::ZERO, most: 0 }
    }

    /// Kills the server and starts it again.
    fn restart(&mut self) {
        self.world.server = server(server_config(), 2, self.world.now);
    }

    fn stranger(&mut self, addr: impl Into<IpAddr>) -> &mut Stranger {
        self.strangers += 1;
        let address = (addr.into(), 1_000 + self.strangers as u16).into();
        let mut transport = TransportConfig::default();
        transport.keep_alive_interval(Some(Duration::from_secs(1)));
        let config = Stranger::config(transport);
        self.world.strangers.push(Stranger::new(self.world.now, address, self.strangers, config));
        self.world.strangers.last_mut().expect("was pushed")
    }

    /// Adds a client; returns its index.
    fn client(&mut self, addr: [u8; 4]) -> usize {
        let at = self.world.clients.len();
        let mut client = Peer::client(Config::default(), 10 + at as u8, self.world.now, &[(addr, 7).into()]);
        client.holds_events = true;
        self.world.clients.push(client);
        at
    }

    fn session(&mut self, client: usize) -> &mut Session {
        self.world.clients[client].session()
    }

    /// Returns the next event of a client.
    fn event(&mut self, client: usize) -> Option<Event> {
        let client = &mut self.world.clients[client];
        client.endpoint.poll_event(client.id?)
    }

    /// Returns the only session of the server.
    fn served(&mut self) -> (SessionId, &mut Session) {
        let server = &mut self.world.server.endpoint;
        let id = server.sessions().next().expect("there is one");
        (id, server.session(id).expect("is open"))
    }

    fn step(&mut self) {
        let (delay, spoofed) = (self.delay, &mut self.spoofed);
        self.world.now += WAY;
        self.world.turn(|now, packet, wire| {
            let passes = spoofed.get_mut(&packet.from).is_none_or(std::mem::take);
            if passes && !spoofed.contains_key(&packet.to) {
                wire.put(now + delay, packet);
            }
        });
        self.most = self.most.max(self.world.server.endpoint.admission().pending);
    }

    fn run(&mut self, time: Duration) {
        let end = self.world.now + time;
        while self.world.now < end {
            self.step();
        }
    }

    /// Connects from there; returns the duration.
    fn connects(&mut self, addr: [u8; 4]) -> Duration {
        let begin = self.world.now;
        let client = self.client(addr);
        while self.world.now < begin + Duration::from_secs(8) {
            self.step();
            match self.event(client) {
                Some(Event::Connected) => return self.world.now - begin,
                Some(Event::Closed(reason)) => panic!("it is refused: {reason}"),
                _ => {}
            }
        }
        panic!("it does not connect: {:?}", self.admission());
    }

    fn send(&mut self, client: usize, size: usize) {
        let now = self.world.now;
        self.session(client).send(now, Block::new(vec![1; size])).expect("is taken");
    }

    fn close(&mut self, client: usize) {
        let now = self.world.now;
        self.session(client).close(now, 0, "");
    }

    fn closed(&mut self, client: usize) -> Option<CloseReason> {
        while let Some(event) = self.event(client) {
            if let Event::Closed(reason) = event {
                return Some(reason);
            }
        }
        None
    }

    fn admission(&self) -> AdmissionStats {
        self.world.server.endpoint.admission()
    }
}

#[test]
fn silent_connections_do_not_keep_others_out() {
    let mut scene = Scene::new();
    // From the address of the honest client, and from others, again as soon as they are dropped.
    for round in 0..15 {
        for n in 0..40 {
            scene.stranger([10, 0, n % 5, 1]);
            scene.run(WAY * 3);
        }
        let took = scene.connects([10, 0, 0, 1 + round]);
        assert!(took < Duration::from_secs(1), "{took:?}");
    }
    assert!(scene.most <= 33, "{} at a time", scene.most);
    let stats = scene.admission();
    assert!(stats.displaced > 100 && stats.refused == 0, "{stats:?}");
}

/// Starts handshakes that are never announced, from these hosts in turn, at `per_second`. Each of
/// `clients` that start after `lead` seconds of them connects within three.
fn connect_beside(per_second: u32, lead: u64, clients: usize, host: impl Fn(u32) -> IpAddr) {
    let mut scene = Scene::new();
    scene.delay = Duration::from_millis(125);
    let (mut next, mut count, mut took) = (scene.world.now, 0, Vec::new());
    let mut begun = None;
    let begin = scene.world.now + Duration::from_secs(lead);
    while took.len() < clients {
        while next <= scene.world.now {
            scene.stranger(host(count));
            (next, count) = (next + Duration::from_secs(1) / per_second, count + 1);
        }
        scene.world.strangers.retain(|one| one.end.is_none());
        scene.step();
        let comes = scene.world.now >= begin;
        begun =
            begun.or_else(|| comes.then(|| (scene.client([172, 16, took.len() as u8, 1]), scene.world.now)));
        let Some((client, since)) = begun else { continue };
        let took_now = scene.world.now - since;
        match scene.event(client) {
            Some(Event::Connected) => {
                took.push(took_now);
                scene.close(client);
            }
            Some(Event::Closed(reason)) => panic!("it is refused: {reason}, {:?}", scene.admission()),
            _ => {
                assert!(took_now < Duration::from_secs(3), "it does not connect: {:?}", scene.admission());
                continue;
            }
        }
        begun = None;
    }
    println!("{per_second} a second: {took:?}");
    assert!(scene.admission().displaced > 0, "the attack works");
}

#[test]
fn handshakes_of_many_hosts_do_not_keep_others_out() {
    for (per_second, lead, clients) in [(20, 8, 20), (200, 2, 5)] {
        connect_beside(per_second, lead, clients, |n| [10, 0, (n % 200) as u8, 1].into());
    }
}

#[test]
fn handshakes_of_a_customer_with_many_networks_do_not_keep_others_out() {
    let customer = 0x2001_0db8_0000_ab00_0000_0000_0000_0001_u128;
    connect_beside(150, 2, 5, |n| std::net::Ipv6Addr::from_bits(customer | u128::from(n % 256) << 64).into());
}

/// Makes attempts from the address of a client, then as many others as in the tests above; returns
/// `true` if a client from there connects.
fn connects_after_attempts_of_its_own(is_authorised: bool) -> bool {
    let mut scene = Scene::new();
    let host = [172, 16, 0, 1];
    let client = scene.client(host);
    scene.run(Duration::from_secs(1));
    if is_authorised {
        let now = scene.world.now;
        scene.served().1.trust(now);
    }
    scene.close(client);
    scene.run(Duration::from_secs(1));
    scene.world.clients.clear();
    for _ in 0..40 {
        scene.stranger(host);
        scene.run(WAY * 10);
    }
    scene.run(Duration::from_secs(6));
    scene.world.strangers.clear();
    scene.delay = Duration::from_millis(125);
    let mut client = None;
    for n in 0..600_u32 {
        scene.stranger([10, 0, (n % 200) as u8, 1]);
        scene.run(Duration::from_millis(6));
        scene.world.strangers.retain(|one| one.end.is_none());
        if n == 200 {
            client = Some(scene.client(host));
        }
        let Some(client) = client else { continue };
        match scene.event(client) {
            Some(Event::Connected) => return true,
            Some(Event::Closed(_)) => return false,
            _ => {}
        }
    }
    false
}

#[test]
fn a_host_that_was_authorised_connects_beside_others() {
    assert!(connects_after_attempts_of_its_own(true));
    assert!(!connects_after_attempts_of_its_own(false), "the attack works");
}

#[test]
fn sessions_that_begin_at_once_are_no_more_than_allowed() {
    let mut scene = Scene::new();
    let all: Vec<_> = (0..24).map(|n| scene.client([10, 0, 1, n])).collect();
    scene.run(Duration::from_secs(2));
    let mut accepted = 0;
    while let Some(id) = scene.world.server.endpoint.poll_ready() {
        while let Some(event) = scene.world.server.endpoint.poll_event(id) {
            accepted += usize::from(matches!(event, Event::Connected));
        }
    }
    assert_eq!((accepted, scene.admission().refused), (16, 8));
    let refused = all.into_iter().filter_map(|one| scene.closed(one));
    let words = "closed by the peer with code 5: too many sessions";
    assert_eq!(refused.filter(|reason| reason.to_string() == words).count(), 8);
}

#[test]
fn a_silent_connection_has_five_seconds() {
    let mut scene = Scene::new();
    scene.stranger([10, 0, 0, 1]);
    scene.run(Duration::from_millis(4_900));
    assert_eq!((scene.admission().pending, scene.world.strangers[0].end.is_some()), (1, false));
    scene.run(Duration::from_millis(200));
    assert_eq!((scene.admission().pending, scene.admission().expired), (0, 1));
    let reason = scene.world.strangers[0].end.as_deref().unwrap_or_default();
    assert!(reason.contains("no hello in time"), "{reason}");
    // And it is forgotten.
    scene.run(Duration::from_secs(10));
    assert!(scene.world.server.endpoint.is_empty());
}

#[test]
fn one_host_has_its_share_only() {
    let mut scene = Scene::new();
    for _ in 0..20 {
        scene.stranger([10, 0, 0, 1]);
        scene.run(WAY * 10);
    }
    assert_eq!(scene.admission().pending, 8);
    assert_eq!(
        scene.world.strangers.iter().filter(|one| one.end.is_some()).count(),
        0,
        "they say nothing yet"
    );
    scene.run(Duration::from_secs(2));
    assert_eq!(
        scene.world.strangers.iter().filter(|one| one.end.is_some()).count(),
        12,
        "a stateless reset answers"
    );
}

#[test]
fn spoofed_handshakes_do_not_keep_others_out() {
    let mut scene = Scene::new();
    for n in 0..60 {
        for m in 0..10 {
            let address = scene.stranger([10, 1, n, m]).address;
            scene.spoofed.insert(address, true);
        }
        scene.run(Duration::from_millis(100));
        if n % 10 == 9 {
            let took = scene.connects([10, 2, 0, n]);
            assert!(took < Duration::from_millis(100), "{took:?}");
        }
    }
    let stats = scene.admission();
    assert!(scene.most <= 9 && stats.retried > 500, "{} at a time, {stats:?}", scene.most);
}

/// Returns the reason for which the session ends after this hello.
fn end_of(hello: &[u8]) -> String {
    let mut scene = Scene::new();
    scene.stranger([10, 0, 0, 1]).hello = Some(hello.to_vec());
    scene.run(Duration::from_millis(200));
    scene.world.strangers[0].end.take().unwrap_or_default()
}

#[test]
fn a_malformed_hello_closes_the_session() {
    assert_eq!(end_of(&[1, 0x40, 0x40, 1]), "", "is right");
    assert_eq!(end_of(&[2, 0x40, 0x40, 1, 9, 9]), "", "a later version says more");
    for (hello, words) in [
        (&[][..], "the hello ends within a field"),
        (&[1], "the hello ends within a field"),
        (&[1, 0x40, 0x40, 0x80, 1], "the hello ends within a field"),
        (&[0, 1, 1], "the hello has version 0"),
        (&[1; 257], "the hello is too long"),
    ] {
        let reason = end_of(hello);
        assert!(reason.contains(words), "{hello:?}: {reason}");
    }
}

#[test]
fn a_server_that_is_killed_and_started_again_says_so() {
    let mut scene = Scene::new();
    scene.connects([10, 0, 0, 1]);
    let client = 0;
    scene.run(Duration::from_millis(100));
    scene.restart();
    let begin = scene.world.now;
    let reason = loop {
        let now = scene.world.now;
        let _ = scene.session(client).send(now, Block::new(vec![0; 500]));
        scene.step();
        if let Some(reason) = scene.closed(client) {
            break reason;
        }
        assert!(scene.world.now < begin + Duration::from_secs(1), "it takes the silence for a failure");
    };
    let CloseReason::Transport(error) = reason else { panic!("{reason:?}") };
    let lasted = scene.world.now - begin;
    assert_eq!((error.code, error.message.as_str()), (None, "reset by peer"), "after {lasted:?}");
}

/// Three probe timeouts after a close noq forgets the connection (RFC 9000 §10.2), whether the
/// close has left or not.
#[test]
fn a_close_leaves_even_if_the_server_is_late() {
    let mut scene = Scene::new();
    scene.connects([10, 0, 0, 1]);
    scene.run(Duration::from_millis(100));
    let now = scene.world.now;
    scene.served().1.close(now, 16, "enough");
    scene.world.now += Duration::from_secs(2);
    scene.run(Duration::from_millis(100));
    let expected = CloseReason::ByPeer { code: 16, reason: "enough".into() };
    assert_eq!(scene.closed(0), Some(expected));
}

#[test]
fn what_is_held_for_a_stranger_is_bounded() {
    let mut scene = Scene::new();
    scene.connects([10, 0, 0, 1]);
    while scene.world.server.endpoint.sessions().next().is_none() {
        scene.step();
    }
    let held = |scene: &mut Scene| {
        let now = scene.world.now;
        for _ in 0..40 {
            let _ = scene.session(0).send(now, Block::new(vec![0; 10_000]));
        }
        scene.run(Duration::from_millis(500));
        scene.served().1.stats().held_bytes
    };
    assert!(held(&mut scene) <= 64 << 10);
    let now = scene.world.now;
    scene.served().1.trust(now);
    assert!(held(&mut scene) > 300_000, "all of it once it is trusted");
}

#[test]
fn a_stranger_has_64_blocks_however_small() {
    let mut scene = Scene::new();
    scene.connects([10, 0, 0, 1]);
    scene.run(Duration::from_millis(100));
    let (mut received, id) = (0, scene.served().0);
    (0..400).for_each(|_| scene.send(0, 1));
    scene.run(Duration::from_millis(500));
    while let Some(event) = scene.world.server.endpoint.poll_event(id) {
        received += usize::from(matches!(event, Event::Received(_)));
    }
    assert!(received <= 64, "{received} blocks");
}

/// The credit that is announced while a block waits to be read must grow again once it was read,
/// even if that is less than a quarter of the memory.
#[test]
fn a_block_that_was_read_holds_up_no_larger_one() {
    for (config, sizes) in [
        (server_config(), [30_000, 60_000]),
        (server_config().max_block(90_000).reassembly(100_000).distrust(false), [20_000, 90_000]),
    ] {
        let mut scene = Scene::with(config);
        scene.connects([10, 0, 0, 1]);
        let mut received = Vec::new();
        for size in sizes {
            scene.send(0, size);
            scene.run(Duration::from_millis(500));
            let id = scene.served().0;
            while let Some(event) = scene.world.server.endpoint.poll_event(id) {
                if let Event::Received(block) = event {
                    received.push(block.data.len());
                }
            }
        }
        assert_eq!(received, sizes);
    }
}

/// noq writes the close again at every call until the handshake is over.
#[test]
fn a_client_that_does_not_trust_a_server_says_so_once() {
    let mut scene = Scene::new();
    let address = SocketAddr::from(([10, 0, 0, 1], 7));
    let mut client = Peer::new(Config::default(), 10, scene.world.now, vec![address]);
    client.holds_events = true;
    client.connect(scene.world.now, ClientTls::pinned(Fingerprint([7; 32])).expect("is usable"));
    scene.world.clients.push(client);
    let (mut packets, mut closed) = (0, None);
    for _ in 0..100 {
        scene.step();
        closed = closed.or_else(|| scene.closed(0));
        packets += scene.world.wire.packets().filter(|packet| packet.to == SERVER).count();
        assert!(packets < 20, "{packets} packets");
    }
    let Some(CloseReason::Transport(TransportError { code, tls, .. })) = closed else { panic!("{closed:?}") };
    // 49 is the alert `access_denied`.
    assert_eq!(code, Some(0x100 + 49));
    let wrong = CertificateError::ApplicationVerificationFailure;
    assert_eq!(tls.as_deref(), Some(&Error::InvalidCertificate(wrong)));
}

#[test]
fn addresses_that_are_filtered_out_get_no_answer() {
    let accept: AcceptFilter = Arc::new(|peer| peer.ip() != IpAddr::from([10, 0, 0, 1]));
    let config = server_config().accept(accept);
    let mut scene = Scene::with(config);
    scene.client([10, 0, 0, 1]);
    for _ in 0..1_000 {
        scene.step();
        assert!(scene.world.wire.packets().all(|packet| packet.from != SERVER));
    }
    // The client repeats it; how often depends on its timers.
    assert!(scene.admission().refused >= 2 && scene.world.server.endpoint.is_empty());
    scene.connects([10, 0, 0, 2]);
}

/// QUIC reuses the number of a connection once it is over, whether or not the application has read
/// its remaining events.
#[test]
fn reading_what_a_session_left_does_not_disturb_the_next_one() {
    let mut scene = Scene::new();
    let first = scene.client([10, 0, 0, 1]);
    scene.run(Duration::from_secs(1));
    let mut ids = Vec::new();
    ids.extend(scene.world.server.endpoint.poll_ready());
    scene.send(first, 100);
    scene.run(Duration::from_secs(1));
    scene.close(first);
    scene.run(Duration::from_secs(5));
    let second = scene.client([10, 0, 0, 2]);
    scene.run(Duration::from_secs(1));
    while scene.world.server.endpoint.poll_event(ids[0]).is_some() {}
    scene.run(Duration::from_secs(1));
    assert!(!scene.world.server.endpoint.has(ids[0]));
    scene.send(second, 100);
    scene.run(Duration::from_secs(1));
    let served = scene.world.server.endpoint.poll_ready().expect("the second session has news");
    let events = std::iter::from_fn(|| scene.world.server.endpoint.poll_event(served));
    assert_eq!(events.filter(|event| matches!(event, Event::Received(_))).count(), 1);
}

#[test]
fn a_session_that_is_over_is_freed_however_slow_its_network_was() {
    let mut scene = Scene::new();
    let client = scene.client([10, 0, 0, 1]);
    scene.run(Duration::from_secs(1));
    let way = Duration::from_secs(8);
    scene.delay = way;
    scene.run(Duration::from_secs(120));
    scene.close(client);
    let is_empty = |scene: &mut Scene| {
        while let Some(id) = scene.world.server.endpoint.poll_ready() {
            while scene.world.server.endpoint.poll_event(id).is_some() {}
        }
        // It forgets a session with its next call.
        scene.step();
        scene.world.server.endpoint.is_empty()
    };
    // The idle timeout is 30 s.
    scene.run(way + Duration::from_secs(29));
    assert!(!is_empty(&mut scene), "three probe timeouts were short");
    scene.run(Duration::from_secs(2));
    assert!(is_empty(&mut scene) && scene.event(client).is_some());
}

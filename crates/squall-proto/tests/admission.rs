//! What strangers can do to a server, in virtual time.

use std::{
    collections::VecDeque,
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::BytesMut;
use noq_proto::{DatagramEvent, EndpointConfig, FourTuple, crypto::rustls::QuicClientConfig};
use squall_proto::{
    ALPN, AcceptFilter, Block, ClientTls, CloseReason, Config, Endpoint, Event, Fingerprint, Interface,
    Limits, NetPath, ServerTls, SessionId, Target, TransportError,
    rustls::{self, CertificateError},
};

/// Time of a packet on its way, and the step of the clock.
const WAY: Duration = Duration::from_millis(2);

const SERVER: SocketAddr = SocketAddr::new(IpAddr::V4(std::net::Ipv4Addr::new(10, 9, 9, 9)), 4433);
const TO_SERVER: NetPath = NetPath { local: Interface(0), remote: SERVER };

/// What a server with a token allows.
fn server_config() -> Config {
    let limits = Limits { handshakes: 32, handshakes_per_host: 8, sessions: 16, ..Limits::default() };
    Config { limits, announce_timeout: Duration::from_secs(5), distrust: true, ..Config::default() }
}

fn identity() -> ServerTls {
    let (certificate, key) = squall_testkit::certificate("localhost");
    ServerTls::new(vec![certificate], key).expect("belong together")
}

/// A client of QUIC that sends what the test writes and nothing else.
struct Stranger {
    addr: SocketAddr,
    endpoint: noq_proto::Endpoint,
    handle: noq_proto::ConnectionHandle,
    connection: noq_proto::Connection,
    /// Sends nothing after its first flight.
    spoofed: bool,
    sent: usize,
    over: bool,
    hello: Option<Vec<u8>>,
    reason: String,
}

impl Stranger {
    fn new(now: Instant, addr: SocketAddr) -> Self {
        let tls =
            rustls::ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
                .with_protocol_versions(&[&rustls::version::TLS13])
                .expect("is supported");
        let mut tls =
            tls.dangerous().with_custom_certificate_verifier(Arc::new(Anyone)).with_no_client_auth();
        tls.alpn_protocols = vec![ALPN.to_vec()];
        let config = QuicClientConfig::try_from(tls).expect("is usable");
        let mut config = noq_proto::ClientConfig::new(Arc::new(config));
        let mut transport = noq_proto::TransportConfig::default();
        transport.keep_alive_interval(Some(Duration::from_secs(1)));
        config.transport_config(Arc::new(transport));
        let mut endpoint = noq_proto::Endpoint::new(Arc::new(EndpointConfig::default()), None, true);
        let (handle, connection) =
            endpoint.connect(now, config, SERVER, "localhost").expect("the request is valid");
        let (hello, reason) = (None, String::new());
        Self { addr, endpoint, handle, connection, spoofed: false, sent: 0, over: false, hello, reason }
    }

    fn transmit(&mut self, now: Instant, wire: &mut Vec<(SocketAddr, SocketAddr, Vec<u8>)>) {
        if self.connection.poll_timeout().is_some_and(|at| at <= now) {
            self.connection.handle_timeout(now);
        }
        while let Some(event) = self.connection.poll_endpoint_events() {
            if let Some(answer) = self.endpoint.handle_event(self.handle, event) {
                self.connection.handle_event(answer);
            }
        }
        while let Some(event) = self.connection.poll() {
            match event {
                noq_proto::Event::Connected => self.say_hello(),
                noq_proto::Event::ConnectionLost { reason } => {
                    self.over = true;
                    self.reason = reason.to_string();
                }
                _ => {}
            }
        }
        let mut buf = Vec::new();
        while let Some(out) = self.connection.poll_transmit(now, 1.try_into().expect("is 1"), &mut buf) {
            if !self.spoofed || self.sent == 0 {
                wire.push((self.addr, SERVER, buf[..out.size].to_vec()));
            }
            self.sent += 1;
            buf.clear();
        }
    }

    fn say_hello(&mut self) {
        let Some(hello) = self.hello.take() else { return };
        let id = self.connection.streams().open(noq_proto::Dir::Uni).expect("one is allowed");
        let mut stream = self.connection.send_stream(id);
        stream.write(&hello).expect("there is room");
        stream.finish().expect("is open");
    }

    fn receive(&mut self, now: Instant, data: &[u8]) {
        if self.spoofed {
            return;
        }
        let (path, mut buf) = (FourTuple::new(SERVER, None), Vec::new());
        if let Some(DatagramEvent::ConnectionEvent(_, event)) =
            self.endpoint.handle(now, path, None, BytesMut::from(data), &mut buf)
        {
            self.connection.handle_event(event);
        }
    }
}

/// Takes any certificate.
#[derive(Debug)]
struct Anyone;

mod trust {
    use rustls::{
        DigitallySignedStruct, Error, SignatureScheme,
        client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
        pki_types::{CertificateDer, ServerName, UnixTime},
    };

    impl ServerCertVerifier for super::Anyone {
        fn verify_server_cert(
            &self,
            _: &CertificateDer<'_>,
            _: &[CertificateDer<'_>],
            _: &ServerName<'_>,
            _: &[u8],
            _: UnixTime,
        ) -> Result<ServerCertVerified, Error> {
            Ok(ServerCertVerified::assertion())
        }

        fn verify_tls12_signature(
            &self,
            _: &[u8],
            _: &CertificateDer<'_>,
            _: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            Ok(HandshakeSignatureValid::assertion())
        }

        fn verify_tls13_signature(
            &self,
            _: &[u8],
            _: &CertificateDer<'_>,
            _: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            Ok(HandshakeSignatureValid::assertion())
        }

        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            rustls::crypto::ring::default_provider().signature_verification_algorithms.supported_schemes()
        }
    }
}

/// A server, its strangers and Squall's own clients on one network.
struct World {
    now: Instant,
    tls: ServerTls,
    server: Endpoint,
    strangers: Vec<Stranger>,
    clients: Vec<(IpAddr, Endpoint)>,
    /// Packets on their way, and when they arrive.
    wire: VecDeque<(Instant, SocketAddr, SocketAddr, Vec<u8>)>,
    /// Of each packet.
    delay: Duration,
    /// Most connections that had not announced themselves.
    most: usize,
}

impl World {
    fn new() -> Self {
        let (now, tls) = (Instant::now(), identity());
        let server = Endpoint::new(server_config(), Some(&tls), Some([1; 32]), now);
        let (strangers, clients, wire) = (Vec::new(), Vec::new(), VecDeque::new());
        Self { now, tls, server, strangers, clients, wire, delay: Duration::ZERO, most: 0 }
    }

    /// The server is killed and started again.
    fn restart(&mut self) {
        self.server = Endpoint::new(server_config(), Some(&self.tls), Some([2; 32]), self.now);
    }

    fn stranger(&mut self, addr: impl Into<IpAddr>) -> &mut Stranger {
        let port = 1000 + self.strangers.len() as u16;
        self.strangers.push(Stranger::new(self.now, (addr.into(), port).into()));
        self.strangers.last_mut().expect("was pushed")
    }

    fn client(&mut self, addr: [u8; 4]) -> (usize, SessionId) {
        let seed = [10 + self.clients.len() as u8; 32];
        let mut client = Endpoint::new(Config::default(), None, Some(seed), self.now);
        let id = client.connect(self.now, Self::target()).expect("has a path");
        self.clients.push((addr.into(), client));
        (self.clients.len() - 1, id)
    }

    fn target() -> Target {
        let tls = ClientTls::insecure_trust_anyone().expect("is usable");
        Target { tls, server_name: "localhost".into(), interfaces: vec![vec![TO_SERVER]] }
    }

    fn step(&mut self) {
        self.now += WAY;
        let now = self.now;
        while self.wire.front().is_some_and(|packet| packet.0 <= now) {
            let Some((_, from, to, data)) = self.wire.pop_front() else { break };
            let data = data.as_slice();
            if to == SERVER {
                let net = NetPath { local: Interface(0), remote: from };
                self.server.handle(now, net, None, data.into());
            } else if let Some(stranger) = self.strangers.iter_mut().find(|one| one.addr == to) {
                stranger.receive(now, data);
            } else if let Some((_, client)) = self.clients.iter_mut().find(|one| one.0 == to.ip()) {
                client.handle(now, NetPath { remote: from, ..TO_SERVER }, None, data.into());
            }
        }
        let mut sent = Vec::new();
        for stranger in &mut self.strangers {
            stranger.transmit(now, &mut sent);
        }
        let all = self.clients.iter_mut().map(|(local, one)| (SocketAddr::new(*local, 7), one));
        for (addr, endpoint) in all.chain([(SERVER, &mut self.server)]) {
            if endpoint.poll_timeout().is_some_and(|at| at <= now) {
                endpoint.handle_timeout(now);
            }
            let mut buf = Vec::new();
            while let Some(out) = endpoint.poll_transmit(now, 1, &mut buf) {
                sent.push((addr, out.path.remote, buf[..out.size].to_vec()));
                buf.clear();
            }
        }
        let at = now + self.delay;
        self.wire.extend(sent.into_iter().map(|(from, to, data)| (at, from, to, data)));
        self.most = self.most.max(self.server.admission().pending);
    }

    fn run(&mut self, time: Duration) {
        let end = self.now + time;
        while self.now < end {
            self.step();
        }
    }

    /// Connects from there; says how long it took.
    fn connects(&mut self, addr: [u8; 4]) -> Duration {
        let begin = self.now;
        let (at, id) = self.client(addr);
        while self.now < begin + Duration::from_secs(8) {
            self.step();
            match self.clients[at].1.poll_event(id) {
                Some(Event::Connected) => return self.now - begin,
                Some(Event::Closed(reason)) => panic!("it is refused: {reason}"),
                _ => {}
            }
        }
        panic!("it does not connect: {:?}", self.server.admission());
    }

    fn send(&mut self, at: usize, id: SessionId) {
        let session = self.clients[at].1.session(id).expect("is open");
        session.send(self.now, Block::new(vec![1; 100])).expect("is taken");
    }

    fn closed(&mut self, (at, id): (usize, SessionId)) -> Option<CloseReason> {
        while let Some(event) = self.clients[at].1.poll_event(id) {
            if let Event::Closed(reason) = event {
                return Some(reason);
            }
        }
        None
    }
}

#[test]
fn silent_connections_do_not_keep_others_out() {
    let mut world = World::new();
    // From the address of the honest client, and from others, again as soon as they are let go.
    for round in 0..15 {
        for n in 0..40 {
            world.stranger([10, 0, n % 5, 1]);
            world.run(WAY * 3);
        }
        let took = world.connects([10, 0, 0, 1 + round]);
        assert!(took < Duration::from_secs(1), "{took:?}");
    }
    assert!(world.most <= 33, "{} at a time", world.most);
    let stats = world.server.admission();
    assert!(stats.displaced > 100 && stats.refused == 0, "{stats:?}");
}

/// Handshakes that are never announced, from these hosts in turn, as many a second; each of `clients` that come after some seconds
/// of them connects within three.
fn connect_beside(per_second: u32, lead: u64, clients: usize, host: impl Fn(u32) -> IpAddr) {
    let mut world = World::new();
    world.delay = Duration::from_millis(125);
    let (mut next, mut count, mut took) = (world.now, 0, Vec::new());
    let mut begun = None;
    let begin = world.now + Duration::from_secs(lead);
    while took.len() < clients {
        while next <= world.now {
            world.stranger(host(count));
            (next, count) = (next + Duration::from_secs(1) / per_second, count + 1);
        }
        world.strangers.retain(|one| !one.over);
        world.step();
        let comes = world.now >= begin;
        begun = begun.or_else(|| comes.then(|| (world.client([172, 16, took.len() as u8, 1]), world.now)));
        let Some(((at, id), since)) = begun else { continue };
        let took_now = world.now - since;
        match world.clients[at].1.poll_event(id) {
            Some(Event::Connected) => {
                took.push(took_now);
                world.clients[at].1.session(id).expect("is open").close(world.now, 0, "");
            }
            Some(Event::Closed(reason)) => panic!("it is refused: {reason}, {:?}", world.server.admission()),
            _ => {
                assert!(
                    took_now < Duration::from_secs(3),
                    "it does not connect: {:?}",
                    world.server.admission()
                );
                continue;
            }
        }
        begun = None;
    }
    println!("{per_second} a second: {took:?}");
    assert!(world.server.admission().displaced > 0, "the attack works");
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

/// Attempts from the address of a client, then as many others as in the tests above: whether a client from there connects.
fn connects_after_attempts_of_its_own(is_authorised: bool) -> bool {
    let mut world = World::new();
    let host = [172, 16, 0, 1];
    let (at, id) = world.client(host);
    world.run(Duration::from_secs(1));
    if is_authorised {
        let session = world.server.sessions().next().expect("there is one");
        world.server.session(session).expect("is open").trust(world.now);
    }
    world.clients[at].1.session(id).expect("is open").close(world.now, 0, "");
    world.run(Duration::from_secs(1));
    world.clients.clear();
    for _ in 0..40 {
        world.stranger(host);
        world.run(WAY * 10);
    }
    world.run(Duration::from_secs(6));
    world.strangers.clear();
    world.delay = Duration::from_millis(125);
    let mut client = None;
    for n in 0..600_u32 {
        world.stranger([10, 0, (n % 200) as u8, 1]);
        world.run(Duration::from_millis(6));
        world.strangers.retain(|one| !one.over);
        if n == 200 {
            client = Some(world.client(host));
        }
        let Some((at, id)) = client else { continue };
        match world.clients[at].1.poll_event(id) {
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
    let mut world = World::new();
    let all: Vec<_> = (0..24).map(|n| world.client([10, 0, 1, n])).collect();
    world.run(Duration::from_secs(2));
    let mut accepted = 0;
    while let Some(id) = world.server.poll_ready() {
        while let Some(event) = world.server.poll_event(id) {
            accepted += usize::from(matches!(event, Event::Connected));
        }
    }
    assert_eq!((accepted, world.server.admission().refused), (16, 8));
    let refused = all.into_iter().filter_map(|one| world.closed(one));
    let words = "closed by the peer with code 5: too many sessions";
    assert_eq!(refused.filter(|reason| reason.to_string() == words).count(), 8);
}

#[test]
fn a_silent_connection_has_five_seconds() {
    let mut world = World::new();
    world.stranger([10, 0, 0, 1]);
    world.run(Duration::from_millis(4_900));
    assert_eq!((world.server.admission().pending, world.strangers[0].over), (1, false));
    world.run(Duration::from_millis(200));
    assert_eq!((world.server.admission().pending, world.server.admission().expired), (0, 1));
    assert!(world.strangers[0].reason.contains("no hello in time"), "{}", world.strangers[0].reason);
    // And it is forgotten.
    world.run(Duration::from_secs(10));
    assert!(world.server.is_empty());
}

#[test]
fn one_host_has_its_share_only() {
    let mut world = World::new();
    for _ in 0..20 {
        world.stranger([10, 0, 0, 1]);
        world.run(WAY * 10);
    }
    assert_eq!(world.server.admission().pending, 8);
    assert_eq!(world.strangers.iter().filter(|one| one.over).count(), 0, "they say nothing yet");
    world.run(Duration::from_secs(2));
    assert_eq!(world.strangers.iter().filter(|one| one.over).count(), 12, "a stateless reset answers");
}

#[test]
fn spoofed_handshakes_do_not_keep_others_out() {
    let mut world = World::new();
    for n in 0..60 {
        for m in 0..10 {
            world.stranger([10, 1, n, m]).spoofed = true;
        }
        world.run(Duration::from_millis(100));
        if n % 10 == 9 {
            let took = world.connects([10, 2, 0, n]);
            assert!(took < Duration::from_millis(100), "{took:?}");
        }
    }
    let stats = world.server.admission();
    assert!(world.most <= 9 && stats.retried > 500, "{} at a time, {stats:?}", world.most);
}

/// What a hello says, and why the session ends.
fn end_of(hello: &[u8]) -> String {
    let mut world = World::new();
    world.stranger([10, 0, 0, 1]).hello = Some(hello.to_vec());
    world.run(Duration::from_millis(200));
    world.strangers[0].reason.clone()
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
    let mut world = World::new();
    world.connects([10, 0, 0, 1]);
    let client = (0, SessionId(1));
    world.run(Duration::from_millis(100));
    world.restart();
    let begin = world.now;
    let reason = loop {
        let (at, id) = client;
        let session = world.clients[at].1.session(id).expect("is open");
        let _ = session.send(world.now, Block::new(vec![0; 500]));
        world.step();
        if let Some(reason) = world.closed(client) {
            break reason;
        }
        assert!(world.now < begin + Duration::from_secs(1), "it takes the silence for a failure");
    };
    let CloseReason::Transport(error) = reason else { panic!("{reason:?}") };
    assert_eq!(
        (error.code, error.message.as_str()),
        (None, "reset by peer"),
        "after {:?}",
        world.now - begin
    );
}

/// Three probe timeouts after a close noq forgets the connection (RFC 9000 §10.2), whether the close has left or not.
#[test]
fn a_close_leaves_even_if_the_server_is_late() {
    let mut world = World::new();
    world.connects([10, 0, 0, 1]);
    world.run(Duration::from_millis(100));
    let id = world.server.sessions().next().expect("there is one");
    world.server.session(id).expect("is open").close(world.now, 16, "enough");
    world.now += Duration::from_secs(2);
    world.run(Duration::from_millis(100));
    let expected = CloseReason::ByPeer { code: 16, reason: "enough".into() };
    assert_eq!(world.closed((0, SessionId(1))), Some(expected));
}

#[test]
fn what_is_held_for_a_stranger_is_bounded() {
    let mut world = World::new();
    world.connects([10, 0, 0, 1]);
    let mut server = None;
    while server.is_none() {
        world.step();
        server = world.server.sessions().next();
    }
    let id = server.expect("there is one");
    let held = |world: &mut World| {
        let session = world.clients[0].1.session(SessionId(1)).expect("is open");
        for _ in 0..40 {
            let _ = session.send(world.now, Block::new(vec![0; 10_000]));
        }
        world.run(Duration::from_millis(500));
        world.server.session(id).expect("is open").stats().held_bytes
    };
    assert!(held(&mut world) <= 64 << 10);
    world.server.session(id).expect("is open").trust(world.now);
    assert!(held(&mut world) > 300_000, "all of it once it is trusted");
}

#[test]
fn a_stranger_has_64_blocks_however_small() {
    let mut world = World::new();
    world.connects([10, 0, 0, 1]);
    world.run(Duration::from_millis(100));
    let id = world.server.sessions().next().expect("there is one");
    let session = world.clients[0].1.session(SessionId(1)).expect("is open");
    for _ in 0..400 {
        session.send(world.now, Block::new(vec![0; 1])).expect("there is room");
    }
    world.run(Duration::from_millis(500));
    let mut received = 0;
    while let Some(event) = world.server.poll_event(id) {
        received += usize::from(matches!(event, Event::Received(_)));
    }
    assert!(received <= 64, "{received} blocks");
}

/// The credit that is announced while a block waits to be read has to grow again once it was read, even if that is less than
/// a quarter of the memory.
#[test]
fn a_block_that_was_read_holds_up_no_larger_one() {
    let roomy = Limits { block: 90_000, reassembly: 100_000, ..Limits::default() };
    for (config, sizes) in [
        (server_config(), [30_000, 60_000]),
        (Config { limits: roomy, distrust: false, ..server_config() }, [20_000, 90_000]),
    ] {
        let mut world = World::new();
        world.server = Endpoint::new(config, Some(&world.tls), Some([1; 32]), world.now);
        world.connects([10, 0, 0, 1]);
        let mut received = Vec::new();
        for size in sizes {
            let session = world.clients[0].1.session(SessionId(1)).expect("is open");
            session.send(world.now, Block::new(vec![0; size])).expect("there is room");
            world.run(Duration::from_millis(500));
            let id = world.server.sessions().next().expect("there is one");
            while let Some(event) = world.server.poll_event(id) {
                if let Event::Received(block) = event {
                    received.push(block.data.len());
                }
            }
        }
        assert_eq!(received, sizes);
    }
}

/// noq writes the close again at every call as long as the handshake is not over.
#[test]
fn a_client_that_does_not_trust_a_server_says_so_once() {
    let mut world = World::new();
    let mut client = Endpoint::new(Config::default(), None, Some([10; 32]), world.now);
    let interfaces = vec![vec![TO_SERVER]];
    let tls = ClientTls::pinned(Fingerprint([7; 32])).expect("is usable");
    let id = client
        .connect(world.now, Target { tls, server_name: "localhost".into(), interfaces })
        .expect("has a path");
    world.clients.push(([10, 0, 0, 1].into(), client));
    let mut packets = 0;
    for _ in 0..100 {
        world.step();
        packets += world.wire.iter().filter(|(_, _, to, _)| *to == SERVER).count();
        assert!(packets < 20, "{packets} packets");
    }
    let closed = world.closed((0, id));
    let Some(CloseReason::Transport(TransportError { code, tls, .. })) = closed else { panic!("{closed:?}") };
    // 49 is the alert `access_denied`.
    assert_eq!(code, Some(0x100 + 49));
    let wrong = CertificateError::ApplicationVerificationFailure;
    assert_eq!(tls.as_deref(), Some(&rustls::Error::InvalidCertificate(wrong)));
}

#[test]
fn addresses_that_are_filtered_out_get_no_answer() {
    let mut world = World::new();
    let accept: AcceptFilter = Arc::new(|peer| peer.ip() != IpAddr::from([10, 0, 0, 1]));
    let config = Config { accept: Some(accept), ..server_config() };
    world.server = Endpoint::new(config, Some(&world.tls), Some([1; 32]), world.now);
    world.client([10, 0, 0, 1]);
    for _ in 0..1_000 {
        world.step();
        assert!(world.wire.iter().all(|(_, from, _, _)| *from != SERVER));
    }
    // The client says it again, how often depends on its timers.
    assert!(world.server.admission().refused >= 2 && world.server.is_empty());
    world.connects([10, 0, 0, 2]);
}

/// QUIC uses the number of a connection again once it is over, whether or not the application has read what it left.
#[test]
fn reading_what_a_session_left_does_not_disturb_the_next_one() {
    let mut world = World::new();
    let (first, id) = world.client([10, 0, 0, 1]);
    world.run(Duration::from_secs(1));
    let mut ids = Vec::new();
    ids.extend(world.server.poll_ready());
    world.send(first, id);
    world.run(Duration::from_secs(1));
    world.clients[first].1.session(id).expect("is open").close(world.now, 0, "");
    world.run(Duration::from_secs(5));
    let (second, id) = world.client([10, 0, 0, 2]);
    world.run(Duration::from_secs(1));
    while world.server.poll_event(ids[0]).is_some() {}
    world.run(Duration::from_secs(1));
    assert!(!world.server.has(ids[0]));
    world.send(second, id);
    world.run(Duration::from_secs(1));
    let served = world.server.poll_ready().expect("the second session has news");
    let events = std::iter::from_fn(|| world.server.poll_event(served));
    assert_eq!(events.filter(|event| matches!(event, Event::Received(_))).count(), 1);
}

#[test]
fn a_session_that_is_over_is_freed_however_slow_its_network_was() {
    let mut world = World::new();
    let (at, id) = world.client([10, 0, 0, 1]);
    world.run(Duration::from_secs(1));
    let way = Duration::from_secs(8);
    world.delay = way;
    world.run(Duration::from_secs(120));
    world.clients[at].1.session(id).expect("is open").close(world.now, 0, "");
    let is_empty = |world: &mut World| {
        while let Some(id) = world.server.poll_ready() {
            while world.server.poll_event(id).is_some() {}
        }
        // It forgets a session with the next that it does.
        world.step();
        world.server.is_empty()
    };
    // The idle timeout is 30 s.
    world.run(way + Duration::from_secs(29));
    assert!(!is_empty(&mut world), "three probe timeouts were short");
    world.run(Duration::from_secs(2));
    assert!(is_empty(&mut world) && world.clients[at].1.poll_event(id).is_some());
}

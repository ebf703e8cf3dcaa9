//! Sessions at the limits of numbers and time: ids beyond 2³² and up to 2⁶², infinite durations.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    time::{Duration, Instant},
};

use squall_testkit::world::{End, Packet, SERVER, World};

use super::*;
use crate::{BlockOptions, ClientTls, Endpoint, Interface, NetPath, ServerTls, SessionId, Target, varint};

const CLIENT: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 2)), 1000);

/// One-way delay between the ends.
const DELAY: Duration = Duration::from_millis(10);

/// An endpoint at this address.
struct Side {
    at: SocketAddr,
    endpoint: Endpoint,
    id: Option<SessionId>,
    events: Vec<Event>,
}

impl End for Side {
    fn is_at(&self, address: SocketAddr) -> bool {
        self.at == address
    }

    fn due(&mut self) -> Option<Instant> {
        self.endpoint.poll_timeout()
    }

    fn receive(&mut self, now: Instant, packet: Packet) {
        let net = NetPath { local: Interface(0), remote: packet.from };
        self.endpoint.handle(now, net, None, packet.data);
    }

    fn on_timeout(&mut self, now: Instant) {
        self.endpoint.handle_timeout(now);
    }

    fn transmit(&mut self, now: Instant, send: &mut dyn FnMut(Packet)) {
        let mut buf = Vec::new();
        while let Some(out) = self.endpoint.poll_transmit(now, 1, &mut buf) {
            send(Packet { from: self.at, to: out.path.remote, data: buf[..out.size].into() });
            buf.clear();
        }
        while let Some(id) = self.endpoint.poll_ready() {
            while let Some(event) = self.endpoint.poll_event(id) {
                if event == Event::Connected {
                    self.id = Some(id);
                    self.endpoint.session(id).expect("is up").report_outcomes(true);
                }
                self.events.push(event);
            }
        }
    }
}

/// Two ends, 10 ms apart, where one in 41 packets is lost.
struct Pair {
    world: World<Side>,
    sent: u64,
}

impl Pair {
    /// Creates two ends and lets them connect, for a second at most.
    fn new(config: &Config) -> Self {
        let (chain, key) = squall_testkit::certificate("squall.test");
        let server = ServerTls::new(vec![chain.clone()], key).expect("is valid");
        let now = Instant::now();
        let side = |at, tls, seed| Side {
            at,
            endpoint: Endpoint::new(config.clone(), tls, Some([seed; 32]), now),
            id: None,
            events: Vec::new(),
        };
        let (mut client, server) = (side(CLIENT, None, 1), side(SERVER, Some(&server), 2));
        let path = NetPath { local: Interface(0), remote: SERVER };
        let tls = ClientTls::with_roots(&[chain]).expect("is valid");
        let target =
            Target { tls, server_name: "squall.test".into(), interfaces: vec![vec![path]], config: None };
        client.endpoint.connect(now, target).expect("starts");
        let mut pair = Self { world: World::new(now, server, vec![client]), sent: 0 };
        pair.pass(Duration::from_secs(1));
        pair
    }

    fn end(&mut self, end: usize) -> &mut Side {
        if end == 0 { &mut self.world.clients[0] } else { &mut self.world.server }
    }

    fn session(&mut self, end: usize) -> &mut Session {
        let side = self.end(end);
        side.endpoint.session(side.id.expect("is up")).expect("is there")
    }

    fn pass(&mut self, time: Duration) {
        self.world.run(time, |now, packet, wire| {
            self.sent += 1;
            if !self.sent.is_multiple_of(41) {
                wire.put(now + DELAY, packet);
            }
        });
    }

    fn received(&mut self, end: usize) -> Vec<u64> {
        let events = self.end(end).events.iter();
        events
            .filter_map(|event| if let Event::Received(block) = event { Some(block.id.0) } else { None })
            .collect()
    }

    fn closed(&mut self, end: usize) -> Option<CloseReason> {
        let mut events = self.end(end).events.iter();
        events.find_map(|event| if let Event::Closed(why) = event { Some(why.clone()) } else { None })
    }
}

impl Session {
    /// Sets the session to the state after this many blocks, all of which have ended.
    fn start_at(&mut self, block: u64) {
        self.outbox.start_at(block);
        self.inbox.start_at(block);
    }
}

/// Sends this many blocks from both ends, of several kinds, starting with this id.
fn run(first: u64, blocks: u64) -> Pair {
    let mut pair = Pair::new(&Config::default());
    for end in [0, 1] {
        pair.session(end).start_at(first);
    }
    for number in 0..blocks {
        for end in [0, 1] {
            let now = pair.world.now;
            let session = pair.session(end);
            let data = vec![number as u8; if number % 60 == 0 { 6_000 } else { 300 }];
            let id = match number % 50 {
                7 => {
                    let id = session.open(now, &BlockOptions::new()).expect("room");
                    session.append(id, data.into()).expect("is open");
                    session.finish(now, id).expect("is open");
                    id
                }
                _ if number % 2 == 0 => {
                    session.send(now, Block::with(data, BlockOptions::new().ordered(true))).expect("room")
                }
                _ => session
                    .send(now, Block::with(data, BlockOptions::new().deadline(Duration::from_secs(5))))
                    .expect("room"),
            };
            assert_eq!(id.0, first + number);
        }
        pair.pass(Duration::from_millis(5));
    }
    pair.pass(Duration::from_secs(5));
    pair
}

#[test]
fn ids_pass_2_to_the_32() {
    let first = u64::from(u32::MAX) - 1_000;
    let mut pair = run(first, 3_000);
    for end in [0, 1] {
        let mut received = pair.received(end);
        let ordered: Vec<_> = received.iter().filter(|id| (*id - first) % 2 == 0).collect();
        assert!(ordered.is_sorted(), "ordered blocks came out of order");
        received.sort_unstable();
        assert!(received.into_iter().eq(first..first + 3_000), "blocks are missing, or there are others");
        let delivered =
            |event: &&Event| matches!(event, Event::Ended { outcome: Outcome::Delivered { .. }, .. });
        assert_eq!(pair.end(end).events.iter().filter(delivered).count(), 3_000);
        assert_eq!(pair.closed(end), None);
    }
}

#[test]
fn ids_end_at_the_largest_number_of_the_wire() {
    let mut pair = run(varint::MAX - 499, 500);
    let now = pair.world.now;
    let refused = pair.session(0).send(now, Block::new("one too many"));
    assert!(matches!(refused, Err(SendError::Full(_))), "{refused:?}");
    assert!(pair.session(0).open(now, &BlockOptions::new()).is_err());
    pair.pass(Duration::from_secs(5));
    assert_eq!((pair.received(1).len(), pair.closed(0), pair.closed(1)), (500, None, None));
}

#[test]
fn durations_may_be_without_end() {
    let forever = Duration::MAX;
    let config = Config {
        idle_timeout: forever,
        path_idle_timeout: forever,
        keep_alive: forever,
        connect_timeout: forever,
        announce_timeout: forever,
        race_delay: forever,
        silence: forever,
        ..Config::default()
    };
    let mut pair = Pair::new(&config);
    let now = pair.world.now;
    pair.session(0)
        .send(now, Block::with(vec![1; 20_000], BlockOptions::new().deadline(forever)))
        .expect("room");
    let capacity = pair.session(1).capacity(now).safe;
    let deliverable = pair.session(0).deliverable(now, forever, 0.9);
    assert!(capacity < u64::MAX && deliverable < u64::MAX);
    pair.pass(Duration::from_secs(60));
    assert_eq!((pair.received(1).len(), pair.closed(0), pair.closed(1)), (1, None, None));
}

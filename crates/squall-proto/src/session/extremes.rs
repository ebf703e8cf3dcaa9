//! Sessions at the borders of numbers and of time: ids beyond 2³² and up to 2⁶², durations without end.

use std::{
    collections::VecDeque,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    time::{Duration, Instant},
};

use bytes::BytesMut;

use super::*;
use crate::{BlockOptions, ClientTls, Endpoint, Interface, NetPath, ServerTls, SessionId, Target, varint};

const SERVER: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), 4433);
const CLIENT: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 2)), 1000);

/// From one end to the other.
const DELAY: Duration = Duration::from_millis(10);

/// Two ends, 10 ms apart, of whose packets one in 41 is lost.
struct Pair {
    now: Instant,
    ends: [Endpoint; 2],
    ids: [Option<SessionId>; 2],
    /// What arrives at each end, and when.
    under_way: [VecDeque<(Instant, BytesMut)>; 2],
    sent: u64,
    events: [Vec<Event>; 2],
}

impl Pair {
    /// Two ends that are connected, if they can be, within a minute.
    fn new(config: &Config) -> Self {
        let (chain, key) = squall_testkit::certificate("squall.test");
        let server = ServerTls::new(vec![chain.clone()], key).expect("is valid");
        let now = Instant::now();
        let mut client = Endpoint::new(config.clone(), None, Some([1; 32]), now);
        let server = Endpoint::new(config.clone(), Some(&server), Some([2; 32]), now);
        let path = NetPath { local: Interface(0), remote: SERVER };
        let tls = ClientTls::with_roots(&[chain]).expect("is valid");
        let target = Target { tls, server_name: "squall.test".into(), interfaces: vec![vec![path]] };
        let id = client.connect(now, target).expect("starts");
        let mut pair = Self {
            now,
            ends: [client, server],
            ids: [Some(id), None],
            under_way: Default::default(),
            sent: 0,
            events: Default::default(),
        };
        pair.pass(Duration::from_secs(1));
        pair
    }

    fn session(&mut self, end: usize) -> &mut Session {
        self.ends[end].session(self.ids[end].expect("is up")).expect("is there")
    }

    /// Lets this time pass, from one thing to do to the next.
    fn pass(&mut self, time: Duration) {
        let until = self.now + time;
        loop {
            self.exchange();
            let arrivals = self.under_way.iter().filter_map(|packets| packets.front().map(|packet| packet.0));
            let timers: Vec<_> = self.ends.iter_mut().filter_map(Endpoint::poll_timeout).collect();
            let Some(next) = arrivals.chain(timers).min().filter(|next| *next <= until) else { break };
            self.now = self.now.max(next) + Duration::from_micros(1);
            self.ends.iter_mut().for_each(|end| end.handle_timeout(self.now));
        }
        self.now = self.now.max(until);
    }

    /// Takes in what has arrived, sends what there is to send, and takes events.
    fn exchange(&mut self) {
        let nets = [SERVER, CLIENT].map(|remote| NetPath { local: Interface(0), remote });
        for end in [0, 1] {
            while self.under_way[end].front().is_some_and(|(at, _)| *at <= self.now) {
                let (_, packet) = self.under_way[end].pop_front().expect("is there");
                self.ends[end].handle(self.now, nets[end], None, packet);
            }
            let mut buf = Vec::new();
            while let Some(transmit) = self.ends[end].poll_transmit(self.now, 1, &mut buf) {
                self.sent += 1;
                if !self.sent.is_multiple_of(41) {
                    let packet = BytesMut::from(&buf[..transmit.size]);
                    self.under_way[1 - end].push_back((self.now + DELAY, packet));
                }
                buf.clear();
            }
            while let Some(id) = self.ends[end].poll_ready() {
                while let Some(event) = self.ends[end].poll_event(id) {
                    if event == Event::Connected {
                        self.ids[end] = Some(id);
                        self.ends[end].session(id).expect("is up").report_outcomes(true);
                    }
                    self.events[end].push(event);
                }
            }
        }
    }

    fn received(&self, end: usize) -> Vec<u64> {
        let events = self.events[end].iter();
        events
            .filter_map(|event| if let Event::Received(block) = event { Some(block.id.0) } else { None })
            .collect()
    }

    fn closed(&self, end: usize) -> Option<&CloseReason> {
        self.events[end]
            .iter()
            .find_map(|event| if let Event::Closed(why) = event { Some(why) } else { None })
    }
}

impl Session {
    /// As if it had sent and received this many blocks, all of which have ended.
    fn start_at(&mut self, block: u64) {
        self.outbox.start_at(block);
        self.inbox.start_at(block);
    }
}

/// Sends this many blocks from both ends, of several kinds, from the block of this id on.
fn run(first: u64, blocks: u64) -> Pair {
    let mut pair = Pair::new(&Config::default());
    for end in [0, 1] {
        pair.session(end).start_at(first);
    }
    for number in 0..blocks {
        for end in [0, 1] {
            let now = pair.now;
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
    let pair = run(first, 3_000);
    for end in [0, 1] {
        let mut received = pair.received(end);
        let ordered: Vec<_> = received.iter().filter(|id| (*id - first) % 2 == 0).collect();
        assert!(ordered.is_sorted(), "ordered blocks came out of order");
        received.sort_unstable();
        assert!(received.into_iter().eq(first..first + 3_000), "blocks are missing, or there are others");
        let delivered =
            |event: &&Event| matches!(event, Event::Ended { outcome: Outcome::Delivered { .. }, .. });
        assert_eq!(pair.events[end].iter().filter(delivered).count(), 3_000);
        assert_eq!(pair.closed(end), None);
    }
}

#[test]
fn ids_end_at_the_largest_number_of_the_wire() {
    let mut pair = run(varint::MAX - 499, 500);
    let now = pair.now;
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
    let now = pair.now;
    pair.session(0)
        .send(now, Block::with(vec![1; 20_000], BlockOptions::new().deadline(forever)))
        .expect("room");
    let capacity = pair.session(1).capacity(now).safe;
    let deliverable = pair.session(0).deliverable(now, forever, 0.9);
    assert!(capacity < u64::MAX && deliverable < u64::MAX);
    pair.pass(Duration::from_secs(60));
    assert_eq!((pair.received(1).len(), pair.closed(0), pair.closed(1)), (1, None, None));
}

//! A session with a peer that lies: its QUIC is valid, and whatever it says over it is the fuzzer's.
//!
//! No panic, no memory beyond the limits, no block that is more than was agreed, and nothing left when the peer is gone.

use std::{
    collections::VecDeque,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    num::NonZeroUsize,
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::{Bytes, BytesMut};
use noq_proto::{
    ClientConfig, Connection, ConnectionHandle, DatagramEvent, Dir, EndpointConfig, FourTuple, PathStatus,
    TransportConfig, VarInt,
};

use super::{Input, TLS, lies, outcomes::Outcomes};
use crate::{
    Block, BlockOptions, Channel, Config, Endpoint, Event, Interface, Limits, NetPath, SessionId,
    sched::{self, BlockId},
    signal::Reading,
    steering::Transmit,
    wire::{Data, Item, Stamp},
};

const SERVER: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), 4433);
const REASSEMBLY: u64 = 40_000;
const OPEN_BLOCKS: usize = 8;

/// Packets that one packet of the liar, or one instant, may have the honest side send, beside what its own blocks need.
const MOST_ANSWERS: u64 = 8;
const MOST_AT_FIRST: u64 = 500;

/// Instants in a second of silence at which the honest side has something to do.
const MOST_INSTANTS: u64 = 20_000;

/// minRTT, with reports of stalls.
struct WithStalls;

impl sched::Scheduler for WithStalls {
    fn next(&mut self, cx: &sched::Context<'_>) -> sched::Decision {
        sched::schedulers::minrtt::MinRtt.next(cx)
    }

    fn profile(&self) -> sched::Profile {
        sched::Profile { wants_stalls: true, ..sched::Profile::default() }
    }
}

/// Panics if a session does not keep what it promises, whatever its peer says.
pub fn session(input: &[u8]) {
    let mut config = Config::default();
    if input.len() % 2 == 1 {
        // Takes reports of stalls.
        config.scheduler = Arc::new(|| Box::new(WithStalls));
    }
    let mut meeting = Meeting::new(config);
    meeting.counts_outcomes = true;
    meeting.settle(Duration::from_secs(1));
    let mut input = Input(input);
    while let Some(op) = input.byte() {
        meeting.step(op, &mut input);
        meeting.settle(Duration::ZERO);
        meeting.check();
    }
    // The liar falls silent: the session ends by itself, and nothing is left of it.
    meeting.silent = true;
    meeting.settle(Duration::from_secs(120));
    meeting.check();
    assert!(meeting.honest.is_empty(), "something is left of a session whose peer is gone");
    assert!(meeting.outcomes.open.is_empty(), "blocks outlive their session: {:?}", meeting.outcomes.open);
}

/// An honest server and a client that lies.
struct Meeting {
    now: Instant,
    honest: Endpoint,
    session: Option<SessionId>,
    /// A block of the honest side that grows.
    open: Option<BlockId>,
    outcomes: Outcomes,
    /// Whether all blocks of the honest side are sent by [`Self::step`].
    counts_outcomes: bool,
    liar: noq_proto::Endpoint,
    handle: ConnectionHandle,
    connection: Connection,
    silent: bool,
    sent: u64,
    /// Packets of the honest side, and what it had reason to send some for: packets, times and calls.
    answers: u64,
    causes: u64,
    /// Datagrams of the honest side, the latest few.
    received: VecDeque<Bytes>,
}

impl Meeting {
    fn new(config: Config) -> Self {
        let limits =
            Limits { reassembly: REASSEMBLY, open_blocks: OPEN_BLOCKS, block: 20_000, ..Limits::default() };
        Self::with(Config { limits, ..config })
    }

    fn with(config: Config) -> Self {
        let now = Instant::now();
        let honest = Endpoint::new(config, Some(&TLS.0), Some([1; 32]), now);
        let mut transport = TransportConfig::default();
        transport.max_concurrent_multipath_paths(4);
        let mut client = ClientConfig::new(TLS.1.crypto());
        client.transport_config(Arc::new(transport));
        let mut endpoint = EndpointConfig::default();
        endpoint.rng_seed(Some([2; 32]));
        let mut liar = noq_proto::Endpoint::new(Arc::new(endpoint), None, true);
        let (handle, connection) = liar.connect(now, client, SERVER, "squall.test").expect("is valid");
        Self {
            now,
            honest,
            session: None,
            open: None,
            outcomes: Outcomes::default(),
            counts_outcomes: false,
            liar,
            handle,
            connection,
            silent: false,
            sent: 0,
            answers: 0,
            causes: 0,
            received: VecDeque::new(),
        }
    }

    /// What the liar, or the honest application, does next.
    fn step(&mut self, op: u8, input: &mut Input<'_>) {
        match op % 12 {
            2 if op >= 64 => {
                let mut datagram = Vec::new();
                for _ in 0..=op >> 6 & 1 {
                    lies::item(input).encode(&mut datagram);
                }
                self.say(datagram);
            }
            0..=2 => {
                let length = input.number() as usize % 1_100;
                let lie = input.bytes(length);
                self.say(lie);
            }
            3..=4 => self.say_data(input),
            5 => self.on_stream(op, input),
            6 => self.settle(Duration::from_millis(input.number().into())),
            7 => self.send(input),
            8 => {
                let local = IpAddr::V4(Ipv4Addr::new(10, 0, input.number() as u8 % 4, 1));
                let path = FourTuple::new(SERVER, Some(local));
                // Too many, or the same again: the connection refuses.
                let _ = self.connection.open_path(path, PathStatus::Available, self.now);
            }
            9 => self.connection.ping(),
            10 => self.settle(Duration::from_secs(u64::from(input.number() % 40))),
            _ if op / 12 % 4 == 1 => self.write(input),
            _ if op / 12 % 4 == 2 => {
                let Some(session) = self.session.and_then(|id| self.honest.session(id)) else { return };
                session.set_in_parts(Channel::new(input.number() as u16 % 4), op & 0x80 == 0);
            }
            _ if op / 12 % 4 == 3 => {
                self.connection.close(self.now, VarInt::from_u32(7), Bytes::from_static(b"\x1b"));
            }
            _ => self.otherwise(op / 48, input),
        }
    }

    /// What happens less often.
    fn otherwise(&mut self, what: u8, input: &mut Input<'_>) {
        let now = self.now;
        match what {
            0 => self.settle(Duration::from_millis(1)),
            // What the honest side said, said back.
            1 | 2 => {
                let which = usize::from(input.or_zero());
                let Some(said) = self.received.get(which % self.received.len().max(1)) else { return };
                self.say(said.to_vec());
            }
            3 => {
                let id = BlockId(u64::from(input.or_zero()));
                let Some(session) = self.session.and_then(|id| self.honest.session(id)) else { return };
                session.cancel(now, id);
            }
            4 => {
                let (what, number) = (input.or_zero(), input.number());
                let Some(session) = self.session.and_then(|id| self.honest.session(id)) else { return };
                match what % 4 {
                    0 => session.set_metered(now, Interface(0), what & 4 == 0),
                    1 => session.set_budget(Interface(0), (what & 4 == 0).then(|| u64::from(number) * 8)),
                    2 => session.on_signal(now, Interface(0), &Reading::wifi(0, -f64::from(number) / 500.0)),
                    _ => session.request_bitrate(Some(u64::from(number) << 8)),
                }
            }
            _ => {
                let Some(session) = self.session.and_then(|id| self.honest.session(id)) else { return };
                session.close(now, 0, "enough");
            }
        }
    }

    /// A datagram of these bytes, if the connection takes it.
    fn say(&mut self, lie: Vec<u8>) {
        let _ = self.connection.datagrams().send(lie.into(), true);
    }

    /// A datagram with a well-formed chunk of a block, of which nothing else need be right.
    fn say_data(&mut self, input: &mut Input<'_>) {
        let flags = input.number();
        let total = 1 + input.number() * 2;
        let kind = flags >> 14 & 3;
        let offset = input.number() * 2 % total;
        let length = (1 + input.number()).min(total - offset).min(1_000);
        let (offset, length) = if kind == 2 { (total, 0) } else { (offset, length) };
        let block = u64::from(input.number()) << (flags >> 12 & 7);
        let data = Data {
            block,
            reliable: flags & 1 == 0,
            previous: (flags & 2 != 0).then(|| u64::from(flags >> 8 & 15).min(block)),
            priority: (flags >> 2 & 7) as u8,
            offset,
            total: Some(total).filter(|_| kind != 1),
            channel: (flags >> 5 & 3) as u16,
            left: (flags & 0x80 != 0).then_some(u64::from(flags) << 4),
            sent: Stamp::at(u64::from(flags) << 8),
        };
        let payload = vec![flags as u8; length as usize];
        let mut datagram = Vec::new();
        Item::Data(data, &payload).encode(&mut datagram);
        self.say(datagram);
    }

    /// The hello's stream, and unexpected ones.
    fn on_stream(&mut self, op: u8, input: &mut Input<'_>) {
        let dir = if op & 0x80 == 0 { Dir::Uni } else { Dir::Bi };
        let Some(id) = self.connection.streams().open(dir) else { return };
        let length = input.number() as usize % 400;
        let (bytes, end) = (input.bytes(length), input.number());
        let mut stream = self.connection.send_stream(id);
        let _ = stream.write(&bytes);
        match end % 3 {
            0 => drop(stream.finish()),
            1 => drop(stream.reset(VarInt::from_u32(end))),
            _ => {}
        }
    }

    /// The honest application sends a block, so that there is something to lie about.
    fn send(&mut self, input: &mut Input<'_>) {
        let (now, size) = (self.now, input.number() as usize % 15_000);
        let deadline = u64::from(input.number());
        let Some(session) = self.session.and_then(|id| self.honest.session(id)) else { return };
        let options =
            BlockOptions::new().deadline(Duration::from_millis(1 + deadline)).reliable(deadline % 3 != 0);
        // Full, or closed.
        if let Ok(id) = session.send(now, Block::with(vec![7; size], options)) {
            self.outcomes.open.insert(id);
        }
    }

    /// The honest application opens a block that grows, writes to it, or ends it.
    fn write(&mut self, input: &mut Input<'_>) {
        let (now, what, size) = (self.now, input.byte().unwrap_or(0), input.number() as usize % 9_000);
        let Some(session) = self.session.and_then(|id| self.honest.session(id)) else { return };
        let Some(open) = self.open else {
            let deadline = Duration::from_millis(1 + size as u64);
            self.open = session.open(now, &BlockOptions::new().deadline(deadline)).ok();
            self.outcomes.open.extend(self.open);
            return;
        };
        // Too large, full, or ended: by its deadline or by a refusal that is a lie.
        let _ = session.append(open, vec![7; size].into());
        match what % 4 {
            0 => drop(session.finish(now, open)),
            1 => session.cancel(now, open),
            _ => return,
        }
        self.open = None;
    }

    /// Lets time pass with nothing on the way for longer than a moment.
    fn settle(&mut self, time: Duration) {
        let (end, mut instants) = (self.now + time, 0);
        loop {
            instants += 1;
            let most = MOST_INSTANTS * (1 + time.as_secs());
            assert!(instants < most, "{instants} instants in {time:?}: no time passes");
            for _ in 0..200 {
                if !self.exchange() {
                    break;
                }
            }
            let own = if self.silent { None } else { self.connection.poll_timeout() };
            let next = [own, self.honest.poll_timeout()].into_iter().flatten().min();
            let Some(next) = next.filter(|next| *next <= end) else { break };
            self.now = self.now.max(next);
            if own.is_some_and(|at| at <= self.now) {
                self.connection.handle_timeout(self.now);
            }
            self.causes += 1;
            self.honest.handle_timeout(self.now);
            // Time passes, if little, so that every timer fires.
            self.now += Duration::from_micros(1);
        }
        self.now = self.now.max(end);
    }

    /// Packets once in each direction, and events; whether there were any.
    fn exchange(&mut self) -> bool {
        let there = !self.silent && self.liar_sends();
        let back = self.honest_sends();
        let mut events = false;
        while let Some(id) = self.honest.poll_ready() {
            while let Some(event) = self.honest.poll_event(id) {
                self.session = Some(id);
                // The endpoint is asked for packets after it, and may forget a session whose last event it was.
                events = true;
                if event == Event::Connected && self.counts_outcomes {
                    self.honest.session(id).expect("is up").report_outcomes(true);
                }
                self.outcomes.on_event(&event);
                if let Event::Received(block) = event {
                    assert!(block.data.len() <= 20_000, "a block is larger than was agreed");
                } else if let Event::Part(part) = event {
                    assert!(
                        part.offset as usize + part.data.len() <= 20_000,
                        "a block is larger than was agreed"
                    );
                }
            }
        }
        there || back || events
    }

    fn liar_sends(&mut self) -> bool {
        let Some((net, packet)) = self.liar_packet() else { return false };
        self.sent += 1;
        self.causes += 1;
        self.honest.handle(self.now, net, None, packet);
        true
    }

    fn liar_packet(&mut self) -> Option<(NetPath, BytesMut)> {
        let mut buf = Vec::new();
        while let Some(event) = self.connection.poll_endpoint_events() {
            if let Some(answer) = self.liar.handle_event(self.handle, event) {
                self.connection.handle_event(answer);
            }
        }
        while self.connection.poll().is_some() {}
        let one = NonZeroUsize::MIN;
        let out = self.connection.poll_transmit(self.now, one, &mut buf)?;
        let local = out.src_ip.unwrap_or(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)));
        let net = NetPath { local: Interface(0), remote: SocketAddr::new(local, 1_000) };
        Some((net, BytesMut::from(&buf[..out.size])))
    }

    fn honest_sends(&mut self) -> bool {
        let mut buf = Vec::new();
        let Some(out) = self.honest.poll_transmit(self.now, 1, &mut buf) else { return false };
        self.answers += 1;
        let most = MOST_AT_FIRST + MOST_ANSWERS * self.causes;
        assert!(self.answers <= most, "{} packets for {} causes", self.answers, self.causes);
        if !self.silent {
            self.liar_takes(&out, &buf);
        }
        true
    }

    fn liar_takes(&mut self, out: &Transmit, packet: &[u8]) {
        let path = FourTuple::new(SERVER, Some(out.path.remote.ip()));
        let (mut reply, data) = (Vec::new(), BytesMut::from(&packet[..out.size]));
        if let Some(DatagramEvent::ConnectionEvent(_, event)) =
            self.liar.handle(self.now, path, None, data, &mut reply)
        {
            self.connection.handle_event(event);
        }
        while let Some(datagram) = self.connection.datagrams().recv() {
            self.received.push_back(datagram);
            self.received.truncate(64);
        }
    }

    fn check(&mut self) {
        let Some(session) = self.session.and_then(|id| self.honest.session(id)) else { return };
        let stats = session.stats();
        assert!(stats.held_bytes <= REASSEMBLY, "{} bytes are held", stats.held_bytes);
        assert!(stats.open_blocks <= OPEN_BLOCKS, "{} blocks are open", stats.open_blocks);
    }
}

#[cfg(test)]
mod versions;

#[cfg(test)]
mod work;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Items;

    /// Lengths and payloads of the DATA that the honest side sent.
    fn data(meeting: &Meeting) -> Vec<(Option<u32>, usize)> {
        let items = meeting.received.iter().flat_map(|datagram| Items::of(datagram));
        let data = items.filter_map(|item| match item {
            Ok(Item::Data(data, payload)) => Some((data.total, payload.len())),
            _ => None,
        });
        data.collect()
    }

    /// A session whose peer wrote this hello, and an open block of 500 bytes.
    fn with_hello(hello: &[u8]) -> (Meeting, BlockId) {
        let mut meeting = greeted(Config::default(), hello);
        let (now, id) = (meeting.now, meeting.session.expect("is up"));
        let session = meeting.honest.session(id).expect("is up");
        let block = session.open(now, &BlockOptions::new()).expect("room");
        assert_eq!(session.append(block, vec![7; 500].into()), Ok(()));
        meeting.settle(Duration::from_secs(1));
        (meeting, block)
    }

    /// A session whose peer wrote this hello.
    pub(super) fn greeted(config: Config, hello: &[u8]) -> Meeting {
        greet(Meeting::new(config), hello)
    }

    /// The same of a meeting.
    pub(super) fn greet(mut meeting: Meeting, hello: &[u8]) -> Meeting {
        meeting.settle(Duration::from_secs(1));
        let stream = meeting.connection.streams().open(Dir::Uni).expect("is the first");
        let mut stream = meeting.connection.send_stream(stream);
        assert_eq!(stream.write(hello), Ok(hello.len()));
        assert_eq!(stream.finish(), Ok(()));
        meeting.settle(Duration::from_secs(1));
        meeting
    }

    /// The stalls that the honest side reports of 20 blocks, from `first` on, with a gap before the tenth.
    fn stalls(meeting: &mut Meeting, first: u64) -> Vec<u64> {
        meeting.received.clear();
        for block in first..first + 20 {
            meeting.settle(Duration::from_millis(if block == first + 10 { 500 } else { 20 }));
            let mut datagram = Vec::new();
            let (offset, total, channel, sent) = (0, Some(1), 0, Stamp::at(0));
            let (reliable, previous, priority, left) = (true, None, 0, None);
            let data = Data { block, reliable, previous, priority, offset, total, channel, left, sent };
            Item::Data(data, &[7]).encode(&mut datagram);
            meeting.say(datagram);
        }
        meeting.settle(Duration::from_secs(1));
        let items = meeting.received.iter().flat_map(|datagram| Items::of(datagram));
        let stalled = items.filter_map(|item| if let Ok(Item::Stalled(s)) = item { Some(s) } else { None });
        stalled.flat_map(|stalled| stalled.blocks().map(|id| id.0)).collect()
    }

    #[test]
    fn stalls_are_reported_to_a_peer_that_asks_and_is_trusted() {
        let hello = |abilities| [1, 0x80, 1, 0, 0, 0x40, 64, abilities];
        assert_eq!(stalls(&mut greeted(Config::default(), &hello(1)), 0), [0_u64; 0], "it does not ask");
        assert_eq!(stalls(&mut greeted(Config::default(), &hello(5)), 0), [10]);
        let mut stranger = greeted(Config { distrust: true, ..Config::default() }, &hello(5));
        assert_eq!(stalls(&mut stranger, 0), [0_u64; 0]);
        let (now, id) = (stranger.now, stranger.session.expect("is up"));
        stranger.honest.session(id).expect("is up").trust(now);
        assert_eq!(stalls(&mut stranger, 20), [30]);
    }

    fn finish(meeting: &mut Meeting, block: BlockId) {
        let (now, id) = (meeting.now, meeting.session.expect("is up"));
        assert_eq!(meeting.honest.session(id).expect("is up").finish(now, block), Ok(()));
        meeting.settle(Duration::from_secs(1));
    }

    #[test]
    fn a_peer_of_an_earlier_version_is_sent_no_block_that_grows() {
        let (mut meeting, block) = with_hello(&[1, 0x80, 1, 0, 0, 0x40, 64]);
        assert_eq!(data(&meeting), []);
        finish(&mut meeting, block);
        assert_eq!(data(&meeting), [(Some(500), 500)], "as a block like any other");
    }

    #[test]
    fn a_peer_that_takes_growing_blocks_is_sent_their_bytes_and_their_end() {
        let (mut meeting, block) = with_hello(&[1, 0x80, 1, 0, 0, 0x40, 64, 1]);
        assert_eq!(data(&meeting), [(None, 500)]);
        finish(&mut meeting, block);
        assert_eq!(data(&meeting), [(None, 500), (Some(500), 0)]);
        let stats = meeting.honest.session(meeting.session.expect("is up")).expect("is up").stats();
        assert_eq!((stats.blocks_delivered, stats.open_blocks), (1, 0));
    }

    #[test]
    fn blocks_that_are_not_whole_end_with_their_session() {
        for is_by_peer in [true, false] {
            let mut meeting = greeted(Config::default(), &[1, 0x80, 1, 0, 0, 0x40, 64, 1]);
            // A half, and a whole block that waits for it.
            for (block, total) in [(0, 2), (1, 1)] {
                let (previous, total, channel, sent) = (Some(block), Some(total), 0, Stamp::at(0));
                let (reliable, priority, offset, left) = (true, 0, 0, None);
                let data = Data { block, reliable, previous, priority, offset, total, channel, left, sent };
                let mut datagram = Vec::new();
                Item::Data(data, &[7]).encode(&mut datagram);
                meeting.say(datagram);
            }
            meeting.settle(Duration::from_secs(1));
            assert!(meeting.outcomes.ended.is_empty());
            let (now, id) = (meeting.now, meeting.session.expect("is up"));
            if is_by_peer {
                meeting.connection.close(now, VarInt::from_u32(7), Bytes::new());
            } else {
                meeting.honest.session(id).expect("is up").close(now, 0, "");
            }
            meeting.settle(Duration::from_secs(1));
            assert!(meeting.outcomes.closed);
            assert_eq!(meeting.outcomes.ended, [BlockId(0), BlockId(1)].into());
        }
    }

    /// Data, and a symbol of parity behind each block.
    struct WithParity;

    impl sched::Scheduler for WithParity {
        fn next(&mut self, cx: &sched::Context<'_>) -> sched::Decision {
            let unprotected = |block: &&sched::Block| block.parity().is_some_and(|parity| parity.sent() == 0);
            let parity = || cx.queue.next_parity(cx.queue.iter().find(unprotected)?.meta().id);
            match (cx.queue.next_in_line().or_else(parity), cx.fastest_with_room()) {
                (Some(work), Some(path)) => {
                    let most = if work.kind == sched::WorkKind::Parity { 1 } else { u32::MAX };
                    sched::Decision::Send(sched::Assignment::new(work, path.id, "test").at_most(most))
                }
                _ => sched::Decision::idle(),
            }
        }

        fn profile(&self) -> sched::Profile {
            sched::Profile { wants_parity: true, ..sched::Profile::default() }
        }
    }

    #[test]
    fn parity_is_sent_to_a_peer_that_takes_it() {
        for (abilities, expected) in [(1, 0), (9, 1)] {
            let config = Config { scheduler: Arc::new(|| Box::new(WithParity)), ..Config::default() };
            let mut meeting = greeted(config, &[1, 0x80, 1, 0, 0, 0x40, 64, abilities]);
            let (now, id) = (meeting.now, meeting.session.expect("is up"));
            let session = meeting.honest.session(id).expect("is up");
            session.send(now, Block::new(vec![7; 500])).expect("room");
            meeting.settle(Duration::from_secs(1));
            let items = meeting.received.iter().flat_map(|datagram| Items::of(datagram));
            let parity = items.filter(|item| matches!(item, Ok(Item::Repair(..)))).count();
            let sent = meeting.honest.session(id).expect("is up").path_stats();
            let bytes: u64 = sent.iter().map(|(_, _, stats)| stats.parity_bytes).sum();
            assert_eq!((parity, bytes), (expected, 500 * expected as u64));
        }
    }

    /// Data, and a symbol of parity over each run of small blocks.
    struct WithRuns;

    impl sched::Scheduler for WithRuns {
        fn next(&mut self, cx: &sched::Context<'_>) -> sched::Decision {
            let Some(path) = cx.fastest_with_room() else { return sched::Decision::idle() };
            let small = cx.queue.iter().find(|block| block.in_flight_bytes() > 0 && !block.is_in_run());
            let run = || Some(cx.queue.run_from(small?.meta().id).next()?.meta().id);
            let parity =
                || Some(sched::Work { block: run()?, range: 0..1, kind: sched::WorkKind::RunParity });
            let work = cx.queue.next_in_line().or_else(parity);
            let send = |work| sched::Decision::Send(sched::Assignment::new(work, path.id, "test"));
            work.map_or(sched::Decision::idle(), send)
        }

        fn profile(&self) -> sched::Profile {
            sched::Profile { wants_parity: true, ..sched::Profile::default() }
        }
    }

    #[test]
    fn small_blocks_leave_with_parity_in_common() {
        let config = Config { scheduler: Arc::new(|| Box::new(WithRuns)), ..Config::default() };
        let mut meeting = greeted(config, &[1, 0x80, 1, 0, 0, 0x40, 64, 9]);
        let (now, id) = (meeting.now, meeting.session.expect("is up"));
        for _ in 0..3 {
            let session = meeting.honest.session(id).expect("is up");
            session.send(now, Block::new(vec![7; 500])).expect("room");
        }
        while meeting.honest_sends() {}
        let items = meeting.received.iter().flat_map(|datagram| Items::of(datagram));
        let run = |item| if let Ok(Item::RunParity(run, _)) = item { Some(run.members.len()) } else { None };
        assert_eq!(items.filter_map(run).collect::<Vec<_>>(), [3]);
    }

    #[test]
    fn an_end_leaves_with_the_bytes_that_follow_it() {
        let (mut meeting, block) = with_hello(&[1, 0x80, 1, 0, 0, 0x40, 64, 1]);
        let (now, id) = (meeting.now, meeting.session.expect("is up"));
        let session = meeting.honest.session(id).expect("is up");
        assert_eq!(session.finish(now, block), Ok(()));
        let next = session.open(now, &BlockOptions::new()).expect("room");
        assert_eq!(session.append(next, vec![7; 2_000].into()), Ok(()));
        assert!(meeting.honest_sends());
        let one_packet = data(&meeting);
        assert_eq!(one_packet.len(), 3, "{one_packet:?}");
        assert_eq!((one_packet[0], one_packet[2]), ((None, 500), (Some(500), 0)));
        meeting.settle(Duration::from_secs(1));
        let all: usize = data(&meeting).iter().map(|(_, bytes)| bytes).sum();
        assert_eq!(all, 2_500, "nothing is sent twice");
    }
}

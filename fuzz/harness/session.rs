//! A session with a hostile peer: its QUIC is valid, and its content comes from the fuzzer.
//!
//! No panic, no memory beyond the limits, no block larger than agreed, and no state left when the
//! peer is gone.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use noq_proto::{Dir, FourTuple, PathStatus, TransportConfig, VarInt};
use squall_proto::{
    Block, BlockOptions, Channel, Config, Event, Interface,
    sched::{self, BlockId},
    signal::{Reading, Time},
    wire::{Data, Item, Stamp},
};
use squall_testkit::{
    Input, Outcomes, Peer, Stranger,
    world::{SERVER, World},
};

mod lies;

const REASSEMBLY: u64 = 40_000;
const OPEN_BLOCKS: usize = 8;

/// Packets that the honest side may send per packet of the hostile peer, or per instant, in
/// addition to those for its own blocks.
const MOST_ANSWERS: u64 = 8;
/// Packets that the honest side may send at the start.
const MOST_AT_FIRST: u64 = 500;

/// Instants per second of silence at which the honest side may act.
const MOST_INSTANTS: u64 = 20_000;

/// minRTT with stall reports.
struct WithStalls;

impl sched::Scheduler for WithStalls {
    fn next(&mut self, cx: &sched::Context<'_>) -> sched::Decision {
        sched::schedulers::minrtt::MinRtt.next(cx)
    }

    fn profile(&self) -> sched::Profile {
        sched::Profile { wants_stalls: true, ..sched::Profile::default() }
    }
}

/// Panics if a session violates a guarantee, for any content from its peer.
pub(crate) fn check(input: &[u8]) {
    let mut config = Config::default();
    if input.len() % 2 == 1 {
        // Requests stall reports.
        config = config.scheduler(Arc::new(|| Box::new(WithStalls)));
    }
    let mut meeting = Meeting::new(config);
    meeting.settle(Duration::from_secs(1));
    let mut input = Input(input);
    while let Some(op) = input.byte() {
        meeting.step(op, &mut input);
        meeting.settle(Duration::ZERO);
        meeting.check();
    }
    // The hostile peer falls silent: the session ends by itself, and leaves no state.
    meeting.world.strangers.clear();
    meeting.settle(Duration::from_secs(120));
    meeting.settle(Duration::ZERO);
    assert!(meeting.world.server.endpoint.is_empty(), "something is left of a session whose peer is gone");
    assert!(meeting.outcomes.open.is_empty(), "blocks outlive their session: {:?}", meeting.outcomes.open);
}

/// An honest server and a hostile client.
struct Meeting {
    world: World,
    /// Growing block of the honest side.
    open: Option<BlockId>,
    outcomes: Outcomes,
    /// Number of packets from the honest side.
    answers: u64,
    /// Number of packets and times that justify such packets.
    causes: u64,
}

impl Meeting {
    fn new(config: Config) -> Self {
        let now = Instant::now();
        let honest =
            Peer::server(config.reassembly(REASSEMBLY).open_blocks(OPEN_BLOCKS).max_block(20_000), 1, now);
        let mut transport = TransportConfig::default();
        transport.max_concurrent_multipath_paths(4);
        let address = SocketAddr::from(([10, 0, 0, 1], 1_000));
        let mut world = World::new(now, honest, Vec::new());
        world.strangers.push(Stranger::new(now, address, 1, Stranger::config(transport)));
        Self { world, open: None, outcomes: Outcomes::default(), answers: 0, causes: 0 }
    }

    fn liar(&mut self) -> &mut Stranger {
        &mut self.world.strangers[0]
    }

    /// Runs the next step of the hostile client, or of the honest application.
    fn step(&mut self, op: u8, input: &mut Input<'_>) {
        match op % 12 {
            2 if op >= 64 => {
                let mut datagram = Vec::new();
                for _ in 0..=op >> 6 & 1 {
                    lies::item(input).encode(&mut datagram);
                }
                self.liar().say(datagram);
            }
            0..=2 => {
                let length = input.number() as usize % 1_100;
                let lie = input.bytes(length);
                self.liar().say(lie);
            }
            3..=4 => self.say_data(input),
            5 => self.on_stream(op, input),
            6 => self.settle(Duration::from_millis(input.number().into())),
            7 => self.send(input),
            8 => {
                let local = IpAddr::V4(Ipv4Addr::new(10, 0, input.number() as u8 % 4, 1));
                let path = FourTuple::new(SERVER, Some(local));
                // Too many, or a duplicate: the connection refuses.
                let now = self.world.now;
                let _ = self.liar().connection.open_path(path, PathStatus::Available, now);
            }
            9 => self.liar().connection.ping(),
            10 => self.settle(Duration::from_secs(u64::from(input.number() % 40))),
            _ if op / 12 % 4 == 1 => self.write(input),
            _ if op / 12 % 4 == 2 => {
                let Some(session) = self.world.server.find() else { return };
                session.set_in_parts(Channel::new(input.number() as u16 % 4), op & 0x80 == 0);
            }
            _ if op / 12 % 4 == 3 => {
                let now = self.world.now;
                self.liar().connection.close(now, VarInt::from_u32(7), Bytes::from_static(b"\x1b"));
            }
            _ => self.otherwise(op / 48, input),
        }
    }

    /// Runs a less frequent step.
    fn otherwise(&mut self, what: u8, input: &mut Input<'_>) {
        let now = self.world.now;
        match what {
            0 => self.settle(Duration::from_millis(1)),
            // Items of the honest side, sent back to it.
            1 | 2 => {
                let which = usize::from(input.or_zero());
                let received = &self.liar().received;
                let Some(said) = received.get(which % received.len().max(1)) else { return };
                let said = said.to_vec();
                self.liar().say(said);
            }
            3 => {
                let id = BlockId(u64::from(input.or_zero()));
                let Some(session) = self.world.server.find() else { return };
                session.cancel(now, id);
            }
            4 => {
                let (what, number) = (input.or_zero(), input.number());
                let Some(session) = self.world.server.find() else { return };
                match what % 4 {
                    0 => session.set_metered(now, Interface(0), what & 4 == 0),
                    1 => session.set_budget(Interface(0), (what & 4 == 0).then(|| u64::from(number) * 8)),
                    2 => session.on_signal(
                        now,
                        Interface(0),
                        &Reading::wifi(Time::EPOCH, -f64::from(number) / 500.0),
                    ),
                    _ => session.request_bitrate(Some(u64::from(number) << 8)),
                }
            }
            _ => {
                let Some(session) = self.world.server.find() else { return };
                session.close(now, 0, "enough");
            }
        }
    }

    /// Sends a datagram with a well-formed chunk of a block and otherwise arbitrary content.
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
            partial: flags & 8 != 0,
            previous: (flags & 2 != 0).then(|| u64::from(flags >> 8 & 15).min(block)),
            priority: (flags >> 2 & 7) as u8,
            offset,
            total: Some(total).filter(|_| kind != 1),
            channel: (flags >> 5 & 3) as u16,
            left: (flags & 0x80 != 0).then_some(u64::from(flags) << 4),
            sent: Stamp::at(Time::from_micros(u64::from(flags) << 8)),
        };
        let payload = vec![flags as u8; length as usize];
        let mut datagram = Vec::new();
        Item::Data(data, &payload).encode(&mut datagram);
        self.liar().say(datagram);
    }

    /// Sends on the stream of the hello, and on unexpected ones.
    fn on_stream(&mut self, op: u8, input: &mut Input<'_>) {
        let dir = if op & 0x80 == 0 { Dir::Uni } else { Dir::Bi };
        let Some(id) = self.liar().connection.streams().open(dir) else { return };
        let length = input.number() as usize % 400;
        let (bytes, end) = (input.bytes(length), input.number());
        let mut stream = self.liar().connection.send_stream(id);
        let _ = stream.write(&bytes);
        match end % 3 {
            0 => drop(stream.finish()),
            1 => drop(stream.reset(VarInt::from_u32(end))),
            _ => {}
        }
    }

    /// Sends a block from the honest application, so that the client has something to report on.
    fn send(&mut self, input: &mut Input<'_>) {
        let (now, size) = (self.world.now, input.number() as usize % 15_000);
        let deadline = u64::from(input.number());
        let Some(session) = self.world.server.find() else { return };
        let options =
            BlockOptions::new().deadline(Duration::from_millis(1 + deadline)).reliable(deadline % 3 != 0);
        // Full, or closed.
        if let Ok(id) = session.send(now, Block::with(vec![7; size], options)) {
            self.outcomes.open.insert(id);
        }
    }

    /// Opens a growing block of the honest application, writes to it, or ends it.
    fn write(&mut self, input: &mut Input<'_>) {
        let (now, what, size) = (self.world.now, input.byte().unwrap_or(0), input.number() as usize % 9_000);
        let Some(session) = self.world.server.find() else { return };
        let Some(open) = self.open else {
            let deadline = Duration::from_millis(1 + size as u64);
            self.open = session.open(now, &BlockOptions::new().deadline(deadline)).ok();
            self.outcomes.open.extend(self.open);
            return;
        };
        // Too large, full, or ended by its deadline or a false refusal.
        let _ = session.append(open, vec![7; size].into());
        match what % 4 {
            0 => drop(session.finish(now, open)),
            1 => session.cancel(now, open),
            _ => return,
        }
        self.open = None;
    }

    fn settle(&mut self, time: Duration) {
        let before = self.world.instants;
        let (answers, causes) = (&mut self.answers, &mut self.causes);
        self.world.run(time, |now, packet, wire| {
            let is_answer = packet.from == SERVER;
            *(if is_answer { &mut *answers } else { &mut *causes }) += 1;
            wire.put(now, packet);
        });
        let instants = self.world.instants - before;
        let most = MOST_INSTANTS * (1 + time.as_secs());
        assert!(instants < most, "{instants} instants in {time:?}: no time passes");
        self.causes += instants;
        let most = MOST_AT_FIRST + MOST_ANSWERS * self.causes;
        assert!(self.answers <= most, "{} packets for {} causes", self.answers, self.causes);
        while let Some((_, event)) = self.world.server.events.pop_front() {
            self.outcomes.on_event(&event);
            let end = match event {
                Event::Received(block) => block.data.len(),
                Event::Part(part) => part.offset as usize + part.data.len(),
                _ => continue,
            };
            assert!(end <= 20_000, "a block is larger than was agreed");
        }
    }

    fn check(&mut self) {
        let Some(session) = self.world.server.find() else { return };
        let stats = session.stats();
        assert!(stats.held_bytes <= REASSEMBLY, "{} bytes are held", stats.held_bytes);
        assert!(stats.open_blocks <= OPEN_BLOCKS, "{} blocks are open", stats.open_blocks);
    }
}

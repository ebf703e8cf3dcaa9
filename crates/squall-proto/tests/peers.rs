//! Sessions with peers of other releases and abilities: plain QUIC that writes a hello and items of
//! its own.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use noq_proto::{TransportConfig, VarInt};
use squall_proto::{
    Block, BlockOptions, CloseReason, Config, Session,
    sched::{self, BlockId},
    wire::{Data, Item, Items, Stamp},
};
use squall_testkit::{
    Outcomes, Peer, Stranger,
    world::{World, after},
};

/// A session whose peer wrote this hello, over a network without delay.
struct Meeting(World);

impl Meeting {
    fn new(config: Config, hello: &[u8]) -> Self {
        let now = Instant::now();
        let mut world = World::new(now, Peer::server(config, 1, now), Vec::new());
        let config = Stranger::config(TransportConfig::default());
        world.strangers.push(Stranger::new(now, ([10, 0, 0, 1], 1_000).into(), 1, config));
        world.strangers[0].hello = Some(hello.to_vec());
        let mut meeting = Self(world);
        meeting.settle();
        meeting
    }

    /// Advances the time by a second.
    fn settle(&mut self) {
        self.pass(Duration::from_secs(1));
    }

    fn pass(&mut self, time: Duration) {
        self.0.run(time, after(Duration::ZERO));
    }

    fn peer(&mut self) -> &mut Stranger {
        &mut self.0.strangers[0]
    }

    fn session(&mut self) -> (Instant, &mut Session) {
        (self.0.now, self.0.server.session())
    }
}

/// Items of earlier releases and this one: the text of each file in `tests/vectors`.
const RELEASES: &[&str] = &[include_str!("vectors/0.1.0.txt")];

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<_> = hex.chars().filter_map(|c| c.to_digit(16)).collect();
    digits.chunks(2).map(|pair| (pair[0] << 4 | pair[1]) as u8).collect()
}

/// A block of five bytes, on the wire.
fn hello_block() -> Vec<u8> {
    bytes("30 00 00 05 00 00 000000 68656c6c6f")
}

/// Returns the number of blocks that the honest side has received and had delivered, and the reason
/// for the end, after `datagrams` of a peer with this hello.
fn meet(hello: &[u8], datagrams: &[Vec<u8>]) -> (u64, u64, Option<CloseReason>) {
    let mut meeting = Meeting::new(Config::default(), hello);
    let (now, session) = meeting.session();
    session.send(now, Block::new(vec![7; 3_000])).expect("there is room");
    datagrams.iter().for_each(|datagram| meeting.peer().say(datagram.clone()));
    meeting.settle();
    let (_, session) = meeting.session();
    let stats = session.stats();
    (stats.blocks_received, stats.blocks_delivered, session.close_reason().cloned())
}

#[test]
fn hellos_of_every_release_are_read() {
    for hello in RELEASES.iter().flat_map(|text| text.lines()).filter_map(|row| row.strip_prefix("HELLO: ")) {
        assert_eq!(meet(&bytes(hello), &[hello_block()]), (1, 1, None), "{hello}");
    }
}

#[test]
fn a_peer_of_a_later_release_is_understood() {
    // Version 7, unknown abilities, and more fields.
    let hello = bytes("07 81000000 80010000 ffffffffffffffff 4567 ff00ff");
    // Items of reserved and of later types, beside known ones with more fields than this release
    // has.
    let datagrams = [
        bytes("1f 02 ffff"),
        bytes("4100 00 80010000 03 aabbcc"),
        [bytes("0f 04 01020304 05 08 01 03d090 00000000"), hello_block()].concat(),
    ];
    assert_eq!(meet(&hello, &datagrams), (1, 1, None));
}

#[test]
fn a_peer_of_an_earlier_release_is_understood() {
    // No abilities: nothing grows, and there is no parity.
    assert_eq!(meet(&bytes("01 81000000 80010000"), &[hello_block()]), (1, 1, None));
    let mut none = Meeting::new(Config::default(), &bytes("00 81000000 80010000 01"));
    assert!(none.0.server.is_closed());
}

/// Returns lengths and payloads of the DATA that the honest side sent.
fn data(meeting: &mut Meeting) -> Vec<(Option<u32>, usize)> {
    let items = meeting.peer().received.iter().flat_map(|datagram| Items::of(datagram));
    let data = items.filter_map(|item| match item {
        Ok(Item::Data(data, payload)) => Some((data.total, payload.len())),
        _ => None,
    });
    data.collect()
}

/// Creates a session whose peer wrote this hello, and an open block of 500 bytes.
fn with_hello(hello: &[u8]) -> (Meeting, BlockId) {
    let mut meeting = Meeting::new(Config::default(), hello);
    let (now, session) = meeting.session();
    let block = session.open(now, &BlockOptions::new()).expect("room");
    assert_eq!(session.append(block, vec![7; 500].into()), Ok(()));
    meeting.settle();
    (meeting, block)
}

/// Returns the stalls that the honest side reports for 20 blocks, from `first` on, with a gap
/// before the tenth.
fn stalls(meeting: &mut Meeting, first: u64) -> Vec<u64> {
    meeting.peer().received.clear();
    for block in first..first + 20 {
        meeting.pass(Duration::from_millis(if block == first + 10 { 500 } else { 20 }));
        let mut datagram = Vec::new();
        let (offset, total, channel, sent) = (0, Some(1), 0, Stamp::at(sched::Time::EPOCH));
        let (reliable, partial, previous, priority, left) = (true, false, None, 0, None);
        let data = Data { block, reliable, partial, previous, priority, offset, total, channel, left, sent };
        Item::Data(data, &[7]).encode(&mut datagram);
        meeting.peer().say(datagram);
    }
    meeting.settle();
    let items = meeting.peer().received.iter().flat_map(|datagram| Items::of(datagram));
    let stalled = items.filter_map(|item| if let Ok(Item::Stalled(s)) = item { Some(s) } else { None });
    stalled.flat_map(|stalled| stalled.blocks().map(|id| id.0)).collect()
}

#[test]
fn stalls_are_reported_to_a_peer_that_asks_and_is_trusted() {
    let hello = |abilities| [1, 0x80, 1, 0, 0, 0x40, 64, abilities];
    assert_eq!(stalls(&mut Meeting::new(Config::default(), &hello(1)), 0), [0_u64; 0], "it does not ask");
    assert_eq!(stalls(&mut Meeting::new(Config::default(), &hello(5)), 0), [10]);
    let mut stranger = Meeting::new(Config::default().distrust(true), &hello(5));
    assert_eq!(stalls(&mut stranger, 0), [0_u64; 0]);
    let (now, session) = stranger.session();
    session.trust(now);
    assert_eq!(stalls(&mut stranger, 20), [30]);
}

fn finish(meeting: &mut Meeting, block: BlockId) {
    let (now, session) = meeting.session();
    assert_eq!(session.finish(now, block), Ok(()));
    meeting.settle();
}

#[test]
fn a_peer_of_an_earlier_version_is_sent_no_block_that_grows() {
    let (mut meeting, block) = with_hello(&[1, 0x80, 1, 0, 0, 0x40, 64]);
    assert_eq!(data(&mut meeting), []);
    finish(&mut meeting, block);
    assert_eq!(data(&mut meeting), [(Some(500), 500)], "as a block like any other");
}

#[test]
fn a_peer_that_takes_growing_blocks_is_sent_their_bytes_and_their_end() {
    let (mut meeting, block) = with_hello(&[1, 0x80, 1, 0, 0, 0x40, 64, 1]);
    assert_eq!(data(&mut meeting), [(None, 500)]);
    finish(&mut meeting, block);
    assert_eq!(data(&mut meeting), [(None, 500), (Some(500), 0)]);
    let stats = meeting.session().1.stats();
    assert_eq!((stats.blocks_delivered, stats.open_blocks), (1, 0));
}

#[test]
fn blocks_that_are_not_whole_end_with_their_session() {
    for is_by_peer in [true, false] {
        let mut meeting = Meeting::new(Config::default(), &[1, 0x80, 1, 0, 0, 0x40, 64, 1]);
        // A half, and a whole block that waits for it.
        for (block, total) in [(0, 2), (1, 1)] {
            let (previous, total, channel, sent) =
                (Some(block), Some(total), 0, Stamp::at(sched::Time::EPOCH));
            let (reliable, partial, priority, offset, left) = (true, false, 0, 0, None);
            let data =
                Data { block, reliable, partial, previous, priority, offset, total, channel, left, sent };
            let mut datagram = Vec::new();
            Item::Data(data, &[7]).encode(&mut datagram);
            meeting.peer().say(datagram);
        }
        meeting.settle();
        let mut outcomes = Outcomes::default();
        meeting.0.server.events.drain(..).for_each(|(_, event)| outcomes.on_event(&event));
        assert!(outcomes.ended.is_empty());
        let now = meeting.0.now;
        if is_by_peer {
            meeting.peer().connection.close(now, VarInt::from_u32(7), Bytes::new());
        } else {
            meeting.session().1.close(now, 0, "");
        }
        meeting.settle();
        meeting.0.server.events.drain(..).for_each(|(_, event)| outcomes.on_event(&event));
        assert!(outcomes.closed);
        assert_eq!(outcomes.ended, [BlockId(0), BlockId(1)].into());
    }
}

/// Sends data, and a symbol of parity behind each block.
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
        let config = Config::default().scheduler(Arc::new(|| Box::new(WithParity)));
        let mut meeting = Meeting::new(config, &[1, 0x80, 1, 0, 0, 0x40, 64, abilities]);
        let (now, session) = meeting.session();
        session.send(now, Block::new(vec![7; 500])).expect("room");
        meeting.settle();
        let items = meeting.peer().received.iter().flat_map(|datagram| Items::of(datagram));
        let parity = items.filter(|item| matches!(item, Ok(Item::Repair(..)))).count();
        let sent = meeting.session().1.path_stats();
        let bytes: u64 = sent.iter().map(|(_, _, stats)| stats.parity_bytes).sum();
        assert_eq!((parity, bytes), (expected, 500 * expected as u64));
    }
}

/// Sends data, and a symbol of parity over each run of small blocks.
struct WithRuns;

impl sched::Scheduler for WithRuns {
    fn next(&mut self, cx: &sched::Context<'_>) -> sched::Decision {
        let Some(path) = cx.fastest_with_room() else { return sched::Decision::idle() };
        let small = cx.queue.iter().find(|block| block.in_flight_bytes() > 0 && !block.is_in_run());
        let run = || Some(cx.queue.run_from(small?.meta().id).next()?.meta().id);
        let parity = || Some(sched::Work { block: run()?, range: 0..1, kind: sched::WorkKind::RunParity });
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
    let config = Config::default().scheduler(Arc::new(|| Box::new(WithRuns)));
    let mut meeting = Meeting::new(config, &[1, 0x80, 1, 0, 0, 0x40, 64, 9]);
    let (now, session) = meeting.session();
    for _ in 0..3 {
        session.send(now, Block::new(vec![7; 500])).expect("room");
    }
    meeting.pass(Duration::ZERO);
    let items = meeting.peer().received.iter().flat_map(|datagram| Items::of(datagram));
    let run = |item| if let Ok(Item::RunParity(run, _)) = item { Some(run.members.len()) } else { None };
    assert_eq!(items.filter_map(run).collect::<Vec<_>>(), [3]);
}

#[test]
fn an_end_leaves_with_the_bytes_that_follow_it() {
    let (mut meeting, block) = with_hello(&[1, 0x80, 1, 0, 0, 0x40, 64, 1]);
    let (now, session) = meeting.session();
    assert_eq!(session.finish(now, block), Ok(()));
    let next = session.open(now, &BlockOptions::new()).expect("room");
    assert_eq!(session.append(next, vec![7; 2_000].into()), Ok(()));
    let mut packets = 0;
    meeting.0.run(Duration::ZERO, |now, packet, wire| {
        let late = Duration::from_millis(u64::from(packets > 0));
        packets += 1;
        wire.put(now + late, packet);
    });
    let one_packet = data(&mut meeting);
    assert_eq!(one_packet.len(), 3, "{one_packet:?}");
    assert_eq!((one_packet[0], one_packet[2]), ((None, 500), (Some(500), 0)));
    meeting.settle();
    let all: usize = data(&mut meeting).iter().map(|(_, bytes)| bytes).sum();
    assert_eq!(all, 2_500, "nothing is sent twice");
}

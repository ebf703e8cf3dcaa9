//! Work that a session has with packets of a peer, relative to a packet of small blocks.

use std::time::{Duration, Instant};

use noq_proto::TransportConfig;
use squall_proto::{
    Config, Role, parity,
    signal::{AlertKind, Time},
    wire::{
        Cancel, CancelReason, Data, Feedback, Item, Member, PathAlert, PathInfo, PathLoss, RefuseReason,
        Repair, RunParity, Sample, Stalled, Stamp,
    },
};
use squall_testkit::{
    Peer, Stranger,
    world::{End as _, World, after},
};

/// A hello with all abilities.
const HELLO: [u8; 10] = [1, 0x81, 0, 0, 0, 0x80, 1, 0, 0, 0x0d];

/// Largest ratio of a packet's work to that of plain data, whatever its content.
const MOST: f64 = 5.0;

/// Size of a full packet in bytes.
const FULL: usize = 1_150;

/// Overhead in bytes of the frame around a datagram (RFC 9221 §4).
const FRAME: usize = 3;

/// Largest mean number of packets that one of the liar causes at the honest side.
const MOST_ANSWERS: u64 = 4;

/// Packets before the measured ones, which fill the state of a session.
const WARM: usize = 200;
/// Measured packets.
const PACKETS: usize = 100;
const TIMES: usize = 3;

/// Fills a packet of a liar with datagrams.
type Fill = fn(&mut Liar) -> Vec<Vec<u8>>;

/// Numbers of a liar's items.
#[derive(Default)]
struct Liar {
    next: u64,
}

impl Liar {
    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }
}

fn data(block: u64, offset: u32, total: Option<u32>) -> Data {
    Data {
        block,
        reliable: true,
        partial: true,
        previous: None,
        priority: 0,
        offset,
        total,
        channel: 5,
        left: None,
        sent: Stamp::at(Time::EPOCH),
    }
}

fn bytes_of(item: &Item<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    item.encode(&mut bytes);
    bytes
}

/// Creates a packet full of such items, in one datagram.
fn full(item: impl FnMut() -> Vec<u8>) -> Vec<Vec<u8>> {
    vec![many(0, item).concat()]
}

/// Creates a packet full of such datagrams, each of which uses `more` bytes beside its own.
fn many(more: usize, mut datagram: impl FnMut() -> Vec<u8>) -> Vec<Vec<u8>> {
    let (mut datagrams, mut len) = (Vec::new(), 0);
    loop {
        let datagram = datagram();
        len += datagram.len() + more;
        if len > FULL {
            return datagrams;
        }
        datagrams.push(datagram);
    }
}

/// Creates parity of a run of blocks that are far ahead.
fn run(first: u64, members: u64, size: u32) -> Vec<u8> {
    let members = (0..members).map(|n| Member { block: first + n, left: None }).collect();
    let run = RunParity { members, sent: Stamp::at(Time::EPOCH), symbol_size: size, index: 0 };
    bytes_of(&Item::RunParity(run, &[0; 1024][..size as usize]))
}

/// Creates small blocks of which every other one is missing, and the parity that rebuilds it. They
/// are as short as possible: a packet has more than are solved at once.
fn solvable(liar: &mut Liar) -> Vec<Vec<u8>> {
    let whole = |id| Data { partial: false, ..data(id, 0, Some(1)) };
    many(FRAME, || {
        let blocks = [liar.number(), liar.number()];
        let symbols: Vec<_> = blocks.map(|id| Member::write(&whole(id), &[7])).into();
        let size = symbols.iter().map(Vec::len).max().unwrap_or(0).next_multiple_of(2);
        let mut padded = symbols.clone();
        padded.iter_mut().for_each(|symbol| symbol.resize(size, 0));
        let parity = parity::encode(&padded.concat(), size as u32).expect("has parity");
        let members = blocks.map(|block| Member { block, left: None }).into();
        let run = RunParity { members, sent: Stamp::at(Time::EPOCH), symbol_size: size as u32, index: 0 };
        let mut bytes = bytes_of(&Item::RunParity(run, &parity[..size]));
        bytes.extend(bytes_of(&Item::Data(whole(blocks[0]), &[7])));
        bytes
    })
}

/// Creates a byte of a block of this length, far from all others: the last one first, and
/// repeatedly.
fn dust(liar: &mut Liar, total: u32) -> Vec<u8> {
    let pieces = u64::from(total / 1024);
    let at = total - 1 - 1024 * (liar.number() % pieces) as u32;
    bytes_of(&Item::Data(data(1, at, Some(total)), &[7]))
}

/// Creates whole blocks of one byte.
fn blocks(liar: &mut Liar) -> Vec<Vec<u8>> {
    many(FRAME, || bytes_of(&Item::Data(data(liar.number(), 0, Some(1)), &[7])))
}

const KINDS: &[(&str, Fill)] = &[
    ("a block of 1,100 bytes", |liar| {
        vec![bytes_of(&Item::Data(data(liar.number(), 0, Some(1_100)), &[7; 1_100]))]
    }),
    ("one byte of each block", |liar| {
        many(FRAME, || bytes_of(&Item::Data(data(liar.number(), 0, Some(900)), &[7])))
    }),
    ("one byte again and again", |_| many(FRAME, || bytes_of(&Item::Data(data(1, 0, Some(900)), &[7])))),
    ("bytes of a large block, the last first", |liar| many(FRAME, || dust(liar, 16 << 20))),
    ("bytes of a large block of which parity has come", |liar| {
        if liar.next == 0 {
            let block = data(1, 0, Some(2 << 20));
            liar.number();
            return full(|| {
                bytes_of(&Item::Repair(
                    Repair { block: block.clone(), symbol_size: 2048, index: 0 },
                    &[7; 2048],
                ))
            });
        }
        many(FRAME, || dust(liar, 2 << 20))
    }),
    ("cancellations", |liar| {
        full(|| {
            let reason = CancelReason::Lost;
            bytes_of(&Item::Cancel(Cancel {
                block: liar.number(),
                reason,
                priority: 0,
                channel: 7,
                previous: None,
            }))
        })
    }),
    ("cancellations in an ordered channel", |liar| {
        full(|| {
            let (block, reason) = (2 * liar.number(), CancelReason::Lost);
            bytes_of(&Item::Cancel(Cancel { block, reason, priority: 0, channel: 7, previous: Some(1) }))
        })
    }),
    ("refusals", |liar| full(|| bytes_of(&Item::Refused(liar.number(), RefuseReason::NoMemory)))),
    ("rebuilt", |liar| full(|| bytes_of(&Item::Rebuilt(liar.number())))),
    ("probes", |liar| full(|| bytes_of(&Item::Probe(liar.number(), Stamp::at(Time::EPOCH))))),
    ("answers to probes", |liar| full(|| bytes_of(&Item::ProbeReply(liar.number(), Stamp::at(Time::EPOCH))))),
    ("feedback", |liar| {
        full(|| {
            let sample =
                |path| Sample { path, delay: 1, departure: Some(Stamp::at(Time::EPOCH)), received: 3 };
            bytes_of(&Item::Feedback(Feedback {
                sequence: liar.number(),
                credit: 1 << 16,
                duplicates: 0,
                expired: 0,
                samples: (0..16).map(sample).collect(),
                wanted: None,
            }))
        })
    }),
    ("path infos", |liar| {
        full(|| {
            let sequence = liar.number();
            let path = (sequence % 500) as u32;
            let metered = sequence.is_multiple_of(2);
            bytes_of(&Item::PathInfo(PathInfo { path, metered, role: Role::Primary, limit: None, sequence }))
        })
    }),
    ("alerts", |liar| {
        full(|| {
            let sequence = liar.number();
            let kind = [AlertKind::Warning, AlertKind::Recovery][sequence as usize % 2];
            bytes_of(&Item::PathAlert(PathAlert { path: 0, kind, quality: 500, gap: 0, sequence }))
        })
    }),
    ("counts of losses", |liar| {
        full(|| {
            let count = liar.number();
            bytes_of(&Item::PathLoss(PathLoss { path: 0, acked: count, lost: count }))
        })
    }),
    ("stalls", |liar| {
        full(|| bytes_of(&Item::Stalled(Stalled { block: liar.number(), more: u64::MAX >> 2 })))
    }),
    ("parity of blocks of one symbol", |liar| {
        full(|| {
            let repair = Repair { block: data(liar.number(), 0, Some(2)), symbol_size: 2, index: 0 };
            bytes_of(&Item::Repair(repair, &[7; 2]))
        })
    }),
    ("parity of blocks of two symbols", |liar| {
        full(|| {
            let number = liar.number();
            let block = data(number / 2, 0, Some(512));
            bytes_of(&Item::Repair(Repair { block, symbol_size: 256, index: (number % 2) as u32 }, &[7; 256]))
        })
    }),
    ("parity of runs of blocks that never come", |liar| full(|| run(200_000 + 32 * liar.number(), 32, 2))),
    ("the same run again and again", |_| full(|| run(200_000, 32, 2))),
    ("runs that differ in the last block", |liar| {
        full(|| {
            let mut members: Vec<_> = (0..31).map(|n| Member { block: 200_000 + n, left: None }).collect();
            members.push(Member { block: 200_100 + liar.number(), left: None });
            let run = RunParity { members, sent: Stamp::at(Time::EPOCH), symbol_size: 2, index: 0 };
            bytes_of(&Item::RunParity(run, &[0; 2]))
        })
    }),
    ("blocks of one byte while runs wait", |liar| {
        if liar.next == 0 {
            liar.number();
            return full(|| run(200_000 + 32 * liar.number(), 32, 2));
        }
        blocks(liar)
    }),
    ("parity of runs of one block", |liar| {
        full(|| {
            let block = liar.number();
            let mut symbol = Member::write(&data(block, 0, Some(1)), &[7]);
            symbol.resize(symbol.len().next_multiple_of(2), 0);
            let (symbol_size, members) = (symbol.len() as u32, vec![Member { block, left: None }]);
            let run = RunParity { members, sent: Stamp::at(Time::EPOCH), symbol_size, index: 0 };
            bytes_of(&Item::RunParity(run, &symbol))
        })
    }),
    ("parity that solves runs", solvable),
    ("items of unknown type", |_| full(|| vec![0x1f, 0])),
];

/// Returns the time of a session for a packet of these, in microseconds: the mean of nine in ten
/// packets, in the quickest of some runs. Other programs only add to it.
fn cost(fill: Fill) -> f64 {
    let once = || {
        let (mut world, mut liar, mut answers) = (meet(Config::default()), Liar::default(), 0);
        let packets = (0..WARM + PACKETS).map(|_| deliver(&mut world, fill(&mut liar), &mut answers));
        let mut times: Vec<Duration> = packets.skip(WARM).collect();
        let most = MOST_ANSWERS * (WARM + PACKETS) as u64;
        assert!(answers <= most, "{answers} packets in answer to {}", WARM + PACKETS);
        times.sort_unstable();
        times.truncate(PACKETS * 9 / 10);
        times.iter().sum::<Duration>()
    };
    let least = (0..TIMES).map(|_| once()).min().unwrap_or_default();
    least.as_secs_f64() * 1e6 / (PACKETS * 9 / 10) as f64
}

/// Creates a server, and a foreign client that has written its hello.
fn meet(config: Config) -> World {
    let now = Instant::now();
    let mut world = World::new(now, Peer::server(config, 1, now), Vec::new());
    let config = Stranger::config(TransportConfig::default());
    world.strangers.push(Stranger::new(now, ([10, 0, 0, 1], 1_000).into(), 1, config));
    world.strangers[0].hello = Some(HELLO.to_vec());
    world.run(Duration::from_secs(1), after(Duration::ZERO));
    world
}

/// Sends a packet of the liar, and returns the time that the server needed for it.
fn deliver(world: &mut World, datagrams: Vec<Vec<u8>>, answers: &mut u64) -> Duration {
    let liar = &mut world.strangers[0];
    datagrams.into_iter().for_each(|datagram| liar.say(datagram));
    world.now += Duration::from_millis(2);
    let (now, mut packets, mut spent) = (world.now, Vec::new(), Duration::ZERO);
    liar.transmit(now, &mut |packet| packets.push(packet));
    for packet in packets {
        let (mut sent, begin) = (Vec::new(), Instant::now());
        world.server.receive(now, packet);
        world.server.transmit(now, &mut |answer| sent.push(answer));
        spent += begin.elapsed();
        world.server.events.clear();
        *answers += sent.len() as u64;
        sent.into_iter().for_each(|answer| liar.receive(now, answer));
    }
    assert_eq!(world.server.session().close_reason(), None);
    spent
}

#[test]
fn no_packet_is_much_more_work_than_one_of_small_blocks() {
    let plain = cost(blocks);
    println!("{plain:8.1} µs: blocks of one byte");
    let mut wrong = Vec::new();
    for (name, fill) in KINDS {
        let times = cost(*fill) / plain;
        println!("{:8.1} µs, {times:5.1} times: {name}", times * plain);
        if times > MOST {
            wrong.push(format!("{name}: {times:.1} times as much"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn a_stranger_has_no_runs_solved() {
    // If there are more than are solved at once, the others wait for packets.
    for (distrust, rebuilt) in [(false, 32), (true, 0)] {
        let config = Config::default().distrust(distrust);
        let mut world = meet(config);
        deliver(&mut world, solvable(&mut Liar::default()), &mut 0);
        assert_eq!(world.server.session().stats().blocks_rebuilt, rebuilt);
    }
}

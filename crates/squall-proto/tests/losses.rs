//! Whole sessions over a lossy network, in virtual time: repair time of a lost tail, and losses of
//! partial blocks.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use squall_proto::{
    Block, BlockOptions, Config, Event, LabConfig, Received,
    sched::{BlockId, schedulers::minrtt::MinRtt},
};
use squall_testkit::{
    Peer,
    world::{Packet, SERVER, Wire, World},
};

/// One-way delay.
const DELAY: Duration = Duration::from_millis(50);

/// Connects a client and a server, for a second, with a scheduler that sends no parity.
fn connected(lab: LabConfig) -> World {
    let config = || Config::default().scheduler(Arc::new(|| Box::new(MinRtt))).lab(lab);
    let now = Instant::now();
    let server = Peer::server(config(), 1, now);
    let client = Peer::client(config(), 2, now, &[([10, 0, 0, 1], 1_000).into()]);
    let mut world = World::new(now, server, vec![client]);
    run(&mut world, Duration::from_secs(1), |_| false);
    world
}

/// Advances the time; drops packets of the server that `loses` selects.
fn run(world: &mut World, time: Duration, mut loses: impl FnMut(&Packet) -> bool) {
    world.run(time, |now, packet, wire: &mut Wire| {
        if packet.from != SERVER || !loses(&packet) {
            wire.put(now + DELAY, packet);
        }
    });
}

fn send(world: &mut World, block: Block) -> BlockId {
    let now = world.now;
    world.server.session().send(now, block).expect("there is room")
}

fn received(world: &mut World) -> Vec<Received> {
    let events = world.clients[0].events.drain(..);
    events
        .filter_map(|(_, event)| if let Event::Received(block) = event { Some(block) } else { None })
        .collect()
}

/// Returns the time from sending a block of one packet, which is lost, to its arrival.
fn repair(probe_with_data: bool) -> Duration {
    let lab = LabConfig { probe_with_data, ..LabConfig::standard() };
    let mut world = connected(lab);
    for _ in 0..40 {
        send(&mut world, Block::new(vec![1; 1_000]));
        run(&mut world, Duration::from_millis(50), |_| false);
    }
    run(&mut world, Duration::from_secs(1), |_| false);
    received(&mut world);
    let (sent_at, id) = (world.now, send(&mut world, Block::new(vec![2; 1_000])));
    run(&mut world, Duration::from_millis(10), |_| true);
    run(&mut world, Duration::from_secs(2), |_| false);
    let arrived = received(&mut world).into_iter().find(|block| block.id == id).expect("arrives");
    arrived.whole_at - sent_at
}

#[test]
fn a_lost_tail_is_repaired_by_the_probe_and_not_a_round_trip_after_it() {
    let [ping, data] = [false, true].map(repair);
    println!("{ping:?} with a PING, {data:?} with data");
    let saved = ping.saturating_sub(data);
    assert!((90..=130).contains(&saved.as_millis()), "{ping:?} and {data:?} at a round trip of 100 ms");
    // The probe timeout is a round trip, its deviation and the delay of acknowledgements (RFC 9002 §6.2.1).
    assert!((150..=210).contains(&data.as_millis()), "{data:?}");
}

/// Sends 400 unreliable blocks of 37.5 kB with 1 % of packet loss; returns the number that arrived
/// whole, and the share of all bytes.
fn unreliable(partial: bool) -> (usize, f64) {
    const BLOCKS: usize = 400;
    const LEN: usize = 37_500;
    let mut world = connected(LabConfig::default());
    let mut dice = 1_u64;
    let mut loses = move |packet: &Packet| {
        // High bits of Knuth's linear congruential generator.
        dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        packet.data.len() > 200 && (dice >> 33).is_multiple_of(100)
    };
    for block in 0..30 + BLOCKS {
        if block == 30 {
            // The network can carry them by now.
            received(&mut world);
        }
        let options =
            BlockOptions::new().reliable(false).partial(partial).deadline(Duration::from_millis(300));
        send(&mut world, Block::with(vec![7; LEN], options));
        run(&mut world, Duration::from_millis(30), |packet| block >= 30 && loses(packet));
    }
    run(&mut world, Duration::from_secs(1), &mut loses);
    let blocks = received(&mut world);
    let missing = |block: &Received| {
        block.missing.iter().map(|range| (range.end - range.start) as usize).sum::<usize>()
    };
    assert!(
        blocks.iter().all(|block| block.data.iter().filter(|byte| **byte == 0).count() == missing(block))
    );
    let whole = blocks.iter().filter(|block| block.missing.is_empty()).count();
    let bytes: usize = blocks.iter().map(|block| block.data.len() - missing(block)).sum();
    (whole, bytes as f64 / (BLOCKS * LEN) as f64)
}

#[test]
fn at_one_percent_loss_whole_blocks_lose_a_quarter_and_partial_ones_one_percent() {
    let ((whole, bytes), (_, partial)) = (unreliable(false), unreliable(true));
    println!("{whole} of 400 whole, {bytes:.4} of the bytes; partial: {partial:.4}");
    assert!((240..=340).contains(&whole), "{whole} of 400 whole");
    assert!((0.6..0.86).contains(&bytes), "{bytes}");
    assert!((0.982..0.996).contains(&partial), "{partial}");
}

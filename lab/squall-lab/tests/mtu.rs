//! Paths whose MTU changes while a session uses them. QUIC needs UDP payloads of 1,200 bytes (RFC 9000 §14), which are
//! IP packets of 1,228.

mod stage;

use std::time::Duration;

use squall_lab::world::Side;
use squall_proto::{Block, Config, PacketFate, PacketLog, PathChange, sched::PathId};
use squall_units::Micros;

use stage::{Stage, TWO_PATHS};

const SHRINKS: Micros = 3_000_000;
const GROWS: Micros = 8_000_000;

/// Blocks of several packets from the client, on two paths of which `small` have this MTU from 3 to 8 s.
fn run(small: &[usize], mtu: u32) -> (Stage, usize) {
    let path = |i: usize| {
        let events = format!("events=[{{at='3s', mtu={mtu}}}, {{at='8s', mtu=1500}}]");
        format!("{}\n{}", TWO_PATHS[i], if small.contains(&i) { events.as_str() } else { "" })
    };
    let mut stage = Stage::connected(&[&path(0), &path(1)], 31);
    let mut sent = 0;
    while stage.world.now() < 18_000_000 {
        stage.send(Side::Client, Block::new(vec![1; 4_000]));
        sent += 1;
        stage.run_for(20_000);
    }
    stage.run_for(1_000_000);
    (stage, sent)
}

fn count(changes: &[(Micros, PathChange)], wanted: impl Fn(&PathChange) -> bool) -> usize {
    changes.iter().filter(|(_, change)| wanted(change)).count()
}

#[test]
fn a_path_below_quics_minimum_is_out_until_a_full_size_packet_passes() {
    for mtu in [600, 1_000, 1_200] {
        let (stage, sent) = run(&[0], mtu);
        assert_eq!(stage.received(Side::Server).count(), sent, "mtu {mtu}");
        let changes = stage.path_changes(Side::Client, PathId(0));
        let suspicions = count(&changes, |c| matches!(c, PathChange::Suspected { .. }));
        assert!(suspicions <= 2, "mtu {mtu}: it does not flap: {changes:?}");
        assert_eq!(count(&changes, |c| matches!(c, PathChange::Narrow)), 1, "mtu {mtu}: {changes:?}");
        let back = changes.iter().rfind(|(_, c)| matches!(c, PathChange::Readmitted { .. }));
        let back = back.map(|(at, _)| *at);
        assert!(back.is_some_and(|at| (GROWS..GROWS + 8_500_000).contains(&at)), "mtu {mtu}: {changes:?}");
        let other = stage.path_changes(Side::Client, PathId(1));
        assert_eq!(count(&other, |c| !matches!(c, PathChange::Up(_))), 0, "mtu {mtu}: {other:?}");
    }
}

#[test]
fn an_application_learns_that_no_path_carries_full_size_packets() {
    let (stage, sent) = run(&[0, 1], 1_000);
    for path in [PathId(0), PathId(1)] {
        let changes = stage.path_changes(Side::Client, path);
        let narrow = changes.iter().find(|(_, c)| matches!(c, PathChange::Narrow)).map(|(at, _)| *at);
        assert!(narrow.is_some_and(|at| at < SHRINKS + 3_000_000), "{path:?}: {changes:?}");
    }
    assert_eq!(stage.received(Side::Server).count(), sent, "everything arrives when the MTU is back");
}

#[test]
fn a_path_at_ipv6s_minimum_goes_on() {
    let (mut stage, sent) = run(&[0], 1_280);
    assert_eq!(stage.received(Side::Server).count(), sent);
    let changes = stage.path_changes(Side::Client, PathId(0));
    assert_eq!(count(&changes, |c| matches!(c, PathChange::Narrow)), 0, "{changes:?}");
    let used: Vec<u64> = stage.path_stats(Side::Client).iter().map(|s| s.fresh_bytes).collect();
    assert!(used[0] > 1_000_000, "{used:?}");
}

/// Two links of 20 Mbps, the first with these properties.
fn links(first: &str) -> [String; 2] {
    [
        format!("name='wifi'\nrate='20mbps'\ndelay='20ms'\n{first}"),
        "name='lte'\nrate='20mbps'\ndelay='30ms'".to_owned(),
    ]
}

/// Sends IP packets of 1,300 bytes as a TUN device gives them, at this rate, until 40 s. Returns the packets that left from
/// the fifth second on.
fn tunnel(first: &str, mbps: u64, config: &Config) -> Vec<PacketLog> {
    let links = links(first);
    let mut stage = Stage::with(&[&links[0], &links[1]], 11, config.clone(), config.clone());
    stage.run_until(5_000_000);
    stage.world.session(Side::Client).expect("session").keep_log(true);
    while stage.world.now() < 40_000_000 {
        let packet = Block::new(vec![1; 1_300]).deadline(Duration::from_millis(500)).unreliable();
        stage.send(Side::Client, packet);
        stage.run_for(1_300 * 8 / mbps);
    }
    stage.world.session(Side::Client).expect("session").take_packets()
}

/// Share of the packets with data, from this time on, that carry a part of a TUN packet only.
fn divided(log: &[PacketLog], from: Micros) -> f64 {
    let sent = log.iter().filter(|packet| packet.fate == PacketFate::Sent && packet.at >= from);
    let lengths: Vec<u32> = sent.filter_map(|packet| Some(packet.chunk.as_ref()?.1.len() as u32)).collect();
    lengths.iter().filter(|len| **len < 1_300).count() as f64 / lengths.len() as f64
}

#[test]
fn random_loss_is_no_black_hole() {
    for loss in ["loss='2%'", "loss='8%'", "loss='15%/5'"] {
        for mbps in [2, 10, 20] {
            for (scheduler, config) in [("squall", Config::default()), ("minrtt", stage::plain())] {
                let log = tunnel(loss, mbps, &config);
                let shares = [divided(&log, 0), divided(&log, 15_000_000)];
                println!("{loss}, {mbps} Mbps, {scheduler}: {shares:.4?} of the packets carry a part");
                // A first fall is over within half a second. There is no second one, unless a burst takes all that is in
                // flight, and small packets alone arrive behind it.
                let later = if loss.contains("15%/5") { 0.02 } else { 0.001 };
                assert!(
                    shares[0] < 0.03 && shares[1] < later,
                    "{loss}, {mbps} Mbps, {scheduler}: {shares:?}"
                );
            }
        }
    }
}

/// UDP payloads that were acknowledged from one moment to another.
fn largest(log: &[PacketLog], path: u32, from: Micros, to: Micros) -> u16 {
    let acked = log.iter().filter(|packet| packet.fate == PacketFate::Acked && packet.path == path);
    let within = acked.filter(|packet| (from..to).contains(&packet.at) && packet.chunk.is_some());
    within.map(|packet| packet.bytes).max().unwrap_or(0)
}

#[test]
fn the_size_of_packets_follows_the_mtu_both_ways() {
    for (name, blocks, gap) in [("transfer", 100_000, 40_000), ("thin", 1_400, 10_000)] {
        let links = links("events=[{at='5s', mtu=1400}, {at='10s', mtu=1500}]");
        for paths in [&[links[0].as_str()][..], &[&links[0], &links[1]]] {
            let mut stage = Stage::with(paths, 13, stage::plain(), stage::plain());
            stage.world.session(Side::Client).expect("session").keep_log(true);
            while stage.world.now() < 45_000_000 {
                stage.send(Side::Client, Block::new(vec![1; blocks]).deadline(Duration::from_millis(500)));
                stage.run_for(gap);
            }
            let log = stage.world.session(Side::Client).expect("session").take_packets();
            let sizes = [(2_000, 5_000), (7_000, 7_500), (7_500, 10_000), (40_000, 45_000)]
                .map(|(from, to)| largest(&log, 0, from * 1_000, to * 1_000));
            println!("{name}, {} paths: UDP payloads of {sizes:?} bytes", paths.len());
            let changes = stage.path_changes(Side::Client, PathId(0));
            let falls = count(&changes, |c| matches!(c, PathChange::MtuFell { from: 1_452, to: 1_200 }));
            assert!((1..=2).contains(&falls), "{name}: {changes:?}");
            let [before, soon, small, after] = sizes;
            assert!(before > 1_420 && after > 1_420, "{name}: {sizes:?}");
            assert!([soon, small].iter().all(|size| (1_340..=1_372).contains(size)), "{name}: {sizes:?}");
        }
    }
}

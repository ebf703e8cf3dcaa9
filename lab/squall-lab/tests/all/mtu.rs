//! Paths whose MTU changes while a session uses them. QUIC needs UDP payloads of 1,200 bytes (RFC 9000 §14), which are
//! IP packets of 1,228.

use std::time::Duration;

use squall_lab::world::Side;
use squall_proto::{Block, BlockOptions, Config, PacketFate, PacketLog, PathChange, sched::PathId};
use squall_trace::Micros;

use crate::stage::{Stage, TWO_PATHS};

const SHRINKS: Micros = 3_000_000;
const GROWS: Micros = 8_000_000;

/// Sends blocks of several packets from the client, on two paths of which `small` have this MTU
/// from 3 to 8 s.
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

/// Two links of 20 Mbps; the first has these additional fields.
fn links(first: &str) -> [String; 2] {
    [
        format!("name='wifi'\nrate='20mbps'\ndelay='20ms'\n{first}"),
        "name='lte'\nrate='20mbps'\ndelay='30ms'".to_owned(),
    ]
}

/// Sends IP packets of 1,300 bytes, as from a TUN device, at this rate in each direction for 40 s.
/// Returns the packets of the client.
fn tunnel(first: &str, [up, down]: [u64; 2], config: &Config) -> Vec<PacketLog> {
    let links = links(first);
    let mut stage = Stage::with(&[&links[0], &links[1]], 11, config.clone(), config.clone());
    stage.world.session(Side::Client).expect("session").keep_packets(true);
    let mut next = [(up, Side::Client), (down, Side::Server)].map(|(mbps, side)| (0, mbps, side));
    while stage.world.now() < 40_000_000 {
        for (at, mbps, side) in &mut next {
            if *mbps > 0 && *at <= stage.world.now() {
                stage.send(
                    *side,
                    Block::with(
                        vec![1; 1_300],
                        BlockOptions::new().deadline(Duration::from_millis(500)).reliable(false),
                    ),
                );
                *at = stage.world.now() + 1_300 * 8 / *mbps;
            }
        }
        stage.run_for(1_300 * 8 / up);
    }
    stage.world.session(Side::Client).expect("session").take_packets()
}

/// Periods in which packets with fragments of TUN packets left, in milliseconds.
fn divided(log: &[PacketLog]) -> Vec<(Micros, Micros)> {
    let mut rows: Vec<(Micros, Micros)> = Vec::new();
    let sent = log.iter().filter(|packet| packet.fate == PacketFate::Sent);
    let parts = sent.filter(|packet| packet.chunk.as_ref().is_some_and(|chunk| chunk.range.len() < 1_300));
    for at in parts.map(|packet| packet.at.micros() / 1_000) {
        match rows.last_mut().filter(|row| at < row.1 + 50) {
            Some(row) => row.1 = at,
            None => rows.push((at, at)),
        }
    }
    rows
}

/// Share of full packets among those with a complete TUN packet.
fn filled(log: &[PacketLog]) -> f64 {
    let sent = log.iter().filter(|packet| packet.fate == PacketFate::Sent);
    let whole = sent.filter(|packet| packet.chunk.as_ref().is_some_and(|chunk| chunk.range.len() == 1_300));
    let sizes: Vec<u16> = whole.map(|packet| packet.bytes).collect();
    sizes.iter().filter(|bytes| **bytes >= 1_451).count() as f64 / sizes.len() as f64
}

#[test]
fn random_loss_is_seldom_a_black_hole() {
    // A burst of losses may hit all large packets of a period and spare the small ones.
    for (loss, most) in [("0.5%", 0), ("2%", 300), ("8%", 400), ("3%/5", 500)] {
        for rates in [[20, 0], [20, 20]] {
            for (scheduler, config) in [("squall", Config::default()), ("minrtt", crate::stage::plain())] {
                let log = tunnel(&format!("loss='{loss}'"), rates, &config);
                let (rows, filled) = (divided(&log), filled(&log));
                println!("{loss}, {rates:?} Mbps, {scheduler}: divided {rows:?} ms, {filled:.3} filled");
                let time: Micros = rows.iter().map(|(first, last)| last - first + 1).sum();
                assert!(time <= most, "{loss}, {rates:?} Mbps, {scheduler}: divided {rows:?} ms");
                assert!(
                    !rows.is_empty() || filled == 0.0,
                    "{loss}, {rates:?} Mbps, {scheduler}: filled without a fall"
                );
            }
        }
    }
}

/// Largest UDP payload with data that was acknowledged on the first path, among packets that left
/// between two times.
fn largest(log: &[PacketLog], from: Micros, to: Micros) -> u16 {
    let acked = log.iter().filter(|packet| packet.fate == PacketFate::Acked && packet.path == 0);
    let within = acked.filter(|packet| (from..to).contains(&packet.at.micros()) && packet.chunk.is_some());
    within.map(|packet| packet.bytes).max().unwrap_or(0)
}

#[test]
fn the_size_of_packets_follows_the_mtu_both_ways() {
    for (name, blocks, gap) in [("transfer", 100_000, 40_000), ("thin", 1_400, 10_000)] {
        for loss in ["", "loss='2%'"] {
            let links = links(&format!("{loss}\nevents=[{{at='5s', mtu=1400}}, {{at='10s', mtu=1500}}]"));
            for paths in [&[links[0].as_str()][..], &[&links[0], &links[1]]] {
                let mut stage = Stage::with(paths, 13, crate::stage::plain(), crate::stage::plain());
                stage.world.session(Side::Client).expect("session").keep_packets(true);
                while stage.world.now() < 45_000_000 {
                    stage.send(
                        Side::Client,
                        Block::with(
                            vec![1; blocks],
                            BlockOptions::new().deadline(Duration::from_millis(500)),
                        ),
                    );
                    stage.run_for(gap);
                }
                let log = stage.world.session(Side::Client).expect("session").take_packets();
                let sizes = [(2_000, 5_000), (7_000, 9_500), (40_000, 45_000)]
                    .map(|(from, to)| largest(&log, from * 1_000, to * 1_000));
                println!("{name}, {loss}, {} paths: UDP payloads of {sizes:?} bytes", paths.len());
                let [before, small, after] = sizes;
                assert!(before > 1_420 && after > 1_420, "{name}, {loss}: {sizes:?}");
                assert!((1_340..=1_372).contains(&small), "{name}, {loss}: {sizes:?}");
            }
        }
    }
}

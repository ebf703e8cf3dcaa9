//! Paths whose MTU changes while a session uses them. QUIC needs UDP payloads of 1,200 bytes (RFC 9000 §14), which are
//! IP packets of 1,228.

mod stage;

use squall_lab::world::Side;
use squall_proto::{Block, PathChange, sched::PathId};
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

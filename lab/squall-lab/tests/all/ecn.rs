//! Networks that treat ECN wrongly, i.e. routers that mark every packet with CE or drop packets
//! with ECN, and one that treats it correctly.

use std::sync::Arc;

use squall_lab::{Batch, RunResult, Scenario, world::Side};
use squall_net::Direction;
use squall_proto::{Block, BlockOptions, Config, CongestionControl, PathChange, sched::PathId};
use squall_trace::Micros;

use crate::stage::Stage;

const SECOND: Micros = 1_000_000;

/// 20 Mbps with 20 ms, and with 30 ms.
const WIFI: &str = "name='wifi'\nrate='20mbps'\ndelay='20ms'\n";
const LTE: &str = "name='lte'\nrate='20mbps'\ndelay='30ms'\n";

/// Goodput of a transfer from 4 to 14 s, in Mbps: both paths together, and each path.
fn transfer(paths: &[&str], seed: u64) -> [f64; 2] {
    let mut stage = Stage::plain(paths, seed);
    stage.run_until(SECOND);
    let rates = stage.saturate(Side::Server, 14 * SECOND, SECOND / 4);
    [0, 1]
        .map(|path| rates[16..].iter().map(|rate| rate[path]).sum::<f64>() / (rates.len() - 16) as f64 / 1e6)
}

/// A scenario with a transfer over a path.
fn bulk(congestion: &str, path: &str, seconds: u64) -> RunResult {
    let text = format!(
        "name='marks'\nduration='{seconds}s'\nseeds=[1]\nschedulers=['minrtt']\ncongestion='{congestion}'\n\
         [[path]]\n{path}[[flow]]\nname='bulk'\nkind='bulk'\n"
    );
    let scenario = Scenario::parse(&text, "test.toml").unwrap_or_else(|error| panic!("{error}"));
    Batch::of(&scenario, Arc::new(squall_papers::registry())).run(&|_| {}).expect("runs").swap_remove(0)
}

#[test]
fn a_router_that_marks_everything_costs_nothing() {
    for treatment in ["ecn='mark'", "ecn='pass'\nevents=[{at='5s', ecn='mark'}]"] {
        let marked = format!("{WIFI}{treatment}");
        for seed in [1, 2, 3] {
            let [plain, _] = transfer(&[WIFI], seed);
            let [alone, _] = transfer(&[&marked], seed);
            let [one, other] = transfer(&[&marked, LTE], seed);
            println!(
                "{treatment}: {alone:.1} of {plain:.1} Mbps; beside another link {one:.1} and {other:.1}"
            );
            assert!(plain > 18.0 && alone > 0.97 * plain, "{treatment}: {alone} of {plain} Mbps");
            assert!(one > 17.0 && other > 17.0, "{treatment}: {one} and {other} Mbps");
        }
    }
}

/// A varying delay hides that there is no queue, and marks from the first packet on keep the window
/// of a transfer from growing. The other links are thin and long.
#[test]
fn a_router_that_marks_everything_costs_nothing_where_the_delay_varies() {
    let links = [
        "rate='20mbps'\ndelay='20ms'\njitter='10ms'",
        "rate='500kbps'\ndelay='20ms'",
        "rate='20mbps'\ndelay='150ms'",
    ];
    for link in links {
        let carried = |ecn: &str| {
            bulk("steady", &format!("name='link'\n{link}\necn='{ecn}'\n"), 20).flows[0].goodput_bps as f64
        };
        let (plain, marked) = (carried("pass"), carried("mark"));
        println!("{link:?}: {:.2} of {:.2} Mbps", marked / 1e6, plain / 1e6);
        assert!(marked > 0.9 * plain, "{link}: {marked} of {plain} bit/s");
    }
}

#[test]
fn a_stream_arrives_in_time_where_everything_is_marked() {
    // Marks that begin count for four round trips, in which the queue that they could mean would
    // fall: a third of a second with fewer frames.
    for (treatment, most_lost) in [("ecn='mark'", 6), ("ecn='pass'\nevents=[{at='5s', ecn='mark'}]", 20)] {
        let mut stage = Stage::connected(&[&format!("{WIFI}{treatment}")], 7);
        let mut sent = 0;
        while stage.world.now() < 12 * SECOND {
            // 60 frames a second, 15 Mbps.
            let frame = Block::with(
                vec![1; 31_250],
                BlockOptions::new().deadline(std::time::Duration::from_millis(150)).reliable(false),
            );
            stage.send(Side::Server, frame);
            sent += 1;
            stage.run_for(16_667);
        }
        stage.run_for(SECOND);
        let arrived = stage.received(Side::Client).count();
        println!("{treatment}: {arrived} of {sent} frames");
        assert!(arrived + most_lost >= sent, "{treatment}: {arrived} of {sent} frames");
        let changes = stage.path_changes(Side::Server, PathId(0));
        let off = changes.iter().filter(|(_, change)| matches!(change, PathChange::EcnOff { .. })).count();
        assert_eq!(off, 1, "{treatment}: it is reported once: {changes:?}");
    }
}

#[test]
fn a_scenario_has_ecn_where_its_path_passes_it() {
    let lost = |ecn: &str| {
        let path = format!("{WIFI}{ecn}\nqueue={{bytes='1MB', codel={{ecn=true}}}}\n");
        bulk("cubic", &path, 10).paths[0].totals.lost_packets
    };
    assert_eq!(lost("ecn='pass'"), 0, "CoDel marks");
    assert!(lost("") > 0, "without the field it drops");
}

/// Returns the time at which the client is connected and has this many paths up.
fn up_within(paths: &[&str], wanted: usize) -> Option<Micros> {
    let mut stage = Stage::unconnected(paths, 5, Config::default(), Config::default());
    for step in 1..=100 {
        stage.run_until(step * 50_000);
        let up = |id| {
            let changes = stage.path_changes(Side::Client, PathId(id as u8));
            changes.iter().any(|(_, change)| matches!(change, PathChange::Up(_)))
        };
        if stage.world.is_connected() && (0..wanted).filter(|id| up(*id)).count() == wanted {
            return Some(stage.world.now());
        }
    }
    None
}

#[test]
fn a_session_begins_where_marked_packets_are_dropped() {
    for treatment in ["ecn='drop'", "ecn='pass'\nup={ecn='drop'}", "ecn='pass'\ndown={ecn='drop'}"] {
        let dropping = format!("{WIFI}{treatment}");
        let alone = up_within(&[&dropping], 1);
        let both = up_within(&[&dropping, LTE], 2);
        let other = up_within(&[LTE, &dropping], 2);
        println!("{treatment}: {alone:?}; beside another link {both:?}, {other:?}");
        assert!(alone.is_some_and(|at| at <= 2 * SECOND), "{treatment}: {alone:?}");
        assert!(
            [both, other].into_iter().flatten().filter(|at| *at <= 4 * SECOND).count() == 2,
            "{treatment}"
        );
    }
}

#[test]
fn a_link_that_drops_marked_packets_is_used() {
    for treatment in ["ecn='drop'", "ecn='pass'\nevents=[{at='3s', ecn='drop'}]"] {
        let [one, other] = transfer(&[&format!("{WIFI}{treatment}"), LTE], 9);
        println!("{treatment}: {one:.1} and {other:.1} Mbps");
        assert!(one > 15.0 && other > 17.0, "{treatment}: {one} and {other} Mbps");
    }
}

#[test]
fn a_queue_that_marks_is_listened_to() {
    let marking = format!("{WIFI}ecn='pass'\nqueue={{bytes='1MB', codel={{ecn=true}}}}");
    for congestion in [CongestionControl::CUBIC, CongestionControl::default()] {
        let config = crate::stage::plain().congestion(congestion.clone());
        let mut stage = Stage::with(&[&marking], 3, config.clone(), config);
        let rates = stage.saturate(Side::Server, 14 * SECOND, SECOND / 4);
        let rate = rates[16..].iter().map(|rate| rate[0]).sum::<f64>() / (rates.len() - 16) as f64 / 1e6;
        let stats = stage.world.network.stats(0, Direction::Down);
        let marks = stage.path_stats(Side::Server)[0].congestion_events;
        println!("{congestion}: {rate:.1} Mbps, {marks} marks answered, {:?} dropped", stats.dropped.total());
        assert!(rate > 16.0, "{congestion}: {rate} Mbps");
        assert_eq!(stats.dropped.codel.packets, 0, "{congestion}: it is marked instead");
        assert!(congestion != CongestionControl::CUBIC || marks > 10, "{congestion}: {marks} marks");
        assert_eq!(stats.dropped.queue.packets, 0, "{congestion}: the marks keep the queue short");
    }
}

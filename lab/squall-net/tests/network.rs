//! Several paths in virtual time.

use proptest::prelude::*;
use squall_net::{Arrival, Direction, Network, PathConfig, PathEvent, PushOutcome};
use squall_units::Span;

fn network(texts: &[&str]) -> Network<u64> {
    let paths: Vec<PathConfig> = texts.iter().map(|text| text.parse().unwrap()).collect();
    Network::new(&paths, 1).unwrap()
}

fn drain(network: &mut Network<u64>) -> Vec<Arrival<u64>> {
    let mut all = Vec::new();
    while let Some(at) = network.poll_timeout() {
        all.extend(network.poll(at));
        while network.poll_rebind(at).is_some() {}
    }
    all
}

#[test]
fn arrivals_of_all_paths_come_in_one_order_of_time() {
    let mut network = network(&["delay=20ms", "up.delay=5ms,down.delay=10ms"]);
    for (path, direction) in
        [(0, Direction::Up), (1, Direction::Down), (1, Direction::Up), (0, Direction::Down)]
    {
        let _ = network.send(0, path, direction, 100, 7);
    }
    assert!(network.poll(4_999).is_none());
    let all: Vec<_> = std::iter::from_fn(|| network.poll(50_000))
        .map(|arrival| (arrival.at, arrival.path, arrival.direction))
        .collect();
    assert_eq!(
        all,
        [
            (5_000, 1, Direction::Up),
            (10_000, 1, Direction::Down),
            (20_000, 0, Direction::Up),
            (20_000, 0, Direction::Down),
        ]
    );
}

#[test]
fn a_shared_bottleneck_serves_both_paths_in_turn_and_each_has_its_own_delay() {
    let mut network = network(&["name=a,rate=12mbps,delay=1ms", "name=b,bottleneck=a,delay=30ms"]);
    for item in 0..4 {
        let _ = network.send(0, usize::from(item % 2 == 1), Direction::Up, 1_500, item);
    }
    let all: Vec<_> = drain(&mut network).iter().map(|one| (one.item, one.at, one.queueing)).collect();
    assert_eq!(all, [(0, 2_000, 0), (2, 4_000, 2_000), (1, 32_000, 1_000), (3, 34_000, 3_000)]);
    assert_eq!(network.bottleneck_stats(1, Direction::Up).unwrap().sent.packets, 4);
    assert_eq!(network.stats(1, Direction::Up).delivered.packets, 2);
}

#[test]
fn a_path_that_is_down_leaves_the_shared_bottleneck_to_the_other() {
    let outage = PathEvent { outage: Some(Span::from_millis(100)), ..PathEvent::default() };
    let mut paths: Vec<PathConfig> =
        ["name=a,rate=12mbps", "name=b,bottleneck=a"].iter().map(|text| text.parse().unwrap()).collect();
    paths[0].events = vec![outage];
    let mut network: Network<u64> = Network::new(&paths, 1).unwrap();
    assert!(matches!(network.send(0, 0, Direction::Up, 1_500, 1), PushOutcome::Dropped(_)));
    let _ = network.send(0, 1, Direction::Up, 1_500, 2);
    assert_eq!(drain(&mut network).iter().map(|one| (one.item, one.at)).collect::<Vec<_>>(), [(2, 1_000)]);
}

#[test]
fn impossible_bottlenecks_are_refused() {
    let error = |texts: &[&str]| {
        let paths: Vec<PathConfig> = texts.iter().map(|text| text.parse().unwrap()).collect();
        Network::<()>::new(&paths, 1).unwrap_err().to_string()
    };
    assert!(error(&["name=a,bottleneck=x"]).contains("\"x\" is not another path"));
    assert!(error(&["name=a,bottleneck=a"]).contains("\"a\" is not another path"));
    assert!(error(&["name=a,bottleneck=b", "name=b,bottleneck=a"]).contains("is not another path"));
    assert!(error(&["name=a", "name=b,bottleneck=a,rate=1mbps"]).contains("cannot be set again"));
    assert_eq!(error(&["name=a", "name=a"]), "two paths are called \"a\"");
    assert_eq!(error(&["name=a,mtu=0"]), "path \"a\": mtu: 0B is not between 1B and 65.535kB");
}

#[test]
fn rebinds_come_at_their_time() {
    let event = |millis| PathEvent { at: Span::from_millis(millis), rebind: true, ..PathEvent::default() };
    let mut paths: Vec<PathConfig> = vec!["name=a".parse().unwrap(), "name=b".parse().unwrap()];
    paths[0].events = vec![event(30)];
    paths[1].events = vec![event(40), event(10)];
    let mut network: Network<()> = Network::new(&paths, 1).unwrap();
    let mut all = Vec::new();
    while let Some(at) = network.poll_timeout() {
        assert!(network.poll(at).is_none());
        all.extend(network.poll_rebind(at).map(|path| (at, path)));
    }
    assert_eq!(all, [(10_000, 1), (30_000, 0), (40_000, 1)]);
}

#[test]
fn another_seed_gives_another_run_and_the_same_seed_the_same() {
    let path: PathConfig = "rate=10mbps,delay=10ms,jitter=5ms,reorder,loss=5%,duplicate=1%".parse().unwrap();
    let run = |seed| {
        let mut network: Network<u64> =
            Network::new(&[path.clone(), PathConfig { name: "b".into(), ..path.clone() }], seed).unwrap();
        for item in 0..500 {
            let _ = network.send(item * 700, usize::from(item % 3 == 0), Direction::Up, 1_000, item);
        }
        drain(&mut network)
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}

proptest! {
    #[test]
    fn a_driver_that_sleeps_long_sees_what_one_sees_that_wakes_often(
        sends in prop::collection::vec((0u64..2_000, 0usize..3, any::<bool>(), 40usize..1_500), 1..150),
        seed in any::<u64>(),
    ) {
        let paths: Vec<PathConfig> = [
            "name=a,rate=5mbps,delay=10ms,jitter=4ms,queue=6kB,loss=2%",
            "name=b,rate=2mbps,delay=30ms,jitter=9ms,reorder,duplicate=2%",
            "name=c,bottleneck=a,delay=3ms,loss=1%",
        ]
        .iter()
        .map(|text| text.parse().unwrap())
        .collect();
        let run = |eager: bool| {
            let mut network: Network<usize> = Network::new(&paths, seed).unwrap();
            let (mut now, mut all) = (0, Vec::new());
            for (number, &(gap, path, up, size)) in sends.iter().enumerate() {
                now += gap;
                while let Some(at) = network.poll_timeout().filter(|at| eager && *at <= now) {
                    all.extend(network.poll(at));
                }
                if !eager {
                    network.state(now, path, Direction::Up);
                }
                let direction = if up { Direction::Up } else { Direction::Down };
                let _ = network.send(now, path, direction, size, number);
            }
            all.extend(std::iter::from_fn(|| network.poll(now + 10_000_000)));
            all
        };
        let all = run(true);
        prop_assert!(all.is_sorted_by_key(|arrival| arrival.at));
        prop_assert_eq!(run(false), all);
    }
}

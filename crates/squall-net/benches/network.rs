//! How many packets a second of real time the virtual network moves.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use squall_net::{Direction, Network, PathConfig};

const PACKETS: u64 = 20_000;

/// Sends packets in turn over both directions of all paths, as fast as the links take them, and takes them out
/// as they arrive.
fn run(paths: &[PathConfig]) -> u64 {
    let mut network: Network<u64> = Network::new(paths, 1).expect("the paths are valid");
    let (mut arrived, mut now) = (0, 0);
    for packet in 0..PACKETS {
        now += 120;
        let path = packet as usize % paths.len();
        let direction = if packet & 2 == 0 { Direction::Up } else { Direction::Down };
        let _ = network.send(now, path, direction, 1_200, packet);
        while let Some(at) = network.poll_timeout().filter(|at| *at <= now) {
            arrived += u64::from(network.poll(at).is_some());
        }
    }
    while let Some(at) = network.poll_timeout() {
        arrived += u64::from(network.poll(at).is_some());
    }
    arrived
}

fn paths(texts: &[&str]) -> Vec<PathConfig> {
    texts.iter().map(|text| text.parse().expect("the text is a path")).collect()
}

fn network(criterion: &mut Criterion) {
    let plain = paths(&["name=wifi,rate=50mbps,delay=15ms", "name=lte,rate=30mbps,delay=40ms"]);
    let rough = paths(&[
        "name=wifi,rate=50mbps,delay=15ms,jitter=3ms,loss=1%/4,queue=codel:100kB",
        "name=lte,rate=30mbps,delay=40ms,jitter=normal:5ms,reorder,loss=0.5%,duplicate=0.1%",
    ]);
    let mut group = criterion.benchmark_group("packet hops");
    group.throughput(Throughput::Elements(PACKETS));
    group.bench_function("two plain paths", |bencher| bencher.iter(|| run(&plain)));
    group.bench_function("two rough paths", |bencher| bencher.iter(|| run(&rough)));
    group.finish();
}

criterion_group!(benches, network);
criterion_main!(benches);

//! Throughput of the virtual network: packets per second of real time.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use squall_net::{
    Direction, Network, PathConfig,
    radio::{Canyon, RadioConfig, Rail, Source, Walk},
};
use squall_trace::Micros;

const PACKETS: u64 = 20_000;

/// Sends packets in turn over both directions of all paths, at the links' pace, and polls them as
/// they arrive.
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
    let mut fading = plain.clone();
    fading[0].radio = Some(RadioConfig::new(Source::Walk(Walk::default())));
    fading[1].radio = Some(RadioConfig::new(Source::Rail(Rail::default())));
    group.bench_function("two paths with radios", |bencher| bencher.iter(|| run(&fading)));
    group.finish();
}

/// One hour of a path with a radio and without packets: both links follow it, and every report is
/// taken.
fn radio(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("an hour of radio");
    group.throughput(Throughput::Elements(3_600));
    group.sample_size(10);
    for (name, source) in [
        ("walk", Source::Walk(Walk::default())),
        ("canyon", Source::Canyon(Canyon::default())),
        ("rail", Source::Rail(Rail::default())),
    ] {
        let mut path = paths(&["rate=50mbps"]);
        path[0].radio = Some(RadioConfig { noise: 1.0, ..RadioConfig::new(source) });
        group.bench_function(name, |bencher| bencher.iter(|| listen(&path)));
    }
    group.finish();
}

fn listen(paths: &[PathConfig]) -> usize {
    const HOUR: Micros = 3_600_000_000;
    let mut network: Network<()> = Network::new(paths, 1).expect("the paths are valid");
    let reports = std::iter::from_fn(|| network.poll_report(HOUR)).count();
    for direction in [Direction::Up, Direction::Down] {
        let _ = network.state(HOUR, 0, direction);
    }
    reports
}

criterion_group!(benches, network, radio);
criterion_main!(benches);

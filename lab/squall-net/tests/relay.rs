//! Relays on real sockets, compared with their configuration.

use std::{
    io::ErrorKind,
    net::{SocketAddr, UdpSocket},
    thread,
    time::{Duration, Instant},
};

use squall_net::{Direction, PathConfig, PathEvent, Relay, relay::HEADERS};
use squall_testkit::{assert_duration, in_real_time};
use squall_units::Span;

fn socket() -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
    socket
}

fn paths(texts: &[&str]) -> Vec<PathConfig> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

/// Returns all datagrams to their sender until the other side falls silent; yields the addresses of
/// the senders.
fn echo(socket: UdpSocket) -> thread::JoinHandle<Vec<SocketAddr>> {
    thread::spawn(move || {
        let (mut buffer, mut seen) = ([0; 2_000], Vec::new());
        while let Ok((length, from)) = socket.recv_from(&mut buffer) {
            if !seen.contains(&from) {
                seen.push(from);
            }
            socket.send_to(&buffer[..length], from).unwrap();
        }
        seen
    })
}

/// Receives datagrams until the other side falls silent; yields the times of arrival.
fn sink(socket: UdpSocket) -> thread::JoinHandle<Vec<Instant>> {
    // Large enough to bridge times in which the sink is not scheduled.
    socket2::SockRef::from(&socket).set_recv_buffer_size(4 << 20).unwrap();
    thread::spawn(move || {
        let (mut buffer, mut times) = ([0; 2_000], Vec::new());
        while socket.recv(&mut buffer).is_ok() {
            times.push(Instant::now());
        }
        times
    })
}

/// Returns the rate in bits per second at which packets of `size` bytes arrived, which should be
/// `expected`.
///
/// A datagram can only be late: against a clock of the expected rate, the earliest of the first
/// third and the earliest of the last third show the true rate, even if other programs delayed this
/// one.
fn rate(times: &[Instant], size: usize, expected: f64) -> f64 {
    let gap = size as f64 * 8.0 / expected;
    let third = times.len() / 3;
    let earliest = |range: std::ops::Range<usize>| {
        range
            .map(|index| ((times[index] - times[0]).as_secs_f64() - index as f64 * gap, index))
            .min_by(|one, other| one.0.total_cmp(&other.0))
            .unwrap()
    };
    let (first, last) = (earliest(0..third), earliest(2 * third..times.len()));
    let lag = (last.0 - first.0) / (last.1 - first.1) as f64;
    size as f64 * 8.0 / (gap + lag)
}

/// Sends `payload` bytes every `gap` for `long`, and catches up if the thread was late.
fn stream(to: SocketAddr, payload: usize, gap: Duration, long: Duration) -> u64 {
    let (socket, data, start) = (socket(), vec![7; payload], Instant::now());
    let mut sent = 0;
    while start.elapsed() < long {
        while gap * u32::try_from(sent).unwrap() <= start.elapsed() {
            match socket.send_to(&data, to) {
                Err(error) if error.kind() != ErrorKind::ConnectionRefused => panic!("{error}"),
                _ => sent += 1,
            }
        }
        thread::sleep(Duration::from_micros(500));
    }
    sent
}

#[test]
fn a_ping_takes_the_configured_round_trip() {
    in_real_time(|| {
        let server = socket();
        let address = server.local_addr().unwrap();
        let server = echo(server);
        let relay = Relay::start(&paths(&["up.delay=15ms,down.delay=10ms"]), address, 1).unwrap();
        let (client, mut buffer, mut times) = (socket(), [0; 100], Vec::new());
        for _ in 0..40 {
            let start = Instant::now();
            client.send_to(b"ping", relay.address(0)).unwrap();
            assert_eq!(client.recv_from(&mut buffer).unwrap(), (4, relay.address(0)));
            times.push(start.elapsed());
        }
        times.sort_unstable();
        let median = times[times.len() / 2];
        println!("median {median:?}, worst {:?}, {:?}", times[times.len() - 1], relay.report().live.slip);
        assert!(times[0] >= Duration::from_millis(25));
        assert_duration!(median < Duration::from_millis(26), "{median:?} {:?}", relay.report());
        assert_eq!(server.join().unwrap().len(), 1);
    });
}

#[test]
fn a_saturated_link_keeps_its_rate() {
    in_real_time(|| {
        let server = socket();
        let address = server.local_addr().unwrap();
        let server = sink(server);
        let relay = Relay::start(&paths(&["rate=20mbps,delay=5ms,queue=60kB"]), address, 1).unwrap();
        // 1,250 bytes on the link every 0.4 ms: 25 Mbit/s into 20.
        let payload = 1_250 - HEADERS;
        stream(relay.address(0), payload, Duration::from_micros(400), Duration::from_millis(1_000));
        let times = server.join().unwrap();
        let rate = rate(&times, 1_250, 20e6);
        println!("{rate:.0} bit/s, {:?}", relay.report().live.slip);
        assert_duration!((rate / 20e6 - 1.0).abs() < 0.02, "{rate} {:?}", relay.report());
        assert!(relay.report().live.paths[0].up.dropped.queue.packets > 100);
    });
}

#[test]
fn loss_is_within_its_confidence_interval() {
    let server = socket();
    let address = server.local_addr().unwrap();
    let server = sink(server);
    let relay = Relay::start(&paths(&["loss=10%"]), address, 1).unwrap();
    let sent = stream(relay.address(0), 100, Duration::from_micros(100), Duration::from_millis(500));
    let received = server.join().unwrap().len() as u64;
    let report = relay.stop();
    let up = report.live.paths[0].up;
    assert_eq!(up.delivered.packets - report.live.refused, received, "the emulator's own count: {report:?}");
    let lost = up.dropped.loss.packets as f64 / up.pushed.packets as f64;
    // 99 % of all runs lie within 2.58 standard deviations.
    let bound = 2.58 * (0.1 * 0.9 / sent as f64).sqrt();
    assert!((lost - 0.1).abs() < bound, "{lost} of {sent}, bound {bound}");
}

/// The sender is a fifth faster than the links and their queues hold a quarter of a second, so that
/// neither runs dry if another program occupies the processor for a while.
#[test]
fn two_links_carry_fifty_megabits_each() {
    in_real_time(|| {
        let server = socket();
        let address = server.local_addr().unwrap();
        let server = sink(server);
        let link = "rate=50mbps,delay=5ms,queue=1500kB";
        let paths = paths(&[&format!("name=a,{link}"), &format!("name=b,{link}")]);
        let relay = Relay::start(&paths, address, 1).unwrap();
        let senders = [relay.address(0), relay.address(1)].map(|to| {
            // 1,250 bytes on the link every 0.166 ms: 60 Mbit/s.
            thread::spawn(move || {
                stream(to, 1_250 - HEADERS, Duration::from_micros(166), Duration::from_millis(1_000))
            })
        });
        let sent: u64 = senders.into_iter().map(|sender| sender.join().unwrap()).sum();
        let times = server.join().unwrap();
        let report = relay.stop();
        assert_duration!(
            times.len() as u64 == sent,
            "a fifth of a second's surplus fits into the queues: {report:?}"
        );
        let rate = rate(&times, 1_250, 100e6);
        println!("{rate:.0} bit/s of {sent} datagrams, {:?}", report.live.slip);
        assert_duration!((rate / 100e6 - 1.0).abs() < 0.02, "{rate} {report:?}");
        assert_duration!(report.overruns.unwrap_or(0) == 0, "{report:?}");
        assert_duration!(report.live.slip.p50 < 1_000, "{:?}", report.live.slip);
        assert_eq!(report.invalid(Duration::from_micros(report.live.slip.p99)), None, "{report:?}");
        assert_eq!(report.invalid(Duration::ZERO).is_none(), report.live.slip.p99 == 0, "{report:?}");
    });
}

#[test]
fn each_path_has_addresses_of_its_own_and_a_rebind_changes_the_port() {
    let server = socket();
    let address = server.local_addr().unwrap();
    let server = echo(server);
    let mut paths = paths(&["name=a,delay=1ms", "name=b,delay=1ms"]);
    paths[0].events = vec![PathEvent { at: Span::from_millis(1_000), rebind: true, ..PathEvent::default() }];
    let relay = Relay::start(&paths, address, 1).unwrap();
    assert_ne!(relay.address(0).ip(), relay.address(1).ip());
    let (client, mut buffer) = (socket(), [0; 100]);
    let mut ping = |path: usize| {
        client.send_to(b"ping", relay.address(path)).unwrap();
        assert_eq!(client.recv_from(&mut buffer).unwrap().1, relay.address(path));
    };
    ping(0);
    ping(1);
    thread::sleep(Duration::from_millis(1_050).saturating_sub(relay.started().elapsed()));
    ping(0);
    ping(1);
    let seen = server.join().unwrap();
    assert_eq!(seen.len(), 3, "{seen:?}");
    assert_eq!(seen[0].ip(), seen[2].ip());
    assert_ne!(seen[0].ip(), seen[1].ip());
    assert!(seen.iter().all(|from| from.ip().is_loopback()));
}

#[test]
fn a_snapshot_shows_the_queue_and_the_records_show_each_packet() {
    in_real_time(|| {
        let server = socket();
        let relay =
            Relay::start(&paths(&["name=slow,rate=100kbps,queue=infinite"]), server.local_addr().unwrap(), 1)
                .unwrap();
        relay.keep_records(0, Direction::Up, true);
        let client = socket();
        for _ in 0..10 {
            client.send_to(&[0; 1_000 - HEADERS], relay.address(0)).unwrap();
        }
        let deadline = Instant::now() + Duration::from_secs(30);
        while relay.snapshot()[0].up_stats.pushed.packets < 10 && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(1));
        }
        let path = relay.snapshot().remove(0);
        assert_eq!((path.name.as_str(), path.up.rate, path.up.outage), ("slow", Some(100_000), false));
        assert!(path.up.queue_bytes <= 9_000, "{path:?}");
        assert_duration!(path.up.queue_bytes >= 7_000, "{path:?}");
        assert!(relay.drain_records(0, Direction::Up).len() >= 10);
        let start = Instant::now();
        drop(relay);
        assert_duration!(
            start.elapsed() < Duration::from_millis(200),
            "the rest of the queue is not waited for"
        );
    });
}

#[test]
fn wrong_paths_are_refused_at_the_start() {
    let error = Relay::start(&paths(&["name=a", "name=a"]), "127.0.0.1:9".parse().unwrap(), 1).unwrap_err();
    assert_eq!(
        (error.kind(), error.to_string().as_str()),
        (ErrorKind::InvalidInput, "two paths are called \"a\"")
    );
}

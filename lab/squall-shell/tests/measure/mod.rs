//! Measurements of the calibration test.

use std::{
    io::{Read as _, Write as _},
    net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket},
    thread::{JoinHandle, spawn},
    time::{Duration, Instant},
};

use squall_net::{PathConfig, PathEvent};
use squall_shell::{Addresses, Family, Prepared, Shell, ShellError, Side, server};
use squall_testkit::assert_duration;
use squall_units::Span;

/// All measurements, by name.
pub(crate) const TESTS: [(&str, fn()); 12] = [
    ("a_ping_takes_the_round_trip", a_ping_takes_the_round_trip),
    ("a_full_link_keeps_its_rate", a_full_link_keeps_its_rate),
    ("a_trace_gives_its_opportunities", a_trace_gives_its_opportunities),
    ("loss_is_within_its_confidence_interval", loss_is_within_its_confidence_interval),
    ("two_links_carry_fifty_megabits_each", two_links_carry_fifty_megabits_each),
    ("tcp_fills_a_link", tcp_fills_a_link),
    ("each_address_and_interface_has_its_path", each_address_and_interface_has_its_path),
    ("a_rebinding_changes_the_address", a_rebinding_changes_the_address),
    ("logs_have_every_packet", logs_have_every_packet),
    ("chance_is_the_same_for_both_versions_of_ip", chance_is_the_same_for_both_versions_of_ip),
    ("both_versions_of_ip_share_a_link", both_versions_of_ip_share_a_link),
    ("a_shell_can_have_one_version_of_ip", a_shell_can_have_one_version_of_ip),
];

/// Both versions of IP, each with the UDP payload that fills a packet of 1,500 bytes.
const FAMILIES: [(Family, usize); 2] = [(Family::V4, FULL), (Family::V6, FULL - 20)];

/// Bytes of the IPv4 and UDP headers.
const HEADERS: usize = 28;

/// UDP payload that fills an IPv4 packet of 1,500 bytes.
const FULL: usize = 1_500 - HEADERS;

/// Returns `true` if this system has IPv6; otherwise records that the rest of the test is skipped.
fn has_ipv6() -> bool {
    let is_there = std::path::Path::new("/proc/net/if_inet6").exists();
    if !is_there {
        squall_testkit::skipped("this system has no IPv6");
    }
    is_there
}

/// Starts a shell with these links.
fn shell(links: &[&str]) -> Shell {
    let paths: Vec<PathConfig> = links.iter().map(|text| text.parse().expect("a link")).collect();
    Prepared::new(&paths, 1).expect("a shell").start(None).expect("links")
}

/// Runs a measurement behind these links; packets may leave them at most `max_slip` late.
fn measure<T>(links: &[&str], max_slip: Duration, measurement: impl Fn(&Shell) -> T) -> T {
    let shell = shell(links);
    let measured = measurement(&shell);
    let report = shell.report().expect("counters");
    println!("  {:?}", report.live.slip);
    let invalid = report.invalid(max_slip);
    assert_duration!(invalid.is_none(), "{invalid:?}");
    measured
}

/// Opens a socket on a side.
fn socket(side: &Side, at: IpAddr) -> UdpSocket {
    let socket = side.within(move || UdpSocket::bind((at, 0)).expect("an address of this side"));
    let socket = socket2::Socket::from(socket);
    socket.set_recv_buffer_size(4 << 20).expect("a buffer");
    let socket = UdpSocket::from(socket);
    socket.set_read_timeout(Some(Duration::from_secs(2))).expect("a timeout");
    socket
}

/// Returns the client's socket on a path, and the server's socket with its address.
fn pair(shell: &Shell, path: usize) -> (UdpSocket, UdpSocket, SocketAddr) {
    pair_over(shell, path, Family::V4)
}

/// Like [`pair`], with a version of IP.
fn pair_over(shell: &Shell, path: usize, family: Family) -> (UdpSocket, UdpSocket, SocketAddr) {
    let client = socket(shell.client(), Addresses::of(path).client(family));
    let server = socket(shell.server(), server(family));
    let address = server.local_addr().expect("it is bound");
    (client, server, address)
}

/// Counts packets until none arrives for two seconds, and measures the time from the first to the
/// last.
fn count(socket: UdpSocket) -> JoinHandle<(u64, Duration)> {
    spawn(move || {
        let (mut packets, mut first, mut last) = (0, None, Instant::now());
        while socket.recv(&mut [0; 2_000]).is_ok() {
            last = Instant::now();
            first.get_or_insert(last);
            packets += 1;
        }
        (packets, last - first.unwrap_or(last))
    })
}

/// Sends full packets at a rate in bits per second.
fn send(socket: &UdpSocket, to: SocketAddr, rate: f64, time: Duration) -> u64 {
    send_of(socket, to, rate, time, FULL)
}

/// Like [`send`], with a payload that fills a packet.
fn send_of(socket: &UdpSocket, to: SocketAddr, rate: f64, time: Duration, payload: usize) -> u64 {
    let (start, mut sent) = (Instant::now(), 0u64);
    while start.elapsed() < time {
        let due = (start.elapsed().as_secs_f64() * rate / 12_000.0) as u64;
        while sent < due {
            socket.send_to(&vec![7; payload], to).expect("a link to send into");
            sent += 1;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    sent
}

/// Returns the rate of full packets in bits per second; the first packet starts the clock.
fn rate((packets, time): (u64, Duration)) -> f64 {
    (packets - 1) as f64 * 12_000.0 / time.as_secs_f64()
}

fn assert_within(what: &str, measured: f64, meant: f64, share: f64) {
    println!("  {what}: {measured:.4e} of {meant:.4e} ({:+.2} %)", (measured / meant - 1.0) * 100.0);
    assert_duration!(
        (measured / meant - 1.0).abs() <= share,
        "{what} is off by more than {} %",
        share * 100.0
    );
}

fn a_ping_takes_the_round_trip() {
    let times = round_trips();
    let (least, half, most) = (times[0], times[100], times[190]);
    println!("  round trip of 25 ms: median {half:.3} ms, 95 of 100 at most {most:.3} ms");
    assert!(least >= 25.0, "{times:?}");
    assert_duration!(most <= 26.0, "{times:?}");
}

/// Gives this thread precedence over all programs, if that is permitted: only the links are
/// measured.
fn hurry() {
    use thread_priority::{
        RealtimeThreadSchedulePolicy::Fifo, ThreadPriority, ThreadSchedulePolicy,
        set_thread_priority_and_policy, thread_native_id,
    };
    let priority = ThreadPriority::Crossplatform(1u8.try_into().expect("between 0 and 100"));
    let _ =
        set_thread_priority_and_policy(thread_native_id(), priority, ThreadSchedulePolicy::Realtime(Fifo));
}

/// Measures 200 round trips over a link of 25 ms; returns them in milliseconds, the shortest first.
fn round_trips() -> Vec<f64> {
    // Twice this is well within the required millisecond.
    let max_slip = Duration::from_micros(300);
    measure(&["up.delay=15ms,down.delay=10ms"], max_slip, |shell| {
        let (client, server, address) = pair(shell, 0);
        spawn(move || {
            hurry();
            let mut buffer = [0; 100];
            while let Ok((length, from)) = server.recv_from(&mut buffer) {
                server.send_to(&buffer[..length], from).expect("a way back");
            }
        });
        let pings = spawn(move || {
            hurry();
            let time = |number: u32| {
                let start = Instant::now();
                client.send_to(&number.to_be_bytes(), address).expect("a link");
                client.recv(&mut [0; 100]).expect("an answer");
                start.elapsed().as_secs_f64() * 1e3
            };
            let mut times: Vec<f64> = (0..200).map(time).collect();
            times.sort_by(f64::total_cmp);
            times
        });
        pings.join().expect("answers")
    })
}

fn a_full_link_keeps_its_rate() {
    let shell = shell(&["rate=20mbps,delay=5ms,queue=60kB"]);
    let (client, server, address) = pair(&shell, 0);
    let counted = count(server);
    send(&client, address, 25e6, Duration::from_secs(2));
    assert_within("bits per second", rate(counted.join().expect("a count")), 20e6, 0.02);
}

fn a_trace_gives_its_opportunities() {
    let file = std::env::temp_dir().join(format!("squall-calibration-{}.trace", std::process::id()));
    // Two opportunities in three milliseconds: 8.02 Mbit/s of packets with 1,504 bytes.
    std::fs::write(&file, "1\n3\n").expect("a trace");
    let mut path: PathConfig = format!("mahimahi={}", file.display()).parse().expect("a link");
    path.load(std::path::Path::new("")).expect("the trace");
    std::fs::remove_file(&file).expect("it is there");
    let shell = Prepared::new(&[path], 1).expect("a shell").start(None).expect("links");
    let (client, server, address) = pair(&shell, 0);
    let counted = count(server);
    send(&client, address, 12e6, Duration::from_secs(2));
    let (packets, time) = counted.join().expect("a count");
    assert_within("packets per second", (packets - 1) as f64 / time.as_secs_f64(), 2e3 / 3.0, 0.02);
}

fn loss_is_within_its_confidence_interval() {
    let shell = shell(&["loss=5%"]);
    let (client, server, address) = pair(&shell, 0);
    let counted = count(server);
    let sent = send(&client, address, 24e6, Duration::from_secs(3));
    let lost = (sent - counted.join().expect("a count").0) as f64;
    let (mean, deviation) = (sent as f64 * 0.05, (sent as f64 * 0.05 * 0.95).sqrt());
    println!("  {lost} of {sent} lost, {mean:.0} ± {deviation:.0} meant");
    // 3.29 standard deviations: one in a thousand.
    assert!((lost - mean).abs() <= 3.29 * deviation);
    let overruns = shell.report().expect("counters").overruns;
    assert_duration!(overruns == 0, "{overruns} packets found no room");
}

fn two_links_carry_fifty_megabits_each() {
    let links = ["rate=50mbps,delay=5ms", "rate=50mbps,delay=20ms"];
    let rates = measure(&links, Duration::from_millis(2), |shell| {
        let runs = [0, 1].map(|path| {
            let (client, server, address) = pair(shell, path);
            let counted = count(server);
            let sender = spawn(move || send(&client, address, 52e6, Duration::from_secs(3)));
            (sender, counted)
        });
        runs.map(|(sender, counted)| {
            sender.join().expect("a sender");
            rate(counted.join().expect("a count"))
        })
    });
    for (link, measured) in (1..).zip(rates) {
        assert_within(&format!("bits per second on link {link}"), measured, 50e6, 0.02);
    }
}

fn tcp_fills_a_link() {
    let shell = shell(&["rate=20mbps,delay=10ms"]);
    let listener = shell.server().within(|| TcpListener::bind((server(Family::V4), 0)).expect("an address"));
    let address = listener.local_addr().expect("it is bound");
    let sender = spawn(move || {
        let (mut stream, _) = listener.accept().expect("a call");
        let start = Instant::now();
        while start.elapsed() < Duration::from_secs(4) && stream.write_all(&[1; 16_384]).is_ok() {}
    });
    let mut stream = shell.client().within(move || TcpStream::connect(address)).expect("a connection");
    let (mut bytes, mut buffer) = (0, vec![0; 65_536]);
    // The first second covers slow start.
    let (start, mut since) = (Instant::now(), None);
    loop {
        let read = stream.read(&mut buffer).expect("data");
        if read == 0 {
            break;
        }
        if start.elapsed() > Duration::from_secs(1) {
            bytes += if since.is_none() { 0 } else { read };
            since.get_or_insert_with(Instant::now);
        }
    }
    let time = since.expect("it lasts longer").elapsed();
    sender.join().expect("a sender");
    // 1,448 of 1,500 bytes are payload.
    let measured = bytes as f64 * 8.0 / time.as_secs_f64();
    assert_within("bits per second of TCP", measured, 20e6 * 1_448.0 / 1_500.0, 0.03);
}

fn each_address_and_interface_has_its_path() {
    each_address_and_interface_has_its_path_over(Family::V4);
    if has_ipv6() {
        each_address_and_interface_has_its_path_over(Family::V6);
    }
}

fn each_address_and_interface_has_its_path_over(family: Family) {
    let shell = shell(&["name=wifi,delay=2ms", "name=lte,delay=30ms"]);
    let server = socket(shell.server(), server(family));
    let address = server.local_addr().expect("it is bound");
    let one_way = |client: &UdpSocket| {
        let start = Instant::now();
        client.send_to(b"which way", address).expect("a link");
        let (_, from) = server.recv_from(&mut [0; 100]).expect("it arrives");
        (from.ip(), start.elapsed())
    };
    for (path, name, delay) in [(0, "wifi", 2), (1, "lte", 30)] {
        let meant = Addresses::of(path).client(family);
        let by_address = socket(shell.client(), meant);
        let by_interface = shell.client().within(move || {
            let domain = socket2::Domain::for_address((meant, 0).into());
            let socket = socket2::Socket::new(domain, socket2::Type::DGRAM, None).expect("a socket");
            socket.bind_device(Some(name.as_bytes())).expect("an interface of that name");
            UdpSocket::from(socket)
        });
        for client in [by_address, by_interface] {
            let (from, took) = one_way(&client);
            assert_eq!(from, meant);
            assert!(took.as_millis() >= delay, "{took:?} over {name}");
            assert_duration!(took.as_millis() < delay + 10, "{took:?} over {name}");
        }
    }
    let unbound = socket(shell.client(), family.unspecified());
    assert_eq!(one_way(&unbound).0, Addresses::of(0).client(family));
}

fn a_rebinding_changes_the_address() {
    a_rebinding_changes_the_address_of(Family::V4);
    if has_ipv6() {
        a_rebinding_changes_the_address_of(Family::V6);
    }
}

fn a_rebinding_changes_the_address_of(family: Family) {
    let mut path: PathConfig = "delay=1ms".parse().expect("a link");
    path.events.push(PathEvent { at: Span::from_millis(1_000), rebind: true, ..PathEvent::default() });
    let shell = Prepared::new(&[path], 1).expect("a shell").start(None).expect("links");
    let (client, server, address) = pair_over(&shell, 0, family);
    let echo = || {
        client.send_to(b"who am I", address).expect("a link");
        let (_, from) = server.recv_from(&mut [0; 100]).expect("it arrives");
        server.send_to(b"you", from).expect("a link");
        let (_, answered) = client.recv_from(&mut [0; 100]).expect("the answer finds its way");
        assert_eq!(answered, address);
        from
    };
    let before = echo();
    std::thread::sleep(Duration::from_millis(1_100));
    let after = echo();
    assert_ne!(before.ip(), after.ip());
    assert_eq!(before.port(), after.port());
    // The old address has no owner any more.
    server.send_to(b"lost", before).expect("a link");
    assert!(client.recv(&mut [0; 100]).is_err());
}

fn logs_have_every_packet() {
    let folder = std::env::temp_dir().join(format!("squall-calibration-{}", std::process::id()));
    let path: PathConfig = "name=wifi,rate=1mbps,queue=3packets".parse().expect("a link");
    let mut shell = Prepared::new(&[path], 1).expect("a shell").start(Some(&folder)).expect("links");
    let (client, server, address) = pair(&shell, 0);
    for _ in 0..10 {
        client.send_to(&[7; FULL], address).expect("a link");
    }
    let (arrived, _) = count(server).join().expect("a count");
    shell.finish_logs().expect("logs");
    let stats = shell.report().expect("counters").live.paths[0].up;
    drop(shell);
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).expect("a log");
    let (mahimahi, lines) = (read("wifi-up.log"), read("wifi-up.jsonl"));
    std::fs::remove_dir_all(&folder).expect("a folder");
    let mahimahi_lines = |sign: &str| mahimahi.lines().filter(|line| line.contains(sign)).count() as u64;
    assert_eq!((arrived, stats.pushed.packets), (stats.delivered.packets, 10));
    assert_eq!((mahimahi_lines(" + 1504"), mahimahi_lines(" - 1504")), (10, arrived));
    let words =
        |word: &str| lines.lines().filter(|line| line.contains(&format!("\"{word}\""))).count() as u64;
    assert_eq!((words("push"), words("deliver"), words("drop")), (10, arrived, 10 - arrived));
    assert!(stats.dropped.queue.packets > 0 && arrived >= 4, "{stats:?}");
    assert!(lines.lines().all(|line| serde_json::from_str::<squall_net::log::Record>(line).is_ok()));
}

/// Returns the fate of each packet on a link, in order: `None` if it was lost, otherwise `true` if
/// it was intact.
fn fates(family: Family, payload: usize) -> Vec<Option<bool>> {
    const PACKETS: u32 = 400;
    let path: PathConfig = "loss=5%/4,corrupt=5%".parse().expect("a link");
    let shell = Prepared::new(&[path], 7).expect("a shell").start(None).expect("links");
    let (client, server, address) = pair_over(&shell, 0, family);
    let receiver = spawn(move || {
        let (mut fates, mut buffer) = (vec![None; PACKETS as usize], vec![0; 2_000]);
        while let Ok(length) = server.recv(&mut buffer) {
            // The number fills the packet; damage of up to eight bits leaves most copies intact.
            let words = buffer[..length].chunks_exact(4).map(|word| [word[0], word[1], word[2], word[3]]);
            let numbers: Vec<u32> = words.map(u32::from_be_bytes).collect();
            let number = *numbers
                .iter()
                .max_by_key(|one| numbers.iter().filter(|other| other == one).count())
                .expect("some");
            fates[number as usize] = Some(numbers.iter().all(|other| *other == number));
        }
        fates
    });
    for number in 0..PACKETS {
        client.send_to(&number.to_be_bytes().repeat(payload / 4), address).expect("a link");
        std::thread::sleep(Duration::from_micros(500));
    }
    receiver.join().expect("fates")
}

fn chance_is_the_same_for_both_versions_of_ip() {
    if !has_ipv6() {
        return;
    }
    let [v4, v6] = [(Family::V4, 120), (Family::V6, 100)].map(|(family, payload)| fates(family, payload));
    let (lost, damaged) = (
        v4.iter().filter(|fate| fate.is_none()).count(),
        v4.iter().filter(|fate| **fate == Some(false)).count(),
    );
    println!("  {lost} of {} lost, {damaged} damaged", v4.len());
    assert!(lost > 4 && damaged > 4);
    assert!(v4 == v6, "{v4:?}\n{v6:?}");
}

fn both_versions_of_ip_share_a_link() {
    if !has_ipv6() {
        return;
    }
    let shell = shell(&["rate=20mbps,delay=5ms,queue=60kB"]);
    // The system sends nothing by itself; otherwise the links' random decisions would depend on it.
    std::thread::sleep(Duration::from_millis(1_500));
    let pushed = || {
        let path = &shell.report().expect("counters").live.paths[0];
        path.up.pushed.packets + path.down.pushed.packets
    };
    assert_eq!(pushed(), 0);
    let runs = FAMILIES.map(|(family, payload)| {
        let (client, server, address) = pair_over(&shell, 0, family);
        let counted = count(server);
        (spawn(move || send_of(&client, address, 12.5e6, Duration::from_secs(2), payload)), counted)
    });
    let rates = runs.map(|(sender, counted)| {
        sender.join().expect("a sender");
        rate(counted.join().expect("a count"))
    });
    assert_within("bits per second of both", rates[0] + rates[1], 20e6, 0.02);
    assert!(rates.iter().all(|rate| *rate > 5e6), "{rates:?}");
}

fn a_shell_can_have_one_version_of_ip() {
    let path = |text: &str| -> PathConfig { text.parse().expect("a link") };
    let narrow = Prepared::new(&[path("mtu=1279")], 1).expect("a shell");
    assert_eq!(narrow.families(), [Family::V4], "IPv6 needs 1,280 bytes");
    let refused = Prepared::over_ipv6(&[path("name=a"), path("name=b,down.mtu=1279")], 1).err();
    assert!(
        matches!(&refused, Some(ShellError::MtuForIpv6 { name, mtu: 1_279 }) if name == "b"),
        "{refused:?}"
    );
    if !has_ipv6() {
        assert!(matches!(Prepared::over_ipv6(&[path("mtu=1280")], 1).err(), Some(ShellError::NoIpv6)));
        return;
    }
    let only = Prepared::over_ipv6(&[path("mtu=1280")], 1).expect("a shell");
    assert_eq!(only.families(), [Family::V6]);
    let shell = only.start(None).expect("links");
    let own = Addresses::of(0).client(Family::V4);
    assert!(shell.client().within(move || UdpSocket::bind((own, 0))).is_err(), "{own} is there");
    let (client, server, address) = pair_over(&shell, 0, Family::V6);
    client.send_to(&[7; 1_280 - 48], address).expect("a link");
    assert_eq!(server.recv(&mut [0; 2_000]).expect("it arrives whole"), 1_280 - 48);
}

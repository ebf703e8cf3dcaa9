//! Latency that a tunnel adds: a transport stream at a constant rate through a tunnel over two
//! links, and simultaneously as plain UDP over a third one that equals the faster of the two.

#![cfg(target_os = "linux")]

mod common;

use std::{
    env, fs,
    net::UdpSocket,
    path::Path,
    thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use common::{Scratch, failure, lab, shell_is_possible, squall};
use squall_testkit::{assert_duration, in_real_time};

/// Packets of a transport stream per datagram.
const PACKETS: usize = 7;
/// Bytes of a packet of a transport stream.
const PACKET: usize = 188;

/// Interval between datagrams, for 8 Mbps.
const INTERVAL: Duration = Duration::from_nanos((PACKETS * PACKET) as u64 * 1_000);

const SECONDS: u64 = 9;
/// Seconds at the start that do not count, while congestion control starts up.
const BEGINNING: u64 = 2;
const DATAGRAMS: u64 = SECONDS * 1_000_000_000 / INTERVAL.as_nanos() as u64;

/// Pictures per second. The first picture of each second is a key picture of four times the mean
/// size; the others share the rest of the second.
const RATE: usize = 30;
const PACKETS_A_SECOND: usize = 1_000_000_000 / INTERVAL.as_nanos() as usize * PACKETS;
const KEY: usize = 4 * PACKETS_A_SECOND / RATE;
const OTHER: usize = (PACKETS_A_SECOND - KEY) / (RATE - 1);

const MAP: u16 = 0x100;
const VIDEO: u16 = 0x101;

/// A multiplexer that fills a constant rate with pictures.
#[derive(Default)]
struct Stream {
    picture: usize,
    /// Number of packets of the current picture that were sent.
    at: usize,
    counters: [u8; 3],
}

impl Stream {
    fn datagram(&mut self, sequence: u64) -> Vec<u8> {
        let mut datagram = Vec::with_capacity(PACKETS * PACKET);
        if sequence.is_multiple_of(76) {
            datagram.extend(self.table(0, 0, 0, &[0, 1, 0xe0 | (MAP >> 8) as u8, MAP as u8]));
            let (high, low) = (0xe0 | (VIDEO >> 8) as u8, VIDEO as u8);
            datagram.extend(self.table(1, MAP, 2, &[high, low, 0xf0, 0, 0x1b, high, low, 0xf0, 0]));
        }
        while datagram.len() < PACKETS * PACKET {
            datagram.extend(self.video());
        }
        datagram
    }

    fn head(&mut self, counter: usize, pid: u16, starts: bool, adaptation: &[u8]) -> Vec<u8> {
        let control = if adaptation.is_empty() { 0x10 } else { 0x30 } | self.counters[counter];
        self.counters[counter] = (self.counters[counter] + 1) % 16;
        [&[0x47, u8::from(starts) << 6 | (pid >> 8) as u8, pid as u8, control], adaptation].concat()
    }

    fn table(&mut self, counter: usize, pid: u16, id: u8, body: &[u8]) -> Vec<u8> {
        let mut packet = self.head(counter, pid, true, &[]);
        packet.extend([0, id, 0xb0, body.len() as u8 + 9, 0, 1, 0xc1, 0, 0]);
        packet.extend(body);
        packet.resize(PACKET, 0xff);
        packet
    }

    /// Returns the next packet of video: one PES packet per picture, with stuffing in its last
    /// packet.
    fn video(&mut self) -> Vec<u8> {
        let is_key = self.picture.is_multiple_of(RATE);
        let (starts, ends) = (self.at == 0, self.at + 1 == if is_key { KEY } else { OTHER });
        let adaptation: &[u8] = match (starts && is_key, ends) {
            (true, _) => &[1, 0x40],
            (_, true) => &[0],
            _ => &[],
        };
        let mut packet = self.head(2, VIDEO, starts, adaptation);
        if starts {
            let slice = if is_key { 0x65 } else { 0x41 };
            packet.extend([0, 0, 1, 0xe0, 0, 0, 0x80, 0, 0, 0, 0, 1, 9, 0xf0, 0, 0, 1, slice]);
        }
        packet.resize(PACKET, 0xb5);
        (self.picture, self.at) = if ends { (self.picture + 1, 0) } else { (self.picture, self.at + 1) };
        packet
    }
}

/// Size of the trailer of a datagram: its number and sending time, seven bits per byte so that it
/// contains no start code.
const STAMP: usize = 14;

fn stamp(datagram: &mut [u8], sequence: u64) {
    let value = u128::from(sequence) << 63 | u128::from(now());
    let at = datagram.len() - STAMP;
    for (n, byte) in datagram[at..].iter_mut().enumerate() {
        *byte = 0x80 | (value >> (7 * n)) as u8;
    }
}

/// Returns the number of a datagram and its sending time.
fn stamp_of(datagram: &[u8]) -> (u64, u64) {
    let bytes = datagram[datagram.len() - STAMP..].iter().enumerate();
    let value = bytes.fold(0, |value, (n, byte)| value | u128::from(byte & 0x7f) << (7 * n));
    ((value >> 63) as u64, value as u64 & (u64::MAX >> 1))
}

/// Nanoseconds of the clock shared by all programs of this test.
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("is later").as_nanos() as u64
}

/// The client's side: sends each datagram to the tunnel, and half an interval later directly.
/// Delays on a busy machine are not compensated: a burst would measure the links.
#[test]
#[ignore = "a program that the tests below start"]
fn sender() {
    let tunnel = UdpSocket::bind("127.0.0.1:0").expect("is bound");
    let plain = UdpSocket::bind("10.77.3.2:0").expect("is bound");
    let (mut stream, mut due) = (Stream::default(), Instant::now());
    for sequence in 0..DATAGRAMS {
        let mut datagram = stream.datagram(sequence);
        for (socket, to) in [(&tunnel, "127.0.0.1:5000"), (&plain, "10.77.3.1:7000")] {
            thread::sleep(due.saturating_duration_since(Instant::now()));
            stamp(&mut datagram, sequence);
            socket.send_to(&datagram, to).expect("is sent");
            due = Instant::now().max(due + INTERVAL / 2);
        }
    }
}

/// The server's side: records the datagrams of both ways, until none have arrived for a while.
#[test]
#[ignore = "a program that the tests below start"]
fn receiver() {
    let record = |address: &'static str, file: &'static str| {
        let socket = UdpSocket::bind(address).expect("is bound");
        thread::spawn(move || {
            let mut buffer = vec![0; 65_536];
            let mut lines = String::new();
            socket.set_read_timeout(Some(Duration::from_secs(30))).expect("is set");
            while let Ok(length) = socket.recv(&mut buffer) {
                let (sequence, sent) = stamp_of(&buffer[..length]);
                lines.push_str(&format!("{sequence} {}\n", now() - sent));
                socket.set_read_timeout(Some(Duration::from_secs(2))).expect("is set");
            }
            fs::write(file, lines).expect("is written");
        })
    };
    let both = [("127.0.0.1:6000", "tunnel"), ("10.77.3.1:7000", "plain")];
    for thread in both.map(|(address, file)| record(address, file)) {
        thread.join().expect("ends");
    }
}

/// Datagrams received over one of the ways.
struct Came {
    sequences: Vec<u64>,
    /// Delays in milliseconds, ascending, without those of the beginning.
    delays: Vec<f64>,
}

impl Came {
    fn read(file: &Path) -> Self {
        let text = fs::read_to_string(file).expect("was written");
        let parse = |line: &str| {
            let (sequence, delay) = line.split_once(' ').expect("are two numbers");
            (sequence.parse().expect("a number"), delay.parse::<f64>().expect("a number") / 1e6)
        };
        let all: Vec<(u64, f64)> = text.lines().map(parse).collect();
        let judged = all.iter().filter(|(sequence, _)| *sequence >= DATAGRAMS * BEGINNING / SECONDS);
        let mut delays: Vec<f64> = judged.map(|(_, delay)| *delay).collect();
        delays.sort_by(f64::total_cmp);
        Self { sequences: all.iter().map(|(sequence, _)| *sequence).collect(), delays }
    }

    fn percentile(&self, share: f64) -> f64 {
        self.delays[((self.delays.len() - 1) as f64 * share) as usize]
    }
}

fn program(name: &str) -> String {
    let this = env::current_exe().expect("is known");
    format!("'{}' --exact {name} --ignored -q > {name}.log 2>&1", this.display())
}

/// Sends the stream once. Returns the datagrams through the tunnel, those sent directly, and the
/// packets on the links in each direction.
fn run(scratch: &Scratch) -> (Came, Came, [u64; 2]) {
    let squall_tunnel = format!("'{}' tunnel --token 'a token for tests'", squall().display());
    let server = format!(
        "{squall_tunnel} --listen 10.77.0.1:4433 --out film=udp://127.0.0.1:6000 & tunnel=$!
         {} & until grep -q ':1B58 ' /proc/net/udp; do sleep 0.05; done
         touch ready; wait $!; touch received; kill $tunnel; wait",
        program("receiver")
    );
    let client = format!(
        "{squall_tunnel} --to 10.77.0.1:4433 --insecure --interface wifi --interface lte \
            --in film=udp://127.0.0.1:5000,media=ts,latency=2s & tunnel=$!
         until [ -e ready ]; do sleep 0.05; done; sleep 1; {} || exit 9
         until [ -e received ]; do sleep 0.05; done; kill $tunnel; wait $tunnel",
        program("sender")
    );
    let json = scratch.path("shell.json");
    let output = lab()
        .current_dir(scratch.path("."))
        .args([
            "shell",
            "--quiet",
            "--time",
            "60s",
            "--max-slip",
            "10s",
            "--server",
            &server,
            "--client",
            &client,
        ])
        .args(["--link", "name=wifi,rate=20mbps,delay=20ms", "--link", "name=lte,rate=20mbps,delay=40ms"])
        .args(["--link", "name=plain,rate=20mbps,delay=20ms"])
        .args(["--json".as_ref(), json.as_os_str()])
        .output()
        .expect("the program starts");
    let (said, code) = failure(&output);
    assert_eq!(code, Some(0), "{said}");
    let report: serde_json::Value =
        serde_json::from_slice(&fs::read(&json).expect("a report")).expect("JSON");
    let packets = |direction: &str| {
        let of = |path| report["report"]["paths"][path][direction]["pushed"]["packets"].as_u64();
        (0..2).map(|path| of(path).unwrap_or_else(|| panic!("no packets: {report}"))).sum()
    };
    let came = ["tunnel", "plain"].map(|name| Came::read(&scratch.path(name)));
    let [tunnel, plain] = came;
    (tunnel, plain, [packets("up"), packets("down")])
}

#[test]
fn a_tunnel_adds_little_to_a_datagram_of_a_picture() {
    if !shell_is_possible() {
        return;
    }
    in_real_time(|| {
        let scratch = Scratch::new("tunnel-latency");
        let (tunnel, plain, packets) = run(&scratch);
        for (name, came) in [("plain UDP", &plain), ("tunnel", &tunnel)] {
            let [p50, p99, longest] = [0.5, 0.99, 1.0].map(|share| came.percentile(share));
            println!("{name}: p50 {p50:.2} ms, p99 {p99:.2} ms, longest {longest:.2} ms");
        }
        let [up, down] = packets.map(|packets| packets as f64 / DATAGRAMS as f64);
        println!("packets of the tunnel a datagram: {up:.3} there, {down:.3} back");
        assert!(tunnel.sequences.is_sorted_by(|one, next| one < next), "out of order, or twice");
        let came = tunnel.sequences.len() as u64;
        // A socket that is not read for a tenth of a second overflows.
        assert_duration!(came == DATAGRAMS, "{came} of {DATAGRAMS} datagrams came");
        let [p50, p99] = [0.5, 0.99].map(|share| tunnel.percentile(share) - plain.percentile(share));
        assert_duration!(p50 <= 2.0 && p99 <= 3.0, "{p50:.2} and {p99:.2} ms more at p50 and p99");
    });
}

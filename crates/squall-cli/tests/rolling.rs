//! A rolling restart of two exits under load, with real processes: no data is lost, and no player
//! stalls.
//!
//! As a measurement, on a machine that does nothing else:
//!
//! ```sh
//! SQUALL_ROLLING_RUNS=5 cargo test --release -p squall-cli --test rolling -- --nocapture
//! ```

#![cfg(unix)]

mod common;

use std::{
    collections::HashSet,
    io::{BufRead as _, BufReader, Read as _},
    net::{SocketAddr, UdpSocket},
    process::{Child, ChildStderr, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use common::{Scratch, ends_within, signal, squall};
use squall_testkit::{assert_duration, in_real_time};

const TOKEN: &str = "a token for tests";

/// Limit of anything that hangs.
const PATIENCE: Duration = Duration::from_secs(60);

/// Number of flows in each direction, half of them at each of two entries.
const FLOWS: usize = 5;

/// Size of a datagram in bytes.
const DATAGRAM: usize = 1200;

/// Duration of the load before, between and after the restarts.
const LOAD: Duration = Duration::from_secs(2);

/// Longest permitted gap at a player.
const MAX_GAP: Duration = Duration::from_millis(150);

/// Returns the bits per second of a flow. A debug build is too slow for the full rate.
fn rate() -> f64 {
    let text = std::env::var("SQUALL_ROLLING_MBPS").ok();
    let given = text.map(|text| text.parse::<f64>().expect("SQUALL_ROLLING_MBPS is a number"));
    given.unwrap_or(if cfg!(debug_assertions) { 0.5 } else { 4.0 }) * 1e6
}

/// A running `squall tunnel`.
struct Tunnel {
    child: Child,
    stderr: BufReader<ChildStderr>,
}

impl Tunnel {
    fn start(args: &[String]) -> Self {
        let mut child = squall().arg("tunnel").args(args).stderr(Stdio::piped()).spawn().expect("starts");
        let stderr = BufReader::new(child.stderr.take().expect("is piped"));
        Self { child, stderr }
    }

    /// Returns the next line that contains these words.
    fn line(&mut self, words: &str) -> String {
        let (begin, mut seen) = (Instant::now(), String::new());
        loop {
            let mut line = String::new();
            let read = self.stderr.read_line(&mut line).expect("is text");
            if line.contains(words) {
                return line;
            }
            seen.push_str(&line);
            assert!(read > 0 && begin.elapsed() < PATIENCE, "never '{words}':\n{seen}");
        }
    }

    /// Requests the end, and waits for it.
    fn stop(mut self) {
        signal(&self.child, "TERM");
        assert_eq!(ends_within(&mut self.child, PATIENCE), Some(0), "{}", self.rest());
    }

    fn rest(&mut self) -> String {
        let _ = self.child.kill();
        self.stderr.by_ref().lines().map_while(Result::ok).collect::<Vec<_>>().join("\n")
    }
}

impl Drop for Tunnel {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn socket() -> UdpSocket {
    UdpSocket::bind("127.0.0.1:0").expect("is bound")
}

fn port(socket: &UdpSocket) -> u16 {
    socket.local_addr().expect("is bound").port()
}

/// Sends numbered datagrams at a rate until `stop`. `target` is called before each, and may return
/// no target yet. Returns their number.
fn send(
    socket: UdpSocket,
    stop: Arc<AtomicBool>,
    mut target: impl FnMut() -> Option<SocketAddr> + Send + 'static,
) -> JoinHandle<u32> {
    let interval = Duration::from_secs_f64(DATAGRAM as f64 * 8.0 / rate());
    std::thread::spawn(move || {
        let (mut begin, mut sent) = (Instant::now(), 0_u32);
        let mut datagram = vec![0; DATAGRAM];
        while !stop.load(Relaxed) {
            let Some(target) = target() else {
                begin = Instant::now();
                std::thread::sleep(Duration::from_millis(1));
                continue;
            };
            datagram[..4].copy_from_slice(&sent.to_be_bytes());
            if socket.send_to(&datagram, target).is_ok() {
                sent += 1;
            }
            std::thread::sleep((begin + interval * sent).saturating_duration_since(Instant::now()));
        }
        sent
    })
}

/// Datagrams received by a player.
#[derive(Debug, Default)]
struct Received {
    numbers: HashSet<u32>,
    /// Number of datagrams that arrived after a later one.
    reordered: u32,
    twice: u32,
    /// Longest time between two datagrams.
    gap: Duration,
    /// End of the longest gap, relative to the first datagram.
    gap_at: Duration,
}

/// Receives until no datagram has arrived for a second after `stop`.
fn receive(socket: UdpSocket, stop: Arc<AtomicBool>) -> JoinHandle<Received> {
    socket.set_read_timeout(Some(Duration::from_secs(1))).expect("is set");
    std::thread::spawn(move || {
        let mut received = Received::default();
        let (mut buffer, mut last, mut highest, mut first) = ([0; 2000], None, None, None);
        loop {
            // Read before the wait: datagrams before the end count.
            let over = stop.load(Relaxed);
            let Ok((length, _)) = socket.recv_from(&mut buffer) else {
                if over {
                    return received;
                }
                continue;
            };
            assert_eq!(length, DATAGRAM);
            let number = u32::from_be_bytes(buffer[..4].try_into().expect("has four bytes"));
            let now = Instant::now();
            let first = *first.get_or_insert(now);
            if let Some(gap) = last.replace(now).map(|last| now - last).filter(|gap| *gap > received.gap) {
                (received.gap, received.gap_at) = (gap, now - first);
            }
            received.reordered += u32::from(highest.is_some_and(|highest| number < highest));
            highest = highest.max(Some(number));
            received.twice += u32::from(!received.numbers.insert(number));
        }
    })
}

struct Exit {
    args: Vec<String>,
    running: Option<Tunnel>,
    address: String,
    fingerprint: String,
}

impl Exit {
    fn start(mut args: Vec<String>, state: &std::path::Path) -> Self {
        let address = format!("127.0.0.1:{}", squall_testkit::reserve_port());
        args.extend(["--listen", &address, "--state"].map(str::to_owned));
        args.push(state.display().to_string());
        let mut exit = Self { args, running: None, address, fingerprint: String::new() };
        exit.run();
        exit
    }

    fn run(&mut self) {
        let mut tunnel = Tunnel::start(&self.args);
        let line = tunnel.line("listening on ");
        self.fingerprint = line.trim_end().rsplit(' ').next().expect("is printed").to_owned();
        self.running = Some(tunnel);
    }

    fn restart(&mut self) {
        self.running.take().expect("runs").stop();
        self.run();
    }
}

/// Returns the numbers of datagrams that were sent, lost, reordered and duplicated, and the longest
/// gap.
fn rolling_restart() -> (u32, u32, u32, u32, Duration) {
    let scratch = Scratch::new("rolling");
    let stop = Arc::new(AtomicBool::new(false));
    // Up: from a source at the entry to a player behind the exits. Down: the opposite direction, to
    // the sender of commands.
    let (mut outs, mut senders, mut players) = (Vec::new(), Vec::new(), Vec::new());
    let mut flows = [Vec::new(), Vec::new()];
    let mut commands = Vec::new();
    for number in 0..FLOWS {
        let entry_port = squall_testkit::reserve_port();
        let player = socket();
        outs.push(format!("up{number}=udp://127.0.0.1:{}", port(&player)));
        flows[number % 2].push(format!("up{number}=udp://127.0.0.1:{entry_port},latency=2s"));
        players.push((format!("up{number}"), player));
        let to = SocketAddr::from(([127, 0, 0, 1], entry_port));
        senders.push((socket(), to, true));

        let (entry_port, source, player) = (squall_testkit::reserve_port(), socket(), socket());
        outs.push(format!("down{number}=udp://127.0.0.1:{},latency=2s", port(&source)));
        flows[number % 2].push(format!("down{number}=udp://127.0.0.1:{entry_port},latency=2s"));
        let to = SocketAddr::from(([127, 0, 0, 1], entry_port));
        commands.push((player.try_clone().expect("is cloned"), to));
        players.push((format!("down{number}"), player));
        source.set_nonblocking(true).expect("is set");
        senders.push((source, to, false));
    }
    let with_token = |flag: &str, flows: &[String]| {
        let flows = flows.iter().flat_map(|flow| [flag.to_owned(), flow.clone()]);
        ["--token", TOKEN].map(str::to_owned).into_iter().chain(flows).collect::<Vec<_>>()
    };
    let mut exits =
        ["a.pem", "b.pem"].map(|file| Exit::start(with_token("--out", &outs), &scratch.path(file)));
    let entries = flows.map(|flows| {
        let mut args = with_token("--in", &flows);
        args.extend(["--interface", "127.0.0.1"].map(str::to_owned));
        for exit in &exits {
            args.extend(["--to", &exit.address, "--pin", &exit.fingerprint].map(str::to_owned));
        }
        let mut entry = Tunnel::start(&args);
        for _ in &flows {
            entry.line(" goes to ");
        }
        entry
    });

    // Commands show the sources behind the exits where to send, like a player's reports or
    // keep-alives.
    let commanding = Arc::new(AtomicBool::new(true));
    let commander = {
        let commanding = commanding.clone();
        std::thread::spawn(move || {
            while commanding.load(Relaxed) {
                for (player, to) in &commands {
                    let _ = player.send_to(b"command", to);
                }
                std::thread::sleep(Duration::from_millis(20));
            }
        })
    };
    let receivers: Vec<_> =
        players.into_iter().map(|(name, socket)| (name, receive(socket, stop.clone()))).collect();
    let sources: Vec<_> = senders
        .into_iter()
        .map(|(socket, to, is_up)| {
            let replies = socket.try_clone().expect("is cloned");
            let mut latest = is_up.then_some(to);
            send(socket, stop.clone(), move || {
                let mut buffer = [0; 100];
                while let Some((_, from)) = (!is_up).then(|| replies.recv_from(&mut buffer).ok()).flatten() {
                    latest = Some(from);
                }
                latest
            })
        })
        .collect();
    std::thread::sleep(LOAD);
    for exit in &mut exits {
        exit.restart();
        std::thread::sleep(LOAD);
    }
    stop.store(true, Relaxed);

    let (mut all, mut lost, mut reordered, mut twice, mut gap) = (0, 0, 0, 0, Duration::ZERO);
    for ((name, receiver), source) in receivers.into_iter().zip(sources) {
        let (sent, received) = (source.join().expect("sends"), receiver.join().expect("receives"));
        let missing: Vec<u32> = (0..sent).filter(|number| !received.numbers.contains(number)).collect();
        if !missing.is_empty() || received.gap > MAX_GAP {
            let (first, count) = (missing.first(), missing.len());
            let Received { gap, gap_at, .. } = received;
            println!("{name}: {count} of {sent} lost, the first {first:?}; gap {gap:?} at {gap_at:?}");
        }
        all += sent;
        lost += missing.len() as u32;
        (reordered, twice) = (reordered + received.reordered, twice + received.twice);
        gap = gap.max(received.gap);
    }
    commanding.store(false, Relaxed);
    commander.join().expect("ends");
    for entry in entries {
        entry.stop();
    }
    for exit in exits {
        exit.running.expect("runs").stop();
    }
    (all, lost, reordered, twice, gap)
}

#[test]
fn a_rolling_restart_loses_nothing() {
    let runs = std::env::var("SQUALL_ROLLING_RUNS").ok();
    let runs: u32 = runs.map_or(1, |text| text.parse().expect("SQUALL_ROLLING_RUNS is a number"));
    for run in 1..=runs {
        in_real_time(|| {
            let (sent, lost, reordered, twice, gap) = rolling_restart();
            let (flows, mbps) = (2 * FLOWS, rate() / 1e6);
            println!(
                "run {run}: {flows} flows of {mbps} Mbps, {sent} datagrams: {lost} lost, {reordered} out of order, \
                 {twice} twice, longest gap {:.1} ms",
                gap.as_secs_f64() * 1e3
            );
            assert_eq!(lost, 0);
            assert_duration!(gap < MAX_GAP, "a player waited for {gap:?}");
        });
    }
}

/// Starts a tunnel with options.
fn start(args: &[&str]) -> Tunnel {
    Tunnel::start(&args.iter().map(|arg| (*arg).to_owned()).collect::<Vec<_>>())
}

/// Returns an entry whose session with this exit stays, because the other exit does not answer.
fn entry_that_stays(exit: &mut Tunnel) -> (Tunnel, UdpSocket) {
    let line = exit.line("listening on ");
    let (address, pin) = line.trim_end().split_once(", fingerprint ").expect("both are there");
    let address = address.rsplit(' ').next().expect("is an address");
    let other = socket();
    let silent = format!("127.0.0.1:{}", port(&other));
    let from = format!("x=udp://127.0.0.1:{}", squall_testkit::reserve_port());
    let to = ["--to", address, "--to", &silent, "--pin", pin, "--interface", "127.0.0.1"];
    let entry = start(&[&["--token", TOKEN], &to[..], &["--in", &from]].concat());
    exit.line("session 1 with");
    (entry, other)
}

#[test]
fn a_second_signal_ends_a_drain_and_a_repeated_one_does_not() {
    let listen = ["--token", TOKEN, "--listen", "127.0.0.1:0", "--out", "x=udp://127.0.0.1:9"];
    in_real_time(|| {
        let mut exit = start(&listen);
        let (mut entry, _other) = entry_that_stays(&mut exit);
        let begin = Instant::now();
        signal(&exit.child, "TERM");
        signal(&exit.child, "TERM");
        assert_duration!(begin.elapsed() < Duration::from_millis(400), "the signals were late");
        exit.line("draining: sessions move to other exits");
        assert_eq!(ends_within(&mut exit.child, Duration::from_secs(1)), None);
        signal(&exit.child, "TERM");
        exit.line("a second signal: the sessions that are left are closed");
        assert_eq!(ends_within(&mut exit.child, PATIENCE), Some(0));
        signal(&entry.child, "TERM");
        entry.line("the entry ends");
        let mut exit = start(&listen);
        exit.line("listening on ");
        signal(&exit.child, "TERM");
        exit.line("draining: there is no session to move");
        assert_eq!(ends_within(&mut exit.child, PATIENCE), Some(0));
    });
}

/// A service manager may stop an exit that an operator has drained.
#[test]
fn a_signal_after_a_drain_over_the_control_socket_is_the_first_one() {
    in_real_time(|| {
        let scratch = Scratch::new("drained-before");
        let (file, control) = (scratch.path("exit.toml"), scratch.path("control"));
        let text = format!(
            "token = \"{TOKEN}\"\ncontrol = \"control\"\n[listen]\naddress = \"127.0.0.1:0\"\n\
             [[flow]]\nname = \"x\"\nout = \"udp://127.0.0.1:9\"\n"
        );
        std::fs::write(&file, text).expect("is written");
        let mut exit = start(&[file.to_str().expect("is text")]);
        let (_entry, _other) = entry_that_stays(&mut exit);
        let drained = squall().args(["ctl", "--socket"]).arg(&control).arg("drain").output().expect("runs");
        assert!(drained.status.success(), "{drained:?}");
        exit.line("draining: sessions move to other exits");
        signal(&exit.child, "TERM");
        assert_eq!(ends_within(&mut exit.child, Duration::from_secs(1)), None);
        signal(&exit.child, "TERM");
        assert_eq!(ends_within(&mut exit.child, PATIENCE), Some(0));
    });
}

//! The fault matrix with real processes: programs that freeze, and programs that run out of system
//! resources. `docs/reliability.md` has the table.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{TcpStream, UdpSocket},
    os::unix::process::ExitStatusExt as _,
    process::{Child, ChildStderr, Command, Stdio},
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
    thread,
    time::{Duration, Instant},
};

use squall_testkit::assert_duration;

const TOKEN: &str = "a token for tests";

/// Limit of anything that hangs. Far more than any step takes, even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Arguments of an exit.
const EXIT: &[&str] = &["--listen", "127.0.0.1:0", "--token", TOKEN, "--out", "x=udp://127.0.0.1:9"];

/// A running `squall tunnel`, with a limited number of descriptors.
struct Tunnel {
    child: Child,
    /// Reader of its log, until it is removed.
    stderr: Option<BufReader<ChildStderr>>,
}

impl Tunnel {
    fn start(descriptors: u32, args: &[&str]) -> Self {
        Self::limited(&format!("ulimit -n {descriptors}"), args)
    }

    /// Starts it with limits set by shell commands.
    fn limited(limits: &str, args: &[&str]) -> Self {
        let limited = format!("{limits}; exec \"$0\" tunnel \"$@\"");
        let mut command = Command::new("sh");
        // Allocate memory as needed, not a gigabyte at once.
        command.env("MIMALLOC_ARENA_EAGER_COMMIT", "0").env("MIMALLOC_EAGER_COMMIT", "0");
        command.args(["-c", &limited, env!("CARGO_BIN_EXE_squall")]).args(args);
        let mut child = command.stderr(Stdio::piped()).spawn().expect("there is a shell");
        let stderr = child.stderr.take().map(BufReader::new);
        Self { child, stderr }
    }

    /// Returns the rest of the first line that contains these words.
    fn line(&mut self, words: &str) -> String {
        let mut seen = String::new();
        loop {
            let mut line = String::new();
            let read = self.stderr.as_mut().expect("is read").read_line(&mut line).expect("is text");
            if let Some((_, rest)) = line.split_once(words) {
                return rest.trim_end().to_owned();
            }
            seen.push_str(&line);
            assert!(read > 0, "never '{words}':\n{seen}");
        }
    }

    /// Returns its whole output, once it has ended with this code.
    fn end(&mut self, code: i32) -> String {
        let mut said = String::new();
        self.stderr.take().expect("is piped").read_to_string(&mut said).expect("is text");
        assert_eq!(self.child.wait().expect("it ends").code(), Some(code), "{said}");
        said
    }

    /// Sets a limit of the running program, in the syntax of `prlimit`.
    fn limit(&self, limit: &str) {
        let set = Command::new("prlimit").args(["--pid", &self.child.id().to_string(), limit]).status();
        assert!(set.expect("prlimit runs").success());
    }

    fn signal(&self, name: &str) {
        let sent = Command::new("kill").arg(format!("-{name}")).arg(self.child.id().to_string()).status();
        assert!(sent.expect("kill runs").success());
    }
}

impl Drop for Tunnel {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Two ends with a flow `x` between two sockets.
struct Pair {
    exit: Tunnel,
    entry: Tunnel,
    /// Address and fingerprint of the exit.
    to: (String, String),
    metrics: String,
    target: UdpSocket,
    source: UdpSocket,
    port: u16,
}

impl Pair {
    fn start(descriptors: u32) -> Self {
        Self::with(descriptors, "127.0.0.1:0", &[])
    }

    /// Starts a pair with an exit at this address, and with these options.
    fn with(descriptors: u32, at: &str, more: &[&str]) -> Self {
        let socket = || UdpSocket::bind("127.0.0.1:0").expect("is bound");
        let (target, source) = (socket(), socket());
        let port = squall_testkit::reserve_port();
        let out = format!("x=udp://{},latency=2s", target.local_addr().expect("is bound"));
        let listen = ["--listen", at, "--token", TOKEN, "--metrics", "127.0.0.1:0", "--out", &out];
        let mut exit = Tunnel::start(descriptors, &[&listen, more].concat());
        let listening = exit.line("listening on ");
        let (address, fingerprint) = listening.split_once(", fingerprint ").expect("both are printed");
        let metrics = exit.line("metrics on ").rsplit(' ').next().expect("is printed").to_owned();
        let flow = format!("x=udp://127.0.0.1:{port},latency=2s");
        let entry =
            Tunnel::start(1_024, &["--to", address, "--pin", fingerprint, "--token", TOKEN, "--in", &flow]);
        let to = (address.to_owned(), fingerprint.to_owned());
        let pair = Self { exit, entry, to, metrics, target, source, port };
        pair.passes(0);
        pair
    }

    /// Sends this number until it arrives, as the flow may not be ready yet; returns the time.
    fn passes(&self, number: u32) -> Duration {
        self.target.set_read_timeout(Some(Duration::from_millis(50))).expect("is set");
        let (begin, mut buffer) = (Instant::now(), [0; 100]);
        loop {
            self.source.send_to(&number.to_be_bytes(), ("127.0.0.1", self.port)).expect("is sent");
            while let Ok(length) = self.target.recv(&mut buffer) {
                if buffer[..length] == number.to_be_bytes() {
                    return begin.elapsed();
                }
            }
            assert!(begin.elapsed() < PATIENCE, "number {number} never arrives");
        }
    }
}

/// Returns the answer of the status page, if there is one.
fn status(metrics: &str) -> Option<String> {
    let mut stream = TcpStream::connect(metrics).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(1))).expect("is set");
    let mut answer = String::new();
    stream.write_all(b"GET /status HTTP/1.1\r\n\r\n").ok()?;
    stream.read_to_string(&mut answer).ok()?;
    answer.starts_with("HTTP/1.1 200").then_some(answer)
}

#[test]
fn a_program_that_froze_continues() {
    let pair = Pair::start(1_024);
    let both = [&pair.entry, &pair.exit];
    // Shorter and longer than the idle timeout of a session.
    for (number, seconds) in [(1, 2), (2, 12)] {
        for (stopped, which) in [(&both[..1], "entry"), (&both[1..], "exit"), (&both[..], "both")] {
            pair.passes(10 * number);
            stopped.iter().for_each(|tunnel| tunnel.signal("STOP"));
            thread::sleep(Duration::from_secs(seconds));
            stopped.iter().for_each(|tunnel| tunnel.signal("CONT"));
            let took = pair.passes(10 * number + 1);
            println!("{which} stopped for {seconds} s: passes again after {took:?}");
            assert_duration!(took < Duration::from_millis(500), "{which}, {seconds} s: {took:?}");
        }
    }
}

/// A pair whose exit can be restarted at its address, with its identity.
struct Lasting {
    pair: Pair,
    at: String,
    state: String,
    /// Folder of the identity.
    _scratch: crate::common::Scratch,
}

impl Lasting {
    fn start(name: &str) -> Self {
        let scratch = crate::common::Scratch::new(name);
        let state = scratch.path("id.pem").display().to_string();
        let at = format!("127.0.0.1:{}", squall_testkit::reserve_port());
        Self { pair: Pair::with(1_024, &at, &["--state", &state]), at, state, _scratch: scratch }
    }

    fn restart_exit(&mut self) {
        let out = format!("x=udp://{},latency=2s", self.pair.target.local_addr().expect("is bound"));
        let arguments = ["--listen", &self.at, "--token", TOKEN, "--state", &self.state, "--out", &out];
        self.pair.exit = Tunnel::start(1_024, &arguments);
        self.pair.exit.line("listening on ");
    }
}

#[test]
fn an_exit_that_is_killed_is_used_again_within_a_second_of_its_restart() {
    let mut lasting = Lasting::start("killed");
    for number in 1..=3 {
        lasting.pair.exit.signal("KILL");
        lasting.pair.exit.child.wait().expect("has ended");
        lasting.restart_exit();
        let took = lasting.pair.passes(number);
        println!("killed and started again: passes again after {took:?}");
        assert_duration!(took < Duration::from_secs(1), "{took:?}");
    }
}

#[test]
fn a_tunnel_outlives_the_reader_of_its_log() {
    let mut pair = Pair::start(1_024);
    for (tunnel, number) in [(0, 1), (1, 2)] {
        // Each logs that the other has frozen, and finds that it cannot write.
        let (loses, stops) =
            if tunnel == 0 { (&mut pair.exit, &pair.entry) } else { (&mut pair.entry, &pair.exit) };
        drop(loses.stderr.take());
        stops.signal("STOP");
        thread::sleep(Duration::from_secs(10));
        stops.signal("CONT");
        pair.passes(number);
    }
    let status = status(&pair.metrics).expect("answers");
    assert!(status.contains("\"task_failures\":0"), "{status}");
}

/// Fills a pipe to the last byte, until its reader continues or ends.
fn fill_standard_error(tunnel: &Tunnel) {
    let path = format!("/proc/{}/fd/2", tunnel.child.id());
    let mut pipe = std::fs::OpenOptions::new().write(true).open(path).expect("is a pipe");
    let filled = std::sync::Arc::new(AtomicUsize::new(0));
    let counter = filled.clone();
    thread::spawn(move || {
        while pipe.write_all(b"x").is_ok() {
            counter.fetch_add(1, Relaxed);
        }
    });
    let mut before = usize::MAX;
    while before != filled.load(Relaxed) {
        before = filled.load(Relaxed);
        thread::sleep(Duration::from_millis(300));
    }
}

#[test]
fn a_log_that_is_not_read_holds_up_neither_the_flow_nor_the_end() {
    for which in ["entry", "exit"] {
        let mut pair = Pair::start(1_024);
        let (full, other) =
            if which == "entry" { (&pair.entry, &pair.exit) } else { (&pair.exit, &pair.entry) };
        fill_standard_error(full);
        // Each logs that the other has frozen, and that it has no file to reload.
        other.signal("STOP");
        thread::sleep(Duration::from_secs(2));
        other.signal("CONT");
        full.signal("HUP");
        for number in 1..=5 {
            let took = pair.passes(number);
            assert!(took < Duration::from_secs(10), "{which}: {took:?}");
            thread::sleep(Duration::from_millis(200));
        }
        let full = if which == "entry" { &mut pair.entry } else { &mut pair.exit };
        full.signal("TERM");
        let (begin, ended) =
            (Instant::now(), squall_testkit::program::ends_within(&mut full.child, PATIENCE));
        assert_eq!(ended, Some(0), "{which}");
        println!("{which}: ended after {:?}", begin.elapsed());
        assert_duration!(begin.elapsed() < Duration::from_secs(1), "{which}: {:?}", begin.elapsed());
    }
}

#[test]
fn too_few_descriptors_are_reported_in_a_line() {
    let said = Tunnel::start(5, EXIT).end(1);
    assert!(said.contains("oo many open files") && said.lines().count() == 1, "{said}");
}

#[test]
fn too_few_threads_are_reported_in_a_line() {
    // Stacks larger than the memory: the system refuses every thread.
    let said = Tunnel::limited("ulimit -v 4000000; export RUST_MIN_STACK=8000000000", EXIT).end(1);
    assert!(said.starts_with("squall: cannot start 2 threads: ") && said.lines().count() == 1, "{said}");
}

#[test]
fn a_certificate_that_cannot_be_kept_is_reported_in_a_line_and_leaves_no_half() {
    let scratch = crate::common::Scratch::new("certificate-full");
    let file = scratch.path("id.pem");
    let args = [EXIT, &["--state", file.to_str().expect("is text")]].concat();
    // As on a full disk: no byte can be written. The signal that comes with it is ignored.
    let said = Tunnel::limited("trap '' XFSZ; ulimit -f 0", &args).end(1);
    assert!(said.contains("id.pem: ") && said.lines().count() == 1, "{said}");
    assert!(scratch.files().is_empty(), "{:?} remain", scratch.files());
    let mut next = Tunnel::start(1_024, &args);
    next.line("listening on ");
    assert!(file.exists());
}

#[test]
fn an_entry_whose_record_of_quotas_cannot_be_written_connects() {
    let scratch = crate::common::Scratch::new("no-record");
    let mut pair = Pair::start(1_024);
    pair.entry.signal("KILL");
    pair.entry.child.wait().expect("has ended");
    let (to, pin, port) = (&pair.to.0, &pair.to.1, pair.port);
    let text = format!(
        "token = '{TOKEN}'
        [connect]
        to = '{to}'
        pin = '{pin}'
        interfaces = ['127.0.0.1']
        quotas = 'record'
        paths.'127.0.0.1' = {{ quota = '20GB', quota_period = 'month' }}
        [[flow]]
        name = 'x'
        in = 'udp://127.0.0.1:{port}'
        latency = '2s'
        "
    );
    let file = scratch.write("entry.toml", text.as_bytes());
    // As on a full disk: no byte can be written. The signal that comes with it is ignored.
    pair.entry = Tunnel::limited("trap '' XFSZ; ulimit -f 0", &[file.to_str().expect("is text")]);
    let said = pair.entry.line("record: ");
    assert!(said.contains("; what is used of quotas is lost if the program ends"), "{said}");
    pair.passes(1);
    // Writing is retried every second, without another line.
    thread::sleep(Duration::from_millis(2_500));
    pair.passes(2);
    pair.entry.signal("TERM");
    assert!(!pair.entry.end(0).contains("record: "), "it was reported twice");
    assert_eq!(scratch.files().len(), 1, "{:?} remain", scratch.files());
}

#[test]
fn what_is_used_of_quotas_is_kept_in_memory_while_the_disk_is_full() {
    let scratch = crate::common::Scratch::new("quotas");
    let mut pair = Pair::start(1_024);
    pair.entry.signal("KILL");
    pair.entry.child.wait().expect("has ended");
    // A record of an earlier month: this month has begun, and no bytes were used.
    let record = scratch.write("record", b"127.0.0.1 start=0 used=0 earned=0\n");
    let used = || {
        let text = std::fs::read_to_string(&record).expect("is there");
        let used = text.split_whitespace().find_map(|word| word.strip_prefix("used="));
        used.expect("a record").parse::<u64>().expect("a number")
    };
    let (to, pin, port) = (&pair.to.0, &pair.to.1, pair.port);
    let text = format!(
        "token = '{TOKEN}'
        [connect]
        to = '{to}'
        pin = '{pin}'
        interfaces = ['127.0.0.1']
        quotas = 'record'
        paths.'127.0.0.1' = {{ quota = '20MB', quota_period = 'month' }}
        [[flow]]
        name = 'x'
        in = 'udp://127.0.0.1:{port}'
        latency = '2s'
        "
    );
    let file = scratch.write("entry.toml", text.as_bytes());
    // The signal that comes with the limit is ignored.
    pair.entry = Tunnel::limited("trap '' XFSZ", &[file.to_str().expect("is text")]);
    pair.passes(1);

    // No byte can be written. The record exceeds the use by some bytes, so it takes a while until
    // it must be written.
    pair.entry.limit("--fsize=0:unlimited");
    let before = used();
    let mut sent = 0;
    while sent < 2_000_000 {
        sent += pair.source.send_to(&[0; 1_000], ("127.0.0.1", port)).expect("is sent") as u64;
        thread::sleep(Duration::from_millis(1));
    }
    let said = pair.entry.line("record: ");
    assert!(said.contains("; what is used of quotas is lost if the program ends"), "{said}");
    pair.passes(2);
    // The old record remains, and no partial new one.
    assert_eq!((used(), scratch.files().len()), (before, 2), "{:?}", scratch.files());

    pair.entry.limit("--fsize=unlimited:unlimited");
    pair.entry.line("record: what is used of quotas is kept again");
    pair.passes(3);
    assert!(used() >= sent, "{} bytes recorded of {sent}", used());
}

#[test]
fn an_exit_without_memory_left_ends_by_name_and_is_used_again_once_it_is_restarted() {
    let mut lasting = Lasting::start("memory");
    let pair = &mut lasting.pair;
    let of_process =
        std::fs::read_to_string(format!("/proc/{}/status", pair.exit.child.id())).expect("it runs");
    let data = of_process.lines().find_map(|line| line.strip_prefix("VmData:")).expect("has a size");
    let kilobytes: u64 = data.trim().trim_end_matches(" kB").parse().expect("a number");
    pair.exit.limit(&format!("--data={}", kilobytes * 1_024));
    let begin = Instant::now();
    while pair.exit.child.try_wait().expect("is its parent").is_none() {
        assert!(begin.elapsed() < PATIENCE, "it needs no more memory");
        // Far more than the tunnel can carry at once, so that its memory grows.
        for _ in 0..20 {
            pair.source.send_to(&[0; 1_000], ("127.0.0.1", pair.port)).expect("is sent");
        }
        thread::sleep(Duration::from_millis(1));
    }
    pair.exit.line("memory allocation of ");
    let ended = pair.exit.child.wait().expect("has ended");
    assert_eq!(ended.signal(), Some(6), "{ended}");

    lasting.restart_exit();
    let took = lasting.pair.passes(1);
    println!("ended and started again: passes again after {took:?}");
    assert_duration!(took < Duration::from_secs(1), "{took:?}");
}

/// Sizes in a file are checked independently of the available memory.
#[test]
fn sizes_without_measure_are_refused_by_name() {
    let scratch = crate::common::Scratch::new("sizes");
    for [table, setting] in [
        ["", "max_sessions = 100_000_000_000"],
        ["listen", "workers = 4_000_000_000"],
        ["listen", "drain_timeout = \"99999999999s\""],
        ["flow", "max_pending = 99_999_999_999"],
        ["flow", "latency = \"99999999999s\""],
    ] {
        let of = |name| if table == name { setting } else { "" };
        let text = format!(
            "token = '{TOKEN}'\n{}\n[listen]\naddress = '127.0.0.1:0'\n{}\n[[flow]]\nname = 'x'\nout = 'udp://127.0.0.1:9'\n{}\n",
            of(""),
            of("listen"),
            of("flow"),
        );
        let file = scratch.write("exit.toml", text.as_bytes());
        let said = Tunnel::start(1_024, &[file.to_str().expect("is text")]).end(2);
        let name = setting.split(' ').next().expect("has a name");
        assert!(said.contains(name) && said.lines().count() == 1, "{said}");
    }
}

#[test]
fn an_exit_without_descriptors_left_carries_what_it_has() {
    // Eight more than needed to carry the flow, and fewer than the connections that the status page
    // serves.
    const DESCRIPTORS: u32 = 28;
    let pair = Pair::start(DESCRIPTORS);
    let line = "the status page accepts no connections: Too many open files";
    let (begin, mut number) = (Instant::now(), 0);
    let mut passes = |times| {
        (0..times).for_each(|_| {
            number += 1;
            pair.passes(number);
        });
    };
    // The page may not have accepted the connections yet when the datagrams have passed.
    let events = loop {
        let held: Vec<TcpStream> =
            (0..DESCRIPTORS * 2).filter_map(|_| TcpStream::connect(&pair.metrics).ok()).collect();
        assert!(held.len() >= DESCRIPTORS as usize, "only {} connections", held.len());
        passes(20);
        drop(held);
        let events = status(&pair.metrics).filter(|events| events.contains(line));
        if let Some(events) = events {
            break events;
        }
        assert!(begin.elapsed() < PATIENCE, "the status page never answers again, with the line");
        thread::sleep(Duration::from_millis(50));
    };
    passes(1);
    assert_eq!(events.matches(line).count(), 1, "{events}");
}

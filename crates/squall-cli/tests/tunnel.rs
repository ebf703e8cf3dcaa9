//! `squall tunnel` and `squall top`, as a user would run them.

#![cfg(unix)]

mod common;

use std::{
    ffi::OsStr,
    fs,
    io::{BufRead as _, BufReader, Read as _},
    net::UdpSocket,
    os::unix::net::UnixDatagram,
    path::Path,
    process::{Child, ChildStderr, Command, Stdio},
    time::{Duration, Instant},
};

use common::{Scratch, failure, run, squall};
use squall_testkit::reserve_port;

const TOKEN: &str = "a token for tests";

/// Limit of anything that hangs. Far more than any step takes, even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A running `squall tunnel`.
struct Tunnel {
    child: Child,
    stderr: BufReader<ChildStderr>,
}

impl Tunnel {
    fn start<S: AsRef<OsStr>>(args: &[S]) -> Self {
        Self::start_with(args, &[])
    }

    fn start_with<S: AsRef<OsStr>>(args: &[S], more: &[(&str, &OsStr)]) -> Self {
        let mut command = squall();
        command.arg("tunnel").args(args).envs(more.iter().copied()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("starts");
        let stderr = BufReader::new(child.stderr.take().expect("is piped"));
        Self { child, stderr }
    }

    /// Returns the first line that contains these words.
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

    fn signal(&self, name: &str) {
        let sent = Command::new("kill").arg(format!("-{name}")).arg(self.child.id().to_string()).status();
        assert!(sent.expect("kill runs").success());
    }

    /// Requests the end; returns its code and the rest of its output.
    fn stop(mut self) -> (Option<i32>, String) {
        self.signal("TERM");
        let mut rest = String::new();
        self.stderr.read_to_string(&mut rest).expect("is text");
        (self.child.wait().expect("it ends").code(), rest)
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
    let socket = UdpSocket::bind("127.0.0.1:0").expect("is bound");
    socket.set_read_timeout(Some(PATIENCE)).expect("is set");
    socket
}

/// Sends until a datagram arrives: a flow may not be carried yet.
fn passes(port: u16, target: &UdpSocket, words: &[u8]) {
    let source = socket();
    target.set_read_timeout(Some(Duration::from_millis(200))).expect("is set");
    let (begin, mut buffer) = (Instant::now(), [0; 100]);
    loop {
        source.send_to(words, ("127.0.0.1", port)).expect("is sent");
        match target.recv(&mut buffer) {
            Ok(length) if &buffer[..length] == words => return,
            _ => assert!(begin.elapsed() < PATIENCE, "it never arrives"),
        }
    }
}

/// Returns the next notification for systemd.
fn notified(socket: &UnixDatagram) -> String {
    let mut buffer = [0; 1000];
    let length = socket.recv(&mut buffer).expect("is printed");
    String::from_utf8_lossy(&buffer[..length]).into_owned()
}

/// Starts an exit with a flow `x`; returns its address and fingerprint too.
fn exit(target: &UdpSocket) -> (Tunnel, String, String) {
    let to = target.local_addr().expect("is bound");
    let flow = format!("x=udp://{to}");
    let mut exit = Tunnel::start(&["--listen", "127.0.0.1:0", "--token", TOKEN, "--out", &flow]);
    let line = exit.line("listening on ");
    let rest = line.trim_end().strip_prefix("listening on ").expect("begins so");
    let (address, fingerprint) = rest.split_once(", fingerprint ").expect("both are printed");
    (exit, address.to_owned(), fingerprint.to_owned())
}

fn write_entry(file: &Path, address: &str, fingerprint: &str, rest: &str) {
    let text = format!(
        "token = \"{TOKEN}\"\nmetrics = \"127.0.0.1:0\"\n[connect]\nto = \"{address}\"\npin = \"{fingerprint}\"\n\
         interfaces = [\"127.0.0.2\", \"127.0.0.3\"]\n[log]\nformat = \"json\"\n{rest}"
    );
    fs::write(file, text).expect("is written");
}

#[test]
fn a_tunnel_runs_from_flags_and_shows_what_it_does() {
    let (target, port) = (socket(), reserve_port());
    let (exit, address, fingerprint) = exit(&target);
    let flow = format!("x=udp://127.0.0.1:{port},latency=30s");
    let args = [
        "--to",
        &address,
        "--pin",
        &fingerprint,
        "--token",
        TOKEN,
        "--metrics",
        "127.0.0.1:0",
        "--in",
        &flow,
    ];
    let mut entry = Tunnel::start(&args);
    let line = entry.line("metrics on ");
    let metrics = line.trim_end().rsplit(' ').next().expect("is printed").to_owned();
    passes(port, &target, b"hello");
    let shown = run(["top", &metrics, "--once"]);
    assert_eq!(shown.status.code(), Some(0), "{}", failure(&shown).0);
    let text = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(text.starts_with(&format!("entry to {address}, 1 session ")), "{text}");
    assert!(text.contains("carried") && text.contains("flow 'x' goes to"), "{text}");
    assert!(text.lines().any(|line| line.starts_with("x ") && line.contains("kbps")), "{text}");
    let shown = run(["top", &metrics, "--json", "-"]);
    let status: serde_json::Value = serde_json::from_slice(&shown.stdout).expect("is JSON");
    assert_eq!(status["flows"][0]["name"], "x");
    assert_eq!(entry.stop().0, Some(0));
    assert_eq!(exit.stop().0, Some(0));
    let (said, code) = failure(&run(["top", &metrics, "--once"]));
    assert_eq!(code, Some(1));
    assert!(
        said.starts_with(&format!("squall: no tunnel answers on {metrics} (--metrics {metrics}, or")),
        "{said}"
    );
}

#[test]
fn bitrates_are_printed_a_line_per_change_for_a_script() {
    let (target, port) = (socket(), reserve_port());
    let (exit, address, fingerprint) = exit(&target);
    let flow = format!("x=udp://127.0.0.1:{port},latency=30s");
    let mut command = squall();
    command.args([
        "tunnel",
        "--to",
        &address,
        "--pin",
        &fingerprint,
        "--token",
        TOKEN,
        "--in",
        &flow,
        "--bitrate",
    ]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("starts");
    let mut lines = BufReader::new(child.stdout.take().expect("is piped")).lines();
    let stderr = BufReader::new(child.stderr.take().expect("is piped"));
    let entry = Tunnel { child, stderr };
    for _ in 0..20 {
        passes(port, &target, b"hello");
    }
    let mut next = || lines.next().expect("a line comes").expect("is text");
    let line = loop {
        let line = next();
        if !line.starts_with("0 ") {
            break line;
        }
    };
    let words: Vec<&str> = line.split(' ').collect();
    assert!(words[0].parse::<u64>().is_ok_and(|bps| bps > 0), "{line}");
    assert!(["application", "network"].contains(&words[1]) && words[2..] == ["1"], "{line}");
    assert_eq!(exit.stop().0, Some(0));
    while next() != "0 out-of-use 1" {}
    // A script that has ended does not end the tunnel.
    drop(lines);
    assert_eq!(entry.stop().0, Some(0));
}

#[test]
fn a_file_is_read_again_and_a_broken_one_is_not_taken() {
    let scratch = Scratch::new("tunnel-reload");
    let (target, first, second) = (socket(), reserve_port(), reserve_port());
    let (exit, address, fingerprint) = exit(&target);
    let file = scratch.path("entry.toml");
    let flow = |port| format!("[[flow]]\nname = \"x\"\nin = \"udp://127.0.0.1:{port}\"\nlatency = \"30s\"\n");
    write_entry(&file, &address, &fingerprint, &flow(first));
    // Notifications of systemd.
    let socket = UnixDatagram::bind(scratch.path("notify")).expect("is bound");
    socket.set_read_timeout(Some(PATIENCE)).expect("is set");
    let mut entry = Tunnel::start_with(&[&file], &[("NOTIFY_SOCKET", scratch.path("notify").as_os_str())]);
    assert!(notified(&socket).starts_with("READY=1"));
    entry.line("goes to");
    passes(first, &target, b"one");
    write_entry(&file, &address, &fingerprint, &flow(second));
    entry.signal("HUP");
    let line = entry.line("was reloaded");
    // Its log is JSON.
    assert!(line.starts_with('{') && line.contains("changed x"), "{line}");
    assert!(notified(&socket).starts_with("RELOADING=1\nMONOTONIC_USEC="));
    assert!(notified(&socket).starts_with("READY=1"));
    passes(second, &target, b"two");
    write_entry(&file, &address, &fingerprint, "[[flow]]\nnaem = \"x\"\n");
    entry.signal("HUP");
    let line = entry.line("was not reloaded");
    assert!(line.contains("entry.toml:9:1") || line.contains("entry.toml:10:1"), "{line}");
    passes(second, &target, b"three");
    assert_eq!(entry.stop().0, Some(0));
    assert_eq!(exit.stop().0, Some(0));
}

#[test]
fn a_log_of_json_has_no_other_lines() {
    let scratch = Scratch::new("tunnel-json");
    let file = scratch.path("exit.toml");
    let text = format!(
        "token = \"{TOKEN}\"\nmetrics = \"127.0.0.1:0\"\n[listen]\naddress = \"127.0.0.1:0\"\n\
         [log]\nformat = \"json\"\n[[flow]]\nname = \"x\"\nout = \"udp://127.0.0.1:9\"\n"
    );
    fs::write(&file, text).expect("is written");
    let mut exit = Tunnel::start(&[&file]);
    let lines = [exit.line("listening on 127.0.0.1:"), exit.line("metrics on http://127.0.0.1:")];
    let (code, rest) = exit.stop();
    assert_eq!(code, Some(0));
    for line in lines.iter().map(String::as_str).chain(rest.lines()) {
        serde_json::from_str::<serde_json::Value>(line).expect(line);
    }
}

#[test]
fn check_shows_paths_workers_and_load_balancers() {
    let scratch = Scratch::new("tunnel-check-more");
    let file = scratch.path("c.toml");
    let shown = |text: &str| {
        fs::write(&file, format!("token = \"a token for tests\"\n{text}")).expect("is written");
        let checked = squall().args(["tunnel", "check"]).arg(&file).output().expect("starts");
        assert_eq!(checked.status.code(), Some(0), "{}", failure(&checked).0);
        let lines = String::from_utf8(checked.stdout).expect("is text");
        lines.lines().skip(1).map(|line| format!("{line}\n")).collect::<String>()
    };
    let paths = "[connect]\nto = \"host:1\"\nquotas = \"q\"\n\
                 [connect.paths.wlan0]\nrate_limit = \"2Mbps\"\nrate_burst = \"30kB\"\n\
                 [connect.paths.wwan0]\nrole = \"backup\"\nquota = \"10GB\"\nquota_period = \"month from 15\"\n";
    assert_eq!(
        shown(paths),
        "path wlan0: primary, rate_limit 2mbps, rate_burst 30kB\n\
         path wwan0: backup, quota 10GB per month from 15\n"
    );
    let listen =
        "[listen]\naddress = \"127.0.0.1:4433\"\nworkers = 2\nload_balancer = { server_id = \"0a0b\" }\n";
    assert_eq!(shown(listen), "workers 2\nload balancer: server 0a0b, plain\n");
}

#[test]
fn check_prints_a_summary_of_a_file_or_its_mistake() {
    let scratch = Scratch::new("tunnel-check");
    let file = scratch.path("c.toml");
    let pin = "00".repeat(32);
    write_entry(
        &file,
        "host:1",
        &pin,
        "[[flow]]\nname = \"x\"\nin = \"udp://127.0.0.1:5000\"\nmedia = \"ts\"\n",
    );
    let checked = squall().args(["tunnel", "check"]).arg(&file).output().expect("starts");
    assert_eq!(checked.status.code(), Some(0), "{}", failure(&checked).0);
    let summary = "entry: connects to host:1, scheduler squall, congestion steady\n\
                flow x: in udp://127.0.0.1:5000, ts, 300 ms, priority 2\n";
    assert_eq!(String::from_utf8_lossy(&checked.stdout), summary);
    assert!(checked.stderr.is_empty());
    let text = fs::read_to_string(&file).expect("is there");
    let costs = "scheduler = \"minrtt\"\n[connect]\nmetered = [\"127.0.0.3\"]\n";
    fs::write(&file, text.replace("[connect]\n", costs)).expect("is written");
    let checked = squall().args(["tunnel", "check"]).arg(&file).output().expect("starts");
    let summary = summary.replace("scheduler squall", "scheduler minrtt");
    assert_eq!(
        (checked.status.code(), String::from_utf8_lossy(&checked.stdout).into_owned()),
        (Some(0), summary)
    );
    let warning = String::from_utf8_lossy(&checked.stderr).into_owned();
    assert!(
        warning.starts_with("warning: metered has no effect with minrtt (") && warning.lines().count() == 1
    );
    write_entry(
        &file,
        "host:1",
        &pin,
        "[[flow]]\nname = \"x\"\nin = \"udp://127.0.0.1:5000\"\nmedai = \"ts\"\n",
    );
    let (said, code) = failure(&squall().args(["tunnel", "check"]).arg(&file).output().expect("starts"));
    assert_eq!(code, Some(2));
    let expected = format!("squall: {}:12:1: unknown key 'medai'; did you mean 'media'?", file.display());
    assert_eq!(said, expected);
}

#[cfg(target_os = "linux")]
#[test]
fn check_warns_of_what_is_not_there_and_refuses_what_cannot_start() {
    let scratch = Scratch::new("tunnel-check-machine");
    let file = scratch.path("c.toml");
    let check = |more: &str| {
        let entry = "[connect]\nto = \"host:1\"\ninterfaces = [\"no-wlan7\"]\n";
        fs::write(&file, format!("token = \"{TOKEN}\"\n{entry}{more}")).expect("is written");
        let checked = squall().args(["tunnel", "check"]).arg(&file).output().expect("starts");
        (checked.status.code(), String::from_utf8_lossy(&checked.stderr).into_owned())
    };
    let flow = "[[flow]]\nname = \"cam\"\nin = \"udp://127.0.0.1:5000\"\n";
    let warning = "warning: interface no-wlan7 is not there now; the tunnel uses it once it is there\n";
    assert_eq!(check(flow), (Some(0), warning.to_owned()));
    let (code, said) = check(&format!("{flow}[[flow]]\nname = \"cam2\"\nin = \"udp://0.0.0.0:5000\"\n"));
    let words = "flow 'cam2' enters at the address of 'cam': 0.0.0.0:5000 and 127.0.0.1:5000 are one port of this machine";
    assert_eq!(code, Some(2));
    assert!(said.contains(&format!("{}:9:8: ", file.display())) && said.contains(words), "{said}");
}

#[test]
fn mistakes_in_options_are_reported_in_a_line() {
    let cases: [(&[&str], &str); 6] = [
        (&[], "a configuration file, --listen ADDR:PORT or --to HOST:PORT"),
        (&["--to", "host:1", "--in", "x=udp://127.0.0.1:1"], "--token or --token-file"),
        (&["--listen", "127.0.0.1:0"], "no flow is given"),
        (
            &["--to", "host:1", "--token", "short", "--in", "x=udp://127.0.0.1:1"],
            "a token has 12 to 256 bytes",
        ),
        (
            &["--listen", "127.0.0.1:0", "--out", "x=udp://127.0.0.1:1", "--in", "x=udp://127.0.0.1:2"],
            "there is a flow 'x' already",
        ),
        (&["missing.toml"], "missing.toml: "),
    ];
    for (args, expected) in cases {
        let output = squall().arg("tunnel").args(args).env_remove("SQUALL_TOKEN").output().expect("starts");
        let (said, code) = failure(&output);
        assert_eq!(code, Some(2), "{said}");
        assert!(said.starts_with("squall: ") && said.contains(expected), "{said}");
        assert_eq!(said.lines().count(), 1, "{said}");
    }
    // The token of the environment is not an option, which would exclude a file.
    let output =
        squall().args(["tunnel", "missing.toml"]).env("SQUALL_TOKEN", "short").output().expect("starts");
    assert!(failure(&output).0.contains("missing.toml: "), "{}", failure(&output).0);
    let (said, code) = failure(&run(["tunnel", "chek", "f.toml"]));
    assert_eq!(code, Some(2));
    assert!(said.contains("unexpected 'f.toml'") && said.contains("squall tunnel check FILE"), "{said}");
    for wrong in ["4433", ":4433", "0.0.0.0:80000"] {
        let (said, code) = failure(&run(["tunnel", "--listen", wrong, "--out", "x=udp://127.0.0.1:1"]));
        assert_eq!(code, Some(2));
        assert!(said.contains("expected ADDR:PORT, such as"), "{said}");
    }
    let many = (0..65).flat_map(|n| ["--out".to_owned(), format!("x{n}=udp://127.0.0.1:1")]);
    let (said, code) =
        failure(&run(["tunnel", "--listen", "127.0.0.1:0"].map(str::to_owned).into_iter().chain(many)));
    assert_eq!((said.as_str(), code), ("squall: more than 64 flows", Some(2)));
    let (said, code) = failure(&run(["tunnel", "--listen", "127.0.0.1:0", "--out", "x=127.0.0.1:1"]));
    assert_eq!(code, Some(2));
    assert!(said.contains("'127.0.0.1:1' is not an address: expected udp://ADDR:PORT"), "{said}");
}

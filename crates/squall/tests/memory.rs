//! Memory of an idle session, on the side that connects and on the side that accepts.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    process::{Child, Command, Stdio},
    time::Duration,
};

use squall::{Config, Connect, Endpoint, Fingerprint, Identity, Session, Trust};

const SESSIONS: usize = 200;

/// Number of sessions before the measurement, so that tables and buffers have their final size.
const EARLIER: usize = 20;

/// Limit of the bytes per idle session.
const MOST: f64 = 150_000.0;

/// Environment variable with the address of the server and its fingerprint, for the process of the
/// other end.
const SERVER: &str = "SQUALL_TEST_MEMORY_SERVER";

/// Returns the resident memory of this process.
fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("is there on Linux");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("is reported");
    let kib: u64 = line.trim().trim_end_matches("kB").trim().parse().expect("is a number");
    kib * 1024
}

/// Waits until the keys of the handshakes are dropped and path MTU discovery has ended.
async fn settle() {
    tokio::time::sleep(Duration::from_secs(4)).await;
}

/// Process of the other end, so that each process counts its memory alone. Ends with this one.
struct Other(Child);

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn other_end(server: &Endpoint, pin: Fingerprint) -> Other {
    let program = std::env::current_exe().expect("has a name");
    let child = Command::new(program)
        .args(["the_connecting_end", "--exact", "--ignored", "--nocapture"])
        .env(SERVER, format!("{} {pin}", server.local_addrs()[0]))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    Other(child.expect("starts"))
}

async fn connect(endpoint: &Endpoint, request: &Connect, count: usize) -> Vec<Session> {
    let mut sessions = Vec::new();
    for _ in 0..count {
        sessions.push(endpoint.connect(request.clone()).await.expect("connects"));
    }
    sessions
}

#[tokio::test]
#[ignore = "run by `an_idle_session_is_small_at_either_end`, in a process of its own"]
async fn the_connecting_end() {
    let Ok(server) = std::env::var(SERVER) else { return };
    let (addr, pin) = server.split_once(' ').expect("both are given");
    let request = Connect::to(addr).trust(Trust::Pinned(pin.parse().expect("is a fingerprint")));
    let endpoint = Endpoint::client(Config::default()).expect("starts");
    let _earlier = connect(&endpoint, &request, EARLIER).await;
    settle().await;
    let before = resident_bytes();
    println!("\nready");
    std::io::stdin().read_line(&mut String::new()).expect("is a signal to continue");
    let _sessions = connect(&endpoint, &request, SESSIONS).await;
    settle().await;
    println!("\ngrown {}", resident_bytes().saturating_sub(before));
    std::io::stdout().flush().expect("is read");
    std::io::stdin().read_line(&mut String::new()).expect("is a signal to end");
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn an_idle_session_is_small_at_either_end() {
    let identity = Identity::self_signed("localhost").expect("is made");
    let tls = identity.server_tls().expect("is valid");
    let server = Endpoint::listen("127.0.0.1:0", &tls, Config::default()).expect("a port is free");
    let accepting = server.clone();
    let accepted = tokio::spawn(async move {
        let mut sessions = Vec::new();
        while let Some(session) = accepting.accept().await {
            sessions.push(session);
        }
        sessions
    });
    let mut other = other_end(&server, identity.fingerprint());
    let mut input = other.0.stdin.take().expect("is piped");
    let mut lines = BufReader::new(other.0.stdout.take().expect("is piped")).lines();
    let mut line = move |start: &str| {
        let found = lines.by_ref().map(|line| line.expect("is text")).find(|line| line.starts_with(start));
        found.expect("the other end goes on")
    };
    line("ready");
    let before = resident_bytes();
    input.write_all(b"\n").expect("reads");
    let grown = line("grown ");
    let connected: f64 = grown["grown ".len()..].parse().expect("is a number");
    assert_eq!(server.session_count(), EARLIER + SESSIONS);
    let accepted_grown = resident_bytes().saturating_sub(before) as f64;
    let (connected, accepted_each) = (connected / SESSIONS as f64, accepted_grown / SESSIONS as f64);
    println!(
        "a connecting session takes {:.0} kB, an accepted one {:.0} kB",
        connected / 1e3,
        accepted_each / 1e3
    );
    assert!(connected <= MOST && accepted_each <= MOST, "{connected:.0} and {accepted_each:.0} bytes");
    server.close(0, "");
    drop(accepted);
}

//! Shared parts of the tests: two ends of a tunnel on loopback, over two addresses.

#![allow(dead_code, reason = "every test file uses its own part")]

pub(crate) mod tenants;

use std::{
    net::{SocketAddr, UdpSocket},
    path::Path,
    time::{Duration, Instant},
};

pub(crate) use squall_testkit::reserve_port;
use squall_tunnel::{
    Config, FlowConfig, Status, Tunnel,
    config::{ConnectConfig, IdentityConfig, ListenConfig, Side, Token, TrustConfig},
};

/// Limit of anything that hangs. Far more than any step takes, even on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Returns the token of all tests.
pub(crate) fn token() -> Token {
    Token::new("a token for tests").expect("is long enough")
}

/// Opens a socket with the timeout [`PATIENCE`].
pub(crate) fn socket() -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("is bound");
    socket.set_read_timeout(Some(PATIENCE)).expect("is set");
    socket
}

/// Parses a flow that enters.
pub(crate) fn flow_in(text: &str) -> FlowConfig {
    FlowConfig::parse(&patient(text), true).expect("is right")
}

/// Parses a flow that leaves.
pub(crate) fn flow_out(text: &str) -> FlowConfig {
    FlowConfig::parse(&patient(text), false).expect("is right")
}

/// Adds a latency that no busy machine exceeds, unless the text sets one.
fn patient(text: &str) -> String {
    if text.contains("latency=") { text.to_owned() } else { format!("{text},latency=30s") }
}

/// Returns an exit that listens on this port; 0 for any. Its certificate is in the file `state`, if
/// given.
pub(crate) fn exit_config(port: u16, state: Option<&Path>, flows: Vec<FlowConfig>) -> Config {
    let identity = state.map_or(IdentityConfig::Fresh, |file| IdentityConfig::Kept(file.to_owned()));
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    Config { flows, ..Config::new(Side::Listen(ListenConfig::new(address, identity)), token()) }
}

/// Returns an entry to such an exit, over two addresses.
pub(crate) fn entry_config(exit: &Tunnel, flows: Vec<FlowConfig>) -> Config {
    let trust = TrustConfig::Pin(exit.fingerprint().expect("it listens"));
    let connect = ConnectConfig {
        interfaces: vec!["127.0.0.2".to_owned(), "127.0.0.3".to_owned()],
        metered: vec!["127.0.0.3".to_owned()],
        ..ConnectConfig::new(vec![exit.listening().expect("it listens").into()], trust)
    };
    Config { flows, ..Config::new(Side::Connect(connect), token()) }
}

/// Waits until the status of a tunnel meets a condition.
pub(crate) async fn until(tunnel: &Tunnel, what: &str, mut holds: impl FnMut(&Status) -> bool) -> Status {
    let begin = Instant::now();
    loop {
        let status = tunnel.status();
        if holds(&status) {
            return status;
        }
        assert!(begin.elapsed() < PATIENCE, "never {what}: {status:#?}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Waits until all flows are carried.
pub(crate) async fn attached(tunnel: &Tunnel) -> Status {
    until(tunnel, "carried", |status| status.flows.iter().all(|flow| flow.attached)).await
}

/// Runs a test. Its waits are limited by [`PATIENCE`].
pub(crate) fn within(test: impl AsyncFn()) {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(2).enable_all().build().expect("a runtime").block_on(test());
}

/// Runs a test that measures durations; see [`squall_testkit::in_real_time`].
pub(crate) fn in_real_time(test: impl AsyncFn()) {
    squall_testkit::in_real_time(|| within(&test));
}

/// Returns the text of all events.
pub(crate) fn words(tunnel: &Tunnel) -> String {
    tunnel.status().events.iter().map(|event| format!("{}: {}\n", event.level, event.words)).collect()
}

/// Two ends with one flow `x`, and the sockets outside.
pub(crate) struct Pair {
    pub(crate) exit: Tunnel,
    pub(crate) entry: Tunnel,
    pub(crate) source: UdpSocket,
    pub(crate) target: UdpSocket,
    pub(crate) port: u16,
}

impl Pair {
    pub(crate) async fn start(more_in: &str, more_out: &str) -> Self {
        let (source, target, port) = (socket(), socket(), reserve_port());
        let to = target.local_addr().expect("is bound");
        let exit = exit_config(0, None, vec![flow_out(&format!("x=udp://{to}{more_out}"))]);
        let exit = Tunnel::start(exit).await.expect("starts");
        let flow = flow_in(&format!("x=udp://127.0.0.1:{port}{more_in}"));
        let entry = Tunnel::start(entry_config(&exit, vec![flow])).await.expect("starts");
        attached(&entry).await;
        attached(&exit).await;
        Self { exit, entry, source, target, port }
    }

    pub(crate) fn send(&self, datagram: &[u8]) {
        self.source.send_to(datagram, ("127.0.0.1", self.port)).expect("is sent");
    }

    /// Returns the next datagram that arrives, and its source.
    pub(crate) async fn recv(&self) -> (Vec<u8>, SocketAddr) {
        self.recv_within(PATIENCE).await.expect("arrives")
    }

    /// Returns the next datagram that arrives within a limit.
    pub(crate) async fn recv_within(&self, limit: Duration) -> Option<(Vec<u8>, SocketAddr)> {
        let socket = self.target.try_clone().expect("is cloned");
        let received = tokio::task::spawn_blocking(move || {
            let mut buffer = [0; 65_536];
            socket.set_read_timeout(Some(limit)).expect("is set");
            let (length, from) = socket.recv_from(&mut buffer).ok()?;
            Some((buffer[..length].to_vec(), from))
        });
        received.await.expect("ends")
    }

    /// Receives a datagram that a deadline drops if the machine is late.
    pub(crate) async fn recv_in_time(&self) {
        let received = self.recv_within(Duration::from_secs(2)).await;
        squall_testkit::assert_duration!(received.is_some(), "a datagram missed its deadline");
    }

    pub(crate) async fn stop(self) {
        self.entry.stop().await;
        self.exit.stop().await;
    }
}

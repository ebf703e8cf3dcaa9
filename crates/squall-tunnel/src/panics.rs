//! Panics in tasks of a running tunnel.

use std::{
    net::{SocketAddr, UdpSocket},
    time::{Duration, Instant},
};

use squall_observe::Status;

use crate::{
    Config, FlowConfig, Tunnel,
    config::{ConnectConfig, IdentityConfig, ListenConfig, Side, Token, TrustConfig},
};

const PATIENCE: Duration = Duration::from_secs(20);

/// Two ends of a flow, and what is before and behind them.
struct Pair {
    entry: Tunnel,
    exit: Tunnel,
    source: UdpSocket,
    target: UdpSocket,
    port: u16,
    config: Config,
}

impl Pair {
    async fn start(more: &str) -> Self {
        let bind = || UdpSocket::bind("127.0.0.1:0").expect("is bound");
        let port_of = |socket: &UdpSocket| socket.local_addr().expect("is bound").port();
        let (source, target) = (bind(), bind());
        let port = port_of(&bind());
        let token = Token::new("a token for tests").expect("is long enough");
        let address = SocketAddr::from(([127, 0, 0, 1], 0));
        let side = Side::Listen(ListenConfig::new(address, IdentityConfig::Fresh));
        let out = FlowConfig::parse(&format!("x=udp://127.0.0.1:{}", port_of(&target)), false);
        let exit = Config { flows: vec![out.expect("is right")], ..Config::new(side, token.clone()) };
        let exit = Tunnel::start(exit).await.expect("starts");
        let trust = TrustConfig::Pin(exit.fingerprint().expect("it listens"));
        let side = Side::Connect(ConnectConfig {
            interfaces: vec!["127.0.0.1".to_owned()],
            ..ConnectConfig::new(vec![exit.listening().expect("it listens").into()], trust)
        });
        let flow = FlowConfig::parse(&format!("x=udp://127.0.0.1:{port}{more}"), true).expect("is right");
        let config = Config { flows: vec![flow], ..Config::new(side, token) };
        let entry = Tunnel::start(config.clone()).await.expect("starts");
        target.set_nonblocking(true).expect("is set");
        let pair = Self { entry, exit, source, target, port, config };
        pair.carries().await;
        pair
    }

    fn send(&self, data: &[u8]) {
        self.source.send_to(data, ("127.0.0.1", self.port)).expect("is sent");
    }

    /// Sends until something arrives.
    async fn carries(&self) {
        let begin = Instant::now();
        let mut buffer = [0; 100];
        while self.target.recv(&mut buffer).is_err() {
            assert!(begin.elapsed() < PATIENCE, "nothing arrives: {:#?}", self.entry.status());
            self.send(b"hello");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
        while self.target.recv(&mut buffer).is_ok() {}
    }

    async fn until(tunnel: &Tunnel, holds: impl Fn(&Status) -> bool) -> Status {
        let begin = Instant::now();
        loop {
            let status = tunnel.status();
            if holds(&status) {
                return status;
            }
            assert!(begin.elapsed() < PATIENCE, "never: {status:#?}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

fn has(status: &Status, words: &str) -> bool {
    status.events.iter().any(|event| event.words.contains(words))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flow_whose_task_panics_goes_on() {
    let pair = Pair::start("").await;
    for count in 1..=3 {
        pair.send(b"panic in the inlet");
        let status = Pair::until(&pair.entry, |status| status.task_failures == count).await;
        assert!(has(&status, "flow 'x' failed: it panicked: a test asked for it"), "{:#?}", status.events);
        // An unchanged configuration does not have it wait.
        pair.entry.reload(pair.config.clone()).expect("is taken");
        pair.carries().await;
    }
    pair.entry.stop().await;
    pair.exit.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_picture_whose_task_panics_ends_with_the_next_block() {
    let pair = Pair::start(",media=rtp,latency=30s,gap=1s").await;
    let packet = |words: &[u8]| [&[0x80, 96, 0, 1, 0, 0, 0, 1, 0, 0, 0, 7][..], words].concat();
    pair.send(&packet(b"of a picture"));
    Pair::until(&pair.exit, |status| status.flows[0].received.classes.contains_key("reference")).await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    while pair.target.recv(&mut [0; 100]).is_ok() {}
    pair.send(&packet(b"panic in the inlet"));
    Pair::until(&pair.entry, |status| status.task_failures == 1).await;
    pair.entry.reload(pair.config.clone()).expect("is taken");
    pair.carries().await;
    let status = Pair::until(&pair.entry, |status| status.flows[0].pending == 0).await;
    assert_eq!(status.flows[0].sent["reference"].outcomes["delivered"].blocks, 1);
    pair.entry.stop().await;
    pair.exit.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_whose_task_panics_is_replaced() {
    let pair = Pair::start("").await;
    pair.send(b"panic in the session");
    let status = Pair::until(&pair.exit, |status| status.task_failures == 1).await;
    assert!(has(&status, "the session with 127.0.0.1"), "{:#?}", status.events);
    pair.carries().await;
    let status = Pair::until(&pair.exit, |status| status.sessions.len() == 1).await;
    assert_eq!((status.sessions_opened, status.flows[0].attached), (2, true));
    let entry = Pair::until(&pair.entry, |status| status.flows[0].pending == 0).await;
    assert_eq!(entry.task_failures, 0);
    pair.entry.stop().await;
    pair.exit.stop().await;
}

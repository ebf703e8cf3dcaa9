//! `squall why` with a tunnel whose paths fail, and its answers to mistakes.

#![cfg(unix)]

mod common;

use std::{
    net::UdpSocket,
    time::{Duration, Instant},
};

use common::{failure, run};
use squall_testkit::{network::Network, reserve_port};
use squall_tunnel::{
    Config, FlowConfig, Tunnel,
    config::{ConnectConfig, IdentityConfig, ListenConfig, Side, Token, TrustConfig},
};

const PATIENCE: Duration = Duration::from_secs(60);

fn token() -> Token {
    Token::new("a token for tests").expect("is long enough")
}

#[test]
fn blocks_on_failing_paths_are_explained() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.expect("a runtime");
    let target = UdpSocket::bind("127.0.0.1:0").expect("is bound");
    let port = reserve_port();
    let listen = ListenConfig::new(([127, 0, 0, 1], 0).into(), IdentityConfig::Fresh);
    let out = format!("cam=udp://{}", target.local_addr().expect("is bound"));
    let out = FlowConfig::parse(&out, false).expect("is right");
    let exit = Config { flows: vec![out], ..Config::new(Side::Listen(listen), token()) };
    let exit = runtime.block_on(Tunnel::start(exit)).expect("starts");
    let network = Network::before(exit.listening().expect("it listens"));
    let trust = TrustConfig::Pin(exit.fingerprint().expect("it listens"));
    let connect = ConnectConfig {
        interfaces: vec!["127.0.0.2".to_owned(), "127.0.0.3".to_owned()],
        ..ConnectConfig::new(vec![network.address().parse().expect("is right")], trust)
    };
    let flow = format!("cam=udp://127.0.0.1:{port},latency=400ms");
    let flow = FlowConfig::parse(&flow, true).expect("is right");
    let mut entry = Config { flows: vec![flow], ..Config::new(Side::Connect(connect), token()) };
    entry.metrics = Some(([127, 0, 0, 1], 0).into());
    let entry = runtime.block_on(Tunnel::start(entry)).expect("starts");
    let address = entry.metrics().expect("is served").to_string();

    let source = UdpSocket::bind("127.0.0.1:0").expect("is bound");
    let until = |what: &str, holds: &dyn Fn(&str) -> bool| {
        let begin = Instant::now();
        loop {
            source.send_to(&[7; 900], ("127.0.0.1", port)).expect("is sent");
            std::thread::sleep(Duration::from_millis(10));
            let shown = run(["why", "cam", &address]);
            assert_eq!(shown.status.code(), Some(0), "{}", failure(&shown).0);
            let text = String::from_utf8(shown.stdout).expect("is text");
            if holds(&text) {
                return text;
            }
            assert!(begin.elapsed() < PATIENCE, "never {what}:\n{text}");
        }
    };
    let text = until("sent", &|text| text.contains("fresh"));
    assert!(text.starts_with(&format!("cam, in 127.0.0.1:{port}, 400 ms, carried\n\npath ")), "{text}");
    assert!(text.contains("127.0.0.2") || text.contains("127.0.0.3"), "{text}");
    network.set_gone(true);
    let text = until("expired", &|text| text.contains(": expired: ") && text.contains(" ms  sent "));
    assert!(text.contains("entered, 400 ms to arrive"), "{text}");

    let shown = run(["why", "cam", &address, "--json", "-"]);
    let why: serde_json::Value = serde_json::from_slice(&shown.stdout).expect("is JSON");
    assert_eq!(why["flow"]["name"], "cam");
    assert!(why["stories"].as_array().is_some_and(|stories| !stories.is_empty()), "{why}");

    let unknown = failure(&run(["why", "mic", &address]));
    assert_eq!(unknown, (format!("squall: the tunnel on {address} has no flow 'mic': cam"), Some(2)));
    runtime.block_on(async {
        entry.stop().await;
        exit.stop().await;
    });
}

#[test]
fn a_tunnel_without_a_status_is_named_in_a_line() {
    let nowhere = format!("127.0.0.1:{}", reserve_port());
    let (said, code) = failure(&run(["why", "cam", &nowhere]));
    assert_eq!(code, Some(1));
    assert!(said.starts_with(&format!("squall: no tunnel answers on {nowhere} (--metrics ")), "{said}");
    let (said, code) = failure(&run(["why"]));
    assert_eq!(code, Some(2), "{said}");
}

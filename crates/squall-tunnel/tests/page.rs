//! The status over HTTP: page, feed, metrics, and the causes of late and lost blocks.

mod common;

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    time::{Duration, Instant},
};

use common::*;
use serde_json::Value;
use squall_observe::status::{StoryStatus, WhyStatus};
use squall_testkit::{assert_duration, network::Network};
use squall_tunnel::{Tunnel, config::Side};

fn connect(address: SocketAddr, question: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).expect("connects");
    stream.set_read_timeout(Some(PATIENCE)).expect("is set");
    stream.write_all(question.as_bytes()).expect("is sent");
    stream
}

fn ask(address: SocketAddr, question: &str) -> String {
    let mut answer = String::new();
    connect(address, question).read_to_string(&mut answer).expect("is text");
    answer
}

fn get(address: SocketAddr, path: &str) -> String {
    let answer = ask(address, &format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
    let (head, body) = answer.split_once("\r\n\r\n").expect("has a head");
    assert!(head.starts_with("HTTP/1.1 200 "), "{path}: {head}");
    body.to_owned()
}

/// A listener of the feed.
struct Listener(BufReader<TcpStream>);

impl Listener {
    fn new(address: SocketAddr) -> Self {
        let mut reader = BufReader::new(connect(address, "GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n"));
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            assert!(reader.read_line(&mut head).expect("is text") > 0, "ends: {head}");
        }
        assert!(
            head.starts_with("HTTP/1.1 200 ") && head.contains("content-type: text/event-stream"),
            "{head}"
        );
        Self(reader)
    }

    /// Returns the next event, and its data.
    fn next(&mut self) -> (String, Value) {
        let mut event = String::new();
        loop {
            let mut line = String::new();
            assert!(self.0.read_line(&mut line).expect("is text") > 0, "the feed ends");
            if let Some(name) = line.strip_prefix("event: ") {
                event = name.trim().to_owned();
            } else if let Some(data) = line.strip_prefix("data: ") {
                return (event, serde_json::from_str(data).expect("is JSON"));
            }
        }
    }
}

/// Runs blocking work on threads other than those of the tunnel.
async fn blocking<T: Send + 'static>(run: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(run).await.expect("ends")
}

#[test]
fn what_is_asked_of_the_status_page_is_answered() {
    within(async || {
        let mut config = exit_config(0, None, vec![flow_out("x=udp://127.0.0.1:9")]);
        config.metrics = Some("127.0.0.1:0".parse().expect("is an address"));
        let exit = Tunnel::start(config).await.expect("starts");
        let address = exit.metrics().expect("is served");
        let cases = [
            ("GET /status HTTP/1.1\r\n\r\n", "HTTP/1.1 200 OK\r\ncontent-type: application/json"),
            ("GET /metrics HTTP/1.1\r\n\r\n", "HTTP/1.1 200 OK\r\ncontent-type: text/plain; version=0.0.4"),
            ("GET / HTTP/1.1\r\n\r\n", "HTTP/1.1 200 OK\r\ncontent-type: text/html"),
            ("GET /why?flow=x HTTP/1.1\r\n\r\n", "HTTP/1.1 200 OK\r\ncontent-type: application/json"),
            ("GET /status HTTP/1.1\r\nHost: localhost:9464\r\n\r\n", "HTTP/1.1 200 "),
            ("GET /status HTTP/1.1\r\nHost: [::1]:9464\r\n\r\n", "HTTP/1.1 200 "),
            // A name that a web page made resolve to this machine.
            ("GET /status HTTP/1.1\r\nHost: evil.example:9464\r\n\r\n", "HTTP/1.1 403 "),
            ("GET / HTTP/1.1\r\nHost: evil.example:9464\r\n\r\n", "HTTP/1.1 403 "),
            ("GET /events HTTP/1.1\r\nSec-Fetch-Site: cross-site\r\n\r\n", "HTTP/1.1 403 "),
            ("GET /why?flow=y HTTP/1.1\r\n\r\n", "HTTP/1.1 404 "),
            ("GET /why HTTP/1.1\r\n\r\n", "HTTP/1.1 404 "),
            ("GET /favicon.ico HTTP/1.1\r\n\r\n", "HTTP/1.1 404 "),
            ("POST /status HTTP/1.1\r\n\r\n", "HTTP/1.1 405 "),
            ("hello\r\n\r\n", "HTTP/1.1 400 "),
        ];
        for (question, expected) in cases {
            let answer = blocking(move || ask(address, question)).await;
            assert!(answer.starts_with(expected), "{question}: {answer}");
        }
        let page = blocking(move || ask(address, "GET / HTTP/1.1\r\n\r\n")).await;
        let policy = "content-security-policy: default-src 'none'; script-src 'sha256-";
        assert!(page.contains(policy) && page.contains("x-content-type-options: nosniff"), "{page}");
        let unknown = blocking(move || ask(address, "GET /why?flow=y HTTP/1.1\r\n\r\n")).await;
        assert!(unknown.ends_with("no flow is named 'y': x\n"), "{unknown}");
        exit.stop().await;
    });
}

/// Returns the values of a status that do not change while nothing is sent.
fn lasting(mut status: Value) -> Value {
    for name in ["uptime_s", "memory_bytes", "sessions"] {
        status.as_object_mut().expect("is an object").remove(name);
    }
    for flow in status["flows"].as_array_mut().expect("is a list") {
        flow.as_object_mut().expect("is an object").remove("idle_s");
    }
    status
}

#[test]
fn the_feed_has_the_numbers_of_the_status() {
    within(async || {
        let (source, target, port) = (socket(), socket(), reserve_port());
        let to = target.local_addr().expect("is bound");
        let exit = exit_config(0, None, vec![flow_out(&format!("x=udp://{to}"))]);
        let exit = Tunnel::start(exit).await.expect("starts");
        let flow = flow_in(&format!("x=udp://127.0.0.1:{port}"));
        let mut entry = entry_config(&exit, vec![flow]);
        entry.metrics = Some("127.0.0.1:0".parse().expect("is an address"));
        let entry = Tunnel::start(entry).await.expect("starts");
        attached(&entry).await;
        attached(&exit).await;
        let address = entry.metrics().expect("is served");
        for n in 0..100 {
            source.send_to(&[n; 500], ("127.0.0.1", port)).expect("is sent");
        }
        until(&entry, "delivered", |status| {
            let shares = status.flows[0].shares.iter().map(|share| share.bytes).sum::<u64>();
            status.flows[0].datagrams_in == 100 && status.flows[0].pending == 0 && shares >= 100 * 500
        })
        .await;
        let (fed, asked) = blocking(move || {
            let mut listener = Listener::new(address);
            let (event, history) = listener.next();
            assert_eq!(event, "history");
            assert!(history.as_array().is_some_and(|samples| !samples.is_empty()), "{history}");
            // A sample has the field names of a status.
            let sample = &history[history.as_array().map_or(0, |samples| samples.len() - 1)];
            assert_eq!(sample["flows"][0]["name"], "x");
            let (event, first) = listener.next();
            assert_eq!(event, "status");
            let (_, second) = listener.next();
            let (before, after) = (first["uptime_s"].as_f64(), second["uptime_s"].as_f64());
            assert!(before < after, "{before:?} {after:?}");
            let asked: Value = serde_json::from_str(&get(address, "/status")).expect("is JSON");
            (second, asked)
        })
        .await;
        assert_eq!(lasting(fed), lasting(asked.clone()));
        // All sent bytes have a reason.
        let shares = asked["flows"][0]["shares"].as_array().expect("is a list").clone();
        assert!(shares.iter().all(|share| share["reason"].as_str().is_some_and(|reason| reason.len() > 3)));
        entry.stop().await;
        exit.stop().await;
    });
}

#[test]
fn the_newest_connections_take_the_places_of_the_oldest() {
    within(async || {
        let mut config = exit_config(0, None, vec![flow_out("x=udp://127.0.0.1:9")]);
        config.metrics = Some("127.0.0.1:0".parse().expect("is an address"));
        let exit = Tunnel::start(config).await.expect("starts");
        let address = exit.metrics().expect("is served");
        blocking(move || {
            let mut listeners: Vec<_> = (0..9).map(|_| Listener::new(address)).collect();
            let begin = Instant::now();
            let mut rest = Vec::new();
            // The connection is reset if there is data that the server has not read.
            let _ = listeners.remove(0).0.read_to_end(&mut rest);
            assert!(begin.elapsed() < PATIENCE / 2, "the oldest listener stays");
            let mut slow: Vec<_> = (0..24).map(|_| connect(address, "GET /status HTTP/1.1\r\nX: ")).collect();
            let begin = Instant::now();
            let _ = slow.remove(0).read_to_end(&mut rest);
            assert_duration!(
                begin.elapsed() < Duration::from_secs(1),
                "the oldest connection stays for {:?}",
                begin.elapsed()
            );
            let begin = Instant::now();
            get(address, "/ready");
            get(address, "/metrics");
            assert_duration!(
                begin.elapsed() < Duration::from_secs(1),
                "answered after {:?}",
                begin.elapsed()
            );
            for listener in &mut listeners {
                assert_eq!(listener.next().0, "history");
            }
            drop(slow);
            let mut half = connect(address, "GET /status HT");
            let begin = Instant::now();
            let _ = half.read_to_end(&mut rest);
            assert_duration!(
                begin.elapsed() < Duration::from_secs(6),
                "half a request ends after {:?}",
                begin.elapsed()
            );
        })
        .await;
        exit.stop().await;
    });
}

/// Connections beyond the maximum that send a byte now and then are closed.
#[test]
fn connections_that_ask_for_nothing_leave_their_places() {
    within(async || {
        let mut config = exit_config(0, None, vec![flow_out("x=udp://127.0.0.1:9")]);
        config.metrics = Some("127.0.0.1:0".parse().expect("is an address"));
        let exit = Tunnel::start(config).await.expect("starts");
        let address = exit.metrics().expect("is served");
        blocking(move || {
            let begin = Instant::now();
            let mut slow: Vec<_> = (0..40).map(|_| connect(address, "GET /status HTTP/1.1\r\nX: ")).collect();
            let trickle = std::thread::spawn(move || {
                while begin.elapsed() < PATIENCE && !slow.is_empty() {
                    std::thread::sleep(Duration::from_millis(500));
                    // Writes to connections that the server has closed fail.
                    slow.retain_mut(|one| one.write_all(b"x").is_ok());
                }
            });
            assert!(get(address, "/status").contains("\"role\""));
            drop(trickle);
        })
        .await;
        assert_eq!(exit.status().task_failures, 0);
        exit.stop().await;
    });
}

#[test]
fn lost_blocks_have_a_story_and_bytes_a_reason() {
    within(async || {
        let (source, target, port) = (socket(), socket(), reserve_port());
        let flow = flow_out(&format!("x=udp://{}", target.local_addr().expect("is bound")));
        let exit = Tunnel::start(exit_config(0, None, vec![flow])).await.expect("starts");
        let network = Network::before(exit.listening().expect("it listens"));
        let flow = flow_in(&format!("x=udp://127.0.0.1:{port},latency=500ms"));
        let mut entry = entry_config(&exit, vec![flow]);
        entry.metrics = Some("127.0.0.1:0".parse().expect("is an address"));
        let Side::Connect(connect) = &mut entry.side else { panic!("it is an entry") };
        connect.to = vec![network.address().parse().expect("is an address")];
        let entry = Tunnel::start(entry).await.expect("starts");
        let address = entry.metrics().expect("is served");
        attached(&entry).await;
        let until_why = async |what: &str, holds: fn(&WhyStatus) -> bool| {
            let begin = Instant::now();
            loop {
                source.send_to(&[7; 900], ("127.0.0.1", port)).expect("is sent");
                tokio::time::sleep(Duration::from_millis(5)).await;
                let why = blocking(move || get(address, "/why?flow=x")).await;
                let why: WhyStatus = serde_json::from_str(&why).expect("is JSON");
                if holds(&why) {
                    return why;
                }
                assert!(begin.elapsed() < PATIENCE, "never {what}: {why:#?}");
            }
        };
        let why = until_why("sent", |why| !why.flow.shares.is_empty()).await;
        assert!(why.flow.shares.iter().all(|share| share.path.starts_with("127.0.0.")), "{why:#?}");
        // The path that carries most data fails: its data is sent again.
        let main: std::net::IpAddr = why.flow.shares[0].path.parse().expect("is an address");
        network.fail(main);
        until_why("repaired", |why| {
            let is_again = |kind: &str| ["repair", "copy", "parity"].contains(&kind);
            why.flow.shares.iter().any(|share| is_again(&share.kind))
        })
        .await;
        // Both fail: blocks expire although they were sent.
        network.set_gone(true);
        let is_explained = |story: &StoryStatus| {
            story.outcome == "expired"
                && story.session == 1
                && story.steps.iter().any(|step| step.what == "fresh")
        };
        let why = until_why("expired", |why| {
            why.stories.iter().any(|story| story.outcome == "expired" && !story.steps.is_empty())
        })
        .await;
        let story =
            why.stories.iter().find(|story| is_explained(story)).unwrap_or_else(|| panic!("{why:#?}"));
        assert_eq!((story.class.as_str(), story.latency_ms), ("data", 500));
        assert!(story.block.is_some() && story.took_us >= 400_000 && !story.cause.is_empty(), "{story:#?}");
        entry.stop().await;
        exit.stop().await;
    });
}

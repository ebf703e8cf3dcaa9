use std::time::Duration;

use squall_observe::Status;

use crate::common::{Pair, entry_config, flow_in, until};

/// Reloads the entry's own configuration with these options of the flow, so that no task waits for
/// its next attempt.
fn reload(pair: &Pair, more: &str) {
    let flow = flow_in(&format!("x=udp://127.0.0.1:{}{more}", pair.port));
    pair.entry.reload(entry_config(&pair.exit, vec![flow])).expect("is taken");
}

/// Sends datagrams until one arrives.
async fn carries(pair: &Pair) {
    let mut arrived = None;
    while arrived.is_none() {
        pair.send(b"hello");
        arrived = pair.recv_within(Duration::from_millis(10)).await;
    }
    silence(pair).await;
}

/// Waits until no more datagrams arrive.
async fn silence(pair: &Pair) {
    while pair.recv_within(Duration::from_millis(50)).await.is_some() {}
}

fn has(status: &Status, words: &str) -> bool {
    status.events.iter().any(|event| event.words.contains(words))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flow_whose_task_panics_goes_on() {
    let pair = Pair::start("", "").await;
    for count in 1..=3 {
        pair.send(b"panic in the inlet");
        let status = until(&pair.entry, "so", |status| status.task_failures == count).await;
        assert!(has(&status, "flow 'x' failed: it panicked: a test asked for it"), "{:#?}", status.events);
        reload(&pair, "");
        carries(&pair).await;
    }
    pair.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_picture_whose_task_panics_ends_with_the_next_block() {
    const PICTURES: &str = ",media=rtp,latency=30s,gap=1s";
    let pair = Pair::start(PICTURES, "").await;
    let packet = |words: &[u8]| [&[0x80, 96, 0, 1, 0, 0, 0, 1, 0, 0, 0, 7][..], words].concat();
    pair.send(&packet(b"of a picture"));
    until(&pair.exit, "so", |status| status.flows[0].received.classes.contains_key("reference")).await;
    silence(&pair).await;
    pair.send(&packet(b"panic in the inlet"));
    until(&pair.entry, "so", |status| status.task_failures == 1).await;
    reload(&pair, PICTURES);
    carries(&pair).await;
    let status = until(&pair.entry, "so", |status| status.flows[0].pending == 0).await;
    assert_eq!(status.flows[0].sent["reference"].outcomes["delivered"].blocks, 1);
    pair.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_whose_task_panics_is_replaced() {
    let pair = Pair::start("", "").await;
    pair.send(b"panic in the session");
    let status = until(&pair.exit, "so", |status| status.task_failures == 1).await;
    assert!(has(&status, "the session with 127.0.0."), "{:#?}", status.events);
    carries(&pair).await;
    let status = until(&pair.exit, "so", |status| status.sessions.len() == 1).await;
    assert_eq!((status.sessions_opened, status.flows[0].attached), (2, true));
    let entry = until(&pair.entry, "so", |status| status.flows[0].pending == 0).await;
    assert_eq!(entry.task_failures, 0);
    pair.stop().await;
}

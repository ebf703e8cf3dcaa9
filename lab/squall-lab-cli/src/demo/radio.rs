//! Hands what the emulated radios report to the session, as a phone does with its own.

use std::{net::Ipv4Addr, sync::Arc, time::Duration};

use squall::{
    Session,
    signal::{Publisher, board},
};
use squall_net::{PathConfig, Relay};
use tokio::{task::JoinSet, time::MissedTickBehavior};

/// The client's own address on each path, so that radios can be told apart by it.
pub(super) fn local(path: usize) -> Ipv4Addr {
    // There are at most eight paths.
    Ipv4Addr::new(127, 0, 0, 2 + path as u8)
}

/// Has the client go by the radio of each path that has one, until the tasks are dropped.
pub(super) fn follow(client: &Session, relay: &Arc<Relay>, paths: &[PathConfig]) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    for (path, config) in paths.iter().enumerate() {
        let Some(radio) = &config.radio else { continue };
        let (publisher, subscriber) = board();
        client.set_signal(&local(path).to_string(), Some(subscriber)).expect("the client was told to use it");
        tasks.spawn(publish(relay.clone(), path, radio.capture.duration(), publisher));
    }
    tasks
}

/// Publishes the latest report each time the radio is asked.
async fn publish(relay: Arc<Relay>, path: usize, capture: Duration, mut publisher: Publisher) {
    let mut clock = tokio::time::interval(capture);
    clock.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        clock.tick().await;
        if let Some(reading) = relay.signal(path) {
            publisher.publish(&reading);
        }
    }
}

//! Radios on real sockets: a reading on one side, and its effects on both.

mod common;

use std::{net::IpAddr, time::Duration};

use squall::{
    Block, Config, Interfaces, PathChange, Session,
    sched::PathState,
    signal::{AlertKind, Publisher, Reading, Time, board},
};

use common::{next_block, pair, within};

/// Waits for an alert of the radio of a path.
async fn alert(session: &Session) -> AlertKind {
    loop {
        let event = session.path_event().await.expect("the session lasts");
        if let PathChange::Signal { kind, .. } = event.change {
            return kind;
        }
    }
}

/// Returns the block bytes that this side has sent on the path from or to 127.0.0.2, and the state
/// of the path.
fn first(session: &Session) -> (u64, PathState) {
    let paths = session.paths();
    let wanted = |ip: IpAddr| ip.to_string() == "127.0.0.2";
    let path = paths.iter().find(|p| wanted(p.local.ip()) || wanted(p.remote.ip())).expect("is up");
    (path.stats.fresh_bytes + path.stats.repair_bytes + path.stats.copy_bytes, path.stats.state)
}

async fn both_paths(session: &Session) {
    while session.paths().len() < 2 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn wifi(publisher: &mut Publisher, rssi: f64) {
    publisher.publish(&Reading::wifi(Time::EPOCH, rssi));
}

#[test]
fn both_sides_leave_a_path_whose_radio_fades_and_return_when_it_is_back() {
    within(async || {
        let (_endpoint, client, server) = pair(Config::default()).await;
        both_paths(&client).await;
        both_paths(&server).await;
        let (mut publisher, subscriber) = board();
        // The interface is unknown.
        let error = client.interface("wlan7").expect_err("is unknown").to_string();
        assert_eq!(error, "no path runs over 'wlan7': there are 127.0.0.2, 127.0.0.3");
        client.set_signal("127.0.0.2", Some(subscriber));
        tokio::time::sleep(Duration::from_millis(250)).await;
        assert_eq!(first(&client).1, PathState::Active);
        wifi(&mut publisher, -85.0);
        assert_eq!(alert(&server).await, AlertKind::Outage);
        assert_eq!((first(&client).1, first(&server).1), (PathState::Deactivated, PathState::Deactivated));
        let before = (first(&client).0, first(&server).0);
        for _ in 0..20 {
            client.send(Block::new(vec![1; 20_000])).await.expect("is taken");
            server.send(Block::new(vec![1; 20_000])).await.expect("is taken");
        }
        for _ in 0..20 {
            next_block(&client).await;
            next_block(&server).await;
        }
        assert_eq!((first(&client).0, first(&server).0), before, "no data on the path that is out");
        wifi(&mut publisher, -50.0);
        assert_eq!(alert(&server).await, AlertKind::Recovery);
        // Each side sends data there again after a probe was answered.
        while (first(&client).1, first(&server).1) != (PathState::Active, PathState::Active) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
}

#[test]
fn a_radio_that_says_nothing_for_long_is_believed_until_it_is_let_go() {
    within(async || {
        let (_endpoint, client, server) = pair(Config::default()).await;
        both_paths(&client).await;
        let (mut publisher, subscriber) = board();
        wifi(&mut publisher, -85.0);
        client.set_signal("127.0.0.2", Some(subscriber));
        assert_eq!(alert(&server).await, AlertKind::Outage);
        // Most radios report only changes.
        tokio::time::sleep(Duration::from_millis(5_500)).await;
        assert_eq!(first(&server).1, PathState::Deactivated);
        client.set_signal("127.0.0.2", None);
        assert_eq!(alert(&server).await, AlertKind::Recovery);
    });
}

#[test]
fn a_radio_may_be_set_before_its_interface_appears() {
    within(async || {
        let (_endpoint, client, server) = pair(Config::default()).await;
        both_paths(&client).await;
        let local = |last: u8| IpAddr::from([127, 0, 0, last]);
        client.set_interfaces(Interfaces::Local(vec![local(3)])).expect("is this side's");
        while client.paths().len() > 1 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let (mut publisher, subscriber) = board();
        wifi(&mut publisher, -85.0);
        assert!(client.interface("127.0.0.2").is_err(), "is not there yet");
        client.set_signal("127.0.0.2", Some(subscriber));
        client.set_interfaces(Interfaces::Local(vec![local(2), local(3)])).expect("is this side's");
        assert_eq!(alert(&server).await, AlertKind::Outage);
        assert_eq!(first(&client).1, PathState::Deactivated);
    });
}

//! Networks that bind their sockets themselves, and come and go.

mod common;

use std::{
    io,
    net::UdpSocket,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use common::{ip, next_block, request, server, within};
use squall::{Block, Config, Connect, Endpoint, Interfaces, Network, PathInfo, Session};

/// Returns a network, and a counter of its bound sockets.
fn network(name: &str, address: &str) -> (Network, Arc<AtomicUsize>) {
    let bound = Arc::new(AtomicUsize::new(0));
    let count = bound.clone();
    let bind = move |socket: &UdpSocket| {
        let port = socket.local_addr()?.port();
        assert_eq!(port, 0, "is asked before the socket has an address");
        count.fetch_add(1, Ordering::Relaxed);
        Ok(())
    };
    (Network::new(name, bind).addresses([ip(address)]), bound)
}

fn over(endpoint: &Endpoint, identity: &squall::Identity, networks: Vec<Network>) -> Connect {
    request(endpoint, identity).interfaces(Interfaces::Networks(networks))
}

/// Waits until the paths are these, by name of their network.
async fn paths(session: &Session, expected: &[&str]) -> Vec<PathInfo> {
    loop {
        let mut paths = session.paths();
        paths.sort_by(|a, b| a.interface.cmp(&b.interface));
        let names: Vec<&str> = paths.iter().filter_map(|p| p.interface.as_deref()).collect();
        if names == expected {
            return paths;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Waits until cellular and Wi-Fi are metered as expected.
async fn metered(session: &Session, expected: [bool; 2]) {
    while paths(session, &["cellular", "wifi"]).await.iter().map(|p| p.stats.metered).ne(expected) {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[test]
fn each_network_binds_its_socket_once_and_carries_a_path() {
    within(async || {
        let (endpoint, identity) = server(Config::default());
        let (wifi, wifi_bound) = network("wifi", "127.0.0.2");
        let (cell, cell_bound) = network("cellular", "127.0.0.3");
        let request = over(&endpoint, &identity, vec![wifi.clone(), cell.clone().metered(true)]);
        let client = squall::connect(request).await.expect("connects");
        let accepted = endpoint.accept().await.expect("listens");
        let up = paths(&client, &["cellular", "wifi"]).await;
        let locals: Vec<_> = up.iter().map(|p| p.local.ip()).collect();
        assert_eq!(locals, [ip("127.0.0.3"), ip("127.0.0.2")]);
        metered(&client, [true, false]).await;

        client.send(Block::new("hello")).await.expect("is taken");
        assert_eq!(next_block(&accepted).await.data, "hello");
        // A new price does not cause a new socket.
        client.set_interfaces(Interfaces::Networks(vec![wifi, cell])).expect("it connected");
        metered(&client, [false, false]).await;
        let counts = [&wifi_bound, &cell_bound].map(|bound| bound.load(Ordering::Relaxed));
        assert_eq!(counts, [1, 1]);
    });
}

#[test]
fn a_session_outlives_networks_that_come_and_go() {
    within(async || {
        let (endpoint, identity) = server(Config::default());
        let (wifi, _) = network("wifi", "127.0.0.2");
        let (cell, cell_bound) = network("cellular", "127.0.0.3");
        let (other_wifi, other_bound) = network("wifi", "127.0.0.2");
        let request = over(&endpoint, &identity, vec![wifi]);
        let client = squall::connect(request).await.expect("connects");
        let accepted = endpoint.accept().await.expect("listens");
        paths(&client, &["wifi"]).await;

        client.set_interfaces(Interfaces::Networks(vec![cell])).expect("it connected");
        paths(&client, &["cellular"]).await;
        client.send(Block::new("over cellular")).await.expect("is taken");
        assert_eq!(next_block(&accepted).await.data, "over cellular");
        assert_eq!(cell_bound.load(Ordering::Relaxed), 1);

        // No network for a while, then one with a former name.
        client.set_interfaces(Interfaces::Networks(Vec::new())).expect("it connected");
        paths(&client, &[]).await;
        client.send(Block::new("after the tunnel")).await.expect("is taken");
        tokio::time::sleep(Duration::from_millis(300)).await;
        client.set_interfaces(Interfaces::Networks(vec![other_wifi])).expect("it connected");
        assert_eq!(next_block(&accepted).await.data, "after the tunnel");
        assert_eq!(other_bound.load(Ordering::Relaxed), 1);
    });
}

#[test]
fn the_system_may_pick_the_address() {
    within(async || {
        let (endpoint, identity) = server(Config::default());
        let network = Network::new("any", |_| Ok(()));
        let request = over(&endpoint, &identity, vec![network]);
        let client = squall::connect(request).await.expect("connects");
        let accepted = endpoint.accept().await.expect("listens");
        client.send(Block::new("there")).await.expect("is taken");
        assert_eq!(next_block(&accepted).await.data, "there");
        accepted.send(Block::new("and back")).await.expect("is taken");
        assert_eq!(next_block(&client).await.data, "and back");
        assert_eq!(paths(&client, &["any"]).await.len(), 1);
    });
}

#[test]
fn a_network_that_cannot_bind_is_reported_or_tried_again() {
    within(async || {
        let (endpoint, identity) = server(Config::default());
        let refusal = Arc::new(Mutex::new(Some("the network is gone")));
        let current = refusal.clone();
        let bind = move |_: &UdpSocket| match *current.lock().expect("no test panicked") {
            Some(why) => Err(io::Error::other(why)),
            None => Ok(()),
        };
        let cell = Network::new("cellular", bind).addresses([ip("127.0.0.3")]);
        let alone = over(&endpoint, &identity, vec![cell.clone()]);
        let error = squall::connect(alone).await.expect_err("has no network");
        assert!(error.to_string().ends_with("cellular: the network is gone"), "{error}");

        let (wifi, _) = network("wifi", "127.0.0.2");
        let both = over(&endpoint, &identity, vec![wifi, cell]);
        let client = squall::connect(both).await.expect("connects over one");
        paths(&client, &["wifi"]).await;
        *refusal.lock().expect("no test panicked") = None;
        paths(&client, &["cellular", "wifi"]).await;
    });
}

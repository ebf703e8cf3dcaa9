//! Servers with several addresses, some of them unreachable.

mod common;

use std::{
    net::{SocketAddr, UdpSocket},
    time::{Duration, Instant},
};

use common::{ip, next_block, within};
use squall::{Block, Config, Connect, Endpoint, Identity, Interfaces, Trust};
use squall_testkit::{assert_duration, in_real_time};

/// Time limit for a connection although an address is unreachable.
const SOON: Duration = Duration::from_millis(500);

/// Starts a server on 127.0.0.1; returns its identity and its port too.
fn server() -> (Endpoint, Identity, u16) {
    let (endpoint, identity) = common::server(Config::default());
    let port = endpoint.local_addrs()[0].port();
    (endpoint, identity, port)
}

/// Binds a socket that is never read: packets to it vanish.
fn black_hole(addr: &str) -> (UdpSocket, SocketAddr) {
    let socket = UdpSocket::bind(addr).expect("a port is free");
    let addr = socket.local_addr().expect("is bound");
    (socket, addr)
}

/// Connects over loopback; returns the address that answered.
async fn connect(identity: &Identity, addresses: Vec<SocketAddr>, interfaces: Interfaces) -> SocketAddr {
    let request = Connect::to("server.test:4433")
        .addresses(addresses)
        .trust(Trust::Pinned(identity.fingerprint()))
        .interfaces(interfaces);
    let begun = Instant::now();
    let client = squall::connect(request).await.expect("connects");
    let took = begun.elapsed();
    println!("connected after {took:?}");
    assert_duration!(took < SOON, "{took:?}");
    client.paths()[0].remote
}

#[test]
fn a_family_that_leads_nowhere_costs_less_than_half_a_second() {
    in_real_time(|| {
        within(async || {
            let (endpoint, identity, port) = server();
            let right = SocketAddr::from(([127, 0, 0, 1], port));
            // Packets vanish, and the port is closed.
            let (_hole, vanish) = black_hole("[::1]:0");
            let (closed, refuse) = black_hole("[::1]:0");
            drop(closed);
            for dead in [vanish, refuse] {
                for plan in [Interfaces::Auto, Interfaces::Named(vec!["lo".into()])] {
                    assert_eq!(connect(&identity, vec![dead, right], plan).await, right);
                    endpoint.accept().await.expect("comes in");
                }
                let locals = Interfaces::Local(vec![ip("::1"), ip("127.0.0.2")]);
                assert_eq!(connect(&identity, vec![dead, right], locals).await, right);
            }
        });
    });
}

#[test]
fn the_first_of_several_addresses_may_be_down() {
    in_real_time(|| {
        within(async || {
            let (_endpoint, identity, port) = server();
            let right = SocketAddr::from(([127, 0, 0, 1], port));
            let (_one, first) = black_hole("127.0.0.7:0");
            let (_other, second) = black_hole("127.0.0.8:0");
            assert_eq!(connect(&identity, vec![first, second, right], Interfaces::Auto).await, right);
        });
    });
}

#[test]
fn another_server_at_the_first_address_is_passed_by() {
    in_real_time(|| {
        within(async || {
            let (_endpoint, identity, port) = server();
            let right = SocketAddr::from(([127, 0, 0, 1], port));
            let (stranger, _) = common::server(Config::default());
            let wrong = stranger.local_addrs()[0];
            assert_eq!(connect(&identity, vec![wrong, right], Interfaces::Auto).await, right);
        });
    });
}

#[test]
fn one_endpoint_listens_and_connects_and_its_sessions_share_sockets() {
    within(async || {
        let (one, identity, _) = server();
        let (other, its) = common::server(Config::default());
        let to_other = common::request(&other, &its);
        let mut sessions = Vec::new();
        for _ in 0..20 {
            sessions.push(one.connect(to_other.clone()).await.expect("connects"));
            let accepted = other.accept().await.expect("comes in");
            accepted.send(Block::new("welcome")).await.expect("is taken");
            sessions.push(accepted);
        }
        let mut locals = Vec::new();
        for session in sessions.iter().step_by(2) {
            assert_eq!(next_block(session).await.data, "welcome");
            locals.push(session.paths()[0].local);
        }
        locals.sort();
        locals.dedup();
        assert!(locals.len() <= 2, "one socket for each interface: {locals:?}");
        let back = other.connect(common::request(&one, &identity)).await.expect("connects");
        let accepted = one.accept().await.expect("comes in");
        back.send(Block::new("hello")).await.expect("is taken");
        assert_eq!(next_block(&accepted).await.data, "hello");
        assert!(accepted.set_interfaces(Interfaces::Auto).is_err(), "the other side connected");
        // The others continue when sessions are dropped.
        drop(sessions.drain(..20));
        sessions[0].send(Block::new("still there")).await.expect("is taken");
        assert_eq!(next_block(&sessions[1]).await.data, "still there");
        one.close(0, "");
        let error = one.connect(to_other).await.expect_err("is closed").to_string();
        assert_eq!(error, "cannot connect: the endpoint is closed");
    });
}

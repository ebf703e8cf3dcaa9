//! Sessions and paths come and go without leaving state behind.

mod common;

use std::time::{Duration, Instant};

use common::{LIMIT, ip, next_block, pair, relay::Relay, request, server, within};
use squall::{
    Block, Channel, CloseReason, Config, Connect, Endpoint, EndpointConfig, FinishError, Interfaces, Outcome,
    PathChange, SendError, Session, Trust,
};
use squall_testkit::pattern;

/// Waits until `count` paths are up.
async fn paths_up(session: &Session, count: usize) {
    let mut up = 0;
    while up < count {
        let event = session.path_event().await.expect("the session lasts");
        up += usize::from(matches!(event.change, PathChange::Up(_)));
    }
}

/// Sends blocks for a while, and waits until the peer has received all of them.
async fn send_steadily(client: &Session, server: &Session, count: u64, pause: Duration) {
    // The caller keeps its handle: dropping the last one closes the session, with its data in
    // flight.
    let client = client.clone();
    let sender = tokio::spawn(async move {
        for n in 0..count {
            client.send(Block::new(pattern(20_000, n))).await.expect("is taken");
            tokio::time::sleep(pause).await;
        }
    });
    let mut missing: std::collections::BTreeSet<u64> = (0..count).collect();
    while !missing.is_empty() {
        let block = next_block(server).await;
        assert!(block.data == pattern(20_000, block.id.0));
        assert!(missing.remove(&block.id.0), "{:?} came twice", block.id);
    }
    sender.await.expect("sends");
}

#[test]
fn an_interface_taken_away_does_not_stop_the_data() {
    within(async || {
        let (_endpoint, client, server) = pair(Config::default()).await;
        paths_up(&client, 2).await;
        let changer = client.clone();
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(300)).await;
            changer.set_interfaces(Interfaces::Local(vec![ip("127.0.0.3")])).expect("it connected");
        });
        send_steadily(&client, &server, 100, Duration::from_millis(10)).await;
        let locals: Vec<_> = client.paths().iter().map(|p| p.local.ip()).collect();
        assert_eq!(locals, [ip("127.0.0.3")]);
    });
}

#[test]
fn an_interface_added_later_carries_data_too() {
    within(async || {
        let (endpoint, identity) = server(Config::default());
        let one = request(&endpoint, &identity).over([ip("127.0.0.2")]);
        let client = squall::connect(one).await.expect("connects");
        let accepted = endpoint.accept().await.expect("listens");
        paths_up(&client, 1).await;
        client
            .set_interfaces(Interfaces::Local(vec![ip("127.0.0.2"), ip("127.0.0.9")]))
            .expect("it connected");
        paths_up(&client, 1).await;
        client.set_interfaces(Interfaces::Local(vec![ip("127.0.0.9")])).expect("it connected");
        send_steadily(&client, &accepted, 50, Duration::from_millis(5)).await;
        let carried = client.paths().iter().map(|p| p.stats.fresh_bytes).max();
        assert!(carried > Some(0), "{:?}", client.paths());
    });
}

#[test]
fn a_path_that_falls_silent_does_not_stop_the_data() {
    within(async || {
        let (endpoint, identity) = server(Config::default());
        let addr = endpoint.local_addrs()[0];
        let (first, second) = (Relay::start(addr).await, Relay::start(addr).await);
        let any = "127.0.0.2:0".parse().expect("is an address");
        let pairs = Interfaces::Pairs(vec![(any, first.addr), (any, second.addr)]);
        let request = Connect::to(addr).trust(Trust::Pinned(identity.fingerprint())).interfaces(pairs);
        // Round robin, because on a busy machine minRTT may always prefer one of two equal paths,
        // and the other would carry no data.
        let in_turn = Config::default().scheduler(squall::scheduler("rr").expect("is known"));
        let client = squall::connect(request.config(in_turn)).await.expect("connects");
        let accepted = endpoint.accept().await.expect("listens");
        paths_up(&client, 2).await;
        let events = client.clone();
        let watcher = tokio::spawn(async move {
            let (mut suspected, mut readmitted) = (0, 0);
            while readmitted == 0 {
                match events.path_event().await.map(|event| event.change) {
                    Some(PathChange::Suspected { .. }) => suspected += 1,
                    Some(PathChange::Readmitted { .. }) => readmitted += 1,
                    Some(_) => {}
                    None => break,
                }
            }
            (suspected, readmitted)
        });
        let outage = async {
            tokio::time::sleep(Duration::from_millis(300)).await;
            first.set_open(false);
            tokio::time::sleep(Duration::from_millis(1000)).await;
            first.set_open(true);
        };
        tokio::join!(outage, send_steadily(&client, &accepted, 200, Duration::from_millis(10)));
        let (suspected, readmitted) = watcher.await.expect("runs");
        assert!(suspected >= 1 && readmitted == 1, "{suspected} {readmitted}");
    });
}

#[test]
fn the_path_that_won_the_race_is_opened_again_when_it_died() {
    within(async || {
        let config = Config::default().path_idle_timeout(Duration::from_secs(1));
        let (endpoint, identity) = server(config.clone());
        let addr = endpoint.local_addrs()[0];
        let relays = [Relay::start(addr).await, Relay::start(addr).await];
        let any = "127.0.0.2:0".parse().expect("is an address");
        let pairs = Interfaces::Pairs(relays.iter().map(|relay| (any, relay.addr)).collect());
        let request = Connect::to(addr).trust(Trust::Pinned(identity.fingerprint())).interfaces(pairs);
        let client = squall::connect(request.config(config)).await.expect("connects");
        let accepted = endpoint.accept().await.expect("listens");
        paths_up(&client, 2).await;
        let paths = client.paths();
        let winner = paths.iter().find(|path| path.stats.number == 0).expect("it is up");
        let relay = relays.iter().find(|relay| relay.addr == winner.remote).expect("is one of the two");
        relay.set_open(false);
        let follow = async |expected: fn(&PathChange) -> bool| {
            while !client.path_event().await.is_some_and(|e| e.path == winner.id && expected(&e.change)) {}
        };
        let outage = async {
            follow(|change| *change == PathChange::Down).await;
            relay.set_open(true);
            follow(|change| matches!(change, PathChange::Up(_))).await;
        };
        tokio::join!(outage, send_steadily(&client, &accepted, 50, Duration::from_millis(10)));
        let again = client.paths().into_iter().find(|path| path.id == winner.id).expect("it is back");
        assert_eq!(again.remote, winner.remote);
        assert!(again.stats.number > 0, "a path that is opened again has a new number");
    });
}

#[test]
fn finishing_waits_for_what_is_under_way() {
    within(async || {
        let (_endpoint, client, server) = pair(Config::default()).await;
        for n in 0..10 {
            client.send(Block::new(pattern(300_000, n))).await.expect("is taken");
        }
        client.finish(LIMIT).await.expect("all arrive");
        assert_eq!(client.stats().blocks_delivered, 10);
        assert!(matches!(client.try_send(Block::new("late")), Err(SendError::Closed(CloseReason::Local))));
        let mut received = 0;
        while let Ok(Some(_)) = server.recv().await {
            received += 1;
        }
        assert_eq!(server.closed().await, CloseReason::ByPeer { code: 0, reason: String::new() });
        assert_eq!(received, 10);
        assert!(server.recv().await == Ok(None));
        assert_eq!(server.stats().blocks_received, 10);
    });
}

/// The paths of a closed session are those that it had, by id and by the bytes that they carried.
#[test]
fn the_paths_of_a_session_outlive_it() {
    within(async || {
        for is_finished in [false, true] {
            let (_endpoint, client, server) = pair(Config::default()).await;
            paths_up(&client, 2).await;
            paths_up(&server, 2).await;
            send_steadily(&client, &server, 20, Duration::from_millis(5)).await;
            let ids = |session: &Session| session.paths().iter().map(|path| path.id).collect::<Vec<_>>();
            let before = (ids(&client), ids(&server));
            if is_finished {
                client.finish(LIMIT).await.expect("all arrive");
            } else {
                client.close(0, "");
            }
            client.closed().await;
            server.closed().await;
            assert_eq!((ids(&client), ids(&server)), before, "finished: {is_finished}");
            let sent: u64 = client.paths().iter().map(|path| path.stats.sent_bytes).sum();
            assert!(sent >= 20 * 20_000, "{:?}", client.paths());
        }
    });
}

#[test]
fn finishing_ends_when_the_time_is_up() {
    within(async || {
        let (endpoint, identity) = server(Config::default());
        let addr = endpoint.local_addrs()[0];
        let relay = Relay::start(addr).await;
        let pairs = Interfaces::Pairs(vec![("127.0.0.2:0".parse().expect("is one"), relay.addr)]);
        let request = Connect::to(addr).trust(Trust::Pinned(identity.fingerprint())).interfaces(pairs);
        let client = squall::connect(request).await.expect("connects");
        relay.set_open(false);
        let handle = client.send(Block::new(pattern(50_000, 1))).await.expect("is taken");
        let after = Duration::from_millis(200);
        let outcome = client.finish(after).await;
        assert_eq!(outcome, Err(FinishError::TimedOut { open: 1, after }));
        assert_eq!(handle.await, Outcome::SessionClosed);
        let stats = client.stats();
        assert_eq!((stats.blocks_closed, stats.blocks_cancelled), (1, 0));
    });
}

/// Starts a client that sends 100 blocks of half a megabyte to a server that holds at most two
/// megabytes.
async fn send_to_a_small_inbox() -> (Endpoint, Session, tokio::task::JoinHandle<Session>) {
    let (endpoint, client, server) =
        pair(Config::default().reassembly(SMALL_INBOX).queued_bytes(4 << 20)).await;
    let sender = tokio::spawn(async move {
        for n in 0..100 {
            client.send(Block::new(pattern(500_000, n))).await.expect("is taken");
        }
        client.finish(LIMIT).await.expect("all end");
        client
    });
    (endpoint, server, sender)
}

const SMALL_INBOX: u64 = 2 << 20;

#[test]
fn what_an_application_does_not_read_is_bounded() {
    within(async || {
        let (_endpoint, server, sender) = send_to_a_small_inbox().await;
        for _ in 0..20 {
            tokio::time::sleep(Duration::from_millis(50)).await;
            let held = server.stats().held_bytes;
            assert!(held <= SMALL_INBOX, "{held} bytes are held");
        }
        next_block(&server).await;
        sender.abort();
    });
}

#[test]
fn an_application_that_never_reads_holds_the_sender_back() {
    within(async || {
        let (_endpoint, server, sender) = send_to_a_small_inbox().await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(!sender.is_finished(), "nothing held the sender back");
        for _ in 0..100 {
            next_block(&server).await;
        }
        let client = sender.await.expect("sends");
        assert_eq!(client.stats().blocks_delivered, 100);
    });
}

#[test]
fn a_full_queue_is_reported_and_so_is_room() {
    within(async || {
        // The peer does not read, so the queue fills whatever the speed of the machine.
        let (_endpoint, client, server) =
            pair(Config::default().reassembly(SMALL_INBOX).queued_bytes(1 << 20)).await;
        let block = Block::new(pattern(400_000, 1));
        let mut taken = 0;
        let refused = loop {
            match client.try_send(block.clone()) {
                Ok(_) => taken += 1,
                Err(error) => break error,
            }
            assert!(taken < 20, "nothing fills the queue");
        };
        assert_eq!(refused, SendError::Full(Box::new(block.clone())));
        let reader = tokio::spawn(async move {
            for _ in 0..taken {
                next_block(&server).await;
            }
            server // Its last handle closes the session.
        });
        client.writable().await;
        client.try_send(block).expect("half of the queue is free");
        let _server = reader.await.expect("all that was taken arrives");
        client.close(0, "");
        client.writable().await;
    });
}

#[test]
fn two_hundred_sessions_leave_nothing_behind() {
    within(async || {
        let (endpoint, identity) = server(Config::default());
        for n in 0..200u64 {
            let request = request(&endpoint, &identity);
            let client = squall::connect(request).await.expect("connects");
            client.send(Block::new(n.to_le_bytes().to_vec())).await.expect("is taken");
            let session = endpoint.accept().await.expect("listens");
            assert_eq!(next_block(&session).await.data, n.to_le_bytes().to_vec());
            // Either side closes first, with and without reading to the end.
            match n % 3 {
                0 => client.finish(LIMIT).await.expect("has arrived"),
                1 => client.close(0, "done"),
                _ => drop(client),
            }
        }
        endpoint.wait_idle().await;
        assert_eq!(endpoint.session_count(), 0);
    });
}

#[test]
fn closing_the_endpoint_ends_its_sessions() {
    within(async || {
        let (endpoint, client, server) = pair(Config::default()).await;
        endpoint.close(7, "maintenance");
        assert!(endpoint.accept().await.is_none());
        let by_peer = CloseReason::ByPeer { code: 7, reason: "maintenance".into() };
        assert_eq!(client.closed().await, by_peer.clone());
        assert_eq!(server.closed().await, CloseReason::Local);
        assert_eq!(server.close_reason(), Some(CloseReason::Local));
        assert_eq!((client.recv().await, client.path_event().await.is_some()), (Err(by_peer), true));
        endpoint.wait_idle().await;
    });
}

#[test]
fn a_closed_endpoint_has_freed_its_address_when_it_is_idle() {
    within(async || {
        for workers in [1, 2] {
            let config = EndpointConfig::from(Config::default()).workers(workers);
            let (endpoint, identity) = server(config.clone());
            let (address, tls) = (endpoint.local_addrs()[0], identity.server_tls().expect("is valid"));
            let mut last = endpoint;
            for _ in 0..20 {
                let client = squall::connect(request(&last, &identity)).await;
                let sides = (client.expect("connects"), last.accept().await.expect("listens"));
                last.close(0, "");
                last.wait_idle().await;
                // The closed endpoint still exists, and so do the handles of its session.
                let next = Endpoint::listen(address, &tls, config.clone()).expect("the address is free");
                assert_eq!(sides.1.closed().await, CloseReason::Local);
                assert!(last.accept().await.is_none());
                last = next;
            }
        }
    });
}

#[test]
fn an_endpoint_that_is_let_go_of_frees_its_address_soon_over_a_slow_path() {
    within(async || {
        let (endpoint, identity) = server(Config::default());
        let (address, tls) = (endpoint.local_addrs()[0], identity.server_tls().expect("is valid"));
        let relay = Relay::start_with_delay(address, Duration::from_millis(150)).await;
        let request = Connect::to(relay.addr).trust(Trust::Pinned(identity.fingerprint()));
        let client = squall::connect(request.over([ip("127.0.0.2")])).await;
        let (client, session) = (client.expect("connects"), endpoint.accept().await.expect("listens"));
        drop((endpoint, session));
        let begun = Instant::now();
        while Endpoint::listen(address, &tls, Config::default()).is_err() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let taken = begun.elapsed();
        assert!(taken < Duration::from_millis(700), "{taken:?}");
        let by_peer = CloseReason::ByPeer { code: 0, reason: String::new() };
        assert_eq!(client.closed().await, by_peer.clone());
    });
}

#[test]
fn peers_are_notified_when_the_program_ends() {
    let (address, started) = std::sync::mpsc::channel();
    let (ready, connected) = std::sync::mpsc::channel::<()>();
    let program = std::thread::spawn(move || {
        let runtime = tokio::runtime::Runtime::new().expect("starts");
        runtime.block_on(async {
            let (endpoint, identity) = server(Config::default());
            address.send((endpoint.local_addrs()[0], identity.fingerprint())).expect("is awaited");
            let session = endpoint.accept().await.expect("comes");
            connected.recv().expect("connects");
            std::mem::forget((endpoint, session));
        });
    });
    within(async || {
        let (addr, pin) = started.recv().expect("starts");
        let request = Connect::to(addr).trust(Trust::Pinned(pin));
        let client = squall::connect(request).await.expect("connects");
        ready.send(()).expect("waits");
        let reason = client.closed().await;
        assert!(matches!(reason, CloseReason::ByPeer { code: 0, .. }), "{reason:?}");
    });
    program.join().expect("ends");
}

#[test]
fn a_server_on_all_addresses_answers_from_the_one_called() {
    within(async || {
        let identity = squall::Identity::self_signed("localhost").expect("is made");
        let tls = identity.server_tls().expect("is valid");
        let endpoint = Endpoint::listen("0.0.0.0:0", &tls, Config::default()).expect("a port is free");
        let port = endpoint.local_addrs()[0].port();
        let pairs = [("127.0.0.2:0", "127.0.0.7"), ("127.0.0.3:0", "127.0.0.8")];
        let pairs = pairs.map(|(local, to)| (local.parse().expect("is one"), (ip(to), port).into()));
        let request = Connect::to("127.0.0.7")
            .trust(Trust::Pinned(identity.fingerprint()))
            .interfaces(Interfaces::Pairs(pairs.to_vec()));
        let client = squall::connect(request).await.expect("connects");
        let accepted = endpoint.accept().await.expect("listens");
        paths_up(&client, 2).await;
        paths_up(&accepted, 2).await;
        send_steadily(&client, &accepted, 20, Duration::from_millis(5)).await;
        let mut locals: Vec<_> = accepted.paths().iter().map(|p| p.local.ip()).collect();
        locals.sort();
        assert_eq!(locals, [ip("127.0.0.7"), ip("127.0.0.8")]);
    });
}

#[test]
fn sessions_run_over_ipv6() {
    within(async || {
        let identity = squall::Identity::self_signed("localhost").expect("is made");
        let tls = identity.server_tls().expect("is valid");
        let Ok(endpoint) = Endpoint::listen("[::]:0", &tls, Config::default()) else {
            return squall_testkit::skipped("this machine has no IPv6");
        };
        let port = endpoint.local_addrs()[0].port();
        for host in ["[::1]", "127.0.0.1"] {
            let request = Connect::to(format!("{host}:{port}")).trust(Trust::Pinned(identity.fingerprint()));
            let client = squall::connect(request).await.expect("connects");
            let accepted = endpoint.accept().await.expect("listens");
            send_steadily(&client, &accepted, 5, Duration::from_millis(1)).await;
        }
    });
}

#[cfg(target_os = "linux")]
#[test]
fn a_session_runs_over_an_interface_by_name() {
    within(async || {
        let (endpoint, identity) = server(Config::default());
        let named = Interfaces::Named(vec!["lo".into()]);
        let request = request(&endpoint, &identity).interfaces(named);
        let client = squall::connect(request).await.expect("connects");
        let accepted = endpoint.accept().await.expect("listens");
        paths_up(&client, 1).await;
        client.interface("lo").expect("is there").set_metered(true);
        assert!(client.interface("wlan7").is_err() && client.interface("::7").is_err());
        let weights = [0, 257].map(|weight| client.set_channel_weight(Channel::default(), weight));
        assert!(weights.iter().all(Result::is_err), "{weights:?}");
        assert_eq!(client.max_block_len(), 16 << 20);
        send_steadily(&client, &accepted, 5, Duration::from_millis(1)).await;
        let paths = client.paths();
        assert_eq!(paths.len(), 1);
        assert_eq!(paths[0].interface.as_deref(), Some("lo"));
    });
}

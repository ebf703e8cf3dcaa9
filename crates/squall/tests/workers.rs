//! An endpoint with several workers, on real sockets.

#![cfg(target_os = "linux")]

mod common;

use std::{
    collections::BTreeSet,
    io,
    net::{SocketAddr, UdpSocket},
    os::fd::AsFd as _,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use common::{balancer::Balancer, ip, next_block, request, server, within};
use nix::sys::socket::{setsockopt, sockopt::UdpGsoSegment};
use squall::{
    Block, Config, Connect, Endpoint, EndpointConfig, Identity, Interfaces, ListenError, MAX_WORKERS,
    Session, Trust, WorkerStats,
};
use squall_testkit::pattern;

fn workers(workers: usize) -> EndpointConfig {
    EndpointConfig::from(Config::default()).workers(workers)
}

/// Opens sessions of a client to a server, and returns both sides of each.
async fn connect_many(
    client: &Endpoint,
    server: &Endpoint,
    request: &Connect,
    count: u64,
) -> Vec<[Session; 2]> {
    let mut sessions = Vec::new();
    for _ in 0..count {
        let session = client.connect(request.clone()).await.expect("connects");
        sessions.push([session, server.accept().await.expect("listens")]);
    }
    sessions
}

/// Sends a block in each direction of every session, and waits for its arrival.
async fn exchange(sessions: &[[Session; 2]], seed: u64) {
    for [client, server] in sessions {
        client.send(Block::new(pattern(3000, seed))).await.expect("is taken");
        server.send(Block::new(pattern(2000, seed))).await.expect("is taken");
    }
    for [client, server] in sessions {
        assert!(next_block(server).await.data == pattern(3000, seed));
        assert!(next_block(client).await.data == pattern(2000, seed));
    }
}

fn sum(stats: &[WorkerStats], of: impl Fn(&WorkerStats) -> u64) -> u64 {
    stats.iter().map(of).sum()
}

#[test]
fn sessions_spread_over_the_workers_with_all_their_paths() {
    within(async || {
        let (server, identity) = server(workers(3));
        let client = Endpoint::client(workers(2)).expect("is in a runtime");
        // The probability that one worker gets none of 40 sessions is one in four million.
        let sessions = connect_many(&client, &server, &request(&server, &identity), 40).await;
        for seed in 0..5 {
            exchange(&sessions, seed).await;
        }
        let paths = |session: &Session| session.paths().len();
        assert!(sessions.iter().all(|[client, _]| paths(client) == 2));
        let (at_server, at_client) = (server.workers(), client.workers());
        assert_eq!((at_server.len(), at_client.len()), (3, 2));
        assert!(at_server.iter().all(|worker| worker.sessions > 0), "{at_server:?}");
        assert_eq!(sum(&at_server, |worker| worker.sessions as u64), 40);
        assert_eq!(server.session_count(), 40);
        assert!(at_client.iter().all(|worker| worker.sessions == 20), "{at_client:?}");
        assert_eq!(sum(&at_server, |worker| worker.unknown + worker.handed_over), 0, "{at_server:?}");

        server.close(0, "the end");
        server.wait_idle().await;
        assert_eq!((server.session_count(), server.accept().await.is_none()), (0, true));
    });
}

#[test]
fn a_session_stays_with_its_worker_when_its_ports_change() {
    within(async || {
        let (server, identity) = server(workers(4));
        let addr = server.local_addrs()[0];
        let relays = [Balancer::start(move |_| addr).await, Balancer::start(move |_| addr).await];
        let any: SocketAddr = "127.0.0.2:0".parse().expect("is an address");
        let pairs = Interfaces::Pairs(relays.iter().map(|relay| (any, relay.addr)).collect());
        let request = Connect::to(addr).trust(Trust::Pinned(identity.fingerprint())).interfaces(pairs);
        let mut sessions = Vec::new();
        for _ in 0..8 {
            // Each client has its own sockets, and so its own ports.
            let client = Endpoint::client(Config::default()).expect("is in a runtime");
            sessions.extend(connect_many(&client, &server, &request, 1).await);
        }
        let before: Vec<usize> = server.workers().iter().map(|worker| worker.sessions).collect();
        let mut changed = 0;
        for round in 0..5 {
            changed += relays.iter().map(Balancer::rebind).sum::<usize>();
            exchange(&sessions, round).await;
        }
        // In the first round up to half of the paths may have sent no packet.
        assert!(changed >= 4 * 16, "{changed}");
        let after = server.workers();
        assert_eq!(after.iter().map(|worker| worker.sessions).collect::<Vec<_>>(), before);
        assert_eq!(sum(&after, |worker| worker.unknown + worker.handed_over), 0, "{after:?}");
    });
}

#[test]
fn workers_that_end_leave_the_others_their_packets() {
    within(async || {
        let (server, identity) = server(workers(4));
        let addr = server.local_addrs()[0];
        let client = Endpoint::client(Config::default()).expect("is in a runtime");
        let mut sessions = connect_many(&client, &server, &request(&server, &identity), 12).await;
        // From now on a worker ends with its last session.
        drop(server);
        while let Some([client, server]) = sessions.pop() {
            exchange(&sessions, sessions.len() as u64).await;
            client.close(0, "");
            server.closed().await;
            drop((client, server));
        }
        // The address is free once the last session has ended.
        while UdpSocket::bind(addr).is_err() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
}

#[test]
fn limits_hold_for_all_workers() {
    within(async || {
        let (server, identity) = server(EndpointConfig::from(Config::default().max_sessions(5)).workers(4));
        let client = Endpoint::client(Config::default()).expect("is in a runtime");
        let request = request(&server, &identity);
        let sessions = connect_many(&client, &server, &request, 5).await;
        for _ in 0..8 {
            assert!(client.connect(request.clone()).await.is_err());
        }
        assert_eq!((server.session_count(), server.admission().refused >= 8), (5, true));
        drop(sessions);
        while server.session_count() > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        client.connect(request).await.expect("there is room again");
    });
}

#[test]
fn an_address_that_another_endpoint_has_is_refused() {
    within(async || {
        let (server, identity) = server(workers(2));
        let (addr, tls) = (server.local_addrs()[0], identity.server_tls().expect("is valid"));
        for count in [1, 2] {
            match Endpoint::listen(addr, &tls, workers(count)) {
                Err(ListenError::Bind { source, .. }) => assert_eq!(source.kind(), io::ErrorKind::AddrInUse),
                other => panic!("{other:?}"),
            }
        }
        for count in [0, MAX_WORKERS + 1] {
            let error =
                Endpoint::listen("127.0.0.1:0", &tls, workers(count)).expect_err("is no number of workers");
            assert_eq!(error.to_string(), format!("cannot have {count} workers: give a number from 1 to 32"));
        }
    });
}

#[test]
fn every_address_has_all_workers() {
    within(async || {
        let identity = Identity::self_signed("localhost").expect("is made");
        let tls = identity.server_tls().expect("is valid");
        let addrs: [SocketAddr; 2] =
            ["127.0.0.1:0", "0.0.0.0:0"].map(|addr| addr.parse().expect("is an address"));
        let server = Endpoint::listen(&addrs[..], &tls, workers(3)).expect("ports are free");
        let client = Endpoint::client(Config::default()).expect("is in a runtime");
        let mut sessions = Vec::new();
        for local in server.local_addrs() {
            let to = SocketAddr::new(ip("127.0.0.1"), local.port());
            let request =
                Connect::to(to).trust(Trust::Pinned(identity.fingerprint())).over([ip("127.0.0.2")]);
            sessions.extend(connect_many(&client, &server, &request, 12).await);
        }
        exchange(&sessions, 1).await;
        let stats = server.workers();
        assert_eq!(sum(&stats, |worker| worker.unknown + worker.handed_over), 0, "{stats:?}");
        assert!(stats.iter().filter(|worker| worker.sessions > 0).count() > 1, "{stats:?}");
    });
}

/// Builds a packet of an unknown version, which is answered with the known ones (RFC 9000 §6.1).
fn packet_for(worker: u8) -> Vec<u8> {
    let mut packet =
        vec![0xc0, 0x1a, 0x2a, 0x3a, 0x4a, 8, worker, 1, 2, 3, 4, 5, 6, 7, 8, worker, 9, 9, 9, 9, 9, 9, 9];
    packet.resize(1200, 0);
    packet
}

#[test]
fn packets_that_the_kernel_has_joined_are_handed_over() {
    within(async || {
        let (server, _identity) = server(workers(4));
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a port is free");
        socket.set_read_timeout(Some(Duration::from_secs(20))).expect("is taken");
        // The kernel treats them as one packet, and gives it to the worker of the first.
        setsockopt(&socket.as_fd(), UdpGsoSegment, &1200).expect("the kernel segments");
        let packets: Vec<u8> = [2, 0, 1, 3].into_iter().flat_map(packet_for).collect();
        socket.send_to(&packets, server.local_addrs()[0]).expect("leaves");
        let answers = tokio::task::spawn_blocking(move || {
            let mut buf = [0; 1500];
            let mut answered = BTreeSet::new();
            while answered.len() < 4 {
                let len = socket.recv(&mut buf).expect("is answered");
                // The destination id of the answer is the source id of the packet, and its first
                // byte names the worker.
                assert!(len > 15 && buf[1..5] == [0; 4], "negotiates the version");
                answered.insert(buf[6]);
            }
        });
        answers.await.expect("all are answered");
        let stats = server.workers();
        assert_eq!(stats.iter().map(|worker| worker.handed_over).collect::<Vec<_>>(), [0, 0, 3, 0]);
        assert_eq!(stats.iter().map(|worker| worker.unknown).collect::<Vec<_>>(), [1, 1, 1, 1]);
    });
}

#[test]
fn an_endpoint_of_which_a_worker_has_ended_accepts_no_more() {
    within(async || {
        let has_panicked = AtomicBool::new(false);
        let accept = move |_| {
            assert!(has_panicked.swap(true, Relaxed), "a test wants this panic");
            true
        };
        let config = EndpointConfig::from(Config::default().accept(Arc::new(accept))).workers(2);
        let (server, identity) = server(config);
        let client = Endpoint::client(Config::default()).expect("is in a runtime");
        // One address: packets of a second one might belong to the other worker, which answers.
        let first = client.connect(request(&server, &identity).over([ip("127.0.0.2")]));
        let ended = tokio::time::timeout(Duration::from_secs(5), server.accept());
        tokio::select! {
            ended = ended => assert!(matches!(ended, Ok(None)), "the endpoint looks whole"),
            _ = first => panic!("the worker that panicked has answered"),
        }
    });
}

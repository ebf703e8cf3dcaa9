//! Several servers behind a load balancer that routes by QUIC-LB, while the addresses of all clients change.

#![cfg(target_os = "linux")]

mod common;

use std::{
    collections::HashMap,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use common::{balancer::Balancer, within};
use squall::{
    Block, Config, Connect, Endpoint, EndpointConfig, Identity, Interfaces, Session, Trust, destination_id,
    quic_lb::{QuicLb, QuicLbServer, ServerId},
};
use squall_testkit::pattern;

const SERVERS: usize = 3;
const WORKERS: usize = 3;
const SESSIONS: usize = 8;
const PATHS: usize = 2;

/// State of a load balancer: the format of the ids, and the servers.
struct Table {
    format: QuicLb,
    servers: HashMap<ServerId, SocketAddr>,
    /// Packets routed by a hash: those of clients that have no answer yet.
    hashed: AtomicU64,
    /// Packets among these with a short header: they belong to a session, but lack the id of a
    /// server.
    lost: AtomicU64,
}

impl Table {
    fn route(&self, packet: &[u8]) -> SocketAddr {
        if let Some(server) = self.format.route(packet).and_then(|id| self.servers.get(&id)) {
            return *server;
        }
        self.hashed.fetch_add(1, Relaxed);
        self.lost.fetch_add(u64::from(packet.first().is_none_or(|first| first & 0x80 == 0)), Relaxed);
        // Rendezvous hashing: adding or removing a server moves only its own packets.
        let id = destination_id(packet, self.format.id_len()).unwrap_or_default();
        let weight = |server: &ServerId| {
            let mut hasher = DefaultHasher::new();
            (id, server.as_bytes()).hash(&mut hasher);
            hasher.finish()
        };
        self.servers[self.servers.keys().max_by_key(|server| weight(server)).expect("there are servers")]
    }
}

/// Runs sessions through a load balancer per path, and changes the port of every path in each
/// round, until `rebindings` changes were made.
async fn shuffle(key: Option<[u8; 16]>, rebindings: usize) {
    let format = QuicLb::new(2, 3, 6, key).expect("is a format");
    let identity = Identity::self_signed("localhost").expect("is made");
    let tls = identity.server_tls().expect("is valid");
    let mut servers = Vec::new();
    let mut table = Table {
        format: format.clone(),
        servers: HashMap::new(),
        hashed: AtomicU64::default(),
        lost: AtomicU64::default(),
    };
    for number in 0..SERVERS {
        let id = ServerId::new(&[7, 0, number as u8]).expect("is an id");
        let quic_lb = QuicLbServer::new(format.clone(), id).expect("fits");
        let config = EndpointConfig::from(Config::default().quic_lb(quic_lb)).workers(WORKERS);
        let server = Endpoint::listen("127.0.0.1:0", &tls, config).expect("a port is free");
        table.servers.insert(id, server.local_addrs()[0]);
        servers.push(server);
    }
    let table = Arc::new(table);
    let mut balancers = Vec::new();
    for _ in 0..PATHS {
        let table = table.clone();
        balancers.push(Balancer::start(move |packet| table.route(packet)).await);
    }
    let any: SocketAddr = "127.0.0.2:0".parse().expect("is an address");
    let pairs = Interfaces::Pairs(balancers.iter().map(|balancer| (any, balancer.addr)).collect());
    let request =
        Connect::to(balancers[0].addr).trust(Trust::Pinned(identity.fingerprint())).interfaces(pairs);
    let in_turn = Config::default().scheduler(squall::scheduler("rr").expect("is known"));
    let mut sessions: Vec<[Session; 2]> = Vec::new();
    for _ in 0..SESSIONS {
        let client = squall::connect(request.clone().config(in_turn.clone())).await.expect("connects");
        let accepted = tokio::select! {
            session = servers[0].accept() => session,
            session = servers[1].accept() => session,
            session = servers[2].accept() => session,
        };
        sessions.push([client, accepted.expect("listens")]);
    }
    let place =
        || servers.iter().map(|s| s.workers().iter().map(|w| w.sessions).collect()).collect::<Vec<Vec<_>>>();
    let before = place();
    let (mut changed, mut round) = (0, 0);
    while changed < rebindings {
        changed += balancers.iter().map(Balancer::rebind).sum::<usize>();
        for [client, _] in &sessions {
            client.send(Block::new(pattern(4000, round))).await.expect("the session is up");
        }
        for [_, server] in &sessions {
            assert!(
                server.recv().await.expect("the session is up").expect("the session is up").data
                    == pattern(4000, round)
            );
        }
        round += 1;
    }
    assert_eq!(place(), before, "every session is where it was");
    let (mut unknown, mut handed_over) = (0, 0);
    for worker in servers.iter().flat_map(Endpoint::workers) {
        unknown += worker.unknown;
        handed_over += worker.handed_over;
    }
    let (hashed, lost) = (table.hashed.load(Relaxed), table.lost.load(Relaxed));
    eprintln!("{changed} rebindings, sessions by worker {before:?}; {hashed} packets hashed");
    assert_eq!(
        (unknown, handed_over, lost),
        (0, 0, 0),
        "packets at a wrong server, at a wrong worker, without a server"
    );
}

const KEY: Option<[u8; 16]> = Some([0x5a; 16]);

#[test]
fn sessions_stay_where_they_are_behind_plain_ids() {
    within(async || shuffle(None, 500).await);
}

#[test]
fn sessions_stay_where_they_are_behind_encrypted_ids() {
    within(async || shuffle(KEY, 500).await);
}

#[test]
#[ignore = "takes 20 s and more"]
fn ten_thousand_rebindings() {
    (0..10).for_each(|_| within(async || shuffle(KEY, 1000).await));
}

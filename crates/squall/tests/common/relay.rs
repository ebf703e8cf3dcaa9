//! A UDP relay on loopback that can fall silent, as a radio link does, and can delay packets.

use std::{
    collections::{HashMap, hash_map::Entry},
    net::{IpAddr, SocketAddr},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::{net::UdpSocket, task::JoinHandle};

/// Headers of IPv4 and UDP.
const HEADERS: u64 = 28;

/// Forwards in both directions between clients and a server while it is open.
pub(crate) struct Relay {
    pub(crate) addr: SocketAddr,
    state: Arc<State>,
    task: JoinHandle<()>,
}

struct State {
    open: AtomicBool,
    /// Delay in each direction.
    delay: Duration,
    /// Bytes of IP packets from and to each client address.
    passed: Mutex<HashMap<IpAddr, u64>>,
}

impl State {
    /// Counts a datagram; returns `true` if it should be forwarded.
    fn passes(&self, client: SocketAddr, len: usize) -> bool {
        let is_open = self.open.load(Ordering::Relaxed);
        if is_open {
            let mut passed = self.passed.lock().expect("nothing failed");
            *passed.entry(client.ip()).or_default() += len as u64 + HEADERS;
        }
        is_open
    }
}

impl Relay {
    pub(crate) async fn start(server: SocketAddr) -> Self {
        Self::start_with_delay(server, Duration::ZERO).await
    }

    /// Starts a relay that delays every datagram.
    pub(crate) async fn start_with_delay(server: SocketAddr, delay: Duration) -> Self {
        let front = Arc::new(UdpSocket::bind("127.0.0.1:0").await.expect("a port is free"));
        let addr = front.local_addr().expect("is bound");
        let state = Arc::new(State { open: AtomicBool::new(true), delay, passed: Mutex::default() });
        let task = tokio::spawn(forward(front, server, state.clone()));
        Self { addr, state, task }
    }

    pub(crate) fn set_open(&self, open: bool) {
        self.state.open.store(open, Ordering::Relaxed);
    }

    /// Returns the bytes of IP packets that passed from and to a client address.
    pub(crate) fn passed(&self, client: IpAddr) -> u64 {
        self.state.passed.lock().expect("nothing failed").get(&client).copied().unwrap_or_default()
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn forward(front: Arc<UdpSocket>, server: SocketAddr, state: Arc<State>) {
    let mut backs: HashMap<SocketAddr, Arc<UdpSocket>> = HashMap::new();
    let mut buf = vec![0; 65_536];
    loop {
        let Ok((len, client)) = front.recv_from(&mut buf).await else { continue };
        if !state.passes(client, len) {
            continue;
        }
        let back = match backs.entry(client) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => {
                let back = Arc::new(UdpSocket::bind("127.0.0.1:0").await.expect("a port is free"));
                tokio::spawn(answer(back.clone(), front.clone(), client, state.clone()));
                new.insert(back)
            }
        };
        send(back.clone(), &buf[..len], server, state.delay).await;
    }
}

async fn answer(back: Arc<UdpSocket>, front: Arc<UdpSocket>, client: SocketAddr, state: Arc<State>) {
    let mut buf = vec![0; 65_536];
    while let Ok(len) = back.recv(&mut buf).await {
        if state.passes(client, len) {
            send(front.clone(), &buf[..len], client, state.delay).await;
        }
    }
}

/// Sends a datagram after a delay. A full buffer loses packets, as on any network.
async fn send(socket: Arc<UdpSocket>, data: &[u8], to: SocketAddr, delay: Duration) {
    if delay.is_zero() {
        let _ = socket.send_to(data, to).await;
        return;
    }
    let data = data.to_vec();
    tokio::spawn(async move {
        tokio::time::sleep(delay).await;
        let _ = socket.send_to(&data, to).await;
    });
}

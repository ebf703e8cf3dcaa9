//! A UDP relay on loopback that chooses the server of each packet, and changes its own ports.

use std::{
    collections::HashMap,
    io,
    net::SocketAddr,
    sync::{Arc, Mutex},
};

use tokio::{net::UdpSocket, task::JoinHandle};

/// Chooses the server for a packet of a client.
type Route = dyn Fn(&[u8]) -> SocketAddr + Send + Sync;

/// A relay between clients and servers.
pub(crate) struct Balancer {
    pub(crate) addr: SocketAddr,
    inner: Arc<Inner>,
    task: JoinHandle<()>,
}

struct Inner {
    front: UdpSocket,
    route: Box<Route>,
    /// Flows by the address of the client.
    flows: Mutex<HashMap<SocketAddr, Flow>>,
}

/// Port that represents one client to the servers.
struct Flow {
    back: Arc<UdpSocket>,
    answers: JoinHandle<()>,
}

impl Drop for Flow {
    fn drop(&mut self) {
        self.answers.abort();
    }
}

impl Balancer {
    pub(crate) async fn start(route: impl Fn(&[u8]) -> SocketAddr + Send + Sync + 'static) -> Self {
        let front = UdpSocket::bind("127.0.0.1:0").await.expect("a port is free");
        let addr = front.local_addr().expect("is bound");
        let inner = Arc::new(Inner { front, route: Box::new(route), flows: Mutex::default() });
        let task = tokio::spawn(forward(inner.clone()));
        Self { addr, inner, task }
    }

    /// Moves every client to another port, as a NAT that has lost its state does. Returns the
    /// number of clients.
    pub(crate) fn rebind(&self) -> usize {
        let mut flows = self.inner.flows.lock().expect("no test has failed");
        for (client, flow) in flows.iter_mut() {
            *flow = Flow::new(&self.inner, *client).expect("a port is free");
        }
        flows.len()
    }
}

impl Drop for Balancer {
    fn drop(&mut self) {
        self.task.abort();
        self.inner.flows.lock().expect("no test has failed").clear();
    }
}

impl Flow {
    fn new(inner: &Arc<Inner>, client: SocketAddr) -> io::Result<Self> {
        let back = std::net::UdpSocket::bind("127.0.0.1:0")?;
        back.set_nonblocking(true)?;
        let back = Arc::new(UdpSocket::from_std(back)?);
        let answers = tokio::spawn(answer(back.clone(), inner.clone(), client));
        Ok(Self { back, answers })
    }
}

async fn forward(inner: Arc<Inner>) {
    let mut buf = vec![0; 65_536];
    loop {
        let Ok((len, client)) = inner.front.recv_from(&mut buf).await else { continue };
        let back = {
            let mut flows = inner.flows.lock().expect("no test has failed");
            let flow =
                flows.entry(client).or_insert_with(|| Flow::new(&inner, client).expect("a port is free"));
            flow.back.clone()
        };
        // A full buffer loses packets, as on any network.
        let _ = back.send_to(&buf[..len], (inner.route)(&buf[..len])).await;
    }
}

async fn answer(back: Arc<UdpSocket>, inner: Arc<Inner>, client: SocketAddr) {
    let mut buf = vec![0; 65_536];
    while let Ok(len) = back.recv(&mut buf).await {
        let _ = inner.front.send_to(&buf[..len], client).await;
    }
}

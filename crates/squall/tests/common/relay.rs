//! A UDP relay on loopback that can fall silent, as a radio link does.

use std::{
    collections::{HashMap, hash_map::Entry},
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use tokio::{net::UdpSocket, task::JoinHandle};

/// Forwards both ways between clients and a server while it is open.
pub(crate) struct Relay {
    pub(crate) addr: SocketAddr,
    open: Arc<AtomicBool>,
    task: JoinHandle<()>,
}

impl Relay {
    pub(crate) async fn start(server: SocketAddr) -> Self {
        let front = Arc::new(UdpSocket::bind("127.0.0.1:0").await.expect("a port is free"));
        let addr = front.local_addr().expect("is bound");
        let open = Arc::new(AtomicBool::new(true));
        let task = tokio::spawn(forward(front, server, open.clone()));
        Self { addr, open, task }
    }

    pub(crate) fn set_open(&self, open: bool) {
        self.open.store(open, Ordering::Relaxed);
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn forward(front: Arc<UdpSocket>, server: SocketAddr, open: Arc<AtomicBool>) {
    let mut backs: HashMap<SocketAddr, Arc<UdpSocket>> = HashMap::new();
    let mut buf = vec![0; 65_536];
    loop {
        let Ok((len, client)) = front.recv_from(&mut buf).await else { continue };
        if !open.load(Ordering::Relaxed) {
            continue;
        }
        let back = match backs.entry(client) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => {
                let back = Arc::new(UdpSocket::bind("127.0.0.1:0").await.expect("a port is free"));
                tokio::spawn(answer(back.clone(), front.clone(), client, open.clone()));
                new.insert(back)
            }
        };
        // A full buffer loses packets, here as anywhere.
        let _ = back.send_to(&buf[..len], server).await;
    }
}

async fn answer(back: Arc<UdpSocket>, front: Arc<UdpSocket>, client: SocketAddr, open: Arc<AtomicBool>) {
    let mut buf = vec![0; 65_536];
    while let Ok(len) = back.recv(&mut buf).await {
        if open.load(Ordering::Relaxed) {
            let _ = front.send_to(&buf[..len], client).await;
        }
    }
}

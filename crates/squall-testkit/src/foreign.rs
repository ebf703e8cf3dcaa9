//! QUIC endpoints without Squall: plain noq-proto with the protocol name `h3`, on a blocking
//! socket.

use std::{
    net::{SocketAddr, UdpSocket},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use noq_proto::{
    ClientConfig, Connection, ConnectionHandle, DatagramEvent, Endpoint, EndpointConfig, Event, FourTuple,
    ServerConfig,
    crypto::rustls::{QuicClientConfig, QuicServerConfig},
};
use rustls::crypto::ring;

/// A server that supports `h3` only, until it is dropped.
pub struct Server {
    /// Address of the server.
    pub addr: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Starts a server on a free port of loopback.
    pub fn start() -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a port is free");
        let addr = socket.local_addr().expect("is bound");
        let stop = Arc::new(AtomicBool::new(false));
        let until = stop.clone();
        let thread = std::thread::spawn(move || {
            let mut peer = Peer::new(socket, Some(Arc::new(server_config())));
            while !until.load(Ordering::Relaxed) {
                peer.turn();
            }
        });
        Self { addr, stop, thread: Some(thread) }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().map(JoinHandle::join);
    }
}

/// Connects with `h3`; returns the reason why the connection ended.
pub fn connect(addr: SocketAddr) -> String {
    let mut peer = Peer::new(UdpSocket::bind("127.0.0.1:0").expect("a port is free"), None);
    let connection = peer.endpoint.connect(Instant::now(), client_config(), addr, "localhost");
    peer.connection = Some(connection.expect("the request is valid"));
    loop {
        if let Some(reason) = peer.turn() {
            return reason;
        }
    }
}

/// An endpoint with at most one connection.
struct Peer {
    socket: UdpSocket,
    endpoint: Endpoint,
    connection: Option<(ConnectionHandle, Connection)>,
}

impl Peer {
    fn new(socket: UdpSocket, server: Option<Arc<ServerConfig>>) -> Self {
        socket.set_read_timeout(Some(Duration::from_millis(5))).expect("is no zero");
        let endpoint = Endpoint::new(Arc::new(EndpointConfig::default()), server, true);
        Self { socket, endpoint, connection: None }
    }

    /// Sends, receives and handles timeouts. Returns the reason if the connection has ended.
    fn turn(&mut self) -> Option<String> {
        self.send();
        self.receive();
        let (handle, connection) = self.connection.as_mut()?;
        let now = Instant::now();
        if connection.poll_timeout().is_some_and(|at| at <= now) {
            connection.handle_timeout(now);
        }
        while let Some(event) = connection.poll_endpoint_events() {
            if let Some(answer) = self.endpoint.handle_event(*handle, event) {
                connection.handle_event(answer);
            }
        }
        while let Some(event) = connection.poll() {
            if let Event::ConnectionLost { reason } = event {
                return Some(reason.to_string());
            }
        }
        None
    }

    fn send(&mut self) {
        let Some((_, connection)) = &mut self.connection else { return };
        let mut buf = Vec::new();
        while let Some(out) = connection.poll_transmit(Instant::now(), 1.try_into().expect("is 1"), &mut buf)
        {
            // QUIC recovers losses.
            let _ = self.socket.send_to(&buf[..out.size], out.destination);
            buf.clear();
        }
    }

    fn receive(&mut self) {
        let mut packet = [0; 2048];
        let Ok((len, from)) = self.socket.recv_from(&mut packet) else { return };
        let mut buf = Vec::new();
        let path = FourTuple::new(from, None);
        match self.endpoint.handle(Instant::now(), path, None, packet[..len].into(), &mut buf) {
            Some(DatagramEvent::ConnectionEvent(_, event)) => {
                if let Some((_, connection)) = &mut self.connection {
                    connection.handle_event(event);
                }
            }
            Some(DatagramEvent::NewConnection(incoming)) => {
                let accepted = self.endpoint.accept(incoming, Instant::now(), &mut buf, None);
                match accepted {
                    Ok(connection) => self.connection = Some(connection),
                    Err(error) => {
                        if let Some(out) = error.response {
                            let _ = self.socket.send_to(&buf[..out.size], out.destination);
                        }
                    }
                }
            }
            Some(DatagramEvent::Response(out)) => {
                let _ = self.socket.send_to(&buf[..out.size], out.destination);
            }
            None => {}
        }
    }
}

fn server_config() -> ServerConfig {
    let (certificate, key) = crate::certificate("localhost");
    let mut tls = rustls::ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .expect("is supported")
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .expect("is valid");
    tls.alpn_protocols = vec![b"h3".to_vec()];
    ServerConfig::with_crypto(Arc::new(QuicServerConfig::try_from(tls).expect("is TLS 1.3")))
}

fn client_config() -> ClientConfig {
    let mut tls = rustls::ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .expect("is supported")
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_no_client_auth();
    tls.alpn_protocols = vec![b"h3".to_vec()];
    ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls).expect("is TLS 1.3")))
}

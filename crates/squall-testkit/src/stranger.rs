//! QUIC client without Squall: plain noq-proto, which sends whatever a test requires.

use std::{collections::VecDeque, net::SocketAddr, num::NonZeroUsize, sync::Arc, time::Instant};

use bytes::Bytes;
use noq_proto::{
    ClientConfig, Connection, ConnectionHandle, DatagramEvent, Dir, Endpoint, EndpointConfig, Event,
    FourTuple, TransportConfig, crypto::rustls::QuicClientConfig,
};
use rustls::{RootCertStore, crypto::ring};

use crate::{
    peer::{NAME, tls},
    wire::{End, Packet, SERVER},
};

/// An endpoint with one connection.
pub struct Stranger {
    /// Its address; packets to other addresses with this port reach it too.
    pub address: SocketAddr,
    /// Its connection.
    pub connection: Connection,
    /// Hello that it writes once connected.
    pub hello: Option<Vec<u8>>,
    /// Received datagrams. At most 64 are kept; later ones are dropped.
    pub received: VecDeque<Bytes>,
    /// Reason why its connection ended.
    pub end: Option<String>,
    endpoint: Endpoint,
    handle: ConnectionHandle,
}

impl Stranger {
    /// Returns the configuration of a connection to a server with the identity of [`tls`], with
    /// early data (0-RTT) enabled.
    ///
    /// # Panics
    ///
    /// If the configuration is not usable.
    pub fn config(transport: TransportConfig) -> ClientConfig {
        let mut roots = RootCertStore::empty();
        roots.add(tls().certificate.clone()).expect("is usable");
        let tls = rustls::ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let tls = tls.with_protocol_versions(&[&rustls::version::TLS13]).expect("is supported");
        let mut tls = tls.with_root_certificates(roots).with_no_client_auth();
        tls.alpn_protocols = vec![squall_proto::ALPN.to_vec()];
        tls.enable_early_data = true;
        let mut config = ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls).expect("is usable")));
        config.transport_config(Arc::new(transport));
        config
    }

    /// Creates a client that connects to [`SERVER`]. Clients with the same seed have the same
    /// connection ids.
    ///
    /// # Panics
    ///
    /// If it cannot connect.
    pub fn new(now: Instant, address: SocketAddr, seed: u32, config: ClientConfig) -> Self {
        let mut seeds = [2; 32];
        seeds[..4].copy_from_slice(&seed.to_le_bytes());
        let mut endpoint = EndpointConfig::default();
        endpoint.rng_seed(Some(seeds));
        let mut endpoint = Endpoint::new(Arc::new(endpoint), None, true);
        let (handle, connection) = endpoint.connect(now, config, SERVER, NAME).expect("is valid");
        Self { address, connection, hello: None, received: VecDeque::new(), end: None, endpoint, handle }
    }

    /// Sends a datagram, if the connection accepts it.
    pub fn say(&mut self, datagram: Vec<u8>) {
        let _ = self.connection.datagrams().send(datagram.into(), true);
    }

    /// Writes a hello.
    ///
    /// # Panics
    ///
    /// If it is not connected.
    pub fn say_hello(&mut self, hello: &[u8]) {
        let id = self.connection.streams().open(Dir::Uni).expect("one is allowed");
        let mut stream = self.connection.send_stream(id);
        assert_eq!(stream.write(hello), Ok(hello.len()));
        stream.finish().expect("is open");
    }

    fn take_events(&mut self) {
        while let Some(event) = self.connection.poll_endpoint_events() {
            if let Some(answer) = self.endpoint.handle_event(self.handle, event) {
                self.connection.handle_event(answer);
            }
        }
        while let Some(event) = self.connection.poll() {
            match event {
                Event::Connected => {
                    if let Some(hello) = self.hello.take() {
                        self.say_hello(&hello);
                    }
                }
                Event::ConnectionLost { reason } => self.end = Some(reason.to_string()),
                _ => {}
            }
        }
        while let Some(datagram) = self.connection.datagrams().recv() {
            self.received.push_back(datagram);
            self.received.truncate(64);
        }
    }
}

impl End for Stranger {
    fn is_at(&self, address: SocketAddr) -> bool {
        address.port() == self.address.port()
    }

    fn due(&mut self) -> Option<Instant> {
        self.connection.poll_timeout()
    }

    fn receive(&mut self, now: Instant, packet: Packet) {
        let (path, mut reply) = (FourTuple::new(packet.from, Some(packet.to.ip())), Vec::new());
        if let Some(DatagramEvent::ConnectionEvent(_, event)) =
            self.endpoint.handle(now, path, None, packet.data, &mut reply)
        {
            self.connection.handle_event(event);
        }
    }

    fn on_timeout(&mut self, now: Instant) {
        self.connection.handle_timeout(now);
    }

    fn transmit(&mut self, now: Instant, send: &mut dyn FnMut(Packet)) {
        self.take_events();
        let mut buf = Vec::new();
        while let Some(out) = self.connection.poll_transmit(now, NonZeroUsize::MIN, &mut buf) {
            let ip = out.src_ip.unwrap_or(self.address.ip());
            let from = SocketAddr::new(ip, self.address.port());
            send(Packet { from, to: out.destination, data: buf[..out.size].into() });
            buf.clear();
        }
        self.take_events();
    }
}

//! A transfer of noq with its CUBIC: the competing flows.

use std::{
    collections::VecDeque,
    net::{Ipv4Addr, SocketAddr},
    num::NonZeroUsize,
    sync::Arc,
    time::Instant,
};

use bytes::Bytes;
use noq_proto::{
    ClientConfig, Connection, ConnectionHandle, DatagramEvent, Endpoint, EndpointConfig, FourTuple,
    ServerConfig, TransportConfig,
    congestion::CubicConfig,
    crypto::rustls::{QuicClientConfig, QuicServerConfig},
};
use rustls::crypto::ring;
use squall_units::{Span, Time};

use crate::net::{MTU, Packet};

const NAME: &str = "receiver";
const DATAGRAM: &[u8] = &[0; 1_200];

/// One end of a connection.
struct End {
    endpoint: Endpoint,
    connection: Option<(ConnectionHandle, Connection)>,
    /// It keeps datagrams waiting.
    sends: bool,
    /// Packets have arrived since the last departure.
    has_news: bool,
}

/// A client that sends datagrams without end, and its server.
pub(crate) struct Transfer {
    starts: Time,
    ends: Time,
    epoch: Instant,
    client: End,
    server: End,
    config: ClientConfig,
    next: u64,
    /// Packets in flight to the server.
    pub(crate) on_the_way: VecDeque<Packet>,
    /// Packets in flight to the client.
    back: VecDeque<(Time, Vec<u8>)>,
    /// Bytes that have arrived since a measurement began.
    pub(crate) delivered: u64,
}

impl Transfer {
    pub(crate) fn new(starts: Time, ends: Time) -> Self {
        let mut transport = TransportConfig::default();
        transport
            .initial_mtu(MTU as u16)
            .mtu_discovery_config(None)
            .congestion_controller_factory(Arc::new(CubicConfig::default()))
            .datagram_send_buffer_size(100 * MTU as usize);
        let (transport, provider) = (Arc::new(transport), Arc::new(ring::default_provider()));
        let (certificate, key) = squall_testkit::certificate(NAME);
        let mut roots = rustls::RootCertStore::empty();
        roots.add(certificate.clone()).expect("is valid");
        let server = rustls::ServerConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(&[&rustls::version::TLS13])
            .expect("is supported")
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key)
            .expect("is valid");
        let client = rustls::ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .expect("is supported")
            .with_root_certificates(roots)
            .with_no_client_auth();
        let mut server =
            ServerConfig::with_crypto(Arc::new(QuicServerConfig::try_from(server).expect("is TLS 1.3")));
        server.transport_config(transport.clone());
        let mut config = ClientConfig::new(Arc::new(QuicClientConfig::try_from(client).expect("is TLS 1.3")));
        config.transport_config(transport);
        Self {
            starts,
            ends,
            epoch: Instant::now(),
            client: End { sends: true, ..End::new(None) },
            server: End::new(Some(server)),
            config,
            next: 0,
            on_the_way: VecDeque::new(),
            back: VecDeque::new(),
            delivered: 0,
        }
    }

    /// Processes packets that have arrived by now, and returns the packets that leave the client.
    pub(crate) fn step(&mut self, now: Time, delay: Span) -> Vec<Packet> {
        let at = self.epoch + now.since_epoch().duration();
        if (self.starts..self.ends).contains(&now) && self.client.connection.is_none() {
            let connected = self.client.endpoint.connect(at, self.config.clone(), address(), NAME);
            self.client.connection = Some(connected.expect("the request is valid"));
        }
        while self.on_the_way.front().is_some_and(|packet| packet.arrived <= now) {
            let packet = self.on_the_way.pop_front().expect("it is there");
            self.delivered += packet.bytes;
            self.server.receive(at, &packet.data);
        }
        self.back.extend(self.server.transmit(at).into_iter().map(|data| (now + delay, data)));
        while self.back.front().is_some_and(|(arrives, _)| *arrives <= now) {
            let (_, data) = self.back.pop_front().expect("it is there");
            self.client.receive(at, &data);
        }
        if now >= self.ends {
            return Vec::new();
        }
        let left = self.client.transmit(at).into_iter();
        left.map(|data| {
            self.next += 1;
            Packet { number: self.next, sent: now, arrived: Time::EPOCH, bytes: data.len() as u64, data }
        })
        .collect()
    }
}

fn address() -> SocketAddr {
    (Ipv4Addr::LOCALHOST, 4433).into()
}

impl End {
    fn new(server: Option<ServerConfig>) -> Self {
        let mut config = EndpointConfig::default();
        config.rng_seed(Some([7; 32]));
        let endpoint = Endpoint::new(Arc::new(config), server.map(Arc::new), false);
        Self { endpoint, connection: None, sends: false, has_news: true }
    }

    fn receive(&mut self, now: Instant, packet: &[u8]) {
        self.has_news = true;
        let mut buf = Vec::new();
        let path = FourTuple::new(address(), None);
        match self.endpoint.handle(now, path, None, packet.into(), &mut buf) {
            Some(DatagramEvent::ConnectionEvent(_, event)) => {
                if let Some((_, connection)) = &mut self.connection {
                    connection.handle_event(event);
                }
            }
            Some(DatagramEvent::NewConnection(incoming)) => {
                let accepted = self.endpoint.accept(incoming, now, &mut buf, None);
                self.connection = Some(accepted.expect("is a client"));
            }
            Some(DatagramEvent::Response(_)) | None => {}
        }
    }

    /// Processes everything that is due, and returns the packets that leave.
    fn transmit(&mut self, now: Instant) -> Vec<Vec<u8>> {
        let Some((handle, connection)) = &mut self.connection else { return Vec::new() };
        if connection.poll_timeout().is_some_and(|at| at <= now) {
            connection.handle_timeout(now);
            self.has_news = true;
        }
        let (mut packets, mut buf) = (Vec::new(), Vec::new());
        if !std::mem::take(&mut self.has_news) {
            return packets;
        }
        loop {
            let mut datagrams = connection.datagrams();
            while datagrams.recv().is_some() {}
            while self.sends && datagrams.send(Bytes::from_static(DATAGRAM), false).is_ok() {}
            if connection.poll_transmit(now, NonZeroUsize::MIN, &mut buf).is_none() {
                break;
            }
            packets.push(std::mem::take(&mut buf));
        }
        while let Some(event) = connection.poll_endpoint_events() {
            if let Some(answer) = self.endpoint.handle_event(*handle, event) {
                connection.handle_event(answer);
            }
        }
        while connection.poll().is_some() {}
        packets
    }
}

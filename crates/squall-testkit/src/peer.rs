//! Endpoint of Squall with its application.

use std::{collections::VecDeque, net::SocketAddr, sync::LazyLock, time::Instant};

use rustls::pki_types::CertificateDer;
use squall_proto::{
    ClientTls, Config, Endpoint, Event, Interface, NetPath, ServerTls, Session, SessionId, Target,
};

use crate::{
    certificate,
    wire::{End, Packet, SERVER},
};

/// Host name in the servers' certificate.
pub const NAME: &str = "squall.test";

/// Maximum number of pending events of an endpoint.
const MOST_EVENTS: u32 = 4_000;

/// Identity of all servers in a process, and the configuration of clients that trust it.
pub struct Tls {
    /// Configuration of a server.
    pub server: ServerTls,
    /// Configuration of a client that trusts the server.
    pub client: ClientTls,
    /// The server's certificate.
    pub certificate: CertificateDer<'static>,
}

/// Returns the identity, which is created once because key generation is slow.
///
/// # Panics
///
/// If the identity cannot be created.
pub fn tls() -> &'static Tls {
    static TLS: LazyLock<Tls> = LazyLock::new(|| {
        let (certificate, key) = certificate(NAME);
        let server = ServerTls::new(vec![certificate.clone()], key).expect("belong together");
        let client = ClientTls::with_roots(std::slice::from_ref(&certificate)).expect("is usable");
        Tls { server, client, certificate }
    });
    &TLS
}

/// An endpoint with an application that takes its events at once.
pub struct Peer {
    /// The endpoint.
    pub endpoint: Endpoint,
    /// Addresses of its interfaces, whose numbers are their indices.
    pub addresses: Vec<SocketAddr>,
    /// Its first session, or the last one that it requested.
    pub id: Option<SessionId>,
    /// Events that were taken from the endpoint.
    pub events: VecDeque<(SessionId, Event)>,
    /// Maximum number of packets of one size sent at a time. Default: 1.
    pub batch: usize,
    /// Leaves events in the endpoint. Default: `false`.
    pub holds_events: bool,
}

impl Peer {
    /// Creates a server at [`SERVER`], with the identity of [`tls`].
    pub fn server(config: Config, seed: u8, now: Instant) -> Self {
        Self::of(Endpoint::new(config, Some(&tls().server), Some([seed; 32]), now), vec![SERVER])
    }

    /// Creates a client with these addresses, which connects over all of them.
    ///
    /// # Panics
    ///
    /// If it cannot connect.
    pub fn client(config: Config, seed: u8, now: Instant, addresses: &[SocketAddr]) -> Self {
        let mut client = Self::new(config, seed, now, addresses.to_vec());
        client.connect(now, tls().client.clone());
        client
    }

    /// Creates a client that does not connect yet.
    pub fn new(config: Config, seed: u8, now: Instant, addresses: Vec<SocketAddr>) -> Self {
        Self::of(Endpoint::new(config, None, Some([seed; 32]), now), addresses)
    }

    fn of(endpoint: Endpoint, addresses: Vec<SocketAddr>) -> Self {
        Self { endpoint, addresses, id: None, events: VecDeque::new(), batch: 1, holds_events: false }
    }

    /// Connects to the server over all addresses.
    ///
    /// # Panics
    ///
    /// If the endpoint refuses to connect.
    pub fn connect(&mut self, now: Instant, tls: ClientTls) -> SessionId {
        let path = |n| vec![NetPath { local: Interface(n), remote: SERVER }];
        let interfaces = (0..self.addresses.len() as u32).map(path).collect();
        let target = Target { tls, server_name: NAME.into(), interfaces, config: None };
        let id = self.endpoint.connect(now, target).expect("has a path");
        self.id = Some(id);
        id
    }

    /// Returns the session of [`Self::id`], if it exists.
    pub fn find(&mut self) -> Option<&mut Session> {
        self.endpoint.session(self.id?)
    }

    /// Returns the session of [`Self::id`].
    ///
    /// # Panics
    ///
    /// If there is no such session.
    pub fn session(&mut self) -> &mut Session {
        self.find().expect("there is a session")
    }

    /// `true` if its session has ended or does not exist.
    pub fn is_closed(&mut self) -> bool {
        self.find().is_none_or(|session| session.is_closed())
    }

    fn take_events(&mut self) {
        let mut taken = 0;
        while let Some((id, event)) = self.endpoint.poll() {
            taken += 1;
            assert!(taken <= MOST_EVENTS, "events without end, at last {event:?}");
            self.id.get_or_insert(id);
            if event == Event::Connected {
                self.endpoint.session(id).expect("is up").report_outcomes(true);
            }
            self.events.push_back((id, event));
        }
    }
}

impl End for Peer {
    fn is_at(&self, address: SocketAddr) -> bool {
        self.addresses.contains(&address)
    }

    fn due(&mut self) -> Option<Instant> {
        self.endpoint.poll_timeout()
    }

    fn receive(&mut self, now: Instant, packet: Packet) {
        let number = self.addresses.iter().position(|own| *own == packet.to).expect("is its own");
        let net = NetPath { local: Interface(number as u32), remote: packet.from };
        self.endpoint.handle(now, net, None, packet.data);
    }

    fn on_timeout(&mut self, now: Instant) {
        self.endpoint.handle_timeout(now);
    }

    fn transmit(&mut self, now: Instant, send: &mut dyn FnMut(Packet)) {
        let mut buf = Vec::new();
        while let Some(out) = self.endpoint.poll_transmit(now, self.batch, &mut buf) {
            let Some(from) = self.addresses.get(out.path.local.0 as usize).copied() else { continue };
            for data in buf[..out.size].chunks(out.segment_size.unwrap_or(out.size).max(1)) {
                send(Packet { from, to: out.path.remote, data: data.into() });
            }
            buf.clear();
        }
        if !self.holds_events {
            self.take_events();
        }
    }
}

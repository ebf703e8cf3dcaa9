//! The part of noq that dispatches incoming packets to connections, and creates new ones.

use std::{
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::BytesMut;
use noq_proto::{
    ClientConfig, ConnectionEvent, ConnectionHandle, DatagramEvent, EndpointConfig, EndpointEvent, FourTuple,
    IdleTimeout, ServerConfig, TransportConfig,
};
use ring::{hmac, rand::SystemRandom};

use super::{
    Clock, Connection, Ecn, Entry, Transmit,
    controller::Controllers,
    ids::{ServerIds, WorkerIds},
    mtu,
};
use crate::{ClientTls, Config, ConnectError, NetPath, ServerTls, newcomers::Admission, worker::Worker};

/// State that all workers of a server share: its certificate, and the keys that are derived from it
/// or drawn for it. A token that one of them has issued is valid at all, and used once.
#[derive(Clone)]
pub(crate) struct Server {
    config: Arc<ServerConfig>,
    tls: ServerTls,
    /// Secret for nonces in connection ids.
    secret: hmac::Key,
}

impl Server {
    pub(crate) fn new(config: &Config, tls: &ServerTls, seed: Option<[u8; 32]>) -> Self {
        let secret = match seed {
            Some(seed) => hmac::Key::new(hmac::HMAC_SHA256, &seed),
            // Without randomness of the system there is no handshake, and therefore no id.
            None => hmac::Key::generate(hmac::HMAC_SHA256, &SystemRandom::new())
                .unwrap_or_else(|_| hmac::Key::new(hmac::HMAC_SHA256, &tls.id_key().to_be_bytes())),
        };
        Self { config: Arc::new(server_config(config, tls)), tls: tls.clone(), secret }
    }
}

/// Dispatches packets to connections.
pub(crate) struct Listener {
    pub(crate) inner: noq_proto::Endpoint,
    pub(crate) clock: Clock,
    server: Option<Arc<ServerConfig>>,
    config: Config,
}

/// Kind of an incoming packet.
pub(crate) enum Incoming<P, S> {
    /// A packet of an existing connection.
    Packet(ConnectionHandle, ConnectionEvent),
    /// The first packet of a new connection; `true` if its peer has validated its address.
    New(Box<Connection<P, S>>, bool),
    /// The first packet of a connection that is refused, with a reply of the endpoint in the
    /// buffer, if any.
    Refused(Option<Transmit>),
    /// A packet of no connection, with a reply of the endpoint in the buffer, if any.
    Unknown(Option<Transmit>),
}

impl Listener {
    /// Creates a listener. `seed` makes connection ids, packet number gaps and path challenges
    /// reproducible.
    pub(crate) fn new(
        config: &Config,
        server: Option<Server>,
        seed: Option<[u8; 32]>,
        worker: Worker,
    ) -> Self {
        let mut endpoint = endpoint_config(config, server.as_ref(), worker);
        endpoint.rng_seed(seed);
        let server = server.map(|server| server.config);
        Self {
            inner: noq_proto::Endpoint::new(Arc::new(endpoint), server.clone(), true),
            clock: Clock::default(),
            server,
            config: config.clone(),
        }
    }

    /// Sets the certificate of new connections. The keys of connection ids and of stateless resets
    /// remain those of the first one, which open sessions rely on.
    pub(crate) fn set_tls(&mut self, tls: &ServerTls) {
        if let Some(server) = &mut self.server {
            Arc::make_mut(server).crypto = tls.crypto();
        }
    }

    /// Starts a handshake over one path.
    pub(crate) fn connect<P, S: Entry>(
        &mut self,
        now: Instant,
        config: &Config,
        tls: &ClientTls,
        server_name: &str,
        path: NetPath,
    ) -> Result<Connection<P, S>, ConnectError> {
        let controllers = Controllers::new(config);
        let mut client = ClientConfig::new(tls.crypto());
        client.transport_config(Arc::new(transport(config, &controllers)));
        let (handle, inner) = self
            .inner
            .connect(self.clock.of_quic(now), client, path.remote, server_name)
            .map_err(|e| ConnectError::Local(e.to_string()))?;
        Ok(Connection::new(inner, handle, path, controllers, self.clock))
    }

    /// Drops a connection that is not over.
    pub(crate) fn forget(&mut self, handle: ConnectionHandle) {
        self.inner.handle_event(handle, EndpointEvent::drained());
    }

    /// Processes a packet. `admit` decides about a new connection; its argument is `true` if the
    /// peer has validated its address.
    pub(crate) fn receive<P, S: Entry>(
        &mut self,
        now: Instant,
        path: NetPath,
        ecn: Option<Ecn>,
        data: BytesMut,
        admit: impl FnOnce(bool) -> Admission,
        buf: &mut Vec<u8>,
    ) -> Incoming<P, S> {
        let now = self.clock.of_quic(now);
        let tuple = FourTuple::new(path.remote, Some(path.local.address()));
        match self.inner.handle(now, tuple, ecn, data, buf) {
            Some(DatagramEvent::ConnectionEvent(handle, event)) => Incoming::Packet(handle, event),
            Some(DatagramEvent::Response(transmit)) => Incoming::Unknown(Some(reply(path, &transmit))),
            Some(DatagramEvent::NewConnection(incoming)) => {
                match admit(incoming.remote_address_validated()) {
                    Admission::Accept => self.accept(incoming, now, path, buf),
                    Admission::Refuse => {
                        Incoming::Refused(Some(reply(path, &self.inner.refuse(incoming, buf))))
                    }
                    Admission::Ignore => {
                        self.inner.ignore(incoming);
                        Incoming::Refused(None)
                    }
                    Admission::Retry => {
                        let retried = self.inner.retry(incoming, buf);
                        Incoming::Refused(retried.ok().map(|transmit| reply(path, &transmit)))
                    }
                }
            }
            None => Incoming::Unknown(None),
        }
    }

    fn accept<P, S: Entry>(
        &mut self,
        incoming: noq_proto::Incoming,
        now: Instant,
        path: NetPath,
        buf: &mut Vec<u8>,
    ) -> Incoming<P, S> {
        let Some(server) = &self.server else { return Incoming::Refused(None) };
        // Each connection has controllers of its own, so that controllers are counted per
        // connection.
        let controllers = Controllers::new(&self.config);
        let proven = incoming.remote_address_validated();
        let mut server = ServerConfig::clone(server);
        server.transport_config(Arc::new(transport(&self.config, &controllers)));
        match self.inner.accept(incoming, now, buf, Some(Arc::new(server))) {
            Ok((handle, inner)) => {
                let conn = Connection::new(inner, handle, path, controllers, self.clock);
                Incoming::New(Box::new(conn), proven)
            }
            Err(error) => Incoming::Refused(error.response.map(|transmit| reply(path, &transmit))),
        }
    }
}

fn reply(path: NetPath, transmit: &noq_proto::Transmit) -> Transmit {
    let remote: SocketAddr = transmit.destination;
    Transmit {
        path: NetPath { local: path.local, remote },
        size: transmit.size,
        segment_size: transmit.segment_size,
        ecn: transmit.ecn,
    }
}

/// Values that a server derives from its private key are the same after a restart, so that its
/// peers accept the stateless resets by which it reports that it no longer has their sessions (RFC
/// 9000 §10.3.2).
fn endpoint_config(config: &Config, server: Option<&Server>, worker: Worker) -> EndpointConfig {
    let Some(server) = server else { return EndpointConfig::default() };
    let mut endpoint = EndpointConfig::new(server.tls.reset_key());
    match config.quic_lb.clone() {
        Some(quic_lb) => {
            let ids = ServerIds::new(quic_lb, server.secret.clone(), worker);
            endpoint.cid_generator(Arc::new(move || Box::new(ids.clone())));
        }
        None => {
            let ids = WorkerIds::new(server.tls.id_key(), worker);
            endpoint.cid_generator(Arc::new(move || Box::new(ids.clone())));
        }
    }
    endpoint.min_reset_interval(MIN_RESET_INTERVAL * worker.count as u32);
    endpoint
}

/// Interval between two stateless resets of all workers: noq's own default, by which a flood of
/// garbage causes few answers.
const MIN_RESET_INTERVAL: Duration = Duration::from_millis(20);

fn server_config(config: &Config, tls: &ServerTls) -> ServerConfig {
    let mut server = ServerConfig::with_crypto(tls.crypto());
    server.transport_config(Arc::new(transport(config, &Controllers::new(config))));
    server
}

fn transport(config: &Config, controllers: &Arc<Controllers>) -> TransportConfig {
    let mut transport = TransportConfig::default();
    let (packets, round_trips) = if config.switches().track_reordering { BACKSTOP } else { STANDARD };
    transport
        .congestion_controller_factory(controllers.clone())
        .max_concurrent_multipath_paths(config.limits.max_paths as u32)
        .max_idle_timeout(Some(idle_timeout(config.idle_timeout)))
        // Checked by the session: noq counts only packets that a path receives, and on one that
        // carries media one way nothing returns, since the acknowledgements take another.
        .default_path_max_idle_timeout(None)
        .packet_threshold(packets)
        .time_threshold(round_trips)
        .mtu_discovery_config(Some(mtu::discovery()))
        .datagram_receive_buffer_size(Some(RECEIVE_BUFFER))
        .datagram_send_buffer_size(SEND_BUFFER)
        .enable_segmentation_offload(true)
        .allow_spin(false)
        .send_observed_address_reports(false)
        .max_concurrent_bidi_streams(0u32.into())
        .max_concurrent_uni_streams(1u32.into());
    #[cfg(feature = "qlog")]
    if let Some(dir) = &config.qlog_dir {
        transport.qlog_factory(Arc::new(noq_proto::QlogFileFactory::new(dir.clone())));
    }
    transport
}

/// Packets that overtake another one, and round trips since it left, after which it is lost (RFC
/// 9002 §6.1).
const STANDARD: (u32, f32) = (3, 9.0 / 8.0);

/// Thresholds where the session declares losses (`session/loss.rs`): noq does not report the
/// acknowledgement of a packet that it has declared lost, so it waits longer. Its receiver drops a
/// packet that 129 later ones have overtaken, as it may be a duplicate; a few more may be in
/// flight. Round trips grow by the [lead](super::Ledger::lead) where packets are overtaken by more.
/// noq's own frames and the handshake wait as well: three round trips are the first probe timeout
/// (RFC 9002 §6.2.2), so a loss in the middle of a flight is repaired as soon as one at its end.
/// With eight, the 95 % quantile of a session's first block over a path that loses 10 % is 251
/// instead of 219 ms.
const BACKSTOP: (u32, f32) = (256, BACKSTOP_ROUND_TRIPS as f32);

pub(crate) const BACKSTOP_ROUND_TRIPS: u32 = 3;

/// Datagrams are taken out of noq after every packet, so the buffer holds those of one packet only.
const RECEIVE_BUFFER: usize = 1 << 20;

/// One batch for one path is queued at a time. See also
/// [`drop_oversized`](super::Connection::drop_oversized).
const SEND_BUFFER: usize = 1 << 16;

fn idle_timeout(timeout: Duration) -> IdleTimeout {
    // Fails above 2^62 ms, which is practically never.
    IdleTimeout::try_from(timeout).unwrap_or_else(|_| noq_proto::VarInt::MAX.into())
}

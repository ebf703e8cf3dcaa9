//! The part of noq that sorts incoming packets to connections, and makes new ones.

use std::{
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::BytesMut;
use noq_proto::{
    ClientConfig, ConnectionEvent, ConnectionHandle, DatagramEvent, EndpointConfig, FourTuple, IdleTimeout,
    QlogFileFactory, ServerConfig, TransportConfig,
};

use super::{ClientTls, Connection, Ecn, ServerTls, Transmit, controller::Roster};
use crate::{Config, ConnectError, NetPath};

/// Sorts packets to connections.
pub(crate) struct Listener {
    pub(crate) inner: noq_proto::Endpoint,
    server: Option<Arc<ServerConfig>>,
    config: Config,
}

/// What an incoming packet was.
pub(crate) enum Heard<P> {
    /// For a connection there is.
    Packet(ConnectionHandle, ConnectionEvent),
    /// The first of a new connection.
    New(Box<Connection<P>>),
    /// Answered at once: what the endpoint wrote to the buffer is to be sent.
    Reply(Transmit),
    /// Nothing to do.
    Nothing,
}

/// Handshakes in progress above which a peer must prove its address first (RFC 9000 §8.1.2).
const UNPROVEN_HANDSHAKES: usize = 64;

impl Listener {
    /// `seed` makes connection ids, packet number gaps and path challenges reproducible.
    pub(crate) fn new(config: &Config, tls: Option<&ServerTls>, seed: Option<[u8; 32]>) -> Self {
        let mut endpoint = EndpointConfig::default();
        endpoint.rng_seed(seed);
        let server = tls.map(|tls| Arc::new(server_config(config, tls)));
        Self {
            inner: noq_proto::Endpoint::new(Arc::new(endpoint), server.clone(), true),
            server,
            config: config.clone(),
        }
    }

    /// Starts a handshake over one path.
    pub(crate) fn connect<P>(
        &mut self,
        now: Instant,
        tls: &ClientTls,
        server_name: &str,
        path: NetPath,
    ) -> Result<Connection<P>, ConnectError> {
        let roster = Roster::new(&self.config);
        let mut client = ClientConfig::new(tls.crypto());
        client.transport_config(Arc::new(transport(&self.config, &roster)));
        let (handle, inner) = self
            .inner
            .connect(now, client, path.remote, server_name)
            .map_err(|e| ConnectError::Local(e.to_string()))?;
        Ok(Connection::new(inner, handle, path, roster))
    }

    /// Takes in a packet. `handshakes` counts the handshakes in progress.
    pub(crate) fn hear<P>(
        &mut self,
        now: Instant,
        path: NetPath,
        ecn: Option<Ecn>,
        data: BytesMut,
        handshakes: impl Fn() -> usize,
        buf: &mut Vec<u8>,
    ) -> Heard<P> {
        let tuple = FourTuple::new(path.remote, Some(path.local));
        match self.inner.handle(now, tuple, ecn, data, buf) {
            Some(DatagramEvent::ConnectionEvent(handle, event)) => Heard::Packet(handle, event),
            Some(DatagramEvent::Response(transmit)) => reply(path, &transmit),
            Some(DatagramEvent::NewConnection(incoming)) => {
                let handshakes = handshakes();
                if handshakes >= UNPROVEN_HANDSHAKES && !incoming.remote_address_validated() {
                    return match self.inner.retry(incoming, buf) {
                        Ok(transmit) => reply(path, &transmit),
                        Err(_) => Heard::Nothing,
                    };
                }
                if handshakes >= self.config.limits.handshakes {
                    return reply(path, &self.inner.refuse(incoming, buf));
                }
                self.accept(incoming, now, path, buf)
            }
            None => Heard::Nothing,
        }
    }

    fn accept<P>(
        &mut self,
        incoming: noq_proto::Incoming,
        now: Instant,
        path: NetPath,
        buf: &mut Vec<u8>,
    ) -> Heard<P> {
        let Some(server) = &self.server else { return Heard::Nothing };
        // Each connection has a roster of its own, so that controllers are counted per connection.
        let roster = Roster::new(&self.config);
        let mut server = ServerConfig::clone(server);
        server.transport_config(Arc::new(transport(&self.config, &roster)));
        match self.inner.accept(incoming, now, buf, Some(Arc::new(server))) {
            Ok((handle, inner)) => Heard::New(Box::new(Connection::new(inner, handle, path, roster))),
            Err(error) => error.response.map_or(Heard::Nothing, |t| reply(path, &t)),
        }
    }
}

fn reply<P>(path: NetPath, transmit: &noq_proto::Transmit) -> Heard<P> {
    let remote: SocketAddr = transmit.destination;
    Heard::Reply(Transmit {
        path: NetPath { local: path.local, remote },
        size: transmit.size,
        segment_size: transmit.segment_size,
        ecn: transmit.ecn,
    })
}

fn server_config(config: &Config, tls: &ServerTls) -> ServerConfig {
    let mut server = ServerConfig::with_crypto(tls.crypto());
    server.transport_config(Arc::new(transport(config, &Roster::new(config))));
    server
}

fn transport(config: &Config, roster: &Arc<Roster>) -> TransportConfig {
    let mut transport = TransportConfig::default();
    transport
        .congestion_controller_factory(roster.clone())
        .max_concurrent_multipath_paths(config.limits.paths as u32)
        .max_idle_timeout(Some(idle_timeout(config.idle_timeout)))
        // Minded by the session: noq counts what a path receives only, and on one that carries media
        // one way nothing comes back, since the acknowledgements take another.
        .default_path_max_idle_timeout(None)
        // Reordering is not loss: repair decisions rest on time (RFC 9002 §6.1.2), and a packet
        // overtaken by a few others on a jittery link is not declared lost for it.
        .packet_threshold(config.packet_threshold)
        .time_threshold(config.time_threshold)
        .datagram_receive_buffer_size(Some(RECEIVE_BUFFER))
        .datagram_send_buffer_size(SEND_BUFFER)
        .enable_segmentation_offload(true)
        .allow_spin(false)
        .send_observed_address_reports(false)
        .max_concurrent_bidi_streams(0u32.into())
        .max_concurrent_uni_streams(1u32.into());
    if let Some(dir) = &config.qlog_dir {
        transport.qlog_factory(Arc::new(QlogFileFactory::new(dir.clone())));
    }
    transport
}

/// Datagrams are taken out of noq after every packet, so the buffer holds those of one packet only.
const RECEIVE_BUFFER: usize = 1 << 20;

/// One batch for one path is queued at a time.
const SEND_BUFFER: usize = 1 << 20;

fn idle_timeout(timeout: Duration) -> IdleTimeout {
    // Fails above 2^62 ms, which is as good as never.
    IdleTimeout::try_from(timeout).unwrap_or_else(|_| noq_proto::VarInt::MAX.into())
}

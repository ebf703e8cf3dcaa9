//! The two sides of plain noq datagrams: one connection for each session, with the defaults of noq.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
    time::Instant,
};

use anyhow::Context as _;
use bytes::{Bytes, BytesMut};
use noq_proto::{
    ClientConfig, Connection, ConnectionHandle, DatagramEvent, Endpoint, EndpointConfig, FourTuple,
    ServerConfig, Transmit, TransportConfig,
};
use squall_testkit::world::{End, Packet, SERVER};

use super::side::Side;

const CLIENT: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::new(192, 0, 2, 2)), 1000);

const MAX_PACKETS: std::num::NonZeroUsize = std::num::NonZeroUsize::new(10).unwrap();

pub(super) fn pair() -> anyhow::Result<(Source, Sink)> {
    let (certificate, key) = squall_testkit::certificate("bench");
    let mut roots = rustls::RootCertStore::empty();
    roots.add(certificate.clone())?;
    let mut transport = TransportConfig::default();
    transport.datagram_send_buffer_size(1 << 20).datagram_receive_buffer_size(Some(1 << 20));
    let transport = Arc::new(transport);
    let mut server = ServerConfig::with_single_cert(vec![certificate], key)?;
    server.transport_config(transport.clone());
    let mut client = ClientConfig::with_root_certificates(Arc::new(roots))?;
    client.transport_config(transport);
    Ok((
        Source { side: Connections::new(None, CLIENT, SERVER), config: client, handles: Vec::new() },
        Sink { side: Connections::new(Some(server), SERVER, CLIENT) },
    ))
}

/// An endpoint and its connections, with the time to which each timer is set.
struct Connections {
    local: SocketAddr,
    endpoint: Endpoint,
    network: FourTuple,
    connections: HashMap<ConnectionHandle, Connection>,
    timers: BTreeSet<(Instant, ConnectionHandle)>,
    timer_of: BTreeMap<ConnectionHandle, Instant>,
    dirty: BTreeSet<ConnectionHandle>,
    received: u64,
}

impl Connections {
    fn new(server: Option<ServerConfig>, local: SocketAddr, remote: SocketAddr) -> Self {
        let mut config = EndpointConfig::default();
        config.rng_seed(None);
        Self {
            local,
            endpoint: Endpoint::new(Arc::new(config), server.map(Arc::new), true),
            network: FourTuple::new(remote, Some(local.ip())),
            connections: HashMap::new(),
            timers: BTreeSet::new(),
            timer_of: BTreeMap::new(),
            dirty: BTreeSet::new(),
            received: 0,
        }
    }

    /// Passes events between a connection and the endpoint, reads received datagrams, and sets the
    /// timer.
    fn settle(&mut self, handle: ConnectionHandle) {
        let Some(connection) = self.connections.get_mut(&handle) else { return };
        while let Some(event) = connection.poll_endpoint_events() {
            if let Some(answer) = self.endpoint.handle_event(handle, event) {
                connection.handle_event(answer);
            }
        }
        while connection.poll().is_some() {}
        while let Some(datagram) = connection.datagrams().recv() {
            self.received += datagram.len() as u64;
        }
        let due = connection.poll_timeout();
        let old = match due {
            Some(at) => self.timer_of.insert(handle, at),
            None => self.timer_of.remove(&handle),
        };
        if old != due {
            self.timers.extend(due.map(|at| (at, handle)));
            if let Some(old) = old {
                self.timers.remove(&(old, handle));
            }
        }
    }

    fn take_in(&mut self, now: Instant, packet: BytesMut) {
        let mut buf = Vec::new();
        match self.endpoint.handle(now, self.network, None, packet, &mut buf) {
            Some(DatagramEvent::ConnectionEvent(handle, event)) => {
                if let Some(connection) = self.connections.get_mut(&handle) {
                    connection.handle_event(event);
                    self.dirty.insert(handle);
                }
            }
            Some(DatagramEvent::NewConnection(incoming)) => {
                if let Ok((handle, connection)) = self.endpoint.accept(incoming, now, &mut buf, None) {
                    self.connections.insert(handle, connection);
                    self.dirty.insert(handle);
                }
            }
            Some(DatagramEvent::Response(_)) | None => {}
        }
    }

    fn on_time(&mut self, now: Instant) {
        while let Some(&(at, handle)) = self.timers.first()
            && at <= now
        {
            self.timers.remove(&(at, handle));
            self.timer_of.remove(&handle);
            if let Some(connection) = self.connections.get_mut(&handle) {
                connection.handle_timeout(now);
                self.dirty.insert(handle);
            }
        }
    }

    fn due(&self) -> Option<Instant> {
        self.timers.first().map(|(at, _)| *at)
    }

    fn send_out(&mut self, now: Instant, buf: &mut Vec<u8>) -> Option<usize> {
        while let Some(&handle) = self.dirty.first() {
            let connection = self.connections.get_mut(&handle)?;
            if let Some(Transmit { size, segment_size, .. }) = connection.poll_transmit(now, MAX_PACKETS, buf)
            {
                buf.truncate(size);
                return Some(segment_size.unwrap_or(size));
            }
            self.dirty.remove(&handle);
            self.settle(handle);
        }
        None
    }
}

pub(super) struct Source {
    side: Connections,
    config: ClientConfig,
    handles: Vec<ConnectionHandle>,
}

impl Side for Source {
    fn connect(&mut self, now: Instant) -> anyhow::Result<()> {
        let connecting = self.side.endpoint.connect(now, self.config.clone(), SERVER, "bench");
        let (handle, connection) = connecting.context("plain noq")?;
        self.side.connections.insert(handle, connection);
        self.side.dirty.insert(handle);
        self.handles.push(handle);
        Ok(())
    }

    /// Sends the frame in datagrams that fill their packets.
    fn send(&mut self, _: Instant, connection: usize, mut frame: Bytes) {
        let handle = self.handles[connection];
        let Some(connection) = self.side.connections.get_mut(&handle) else { return };
        let mut datagrams = connection.datagrams();
        let Some(most) = datagrams.max_size() else { return };
        while !frame.is_empty() {
            // Lost datagrams show in the count of the other side.
            let _ = datagrams.send(frame.split_to(most.min(frame.len())), false);
        }
        self.side.dirty.insert(handle);
    }
}

pub(super) struct Sink {
    side: Connections,
}

impl Side for Sink {
    fn received(&mut self) -> u64 {
        std::mem::take(&mut self.side.received)
    }
}

macro_rules! end {
    ($end:ty) => {
        impl End for $end {
            fn is_at(&self, address: SocketAddr) -> bool {
                self.side.local == address
            }

            fn due(&mut self) -> Option<Instant> {
                self.side.due()
            }

            fn receive(&mut self, now: Instant, packet: Packet) {
                self.side.take_in(now, packet.data);
            }

            fn on_timeout(&mut self, now: Instant) {
                self.side.on_time(now);
            }

            fn transmit(&mut self, now: Instant, send: &mut dyn FnMut(Packet)) {
                let (from, to, mut buf) = (self.side.local, self.side.network.remote(), Vec::new());
                while let Some(size) = self.side.send_out(now, &mut buf) {
                    buf.chunks(size).for_each(|data| send(Packet { from, to, data: data.into() }));
                    buf.clear();
                }
            }
        }
    };
}

end!(Source);
end!(Sink);

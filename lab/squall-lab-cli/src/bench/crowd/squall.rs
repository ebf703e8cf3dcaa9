//! Squall's two sides.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    time::{Duration, Instant},
};

use bytes::{Bytes, BytesMut};
use squall_proto::{
    Block, BlockOptions, ClientTls, Config, Endpoint, Event, Fingerprint, Interface, Limits, NetPath,
    ServerTls, SessionId, Target,
};

use super::end::{self, End};

const SERVER: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), 4433);
const CLIENT: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 2)), 1000);

/// Packets of one size that a system sends in one go.
const MAX_PACKETS: usize = 10;

fn config() -> Config {
    Config { limits: Limits { handshakes_per_host: 1024, ..Limits::default() }, ..Config::default() }
}

pub(super) struct Source {
    endpoint: Endpoint,
    tls: ClientTls,
    sessions: Vec<SessionId>,
}

impl Source {
    pub(super) fn new(now: Instant, server: Fingerprint) -> anyhow::Result<Self> {
        let endpoint = Endpoint::new(config(), None, None, now);
        Ok(Self { endpoint, tls: ClientTls::pinned(server)?, sessions: Vec::new() })
    }
}

impl end::Source for Source {
    fn connect(&mut self, now: Instant) -> anyhow::Result<()> {
        let path = NetPath { local: Interface(0), remote: SERVER };
        let target =
            Target { tls: self.tls.clone(), server_name: "bench".into(), interfaces: vec![vec![path]] };
        self.sessions.push(self.endpoint.connect(now, target)?);
        Ok(())
    }

    fn send(&mut self, now: Instant, connection: usize, frame: Bytes) {
        if let Some(session) = self.endpoint.session(self.sessions[connection]) {
            // What has not arrived is counted at the other side.
            let _ = session
                .send(now, Block::with(frame, BlockOptions::new().deadline(Duration::from_millis(150))));
        }
    }
}

impl End for Source {
    fn take_in(&mut self, now: Instant, packet: BytesMut) {
        self.endpoint.handle(now, NetPath { local: Interface(0), remote: SERVER }, None, packet);
    }

    fn on_time(&mut self, now: Instant) {
        self.endpoint.handle_timeout(now);
    }

    fn due(&mut self) -> Option<Instant> {
        self.endpoint.poll_timeout()
    }

    fn send_out(&mut self, now: Instant, buf: &mut Vec<u8>) -> Option<usize> {
        let size = send_out(&mut self.endpoint, now, buf);
        drain(&mut self.endpoint);
        size
    }

    fn received(&mut self) -> u64 {
        0
    }
}

pub(super) struct Sink {
    endpoint: Endpoint,
    received: u64,
}

impl Sink {
    pub(super) fn new(now: Instant, tls: &ServerTls) -> Self {
        Self { endpoint: Endpoint::new(config(), Some(tls), None, now), received: 0 }
    }
}

impl End for Sink {
    fn take_in(&mut self, now: Instant, packet: BytesMut) {
        self.endpoint.handle(now, NetPath { local: Interface(0), remote: CLIENT }, None, packet);
    }

    fn on_time(&mut self, now: Instant) {
        self.endpoint.handle_timeout(now);
    }

    fn due(&mut self) -> Option<Instant> {
        self.endpoint.poll_timeout()
    }

    fn send_out(&mut self, now: Instant, buf: &mut Vec<u8>) -> Option<usize> {
        let size = send_out(&mut self.endpoint, now, buf);
        self.received += drain(&mut self.endpoint);
        size
    }

    fn received(&mut self) -> u64 {
        std::mem::take(&mut self.received)
    }
}

fn send_out(endpoint: &mut Endpoint, now: Instant, buf: &mut Vec<u8>) -> Option<usize> {
    let transmit = endpoint.poll_transmit(now, MAX_PACKETS, buf)?;
    buf.truncate(transmit.size);
    Some(transmit.segment_size.unwrap_or(transmit.size))
}

/// Takes all events; returns the bytes of blocks that have arrived.
fn drain(endpoint: &mut Endpoint) -> u64 {
    let mut bytes = 0;
    while let Some(id) = endpoint.poll_ready() {
        while let Some(event) = endpoint.poll_event(id) {
            if let Event::Received(block) = event {
                bytes += block.data.len() as u64;
            }
        }
    }
    bytes
}

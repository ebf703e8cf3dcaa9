//! The two sides with Squall.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    time::{Duration, Instant},
};

use bytes::Bytes;
use squall_proto::{
    Block, BlockOptions, ClientTls, Config, Endpoint, Event, Fingerprint, Interface, NetPath, ServerTls,
    SessionId, Target,
};
use squall_testkit::world::{End, Packet, SERVER};

use super::side::Side;

const CLIENT: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 2)), 1000);

/// Maximum number of packets of one size per system call.
const MAX_PACKETS: usize = 10;

fn config() -> Config {
    Config::default().handshakes_per_host(1024)
}

pub(super) struct Source {
    endpoint: Endpoint,
    tls: ClientTls,
    sessions: Vec<SessionId>,
    received: u64,
}

impl Source {
    pub(super) fn new(now: Instant, server: Fingerprint) -> anyhow::Result<Self> {
        let endpoint = Endpoint::new(config(), None, None, now);
        Ok(Self { endpoint, tls: ClientTls::pinned(server)?, sessions: Vec::new(), received: 0 })
    }
}

impl Side for Source {
    fn connect(&mut self, now: Instant) -> anyhow::Result<()> {
        let path = NetPath { local: Interface(0), remote: SERVER };
        let target = Target {
            tls: self.tls.clone(),
            server_name: "bench".into(),
            interfaces: vec![vec![path]],
            config: None,
        };
        self.sessions.push(self.endpoint.connect(now, target)?);
        Ok(())
    }

    fn send(&mut self, now: Instant, connection: usize, frame: Bytes) {
        if let Some(session) = self.endpoint.session(self.sessions[connection]) {
            // Lost blocks show in the count of the other side.
            let _ = session
                .send(now, Block::with(frame, BlockOptions::new().deadline(Duration::from_millis(150))));
        }
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

impl Side for Sink {
    fn received(&mut self) -> u64 {
        std::mem::take(&mut self.received)
    }
}

macro_rules! end {
    ($end:ty, $local:expr) => {
        impl End for $end {
            fn is_at(&self, address: SocketAddr) -> bool {
                address == $local
            }

            fn due(&mut self) -> Option<Instant> {
                self.endpoint.poll_timeout()
            }

            fn receive(&mut self, now: Instant, packet: Packet) {
                let net = NetPath { local: Interface(0), remote: packet.from };
                self.endpoint.handle(now, net, None, packet.data);
            }

            fn on_timeout(&mut self, now: Instant) {
                self.endpoint.handle_timeout(now);
            }

            fn transmit(&mut self, now: Instant, send: &mut dyn FnMut(Packet)) {
                let mut buf = Vec::new();
                loop {
                    let out = self.endpoint.poll_transmit(now, MAX_PACKETS, &mut buf);
                    self.received += drain(&mut self.endpoint);
                    let Some(out) = out else { break };
                    for data in buf[..out.size].chunks(out.segment_size.unwrap_or(out.size)) {
                        send(Packet { from: $local, to: out.path.remote, data: data.into() });
                    }
                    buf.clear();
                }
            }
        }
    };
}

end!(Source, CLIENT);
end!(Sink, SERVER);

/// Takes all events. Returns the bytes of received blocks.
fn drain(endpoint: &mut Endpoint) -> u64 {
    let mut bytes = 0;
    while let Some((_, event)) = endpoint.poll() {
        if let Event::Received(block) = event {
            bytes += block.data.len() as u64;
        }
    }
    bytes
}

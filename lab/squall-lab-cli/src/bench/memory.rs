//! Memory of sessions that have nothing to do: one endpoint at each side, and packets handed across.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    time::{Duration, Instant},
};

use anyhow::ensure;
use bytes::BytesMut;
use squall::{Config, Identity, ServerTls};
use squall_proto::{ClientTls, Endpoint, Interface, NetPath, Target};

use super::figure::Figure;

const SESSIONS: u64 = 500;

/// Sessions before the count begins, so that tables and caches have their size.
const EARLIER: u64 = 20;

const SERVER: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), 4433);
const CLIENT: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 2)), 1000);

pub(super) fn measure() -> anyhow::Result<Option<Figure>> {
    let identity = Identity::self_signed("bench")?;
    let mut pair = Pair::new(&identity.server_tls()?);
    let tls = ClientTls::pinned(identity.fingerprint())?;
    for _ in 0..EARLIER {
        pair.connect(&tls)?;
    }
    let before = resident_bytes();
    for _ in 0..SESSIONS {
        pair.connect(&tls)?;
    }
    // Until the keys of the handshakes are dropped and the search for the largest packet is over.
    pair.pass(Duration::from_secs(3));
    let after = resident_bytes();
    ensure!(pair.server.sessions().count() as u64 == EARLIER + SESSIONS, "a session ended");
    let ends = (2 * SESSIONS) as f64;
    let grown = before.zip(after).map(|(before, after)| after.saturating_sub(before) as f64 / ends / 1e3);
    Ok(grown.map(|each| Figure::single("memory of an idle session, one end", "kB", each)))
}

/// Two endpoints, with nothing but time between them.
struct Pair {
    client: Endpoint,
    server: Endpoint,
    now: Instant,
    buf: Vec<u8>,
}

impl Pair {
    fn new(tls: &ServerTls) -> Self {
        let now = Instant::now();
        let client = Endpoint::new(Config::default(), None, None, now);
        let server = Endpoint::new(Config::default(), Some(tls), None, now);
        Self { client, server, now, buf: Vec::new() }
    }

    fn connect(&mut self, tls: &ClientTls) -> anyhow::Result<()> {
        let path = NetPath { local: Interface(0), remote: SERVER };
        let target = Target { tls: tls.clone(), server_name: "bench".into(), interfaces: vec![vec![path]] };
        let id = self.client.connect(self.now, target)?;
        for _ in 0..100 {
            self.pass(Duration::from_millis(1));
            if self.client.sessions().any(|open| open == id) {
                return Ok(());
            }
        }
        anyhow::bail!("a session did not connect")
    }

    /// Lets this time pass, from one thing to do to the next.
    fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        loop {
            while self.exchange() {}
            drain(&mut self.client);
            drain(&mut self.server);
            let next = [self.client.poll_timeout(), self.server.poll_timeout()].into_iter().flatten().min();
            let Some(next) = next.filter(|next| *next <= end) else { break };
            self.now = self.now.max(next) + Duration::from_micros(1);
            self.client.handle_timeout(self.now);
            self.server.handle_timeout(self.now);
        }
        self.now = end;
    }

    /// Hands over what there is to send; returns whether there was something.
    fn exchange(&mut self) -> bool {
        let up = NetPath { local: Interface(0), remote: CLIENT };
        let down = NetPath { local: Interface(0), remote: SERVER };
        let (now, buf) = (self.now, &mut self.buf);
        let sent = hand_over(&mut self.client, &mut self.server, up, now, buf);
        hand_over(&mut self.server, &mut self.client, down, now, buf) || sent
    }
}

fn hand_over(from: &mut Endpoint, to: &mut Endpoint, net: NetPath, now: Instant, buf: &mut Vec<u8>) -> bool {
    let mut any = false;
    loop {
        buf.clear();
        let Some(transmit) = from.poll_transmit(now, 1, buf) else { break any };
        to.handle(now, net, None, BytesMut::from(&buf[..transmit.size]));
        any = true;
    }
}

fn drain(endpoint: &mut Endpoint) {
    while let Some(id) = endpoint.poll_ready() {
        while endpoint.poll_event(id).is_some() {}
    }
}

/// Memory of this process, where the system reports it.
pub(super) fn resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_stay_open_while_nothing_happens() {
        let identity = Identity::self_signed("bench").unwrap();
        let mut pair = Pair::new(&identity.server_tls().unwrap());
        let tls = ClientTls::pinned(identity.fingerprint()).unwrap();
        for _ in 0..3 {
            pair.connect(&tls).unwrap();
        }
        pair.pass(Duration::from_secs(60));
        assert_eq!((pair.client.sessions().count(), pair.server.sessions().count()), (3, 3));
    }
}

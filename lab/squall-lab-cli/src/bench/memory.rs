//! Memory of idle sessions: one endpoint at each side, with packets passed directly between them.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    time::{Duration, Instant},
};

use anyhow::ensure;
use squall::Config;
use squall_testkit::{
    Peer, tls,
    world::{World, after},
};

use super::figure::Figure;

const SESSIONS: u64 = 500;

/// Number of sessions before the measurement, so that tables and caches have their final size.
const EARLIER: u64 = 20;

const CLIENT: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 2)), 1000);

pub(super) fn measure() -> anyhow::Result<Option<Figure>> {
    let mut world = world();
    for _ in 0..EARLIER {
        connect(&mut world)?;
    }
    let before = resident_bytes();
    for _ in 0..SESSIONS {
        connect(&mut world)?;
    }
    // Until the handshake keys are dropped and MTU discovery is complete.
    pass(&mut world, Duration::from_secs(3));
    let after = resident_bytes();
    let sessions = world.server.endpoint.sessions().count() as u64;
    ensure!(sessions == EARLIER + SESSIONS, "a session ended");
    let ends = (2 * SESSIONS) as f64;
    let grown = before.zip(after).map(|(before, after)| after.saturating_sub(before) as f64 / ends / 1e3);
    Ok(grown.map(|each| Figure::single("memory of an idle session, one end", "kB", each)))
}

fn world() -> World {
    let now = Instant::now();
    let client = Peer::new(Config::default(), 1, now, vec![CLIENT]);
    let mut world = World::new(now, Peer::server(Config::default(), 2, now), vec![client]);
    world.most = u32::MAX;
    world
}

fn connect(world: &mut World) -> anyhow::Result<()> {
    let id = world.clients[0].connect(world.now, tls().client.clone());
    for _ in 0..100 {
        pass(world, Duration::from_millis(1));
        if world.clients[0].endpoint.sessions().any(|open| open == id) {
            return Ok(());
        }
    }
    anyhow::bail!("a session did not connect")
}

/// Runs for this time.
fn pass(world: &mut World, time: Duration) {
    world.run(time, after(Duration::ZERO));
    world.clients[0].events.clear();
    world.server.events.clear();
}

/// Memory of this process, if the system reports it.
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
        let mut world = world();
        for _ in 0..3 {
            connect(&mut world).unwrap();
        }
        pass(&mut world, Duration::from_secs(60));
        let [client, server] = [&world.clients[0], &world.server].map(|end| end.endpoint.sessions().count());
        assert_eq!((client, server), (3, 3));
    }
}

//! An exit with tenants, and their entries.

use std::{net::UdpSocket, path::Path, time::Duration};

use squall_tunnel::{Config, Tunnel, config::Token};

use super::*;

/// Returns the token of a tenant.
pub(crate) fn token_of(name: &str) -> Token {
    Token::new(&format!("the token of {name}")).expect("is long enough")
}

/// Returns the content of `[[tenant]]` in TOML, without its header.
pub(crate) fn keys(name: &str, limits: &str, target: &UdpSocket) -> String {
    let (hash, to) = (token_of(name).hash(), target.local_addr().expect("is bound"));
    let flow = format!("flow = [{{ name = \"cam\", out = \"udp://{to}\", latency = \"30s\" }}]");
    format!("name = \"{name}\"\ntoken_sha256 = \"{hash}\"\nlimits = {{ {limits} }}\n{flow}\n")
}

pub(crate) fn table(name: &str, limits: &str, target: &UdpSocket) -> String {
    format!("[[tenant]]\n{}", keys(name, limits, target))
}

/// Returns an exit with these tenants, from a file. Its folder holds the state.
pub(crate) fn exit_of(folder: &Path, top: &str, tenants: &str) -> Config {
    let text = format!(
        "tenants_state = \"state\"\n{top}\n[listen]\naddress = \"127.0.0.1:0\"\nstate = \"exit.pem\"\n{tenants}"
    );
    Config::parse("exit.toml", &text, folder).unwrap_or_else(|error| panic!("{error}:\n{text}"))
}

/// Returns an entry of a tenant, with the flow `cam` from a port.
pub(crate) fn entry_of(exit: &Tunnel, tenant: &str, port: u16) -> Config {
    let flow = flow_in(&format!("cam=udp://127.0.0.1:{port}"));
    Config { token: Some(token_of(tenant)), ..entry_config(exit, vec![flow]) }
}

/// A tenant with a running entry, and the sockets outside.
pub(crate) struct Site {
    pub(crate) entry: Tunnel,
    pub(crate) source: UdpSocket,
    pub(crate) target: UdpSocket,
    pub(crate) port: u16,
}

impl Site {
    pub(crate) async fn start(exit: &Tunnel, name: &str, target: &UdpSocket) -> Self {
        let port = reserve_port();
        let entry = Tunnel::start(entry_of(exit, name, port)).await.expect("starts");
        attached(&entry).await;
        Self { entry, source: socket(), target: target.try_clone().expect("is cloned"), port }
    }

    pub(crate) fn send(&self, datagram: &[u8]) {
        self.source.send_to(datagram, ("127.0.0.1", self.port)).expect("is sent");
    }

    /// Returns the next datagram; fails the test if there is none.
    pub(crate) async fn recv(&self) -> Vec<u8> {
        self.recv_within(PATIENCE).await.expect("arrives")
    }

    pub(crate) async fn recv_within(&self, limit: Duration) -> Option<Vec<u8>> {
        let socket = self.target.try_clone().expect("is cloned");
        let received = tokio::task::spawn_blocking(move || {
            let mut buffer = [0; 2048];
            socket.set_read_timeout(Some(limit)).expect("is set");
            socket.recv(&mut buffer).ok().map(|length| buffer[..length].to_vec())
        });
        received.await.expect("ends")
    }
}

/// Waits for words in the events of a tunnel.
pub(crate) async fn reported(tunnel: &Tunnel, part: &str) {
    until(tunnel, part, |status| status.events.iter().any(|event| event.words.contains(part))).await;
}

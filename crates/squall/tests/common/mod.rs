//! Shared parts of the tests: a server and a client on loopback, and time limits.

#![allow(dead_code, reason = "every test file uses its own part")]

pub(crate) mod balancer;
pub(crate) mod relay;

use std::{net::IpAddr, time::Duration};

use squall::{Config, Connect, Endpoint, EndpointConfig, Identity, Received, Session, Trust};

/// Limit of a test that hangs. Far more than any test takes, even on a busy machine.
pub(crate) const LIMIT: Duration = Duration::from_secs(120);

/// Runs a test within [`LIMIT`].
pub(crate) fn within(test: impl AsyncFn()) {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.worker_threads(2).enable_all().build().expect("the runtime starts");
    let outcome = runtime.block_on(async { tokio::time::timeout(LIMIT, test()).await });
    runtime.shutdown_background();
    outcome.expect("the test ends in time");
}

/// Starts a server on a free port, and returns its identity too.
pub(crate) fn server(config: impl Into<EndpointConfig>) -> (Endpoint, Identity) {
    let identity = Identity::self_signed("localhost").expect("is made");
    let tls = identity.server_tls().expect("is valid");
    (Endpoint::listen("127.0.0.1:0", &tls, config).expect("a port is free"), identity)
}

/// Returns a request to a server of [`server`], over 127.0.0.2 and 127.0.0.3.
pub(crate) fn request(server: &Endpoint, identity: &Identity) -> Connect {
    Connect::to(server.local_addrs()[0])
        .trust(Trust::Pinned(identity.fingerprint()))
        .over([ip("127.0.0.2"), ip("127.0.0.3")])
}

/// Returns a server, a client over two paths, and the server's side of the session.
pub(crate) async fn pair(config: Config) -> (Endpoint, Session, Session) {
    let (endpoint, identity) = server(config.clone());
    let client = squall::connect(request(&endpoint, &identity).config(config)).await.expect("connects");
    let accepted = endpoint.accept().await.expect("listens");
    (endpoint, client, accepted)
}

pub(crate) fn ip(text: &str) -> IpAddr {
    text.parse().expect("is an address")
}

/// Returns the next block that arrives.
pub(crate) async fn next_block(session: &Session) -> Received {
    session.recv().await.expect("the session lasts").expect("the session lasts")
}

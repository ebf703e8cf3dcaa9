//! Failures give their reason in one line.

mod common;

use std::{net::SocketAddr, time::Duration};

use common::{ip, request, server, within};
use squall::{
    Config, Connect, ConnectError, Endpoint, EndpointConfig, EndpointError, Fingerprint, Identity,
    Interfaces, ListenError, Trust,
};
use squall_testkit::foreign;

fn quick() -> Config {
    Config::default().connect_timeout(Duration::from_millis(300))
}

/// Returns the error of a request, which must be one line.
async fn failure(request: Connect, config: Config) -> ConnectError {
    let error = squall::connect(request.config(config)).await.expect_err("must not connect");
    assert!(!error.to_string().contains('\n'), "{error}");
    error
}

#[test]
fn a_wrong_pin_differs_from_an_untrusted_certificate() {
    within(async || {
        let (endpoint, identity) = server(Config::default());
        let pin = Trust::Pinned(Fingerprint([7; 32]));
        let error = failure(request(&endpoint, &identity).trust(pin), Config::default()).await;
        assert!(matches!(error, ConnectError::WrongPin { .. }), "{error}");

        let stranger = Identity::self_signed("localhost").expect("is made");
        let roots = Trust::Roots(stranger.chain().to_vec());
        let with_name = request(&endpoint, &identity).server_name("localhost");
        let error = failure(with_name.clone().trust(roots), Config::default()).await;
        assert!(matches!(error, ConnectError::Untrusted { .. }), "{error}");

        let roots = Trust::Roots(identity.chain().to_vec());
        let other_name = with_name.clone().trust(roots.clone()).server_name("example.org");
        let error = failure(other_name, Config::default()).await;
        assert!(error.to_string().contains("not valid for name \"example.org\""), "{error}");

        squall::connect(with_name.trust(roots)).await.expect("is trusted");
    });
}

#[test]
fn a_self_signed_certificate_is_not_trusted_by_default() {
    within(async || {
        let (endpoint, identity) = server(Config::default());
        let request = request(&endpoint, &identity).trust(Trust::PlatformRoots).server_name("localhost");
        let error = failure(request, Config::default()).await;
        assert!(matches!(error, ConnectError::Untrusted { .. }), "{error}");
    });
}

#[test]
fn a_server_of_another_protocol_is_named_as_such() {
    let foreign = foreign::Server::start();
    within(async || {
        let request = Connect::to(foreign.addr).trust(Trust::InsecureAnyone);
        let error = failure(request, Config::default()).await;
        assert!(matches!(error, ConnectError::OtherProtocol), "{error}");
    });
}

#[test]
fn a_client_of_another_protocol_is_refused() {
    within(async || {
        let (endpoint, identity) = server(Config::default());
        let addr = endpoint.local_addrs()[0];
        let reason = tokio::task::spawn_blocking(move || foreign::connect(addr)).await.expect("runs");
        assert!(reason.contains("error 120"), "{reason}");
        endpoint.wait_idle().await;
        // Others are still served.
        let session = squall::connect(request(&endpoint, &identity)).await;
        session.expect("connects");
        endpoint.accept().await.expect("is let in");
    });
}

#[test]
fn a_silent_host_is_abandoned_in_time() {
    within(async || {
        let closed = SocketAddr::from(([127, 0, 0, 1], squall_testkit::reserve_port()));
        let started = std::time::Instant::now();
        let error = failure(Connect::to(closed).trust(Trust::InsecureAnyone), quick()).await;
        assert!(matches!(error, ConnectError::Unreachable { .. }), "{error}");
        assert!(error.to_string().contains(&closed.to_string()), "{error}");
        assert!(started.elapsed() < Config::default().connect_timeout, "its own limit counts");
    });
}

#[test]
fn a_busy_port_is_named() {
    within(async || {
        let (endpoint, identity) = server(Config::default());
        let addr = endpoint.local_addrs()[0];
        let tls = identity.server_tls().expect("is valid");
        let error = Endpoint::listen(addr, &tls, Config::default()).expect_err("is busy");
        assert_eq!(error.to_string(), format!("cannot listen on {addr}: address in use"));
        // The port is free again once the endpoint is dropped and has no work left.
        drop(endpoint);
        while let Err(ListenError::Bind { .. }) = Endpoint::listen(addr, &tls, Config::default()) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
}

#[test]
fn no_usable_interface_is_explained() {
    within(async || {
        let to = || Connect::to("127.0.0.1:9").trust(Trust::InsecureAnyone);
        let error = failure(to().over([ip("203.0.113.77")]), quick()).await;
        let expected = "no usable interface towards 127.0.0.1:9: 203.0.113.77: no interface has this address";
        assert_eq!(error.to_string(), expected);
        let named = Interfaces::Named(vec!["squall-none0".into()]);
        let error = failure(to().interfaces(named), quick()).await;
        assert!(
            error.to_string().contains("squall-none0: it is not there, or has no address; there are "),
            "{error}"
        );
        let error = failure(to().over([ip("::1")]), quick()).await;
        assert!(error.to_string().contains("[::1] is of its family"), "{error}");
        let error = failure(Connect::to("127.0.0.1"), quick()).await;
        assert!(error.to_string().starts_with("cannot resolve '127.0.0.1'"), "{error}");
        let error = failure(to().server_name("not a name"), quick()).await;
        assert!(matches!(error, ConnectError::Request(_)), "{error}");
    });
}

#[test]
fn a_number_of_workers_that_cannot_be_is_named() {
    within(async || {
        for workers in [0, 33] {
            let config = EndpointConfig::from(Config::default()).workers(workers);
            let error = Endpoint::client(config).expect_err("is no number of workers");
            assert_eq!(error, EndpointError::Workers(workers));
            assert!(error.to_string().contains("give a number from 1 to 32"), "{error}");
        }
    });
}

#[test]
fn outside_a_runtime_nothing_starts() {
    let identity = Identity::self_signed("localhost").expect("is made");
    let tls = identity.server_tls().expect("is valid");
    let error = Endpoint::listen("127.0.0.1:0", &tls, Config::default()).expect_err("has no runtime");
    assert!(matches!(error, ListenError::Endpoint(EndpointError::NoRuntime)));
    assert_eq!(error.to_string(), "not inside a tokio runtime");
    assert_eq!(Endpoint::client(Config::default()).err(), Some(EndpointError::NoRuntime));
}

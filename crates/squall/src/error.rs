//! Errors of setting up sessions, each in a line that names the remedy.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::PathBuf,
    time::Duration,
};

use squall_proto::{
    CloseReason, TlsError, TransportError,
    rustls::{CertificateError, Error as TlsFailure},
};

/// An accepted session runs over the interfaces that the peer chose: only the side that connects can set
/// them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("only the side that connects can choose interfaces")]
pub struct NotConnector;

/// No path of an endpoint runs over an interface of this name or address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no path runs over '{name}': there are {}", or_none(.known))]
#[non_exhaustive]
pub struct UnknownInterface {
    /// What was given.
    pub name: String,
    /// The names, or local addresses, of those that there are.
    pub known: Vec<String>,
}

fn or_none(known: &[String]) -> String {
    if known.is_empty() { "none".to_owned() } else { known.join(", ") }
}

/// Why there is no endpoint.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EndpointError {
    /// The number of workers is not from 1 to [`MAX_WORKERS`](crate::MAX_WORKERS).
    #[error("cannot have {0} workers: give a number from 1 to {most}", most = squall_proto::MAX_WORKERS)]
    Workers(usize),
    /// Called outside a tokio runtime.
    #[error("not inside a tokio runtime")]
    NoRuntime,
}

/// Why an endpoint does not listen.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ListenError {
    /// The address could not be bound.
    #[error("cannot listen on {addr}: {}", plain(.source))]
    Bind {
        /// Which address.
        addr: SocketAddr,
        /// The error of the system.
        source: io::Error,
    },
    /// The address could not be understood or resolved.
    #[error("cannot listen: {}", plain(.0))]
    Address(io::Error),
    /// No address was given.
    #[error("cannot listen: no address was given")]
    NoAddress,
    /// There is no endpoint.
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
}

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The host name could not be resolved.
    #[error("cannot resolve '{host}': {}", plain(.source))]
    Resolve {
        /// What was looked up.
        host: String,
        /// The error of the system.
        source: io::Error,
    },
    /// No local interface or address can be used.
    #[error("no usable interface towards {remote}: {why}")]
    NoInterface {
        /// The server.
        remote: String,
        /// What was tried.
        why: String,
    },
    /// There was no answer in time.
    #[error("no answer from {remote} within {timeout:?}: check the address, the port and the firewall{hint}")]
    Unreachable {
        /// The server.
        remote: String,
        /// How long was waited, see [`Config::connect_timeout`](crate::Config::connect_timeout).
        timeout: Duration,
        /// The system's error of sending, if there was one.
        hint: String,
    },
    /// The server's certificate is not signed by a trusted authority, or is for another name.
    #[error("the certificate of {server} is not trusted ({}): give its CA, or pin its fingerprint", text_of(.fault))]
    Untrusted {
        /// The name the certificate was checked for.
        server: String,
        /// Fault of the certificate.
        fault: CertificateError,
    },
    /// The server's certificate is not the pinned one.
    #[error("the certificate of {server} is not the pinned one: compare the fingerprint with the server's")]
    WrongPin {
        /// The name of the server.
        server: String,
    },
    /// The server speaks QUIC, but another protocol in it.
    #[error("the server does not speak squall/1: check the port, or update one of the two")]
    OtherProtocol,
    /// The server turned the connection down.
    #[error("the server refused the session: {0}")]
    Refused(String),
    /// Any other end of the handshake.
    #[error("the handshake failed: {0}")]
    Handshake(CloseReason),
    /// The TLS settings cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The request itself is wrong.
    #[error("cannot connect: {0}")]
    Request(#[from] squall_proto::ConnectError),
    /// The endpoint was closed by [`Endpoint::close`](crate::Endpoint::close).
    #[error("cannot connect: the endpoint is closed")]
    EndpointClosed,
    /// There is no endpoint to connect from.
    #[error("cannot connect: {0}")]
    Endpoint(#[from] EndpointError),
}

/// Why a certificate or a key could not be made, read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IdentityError {
    /// The file could not be read or written.
    #[error("{}: {}", .path.display(), plain(.source))]
    File {
        /// Which file.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// The file is no PEM file of the expected kind.
    #[error("{}: {why}", .path.display())]
    Content {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// The certificate could not be made.
    #[error("cannot make a certificate for '{name}': {why}")]
    Generate {
        /// For which name.
        name: String,
        /// Why.
        why: String,
    },
}

/// What an attempt was about, to explain its end.
pub(crate) struct Attempted {
    pub(crate) remote: String,
    pub(crate) server_name: String,
    pub(crate) timeout: Duration,
    /// The last error of sending, if sending failed.
    pub(crate) send_error: Option<String>,
}

/// Code of a server that accepts no connection now (RFC 9000 §20.1).
const CONNECTION_REFUSED: u64 = 2;

/// Code of the TLS alert of a server that supports none of the offered protocols (RFC 7301 §3.2).
const NO_APPLICATION_PROTOCOL: u64 = 0x100 + 120;

impl ConnectError {
    /// Explains why an attempt ended.
    pub(crate) fn explain(reason: CloseReason, attempted: Attempted) -> Self {
        let Attempted { remote, server_name: server, timeout, send_error } = attempted;
        match reason {
            CloseReason::TimedOut => {
                let hint = send_error.map_or_else(String::new, |e| format!(" (sending failed: {e})"));
                Self::Unreachable { remote, timeout, hint }
            }
            CloseReason::ByPeer { reason, .. } => Self::Refused(reason),
            CloseReason::Transport(error) => Self::of_transport(error, server),
            other => Self::Handshake(other),
        }
    }

    fn of_transport(error: TransportError, server: String) -> Self {
        match (error.code, error.tls.as_deref()) {
            (_, Some(TlsFailure::InvalidCertificate(CertificateError::ApplicationVerificationFailure))) => {
                Self::WrongPin { server }
            }
            (_, Some(TlsFailure::InvalidCertificate(fault))) => {
                Self::Untrusted { server, fault: fault.clone() }
            }
            (Some(NO_APPLICATION_PROTOCOL), _) => Self::OtherProtocol,
            (Some(CONNECTION_REFUSED), _) => Self::Refused("it accepts no more sessions now".into()),
            _ => Self::Handshake(error.into()),
        }
    }
}

/// Description of the fault of a certificate, of at most 256 characters: it may list all names of the certificate.
fn text_of(fault: &CertificateError) -> String {
    match fault {
        CertificateError::UnknownIssuer => "signed by an unknown authority".into(),
        // No authority of this machine could have signed it; the description of rustls lists algorithms by their bytes.
        CertificateError::UnsupportedSignatureAlgorithmContext { .. }
        | CertificateError::UnsupportedSignatureAlgorithmForPublicKeyContext { .. } => {
            "signed by no known authority".into()
        }
        other => other.to_string().chars().take(256).collect(),
    }
}

/// The system's text without Rust's additions: `address in use`.
pub(crate) fn plain(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::AddrInUse => return "address in use".into(),
        io::ErrorKind::AddrNotAvailable => return "no interface has this address".into(),
        io::ErrorKind::PermissionDenied => return "permission denied".into(),
        io::ErrorKind::NotFound => return "no such file or directory".into(),
        _ if is_without_family(error) => {
            return "this machine does not have this version of IP: use an address of the other one".into();
        }
        _ => {}
    }
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or(&text).to_owned()
}

/// What to listen on instead of `[::]`, which is all addresses, where the system has no IPv6.
pub(crate) fn without_ipv6(addr: SocketAddr, error: &io::Error) -> Option<SocketAddr> {
    let is_all = addr.is_ipv6() && addr.ip().is_unspecified();
    (is_all && is_without_family(error)).then(|| SocketAddr::from((Ipv4Addr::UNSPECIFIED, addr.port())))
}

/// Whether the system has no sockets of that kind: IPv6 switched off at its start, netlink in a sandbox.
pub(crate) fn is_without_family(error: &io::Error) -> bool {
    /// `EAFNOSUPPORT`, for which there is no kind.
    const NO_FAMILY: i32 = if cfg!(any(target_os = "linux", target_os = "android")) {
        97
    } else if cfg!(windows) {
        10_047
    } else {
        47
    };
    error.raw_os_error() == Some(NO_FAMILY)
}

/// Whether sending failed since there is no way to the peer now: no route, interface or address. A system that is short of
/// memory or room may take the next packet, and a firewall may take others.
pub(crate) fn is_unreachable(error: &io::Error) -> bool {
    use io::ErrorKind::{AddrNotAvailable, HostUnreachable, NetworkDown, NetworkUnreachable};
    /// The interface that the socket is bound to is gone: `ENODEV`, for which there is no kind.
    const NO_DEVICE: i32 = 19;
    let no_device = cfg!(unix) && error.raw_os_error() == Some(NO_DEVICE);
    no_device || matches!(error.kind(), AddrNotAvailable | HostUnreachable | NetworkDown | NetworkUnreachable)
}

/// The addresses that were tried.
pub(crate) fn list_of(addresses: &[IpAddr]) -> String {
    let texts: Vec<String> = addresses.iter().map(ToString::to_string).collect();
    texts.join(", ")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn explain(reason: CloseReason) -> String {
        let attempted = Attempted {
            remote: "192.0.2.1:1".into(),
            server_name: "example.org".into(),
            timeout: Duration::from_secs(3),
            send_error: Some("network unreachable".into()),
        };
        ConnectError::explain(reason, attempted).to_string()
    }

    #[test]
    fn every_end_of_an_attempt_is_explained_in_one_line() {
        let line = explain(CloseReason::TimedOut);
        assert!(
            line.contains("no answer from 192.0.2.1:1 within 3s") && line.contains("network unreachable")
        );
        let transport = |code, tls| {
            let mut error = TransportError::default();
            (error.code, error.tls, error.message) =
                (Some(code), tls, "ApplicationVerificationFailure".into());
            explain(CloseReason::Transport(error))
        };
        let of = |fault| Some(Arc::new(TlsFailure::InvalidCertificate(fault)));
        let algorithms = CertificateError::UnsupportedSignatureAlgorithmForPublicKeyContext {
            signature_algorithm_id: vec![6, 8],
            public_key_algorithm_id: vec![6],
        };
        let cases = [
            (0x178, None, "does not speak squall/1"),
            (2, None, "the server refused the session: it accepts no more sessions now"),
            (
                0x12a,
                of(CertificateError::UnknownIssuer),
                "the certificate of example.org is not trusted (signed by an unknown authority)",
            ),
            (0x133, of(algorithms), "is not trusted (signed by no known authority)"),
            (0x132, of(CertificateError::ApplicationVerificationFailure), "is not the pinned one"),
            (0x10c, None, "the handshake failed: ApplicationVerificationFailure"),
        ];
        for (code, tls, expected) in cases {
            let line = transport(code, tls);
            assert!(line.contains(expected) && !line.contains('\n'), "{line}");
        }
    }

    #[cfg(any(target_os = "linux", target_os = "android"))]
    #[test]
    fn only_errors_that_last_make_a_peer_unreachable() {
        use rustix::io::Errno;
        let is_unreachable = |errno: Errno| is_unreachable(&errno.into());
        let lasting =
            [Errno::NETUNREACH, Errno::HOSTUNREACH, Errno::NETDOWN, Errno::ADDRNOTAVAIL, Errno::NODEV];
        assert!(lasting.into_iter().all(is_unreachable));
        let passing = [Errno::NOBUFS, Errno::AGAIN, Errno::NOMEM, Errno::MSGSIZE, Errno::PERM, Errno::INTR];
        assert!(!passing.into_iter().any(is_unreachable));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn an_ipv6_address_on_a_system_without_ipv6_has_its_remedy() {
        let bind = |addr: &str, errno: rustix::io::Errno| {
            let addr = addr.parse().expect("is one");
            ListenError::Bind { addr, source: errno.into() }.to_string()
        };
        assert_eq!(
            bind("[::1]:9", rustix::io::Errno::AFNOSUPPORT),
            "cannot listen on [::1]:9: this machine does not have this version of IP: use an address of the other one"
        );
        assert_eq!(bind("[::1]:9", rustix::io::Errno::ADDRINUSE), "cannot listen on [::1]:9: address in use");
    }

    #[test]
    fn system_errors_lose_their_numbers() {
        assert_eq!(plain(&io::Error::from(io::ErrorKind::AddrInUse)), "address in use");
        let unreachable = io::Error::from_raw_os_error(101);
        assert!(!plain(&unreachable).contains("os error"));
    }
}

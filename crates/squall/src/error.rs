//! Errors when setting up sessions. Each is one line that names the remedy.

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

/// The session was accepted: only the side that connects can choose interfaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("only the side that connects can choose interfaces")]
pub struct NotConnector;

/// No path of an endpoint runs over an interface of this name or address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no path runs over '{name}': there are {}", or_none(.known))]
#[non_exhaustive]
pub struct UnknownInterface {
    /// Name or address that was requested.
    pub name: String,
    /// Names, or local addresses, of the existing interfaces.
    pub known: Vec<String>,
}

fn or_none(known: &[String]) -> String {
    if known.is_empty() { "none".to_owned() } else { known.join(", ") }
}

/// Reason why an endpoint could not be created.
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

/// Reason why an endpoint cannot listen.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ListenError {
    /// The address could not be bound.
    #[error("cannot listen on {addr}: {}", plain(.source))]
    Bind {
        /// Address that could not be bound.
        addr: SocketAddr,
        /// The error of the system.
        source: io::Error,
    },
    /// The address could not be parsed or resolved.
    #[error("cannot listen: {}", plain(.0))]
    Address(io::Error),
    /// No address was given.
    #[error("cannot listen: no address was given")]
    NoAddress,
    /// The endpoint could not be created.
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
}

/// Reason why no connection was established.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The host name could not be resolved.
    #[error("cannot resolve '{host}': {}", plain(.source))]
    Resolve {
        /// Host name and port.
        host: String,
        /// The error of the system.
        source: io::Error,
    },
    /// No local interface or address can be used.
    #[error("no usable interface towards {remote}: {why}")]
    NoInterface {
        /// Address or name of the server.
        remote: String,
        /// Interfaces and addresses that were considered, and why each is unusable.
        why: String,
    },
    /// The server did not answer in time.
    #[error("no answer from {remote} within {timeout:?}: check the address, the port and the firewall{hint}")]
    Unreachable {
        /// Address or name of the server.
        remote: String,
        /// Timeout of the attempt, see [`Config::connect_timeout`](crate::Config::connect_timeout).
        timeout: Duration,
        /// Error of the system from sending, if there was one; otherwise empty.
        hint: String,
    },
    /// The server's certificate is not signed by a trusted authority, or is for another name.
    #[error("the certificate of {server} is not trusted ({}): give its CA, or pin its fingerprint", text_of(.fault))]
    Untrusted {
        /// Name that the certificate was checked for.
        server: String,
        /// Fault of the certificate.
        fault: CertificateError,
    },
    /// The server's certificate is not the pinned one.
    #[error("the certificate of {server} is not the pinned one: compare the fingerprint with the server's")]
    WrongPin {
        /// Name of the server.
        server: String,
    },
    /// The server speaks QUIC, but with another application protocol.
    #[error("the server does not speak squall/1: check the port, or update one of the two")]
    OtherProtocol,
    /// The server refused the connection.
    #[error("the server refused the session: {0}")]
    Refused(String),
    /// The handshake failed in another way.
    #[error("the handshake failed: {0}")]
    Handshake(CloseReason),
    /// The TLS settings cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The request itself is invalid.
    #[error("cannot connect: {0}")]
    Request(#[from] squall_proto::ConnectError),
    /// The endpoint was closed by [`Endpoint::close`](crate::Endpoint::close).
    #[error("cannot connect: the endpoint is closed")]
    EndpointClosed,
    /// The endpoint could not be created.
    #[error("cannot connect: {0}")]
    Endpoint(#[from] EndpointError),
}

/// Reason why a certificate or a key could not be generated, read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IdentityError {
    /// The file could not be read or written.
    #[error("{}: {}", .path.display(), plain(.source))]
    File {
        /// Path of the file.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// The file is not a PEM file of the expected kind.
    #[error("{}: {why}", .path.display())]
    Content {
        /// Path of the file.
        path: PathBuf,
        /// Fault of the content.
        why: String,
    },
    /// The certificate could not be generated.
    #[error("cannot make a certificate for '{name}': {why}")]
    Generate {
        /// Name for the certificate.
        name: String,
        /// Reason of the failure.
        why: String,
    },
}

/// Details of a connection attempt, to explain its end.
pub(crate) struct Attempted {
    pub(crate) remote: String,
    pub(crate) server_name: String,
    pub(crate) timeout: Duration,
    /// Last error of sending, if any.
    pub(crate) send_error: Option<String>,
}

/// Close code of a server that currently accepts no connection (RFC 9000 §20.1).
const CONNECTION_REFUSED: u64 = 2;

/// TLS alert of a server that supports none of the offered protocols (RFC 7301 §3.2), as a QUIC
/// error code.
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

/// Describes the fault of a certificate in at most 256 characters. The text of rustls may list all
/// names of the certificate.
fn text_of(fault: &CertificateError) -> String {
    match fault {
        CertificateError::UnknownIssuer => "signed by an unknown authority".into(),
        // No authority of this machine could have signed it. The text of rustls lists algorithms as
        // bytes.
        CertificateError::UnsupportedSignatureAlgorithmContext { .. }
        | CertificateError::UnsupportedSignatureAlgorithmForPublicKeyContext { .. } => {
            "signed by no known authority".into()
        }
        other => other.to_string().chars().take(256).collect(),
    }
}

/// Returns the text of the system without Rust's additions, for instance `address in use`.
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

/// Returns the address to listen on instead of `[::]`, which means all addresses, where the system
/// has no IPv6.
pub(crate) fn without_ipv6(addr: SocketAddr, error: &io::Error) -> Option<SocketAddr> {
    let is_all = addr.is_ipv6() && addr.ip().is_unspecified();
    (is_all && is_without_family(error)).then(|| SocketAddr::from((Ipv4Addr::UNSPECIFIED, addr.port())))
}

/// `true` if the system has no sockets of this family: IPv6 disabled at boot, netlink denied by a
/// sandbox.
pub(crate) fn is_without_family(error: &io::Error) -> bool {
    /// `EAFNOSUPPORT`, which has no [`io::ErrorKind`].
    const NO_FAMILY: i32 = if cfg!(any(target_os = "linux", target_os = "android")) {
        97
    } else if cfg!(windows) {
        10_047
    } else {
        47
    };
    error.raw_os_error() == Some(NO_FAMILY)
}

/// `true` if sending failed because the peer is currently unreachable: no route, interface or
/// address. Lack of memory or buffer space may be over with the next packet, and a firewall may
/// pass other packets.
pub(crate) fn is_unreachable(error: &io::Error) -> bool {
    use io::ErrorKind::{AddrNotAvailable, HostUnreachable, NetworkDown, NetworkUnreachable};
    /// `ENODEV`, which has no [`io::ErrorKind`]: the interface that the socket is bound to is gone.
    const NO_DEVICE: i32 = 19;
    let no_device = cfg!(unix) && error.raw_os_error() == Some(NO_DEVICE);
    no_device || matches!(error.kind(), AddrNotAvailable | HostUnreachable | NetworkDown | NetworkUnreachable)
}

/// Formats addresses as a list.
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

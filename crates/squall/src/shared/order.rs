//! Work for a driver: requests of handles, and packets from other workers.

use std::net::{IpAddr, SocketAddr};

use bytes::BytesMut;
use squall_proto::{ClientTls, Config, Ecn, SessionId};

use crate::{ConnectError, Interfaces, Quotas, net::view::View};

/// A request that only the driver can execute.
pub(crate) enum Order {
    /// Start to connect, and call the function with the session.
    Connect(Box<Request>, Box<dyn FnOnce(Result<SessionId, ConnectError>) + Send>),
    /// Change the interfaces of a session that this side started.
    Interfaces(SessionId, Interfaces),
}

/// A request for a session, after all blocking look-ups.
pub(crate) struct Request {
    pub(crate) tls: ClientTls,
    pub(crate) server_name: String,
    pub(crate) plan: Interfaces,
    pub(crate) quotas: Option<Quotas>,
    /// Interfaces as the system reports them, if the plan depends on them.
    pub(crate) view: View,
    /// Addresses of the server, the preferred first.
    pub(crate) remotes: Vec<SocketAddr>,
    /// Host as given, for messages.
    pub(crate) host: String,
    pub(crate) config: Config,
}

/// A packet that arrived at another worker.
pub(crate) struct Handed {
    /// Index of the socket.
    pub(crate) socket: usize,
    pub(crate) remote: SocketAddr,
    /// Local address that the packet was sent to.
    pub(crate) sent_to: Option<IpAddr>,
    pub(crate) ecn: Option<Ecn>,
    pub(crate) data: BytesMut,
}

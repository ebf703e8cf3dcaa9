//! Work for a driver: requests of handles, and packets that other workers received.

use std::net::{IpAddr, SocketAddr};

use bytes::BytesMut;
use squall_proto::{ClientTls, Config, Ecn, SessionId};

use crate::{ConnectError, Interfaces, Quotas, net::view::View};

/// A request that only the driver can execute.
pub(crate) enum Order {
    /// Start to connect, and call this with the session.
    Connect(Box<Request>, Box<dyn FnOnce(Result<SessionId, ConnectError>) + Send>),
    /// Have a session that this side started run over other interfaces.
    Interfaces(SessionId, Interfaces),
}

/// A request for a session, with everything looked up that takes time.
pub(crate) struct Request {
    pub(crate) tls: ClientTls,
    pub(crate) server_name: String,
    pub(crate) plan: Interfaces,
    pub(crate) quotas: Option<Quotas>,
    /// What the system says of its interfaces, if the plan depends on them.
    pub(crate) view: View,
    /// Addresses of the server, the preferred first.
    pub(crate) remotes: Vec<SocketAddr>,
    /// For messages.
    pub(crate) host: String,
    pub(crate) config: Config,
}

/// A packet that arrived at another worker.
pub(crate) struct Handed {
    /// The place of the socket.
    pub(crate) socket: usize,
    pub(crate) remote: SocketAddr,
    /// The local address.
    pub(crate) sent_to: Option<IpAddr>,
    pub(crate) ecn: Option<Ecn>,
    pub(crate) data: BytesMut,
}

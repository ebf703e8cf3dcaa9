//! Paths of a session as the application sees them.

use std::net::{IpAddr, SocketAddr};

use squall_proto::{PathStats, sched::PathId};

/// A path of a session.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct PathInfo {
    /// Id of the path, as in events.
    pub id: PathId,
    /// Name of the local interface, if the path was opened over a named one.
    pub interface: Option<String>,
    /// Local address.
    pub local: SocketAddr,
    /// Address of the peer.
    pub remote: SocketAddr,
    /// Reason why no answer can arrive, according to the system: `rp_filter`.
    pub trouble: Option<String>,
    /// Counters of the path.
    pub stats: PathStats,
}

/// Change of a path, with local addresses.
pub type PathChange = squall_proto::PathChange<IpAddr>;

/// A change of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PathEvent {
    /// Id of the path, as in [`Session::paths`](crate::Session::paths).
    pub path: PathId,
    /// The change.
    pub change: PathChange,
}

//! Paths of a session, as the application sees them.

use std::net::{IpAddr, SocketAddr};

use squall_proto::{PathStats, sched::PathId};

/// A path of a session.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct PathInfo {
    /// Its id, as in events.
    pub id: PathId,
    /// Name of the local interface, if the path was opened over a named one.
    pub interface: Option<String>,
    /// Local address.
    pub local: SocketAddr,
    /// Address of the peer.
    pub remote: SocketAddr,
    /// Why no answer will come on it, by what the system says: `rp_filter`.
    pub trouble: Option<String>,
    /// Its counters.
    pub stats: PathStats,
}

/// Change of a path, with local addresses.
pub type PathChange = squall_proto::PathChange<IpAddr>;

/// A change of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PathEvent {
    /// Which path, as in [`Session::paths`](crate::Session::paths).
    pub path: PathId,
    /// What changed.
    pub change: PathChange,
}

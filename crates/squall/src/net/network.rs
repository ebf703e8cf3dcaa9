//! Networks that the application reports, for systems where a function of the application binds
//! sockets to them.

use std::{
    fmt, io,
    net::{IpAddr, UdpSocket},
    sync::Arc,
};

/// A network whose sockets are bound by a function of the application: Android's
/// `Network.bindSocket`, a VPN's `protect`, a mark.
///
/// Clones refer to the same network, even after changes to one of them. Two networks from
/// [`Self::new`] are distinct, even if their names are equal: when one replaces the other, the
/// sockets of the first are closed and new ones are bound to the second.
///
/// ```
/// use squall::{Connect, Interfaces, Network};
///
/// // Binds nothing, for a network that is the system's default anyway.
/// let wifi = Network::new("wifi", |_| Ok(())).addresses(["192.168.1.7".parse()?]);
/// let request = Connect::to("media.example.org:4433").interfaces(Interfaces::Networks(vec![wifi]));
/// # Ok::<(), std::net::AddrParseError>(())
/// ```
#[derive(Clone)]
#[must_use]
pub struct Network {
    identity: Arc<Identity>,
    addresses: Vec<IpAddr>,
    metered: bool,
}

struct Identity {
    name: String,
    bind: Box<Bind>,
}

type Bind = dyn Fn(&UdpSocket) -> io::Result<()> + Send + Sync;

impl Network {
    /// Creates a network with the name for its paths and the function that binds a socket to it.
    /// The function is called once per socket, before the socket is bound to an address, from the
    /// thread that connects or from a thread of the runtime. If it fails, there is no path for now,
    /// and it is called again one second later.
    pub fn new(
        name: impl Into<String>,
        bind: impl Fn(&UdpSocket) -> io::Result<()> + Send + Sync + 'static,
    ) -> Self {
        let identity = Arc::new(Identity { name: name.into(), bind: Box::new(bind) });
        Self { identity, addresses: Vec::new(), metered: false }
    }

    /// Sets the local addresses. Without an address of the server's family the system picks one, as
    /// it must where IPv4 is translated (464XLAT, RFC 6877). Default: none.
    pub fn addresses(mut self, addresses: impl IntoIterator<Item = IpAddr>) -> Self {
        self.addresses = addresses.into_iter().collect();
        self
    }

    /// Sets whether the network is metered; see
    /// [`InterfaceHandle::set_metered`](crate::InterfaceHandle::set_metered). Default: `false`.
    pub fn metered(mut self, metered: bool) -> Self {
        self.metered = metered;
        self
    }

    /// Returns the name for its paths.
    pub fn name(&self) -> &str {
        &self.identity.name
    }

    pub(crate) fn known_addresses(&self) -> &[IpAddr] {
        &self.addresses
    }

    pub(crate) fn is_metered(&self) -> bool {
        self.metered
    }

    pub(crate) fn bind(&self, socket: &UdpSocket) -> io::Result<()> {
        (self.identity.bind)(socket)
    }

    /// `true` if both refer to the same network.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.identity, &other.identity)
    }
}

impl PartialEq for Network {
    fn eq(&self, other: &Self) -> bool {
        self.is_same(other) && self.addresses == other.addresses && self.metered == other.metered
    }
}

impl Eq for Network {}

impl fmt::Debug for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Network")
            .field("name", &self.name())
            .field("addresses", &self.addresses)
            .field("metered", &self.metered)
            .finish_non_exhaustive()
    }
}

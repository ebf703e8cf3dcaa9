//! Networks that the application reports, where the system binds sockets to them by a call of its own.

use std::{
    fmt, io,
    net::{IpAddr, UdpSocket},
    sync::Arc,
};

/// A network that a function of the application binds sockets to: Android's `Network.bindSocket`,
/// a VPN's `protect`, a mark.
///
/// Clones are the same network, whatever was changed on them afterwards. Two that were made by
/// [`Self::new`] are two, even if their names are equal: when the one is replaced by the other, the sockets
/// of the first are closed and new ones bound to the second.
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
    /// A network by the name that paths over it bear, and the function that binds a socket to it. It is
    /// called once for each socket, before the socket is bound to an address, from the thread that connects
    /// or from one of the runtime; if it fails there is no path for now, and it is called again in a second.
    pub fn new(
        name: impl Into<String>,
        bind: impl Fn(&UdpSocket) -> io::Result<()> + Send + Sync + 'static,
    ) -> Self {
        let identity = Arc::new(Identity { name: name.into(), bind: Box::new(bind) });
        Self { identity, addresses: Vec::new(), metered: false }
    }

    /// With these addresses of this side. Without one of the server's family the system picks it, as it
    /// must where IPv4 is translated (464XLAT, RFC 6877). Default: none.
    pub fn addresses(mut self, addresses: impl IntoIterator<Item = IpAddr>) -> Self {
        self.addresses = addresses.into_iter().collect();
        self
    }

    /// Whether its bytes cost money; see [`InterfaceHandle::set_metered`](crate::InterfaceHandle::set_metered). Default: no.
    pub fn metered(mut self, metered: bool) -> Self {
        self.metered = metered;
        self
    }

    /// The name that paths over it bear.
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

    /// Whether both stand for one network.
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

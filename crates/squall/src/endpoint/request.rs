//! Requests for sessions: the server, the interfaces, and the trust in its certificate.

use std::net::{IpAddr, SocketAddr};

use squall_proto::{ClientTls, Config, Fingerprint, TlsError, pki_types::CertificateDer};

use crate::{ConnectError, Interfaces, Quotas};

/// Authentication of the server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Trust {
    /// Signed by an authority that the operating system trusts. Needs the feature
    /// `platform-verifier`, which is on by default. This is the default.
    #[default]
    PlatformRoots,
    /// Signed by one of these authorities; see [`load_certificates`](crate::load_certificates).
    Roots(Vec<CertificateDer<'static>>),
    /// Equal to the certificate with this fingerprint, regardless of its name.
    Pinned(Fingerprint),
    /// No authentication: the session is encrypted, but open to a man in the middle. For tests on
    /// one machine.
    InsecureAnyone,
}

impl Trust {
    pub(crate) fn client_tls(&self) -> Result<ClientTls, TlsError> {
        match self {
            Self::PlatformRoots => ClientTls::platform_roots(),
            Self::Roots(roots) => ClientTls::with_roots(roots),
            Self::Pinned(fingerprint) => ClientTls::pinned(*fingerprint),
            Self::InsecureAnyone => ClientTls::insecure_trust_anyone(),
        }
    }
}

/// A request for a session.
///
/// ```
/// use squall::{Connect, Interfaces, Trust};
///
/// let request = Connect::to("media.example.org:4433")
///     .trust(Trust::PlatformRoots)
///     .interfaces(Interfaces::Named(vec!["wlan0".into(), "wwan0".into()]));
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct Connect {
    host: String,
    server_name: Option<String>,
    addresses: Vec<SocketAddr>,
    pub(crate) trust: Trust,
    pub(crate) interfaces: Interfaces,
    pub(crate) quotas: Option<Quotas>,
    pub(crate) config: Option<Config>,
}

impl Connect {
    /// Creates a request for `host:port`: a name, an IPv4 address, or an IPv6 address in brackets.
    /// A [`SocketAddr`] is accepted as well, by its `to_string`.
    #[expect(clippy::needless_pass_by_value, reason = "callers pass literals and addresses as they are")]
    pub fn to(host: impl ToString) -> Self {
        Self {
            host: host.to_string(),
            server_name: None,
            addresses: Vec::new(),
            trust: Trust::default(),
            interfaces: Interfaces::default(),
            quotas: None,
            config: None,
        }
    }

    /// Sets the name that the certificate must have. Default: the host.
    pub fn server_name(mut self, name: impl Into<String>) -> Self {
        self.server_name = Some(name.into());
        self
    }

    /// Sets the addresses of the server, the preferred one first, instead of resolving the host.
    /// All of them are tried, as are all addresses that a name resolves to.
    pub fn addresses(mut self, addresses: impl IntoIterator<Item = SocketAddr>) -> Self {
        self.addresses = addresses.into_iter().collect();
        self
    }

    /// Sets how the server is authenticated. Default: [`Trust::PlatformRoots`].
    pub fn trust(mut self, trust: Trust) -> Self {
        self.trust = trust;
        self
    }

    /// Sets the interfaces to connect over. Default: [`Interfaces::Auto`].
    pub fn interfaces(mut self, interfaces: Interfaces) -> Self {
        self.interfaces = interfaces;
        self
    }

    /// Sets quotas of interfaces, from which the session spends. Default: none.
    pub fn quotas(mut self, quotas: Quotas) -> Self {
        self.quotas = Some(quotas);
        self
    }

    /// Sets the configuration of the session. Server settings (`accept`, `announce_timeout`,
    /// `distrust`, `handshakes`, `handshakes_per_host`, `max_sessions`, `quic_lb`) have no effect.
    /// Default: the configuration of the endpoint.
    pub fn config(mut self, config: Config) -> Self {
        self.config = Some(config);
        self
    }

    /// Connects over these local addresses; short for [`Interfaces::Local`].
    pub fn over(self, locals: impl IntoIterator<Item = IpAddr>) -> Self {
        self.interfaces(Interfaces::Local(locals.into_iter().collect()))
    }

    /// Returns the host as given, for messages.
    pub(crate) fn host(&self) -> &str {
        &self.host
    }

    /// Returns the name that the certificate must have: the host without port and brackets, unless
    /// another name was set.
    pub(crate) fn name(&self) -> &str {
        let host = self.host.rsplit_once(':').map_or(self.host.as_str(), |(host, _)| host);
        self.server_name.as_deref().unwrap_or(host.trim_matches(['[', ']']))
    }

    /// Returns the addresses of the server, the preferred one first: those of explicit pairs, those
    /// that were set, or those that the host resolves to.
    pub(crate) async fn resolve(&self) -> Result<Vec<SocketAddr>, ConnectError> {
        if let Interfaces::Pairs(pairs) = &self.interfaces {
            return Ok(pairs.iter().map(|(_, remote)| *remote).collect());
        }
        if !self.addresses.is_empty() {
            return Ok(self.addresses.clone());
        }
        let failed = |source| ConnectError::Resolve { host: self.host.clone(), source };
        Ok(tokio::net::lookup_host(&self.host).await.map_err(failed)?.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_certificate_name_is_the_host_without_its_port() {
        for (host, name) in
            [("example.org:4433", "example.org"), ("[::1]:4433", "::1"), ("127.0.0.1:1", "127.0.0.1")]
        {
            assert_eq!(Connect::to(host).name(), name);
        }
        assert_eq!(Connect::to("192.0.2.1:1").server_name("a.b").name(), "a.b");
    }
}

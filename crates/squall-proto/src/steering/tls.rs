//! Trust in servers: platform roots, a given CA, or a pinned certificate.

use std::{fmt, fmt::Write as _, str::FromStr, sync::Arc};

use noq_proto::crypto::{
    self,
    rustls::{QuicClientConfig, QuicServerConfig},
};
use ring::{digest, hmac};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, ServerConfig, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime},
    version::TLS13,
};

#[cfg(any(test, feature = "unprotected"))]
use super::unprotected::Unprotected;

/// Name of the protocol in the TLS handshake.
pub const ALPN: &[u8] = b"squall/1";

/// Reason why a TLS configuration could not be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("TLS: {0}")]
pub struct TlsError(String);

impl TlsError {
    fn new(error: impl fmt::Display) -> Self {
        Self(error.to_string())
    }
}

/// Authentication of the server by a client.
#[derive(Clone)]
pub struct ClientTls {
    crypto: Arc<dyn crypto::ClientConfig>,
}

impl ClientTls {
    /// Trusts the authorities of the operating system.
    ///
    /// # Errors
    /// If the platform's certificate store cannot be read, or this build lacks the feature `platform-verifier`.
    #[cfg(not(feature = "platform-verifier"))]
    pub fn platform_roots() -> Result<Self, TlsError> {
        Err(TlsError::new(
            "this build does not read the authorities of the operating system: enable the feature \
             `platform-verifier`, or give the authorities or a fingerprint",
        ))
    }

    /// Trusts the authorities of the operating system.
    ///
    /// # Errors
    /// If the platform's certificate store cannot be read, or this build lacks the feature `platform-verifier`.
    #[cfg(feature = "platform-verifier")]
    pub fn platform_roots() -> Result<Self, TlsError> {
        use rustls_platform_verifier::BuilderVerifierExt as _;
        let builder = builder()?.with_platform_verifier().map_err(TlsError::new)?;
        Self::from_config(builder.with_no_client_auth())
    }

    /// Trusts certificates signed by the given authorities.
    ///
    /// # Errors
    /// If a certificate cannot be used as an authority.
    pub fn with_roots(roots: &[CertificateDer<'static>]) -> Result<Self, TlsError> {
        let mut store = RootCertStore::empty();
        for root in roots {
            store.add(root.clone()).map_err(TlsError::new)?;
        }
        Self::from_config(builder()?.with_root_certificates(store).with_no_client_auth())
    }

    /// Trusts only the certificate with this fingerprint, whatever its name.
    ///
    /// # Errors
    /// If the TLS library refuses the configuration.
    pub fn pinned(fingerprint: Fingerprint) -> Result<Self, TlsError> {
        Self::with_verifier(Some(fingerprint))
    }

    /// Trusts any server that answers: encrypted, but open to a man in the middle. For tests on one
    /// machine.
    ///
    /// # Errors
    /// If the TLS library refuses the configuration.
    pub fn insecure_trust_anyone() -> Result<Self, TlsError> {
        Self::with_verifier(None)
    }

    fn with_verifier(pin: Option<Fingerprint>) -> Result<Self, TlsError> {
        let verifier = Arc::new(PinVerifier { pin, provider: provider() });
        let config = builder()?.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth();
        Self::from_config(config)
    }

    fn from_config(mut config: ClientConfig) -> Result<Self, TlsError> {
        config.alpn_protocols = vec![ALPN.to_vec()];
        let crypto = QuicClientConfig::try_from(config).map_err(TlsError::new)?;
        Ok(Self { crypto: Arc::new(crypto) })
    }

    /// Removes encryption and authentication of packets after the same handshake: anyone can read
    /// and forge them. For runs in virtual time, where encryption costs a part of the time. Sizes
    /// of packets stay, and packets that were damaged in transit are dropped. Both sides must do
    /// so.
    #[cfg(any(test, feature = "unprotected"))]
    #[must_use]
    pub fn unprotected(self) -> Self {
        Self { crypto: Arc::new(Unprotected(self.crypto)) }
    }

    pub(crate) fn crypto(&self) -> Arc<dyn crypto::ClientConfig> {
        self.crypto.clone()
    }
}

/// Certificate and keys by which a server proves its identity.
#[derive(Clone)]
pub struct ServerTls {
    crypto: Arc<dyn crypto::ServerConfig>,
    /// Key from which further keys are derived, itself derived from the private key.
    derive: hmac::Key,
}

impl ServerTls {
    /// Presents this certificate chain, with the private key of its first certificate.
    ///
    /// # Errors
    /// If the key does not belong to the certificate, or cannot be used.
    pub fn new(chain: Vec<CertificateDer<'static>>, key: PrivateKeyDer<'static>) -> Result<Self, TlsError> {
        let derive = hmac::Key::new(hmac::HMAC_SHA256, key.secret_der());
        let mut config = ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&TLS13])
            .map_err(TlsError::new)?
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .map_err(TlsError::new)?;
        config.alpn_protocols = vec![ALPN.to_vec()];
        // Sessions are long and resumption is not used.
        config.send_tls13_tickets = 0;
        let crypto = QuicServerConfig::try_from(config).map_err(TlsError::new)?;
        Ok(Self { crypto: Arc::new(crypto), derive })
    }

    /// Returns the key of stateless reset tokens.
    pub(crate) fn reset_key(&self) -> Arc<hmac::Key> {
        let secret = hmac::sign(&self.derive, b"squall/1 stateless reset");
        Arc::new(hmac::Key::new(hmac::HMAC_SHA256, secret.as_ref()))
    }

    /// Returns the key by which connection ids are recognised as our own.
    pub(crate) fn id_key(&self) -> u64 {
        let secret = hmac::sign(&self.derive, b"squall/1 connection ids");
        secret.as_ref().first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes))
    }

    /// Removes encryption like [`ClientTls::unprotected`], on the other side.
    #[cfg(any(test, feature = "unprotected"))]
    #[must_use]
    pub fn unprotected(self) -> Self {
        Self { crypto: Arc::new(Unprotected(self.crypto)), ..self }
    }

    pub(crate) fn crypto(&self) -> Arc<dyn crypto::ServerConfig> {
        self.crypto.clone()
    }
}

impl fmt::Debug for ClientTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClientTls")
    }
}

impl fmt::Debug for ServerTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ServerTls")
    }
}

/// SHA-256 of a certificate in DER form.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fingerprint(pub [u8; 32]);

/// The text is not 64 hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("fingerprint '{0}' is not 64 hexadecimal digits (SHA-256 of the certificate; colons are allowed)")]
pub struct FingerprintError(String);

/// Returns the fingerprint of a certificate.
pub fn fingerprint_of(certificate: &CertificateDer<'_>) -> Fingerprint {
    let mut fingerprint = [0; 32];
    fingerprint.copy_from_slice(digest::digest(&digest::SHA256, certificate).as_ref());
    Fingerprint(fingerprint)
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::with_capacity(64);
        for byte in self.0 {
            write!(text, "{byte:02x}")?;
        }
        f.write_str(&text)
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Fingerprint {
    type Err = FingerprintError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = || FingerprintError(text.chars().take(100).collect());
        let digits: Vec<u32> = text
            .chars()
            .filter(|c| *c != ':')
            .map(|c| c.to_digit(16))
            .collect::<Option<_>>()
            .ok_or_else(error)?;
        let pairs = digits.chunks_exact(2).map(|d| (d[0] * 16 + d[1]) as u8);
        let bytes: Vec<u8> = if digits.len() == 64 { pairs.collect() } else { Vec::new() };
        bytes.try_into().map(Self).map_err(|_| error())
    }
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

fn builder() -> Result<rustls::ConfigBuilder<ClientConfig, rustls::WantsVerifier>, TlsError> {
    ClientConfig::builder_with_provider(provider()).with_protocol_versions(&[&TLS13]).map_err(TlsError::new)
}

/// Accepts one certificate, or any; the handshake signature is checked in either case.
#[derive(Debug)]
struct PinVerifier {
    pin: Option<Fingerprint>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for PinVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        if self.pin.is_none_or(|pin| pin == fingerprint_of(end_entity)) {
            Ok(ServerCertVerified::assertion())
        } else {
            Err(CertificateError::ApplicationVerificationFailure.into())
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

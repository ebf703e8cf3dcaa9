//! Certificates for tests and benchmarks.

use rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// Returns a self-signed certificate for a host name, and its key. Ed25519 signatures have a
/// constant size, and so have packets of handshakes.
///
/// # Panics
/// If the name is not valid in a certificate.
pub fn certificate(name: &str) -> (CertificateDer<'static>, PrivateKeyDer<'static>) {
    let key = rcgen::KeyPair::generate_for(&rcgen::PKCS_ED25519).expect("is made");
    let params = rcgen::CertificateParams::new(vec![name.to_owned()]).expect("is a name");
    let certificate = params.self_signed(&key).expect("is made");
    (certificate.der().clone(), PrivateKeyDer::Pkcs8(key.serialize_der().into()))
}

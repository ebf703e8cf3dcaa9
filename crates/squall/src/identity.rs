//! Server certificates, generated or read from PEM files.

use std::{io, path::Path};

use squall_proto::{
    Fingerprint, ServerTls, TlsError, fingerprint_of,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
};
use tempfile::NamedTempFile;

use crate::{IdentityError, part::part_of};

/// A certificate chain and the private key of its first certificate.
///
/// With the feature `self-signed`:
///
/// ```
/// let identity = squall::Identity::self_signed("localhost")?;
/// // The client pins the fingerprint.
/// println!("{}", identity.fingerprint());
/// # Ok::<(), squall::IdentityError>(())
/// ```
#[derive(Debug)]
pub struct Identity {
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
    /// Chain and key in the PEM format of a file.
    pem: Pem,
}

/// PEM text whose `Debug` output hides the key.
struct Pem(String);

impl std::fmt::Debug for Pem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PEM")
    }
}

impl Identity {
    /// Generates a self-signed certificate for a host name or an address, with a new key on the
    /// curve P-256.
    ///
    /// # Errors
    /// If the name is not valid in a certificate.
    #[cfg(feature = "self-signed")]
    pub fn self_signed(name: &str) -> Result<Self, IdentityError> {
        let fail = |e: rcgen::Error| IdentityError::Generate { name: name.to_owned(), why: e.to_string() };
        let key = rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).map_err(fail)?;
        let mut params = rcgen::CertificateParams::new(vec![name.to_owned()]).map_err(fail)?;
        params.distinguished_name.push(rcgen::DnType::CommonName, name);
        let certificate = params.self_signed(&key).map_err(fail)?;
        let pem = format!("{}{}", certificate.pem(), key.serialize_pem());
        Self::parse(pem).map_err(|why| IdentityError::Generate { name: name.to_owned(), why })
    }

    /// Reads a PEM file with the chain, the server's own certificate first, and the key.
    ///
    /// # Errors
    /// If the file cannot be read, or lacks one of the two.
    pub fn load(file: impl AsRef<Path>) -> Result<Self, IdentityError> {
        let file = file.as_ref();
        Self::parse(read(file)?).map_err(|why| IdentityError::Content { path: file.to_owned(), why })
    }

    /// Reads the chain from one PEM file and the key from another.
    ///
    /// # Errors
    /// If a file cannot be read, or lacks what it should hold.
    pub fn load_pair(chain: impl AsRef<Path>, key: impl AsRef<Path>) -> Result<Self, IdentityError> {
        let (chain, key) = (chain.as_ref(), key.as_ref());
        let (certificates, private) = (read(chain)?, read(key)?);
        let fault = |file: &Path, why| IdentityError::Content { path: file.to_owned(), why };
        self::certificates(&certificates).map_err(|why| fault(chain, why))?;
        private_key(&private).map_err(|why| fault(key, why))?;
        Self::parse(format!("{certificates}\n{private}")).map_err(|why| fault(chain, why))
    }

    /// Reads the file, or generates a self-signed certificate for `name` and writes the file if it
    /// does not exist. If several programs do so at once, all use the same certificate.
    ///
    /// # Errors
    /// As [`Self::load`], [`Self::self_signed`] and [`Self::save`].
    #[cfg(feature = "self-signed")]
    pub fn load_or_create(file: impl AsRef<Path>, name: &str) -> Result<Self, IdentityError> {
        let file = file.as_ref();
        match Self::load(file) {
            Err(IdentityError::File { source, .. }) if source.kind() == io::ErrorKind::NotFound => {}
            loaded => return loaded,
        }
        let identity = Self::self_signed(name)?;
        let failed = |source| IdentityError::File { path: file.to_owned(), source };
        let Err(refused) = identity.part(file).map_err(failed)?.persist_noclobber(file) else {
            return Ok(identity);
        };
        if refused.error.kind() == io::ErrorKind::AlreadyExists {
            match Self::load(file) {
                Err(IdentityError::File { source, .. }) if source.kind() == io::ErrorKind::NotFound => {}
                loaded => return loaded,
            }
        }
        // The path is a dangling link, or the file system cannot create a file without replacing
        // one.
        refused.file.persist(file).map_err(|error| failed(error.error))?;
        Ok(identity)
    }

    /// Writes chain and key to a PEM file that only its owner can read. Replaces an existing file.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn save(&self, file: impl AsRef<Path>) -> Result<(), IdentityError> {
        let file = file.as_ref();
        let saved = self.part(file).and_then(|part| Ok(part.persist(file)?));
        saved.map(drop).map_err(|source| IdentityError::File { path: file.to_owned(), source })
    }

    /// Writes chain and key to a temporary file in the folder of the destination.
    fn part(&self, file: &Path) -> io::Result<NamedTempFile> {
        let part = part_of(file, self.pem.0.as_bytes())?;
        part.as_file().sync_all()?;
        Ok(part)
    }

    /// Returns the SHA-256 of the server's own certificate, for a client to pin.
    pub fn fingerprint(&self) -> Fingerprint {
        fingerprint_of(&self.chain[0])
    }

    /// Returns the chain, the server's own certificate first.
    pub fn chain(&self) -> &[CertificateDer<'static>] {
        &self.chain
    }

    /// Returns the TLS settings for [`Endpoint::listen`](crate::Endpoint::listen).
    ///
    /// # Errors
    /// If the key does not belong to the certificate.
    pub fn server_tls(&self) -> Result<ServerTls, TlsError> {
        ServerTls::new(self.chain.clone(), self.key.clone_key())
    }

    fn parse(pem: String) -> Result<Self, String> {
        let chain = certificates(&pem)?;
        let key = private_key(&pem)?;
        Ok(Self { chain, key, pem: Pem(pem) })
    }
}

/// Size limit of a PEM file in bytes.
const MAX_FILE: u64 = 1 << 20;

/// Reads the certificates of a PEM file, for [`Trust::Roots`](crate::Trust::Roots).
///
/// # Errors
/// If the file cannot be read, or holds no certificate.
pub fn load_certificates(file: impl AsRef<Path>) -> Result<Vec<CertificateDer<'static>>, IdentityError> {
    let file = file.as_ref();
    certificates(&read(file)?).map_err(|why| IdentityError::Content { path: file.to_owned(), why })
}

fn certificates(pem: &str) -> Result<Vec<CertificateDer<'static>>, String> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem.as_bytes()).collect();
    match found {
        Ok(chain) if chain.is_empty() => Err("holds no certificate in PEM form".into()),
        Ok(chain) => Ok(chain),
        Err(error) => Err(error.to_string()),
    }
}

fn private_key(pem: &str) -> Result<PrivateKeyDer<'static>, String> {
    PrivateKeyDer::from_pem_slice(pem.as_bytes()).map_err(|_| "holds no private key in PEM form".to_owned())
}

fn read(file: &Path) -> Result<String, IdentityError> {
    squall_file::read_text(file, MAX_FILE)
        .map_err(|source| IdentityError::File { path: file.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn scratch(name: &str) -> std::path::PathBuf {
        std::env::temp_dir().join(format!("squall-identity-{}-{name}", std::process::id()))
    }

    #[test]
    fn what_is_saved_is_loaded_again() {
        let file = scratch("saved.pem");
        let made = Identity::load_or_create(&file, "localhost").expect("is made");
        let loaded = Identity::load_or_create(&file, "other").expect("is loaded");
        assert_eq!(made.fingerprint(), loaded.fingerprint());
        assert_eq!(load_certificates(&file).expect("are there"), made.chain());
        assert!(loaded.server_tls().is_ok());
        let split = Identity::load_pair(&file, &file).expect("either file will do");
        assert_eq!(split.fingerprint(), made.fingerprint());
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            let mode = fs::metadata(&file).expect("is there").permissions().mode();
            assert_eq!(mode & 0o077, 0, "others may read the key");
        }
        fs::remove_file(&file).expect("is removed");
    }

    #[cfg(unix)]
    #[test]
    fn a_key_has_a_mode_of_its_own_and_follows_no_link() {
        use std::os::unix::fs::{PermissionsExt as _, symlink};
        let (file, other) = (scratch("key.pem"), scratch("other"));
        let identity = Identity::self_signed("localhost").expect("is made");
        fs::write(&other, "of somebody else").expect("is written");
        fs::set_permissions(&other, fs::Permissions::from_mode(0o666)).expect("is set");
        symlink(&other, &file).expect("is linked");
        identity.save(&file).expect("is saved");
        let there = fs::symlink_metadata(&file).expect("is there");
        assert!(there.is_file() && there.permissions().mode() & 0o077 == 0, "others may read the key");
        assert_eq!(fs::read_to_string(&other).expect("is there"), "of somebody else");
        [file, other].iter().for_each(|file| fs::remove_file(file).expect("is removed"));
    }

    #[cfg(unix)]
    #[test]
    fn a_link_to_nothing_is_replaced() {
        let file = scratch("dangling.pem");
        std::os::unix::fs::symlink(scratch("nothing"), &file).expect("is linked");
        let made = Identity::load_or_create(&file, "localhost").expect("is made");
        assert!(fs::symlink_metadata(&file).expect("is there").is_file());
        assert_eq!(Identity::load(&file).expect("is there").fingerprint(), made.fingerprint());
        fs::remove_file(&file).expect("is removed");
    }

    #[test]
    fn of_several_at_once_all_use_the_certificate_in_the_file() {
        for round in 0..20 {
            let (file, barrier) = (scratch(&format!("shared-{round}.pem")), std::sync::Barrier::new(4));
            let made: Vec<Identity> = std::thread::scope(|scope| {
                let create = || {
                    barrier.wait();
                    Identity::load_or_create(&file, "localhost").expect("is made or read")
                };
                let all: Vec<_> = (0..4).map(|_| scope.spawn(create)).collect();
                all.into_iter().map(|one| one.join().expect("ends")).collect()
            });
            let kept = Identity::load(&file).expect("is there");
            assert!(made.iter().all(|one| one.fingerprint() == kept.fingerprint()));
            fs::remove_file(&file).expect("is removed");
        }
    }

    #[test]
    fn bad_files_are_named() {
        let missing = scratch("missing.pem");
        let error = Identity::load(&missing).expect_err("is missing").to_string();
        assert!(error.ends_with("missing.pem: no such file or directory"), "{error}");
        let file = scratch("bad.pem");
        fs::write(&file, "hello").expect("is written");
        let error = Identity::load(&file).expect_err("is no PEM").to_string();
        assert!(error.ends_with("bad.pem: holds no certificate in PEM form"), "{error}");
        let whole = Identity::self_signed("localhost").expect("is made");
        let end = whole.pem.0.find("-----BEGIN PRIVATE").expect("has a key");
        fs::write(&file, &whole.pem.0[..end]).expect("is written");
        let error = Identity::load(&file).expect_err("has no key").to_string();
        assert!(error.ends_with("bad.pem: holds no private key in PEM form"), "{error}");
        let good = scratch("good.pem");
        whole.save(&good).expect("is saved");
        for cut in
            ["-----BEGIN PRIVATE KEY-----\n!\n-----END PRIVATE KEY-----\n", "-----BEGIN PRIVATE KEY-----\n"]
        {
            fs::write(&file, cut).expect("is written");
            let error = Identity::load_pair(&good, &file).expect_err("has no key").to_string();
            assert!(error.ends_with("bad.pem: holds no private key in PEM form"), "{error}");
            let error = Identity::load_pair(&file, &good).expect_err("has no certificate").to_string();
            assert!(error.contains("bad.pem: "), "{error}");
        }
        [file, good].iter().for_each(|file| fs::remove_file(file).expect("is removed"));
    }

    #[test]
    fn a_name_that_cannot_be_certified_is_refused() {
        let error = Identity::self_signed("grün").expect_err("is not ASCII").to_string();
        assert!(error.starts_with("cannot make a certificate for 'grün'"), "{error}");
        assert!(!format!("{:?}", Identity::self_signed("x").expect("is made")).contains("BEGIN"));
    }
}

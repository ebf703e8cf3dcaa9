//! Converts Java's arguments into a request for a session.

use std::time::Duration;

use squall::{Config, Connect, Trust, pki_types::CertificateDer};

use crate::error::Failure;

/// Arguments from Java. Omitted ones have the defaults of [`Config`] and [`Connect`].
pub(crate) struct Wishes {
    /// `host:port`.
    pub(crate) host: String,
    /// Name that the certificate must have.
    pub(crate) server_name: Option<String>,
    /// Fingerprint of the certificate; instead of `roots`.
    pub(crate) fingerprint: Option<String>,
    /// Certificates of authorities, in DER.
    pub(crate) roots: Vec<Vec<u8>>,
    /// Scheduler with options.
    pub(crate) scheduler: Option<String>,
    /// Congestion control by name.
    pub(crate) congestion: Option<String>,
    /// Timeout of the handshake in microseconds; 0 for the default.
    pub(crate) connect_timeout: i64,
    /// Idle timeout in microseconds; 0 for the default.
    pub(crate) idle_timeout: i64,
}

impl Wishes {
    /// Checks the arguments and returns the request and the settings.
    pub(crate) fn resolve(self) -> Result<(Connect, Config), Failure> {
        let mut config = Config::default();
        if let Some(description) = &self.scheduler {
            config = config.scheduler(squall::scheduler(description).map_err(argument)?);
        }
        if let Some(name) = &self.congestion {
            config = config.congestion(squall::congestion_control(name).map_err(argument)?);
        }
        if let Some(timeout) = timeout(self.connect_timeout) {
            config = config.connect_timeout(timeout);
        }
        if let Some(timeout) = timeout(self.idle_timeout) {
            let of_path = timeout.min(config.path_idle_timeout);
            config = config.idle_timeout(timeout).path_idle_timeout(of_path);
        }
        let mut request = Connect::to(&self.host).trust(trust(self.fingerprint.as_deref(), self.roots)?);
        if let Some(name) = self.server_name {
            request = request.server_name(name);
        }
        Ok((request, config))
    }
}

fn trust(fingerprint: Option<&str>, roots: Vec<Vec<u8>>) -> Result<Trust, Failure> {
    match fingerprint {
        Some(text) => Ok(Trust::Pinned(text.parse().map_err(argument::<squall::FingerprintError>)?)),
        // Omitting both does not mean that every server is trusted.
        None if roots.is_empty() => {
            Err(Failure::Argument("neither a fingerprint nor roots were given".into()))
        }
        None => Ok(Trust::Roots(roots.into_iter().map(CertificateDer::from).collect())),
    }
}

fn timeout(micros: i64) -> Option<Duration> {
    u64::try_from(micros).ok().filter(|micros| *micros > 0).map(Duration::from_micros)
}

#[expect(clippy::needless_pass_by_value, reason = "passed to `map_err`")]
fn argument<E: ToString>(error: E) -> Failure {
    Failure::Argument(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wishes() -> Wishes {
        Wishes {
            host: "media.example.org:4433".into(),
            server_name: None,
            fingerprint: Some("ab".repeat(32)),
            roots: Vec::new(),
            scheduler: None,
            congestion: None,
            connect_timeout: 0,
            idle_timeout: 0,
        }
    }

    fn refusal(wishes: Wishes) -> String {
        match wishes.resolve() {
            Err(Failure::Argument(line)) => line,
            other => panic!("{:?}", other.err()),
        }
    }

    #[test]
    fn what_is_left_out_is_the_default() {
        let (_, config) = wishes().resolve().expect("is fine");
        assert_eq!(config.connect_timeout, Config::default().connect_timeout);
        let settled = Wishes { connect_timeout: 250_000, idle_timeout: 4_000_000, ..wishes() };
        let (_, config) = settled.resolve().expect("is fine");
        assert_eq!(config.connect_timeout, Duration::from_millis(250));
        assert_eq!(
            (config.idle_timeout, config.path_idle_timeout),
            (Duration::from_secs(4), Duration::from_secs(4))
        );
    }

    #[test]
    fn mistakes_are_reported_in_one_line() {
        let line = refusal(Wishes { scheduler: Some("fastest".into()), ..wishes() });
        assert!(line.contains("'fastest'"), "{line}");
        let line = refusal(Wishes { congestion: Some("vegas".into()), ..wishes() });
        assert!(line.contains("'vegas'"), "{line}");
        let line = refusal(Wishes { fingerprint: Some("12:34".into()), ..wishes() });
        assert!(line.contains("12:34"), "{line}");
        let line = refusal(Wishes { fingerprint: None, ..wishes() });
        assert_eq!(line, "neither a fingerprint nor roots were given");
    }
}

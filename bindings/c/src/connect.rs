//! Conversion of C options to requests and settings.

use std::{
    net::{IpAddr, SocketAddr},
    str::FromStr,
    time::Duration,
};

use squall::{Config, Connect, Fingerprint, Identity, Interfaces, Trust, load_certificates};

use squall_bindings::Failure;

use crate::types;

/// Converts a time span of C; 0 means the default and becomes `None`.
fn span(micros: u64) -> Option<Duration> {
    (micros > 0).then(|| Duration::from_micros(micros))
}

/// Sets a bound from C: 0 for the default; at most `most`.
fn bound<T: TryFrom<u64> + Ord + Copy>(
    config: Config,
    set: fn(Config, T) -> Config,
    what: &str,
    value: u64,
    most: T,
) -> Result<Config, Failure> {
    if value == 0 {
        return Ok(config);
    }
    let fitting = T::try_from(value).ok().filter(|value| *value <= most);
    Ok(set(config, fitting.ok_or_else(|| Failure::argument(format!("{what} = {value} is too large")))?))
}

/// Parses text that has a given form, such as an address.
fn parse<T: FromStr>(what: &str, text: &str) -> Result<T, Failure> {
    text.parse().map_err(|_| Failure::argument(format!("'{text}' is not {what}")))
}

/// Converts the settings of an endpoint.
pub(crate) fn config(
    numbers: &types::Config,
    scheduler: Option<&str>,
    congestion: Option<&str>,
) -> Result<Config, Failure> {
    let mut config = Config::default();
    if let Some(description) = scheduler {
        config = config.scheduler(squall::scheduler(description).map_err(Failure::argument)?);
    }
    if let Some(name) = congestion {
        config = config.congestion(squall::congestion_control(name).map_err(Failure::argument)?);
    }
    if let Some(timeout) = span(numbers.connect_timeout_us) {
        config = config.connect_timeout(timeout);
    }
    if let Some(timeout) = span(numbers.idle_timeout_us) {
        let of_path = timeout.min(config.path_idle_timeout);
        config = config.idle_timeout(timeout).path_idle_timeout(of_path);
    }
    let default = config.limits;
    config = bound(config, Config::max_block, "max_block", numbers.max_block, default.max_block)?;
    config = bound(config, Config::queued_bytes, "max_queued_bytes", numbers.max_queued_bytes, u64::MAX)?;
    config = bound(config, Config::reassembly, "max_received_bytes", numbers.max_received_bytes, u64::MAX)?;
    config = bound(config, Config::open_blocks, "max_open_blocks", numbers.max_open_blocks, 1 << 20)?;
    config = bound(config, Config::max_paths, "max_paths", numbers.max_paths, default.max_paths)?;
    config = bound(config, Config::max_sessions, "max_sessions", numbers.max_sessions, 1 << 20)?;
    bound(config, Config::handshakes, "max_handshakes", numbers.max_handshakes, 1 << 20)
}

/// Interfaces selected by C, in one of three ways.
pub(crate) struct Named<'a> {
    pub(crate) names: Vec<&'a str>,
    pub(crate) addresses: Vec<&'a str>,
    pub(crate) pairs: Vec<(&'a str, &'a str)>,
}

impl Named<'_> {
    pub(crate) fn resolve(self) -> Result<Interfaces, Failure> {
        let ip = |text: &&str| parse::<IpAddr>("an IP address", text);
        let socket = |text: &str| parse::<SocketAddr>("an address with a port", text);
        match (self.names.is_empty(), self.addresses.is_empty(), self.pairs.is_empty()) {
            (true, true, true) => Ok(Interfaces::Auto),
            (false, true, true) => Ok(Interfaces::Named(self.names.into_iter().map(Into::into).collect())),
            (true, false, true) => {
                Ok(Interfaces::Local(self.addresses.iter().map(ip).collect::<Result<_, _>>()?))
            }
            (true, true, false) => {
                let pairs = self
                    .pairs
                    .iter()
                    .map(|(local, remote)| Ok::<_, Failure>((socket(local)?, socket(remote)?)));
                Ok(Interfaces::Pairs(pairs.collect::<Result<_, _>>()?))
            }
            _ => Err(Failure::argument(
                "interfaces are given by names, by addresses or by pairs: only one of these",
            )),
        }
    }
}

/// Arguments of a connection from C.
pub(crate) struct Wishes<'a> {
    pub(crate) host: &'a str,
    pub(crate) server_name: Option<&'a str>,
    pub(crate) addresses: Vec<&'a str>,
    pub(crate) interfaces: Interfaces,
    pub(crate) fingerprint: Option<&'a str>,
    pub(crate) authorities_file: Option<&'a str>,
    pub(crate) insecure: bool,
}

impl Wishes<'_> {
    pub(crate) fn resolve(self) -> Result<Connect, Failure> {
        let trust = match (self.fingerprint, self.authorities_file, self.insecure) {
            (None, None, false) => Trust::PlatformRoots,
            (Some(text), None, false) => {
                let fingerprint: Result<Fingerprint, _> = text.parse();
                Trust::Pinned(fingerprint.map_err(Failure::argument)?)
            }
            (None, Some(file), false) => Trust::Roots(load_certificates(file).map_err(Failure::argument)?),
            (None, None, true) => Trust::InsecureAnyone,
            _ => {
                return Err(Failure::argument(
                    "trust is a fingerprint, a file of authorities or none: only one of these",
                ));
            }
        };
        let addresses =
            self.addresses.into_iter().map(|text| parse::<SocketAddr>("an address with a port", text));
        let mut request = Connect::to(self.host)
            .trust(trust)
            .addresses(addresses.collect::<Result<Vec<_>, _>>()?)
            .interfaces(self.interfaces);
        if let Some(name) = self.server_name {
            request = request.server_name(name);
        }
        Ok(request)
    }
}

/// Loads or creates the certificate of a server.
pub(crate) fn identity(
    certificate_file: Option<&str>,
    key_file: Option<&str>,
    self_signed_name: Option<&str>,
) -> Result<Identity, Failure> {
    let identity = match (certificate_file, key_file, self_signed_name) {
        (Some(file), None, None) => Identity::load(file),
        (Some(chain), Some(key), None) => Identity::load_pair(chain, key),
        (Some(file), None, Some(name)) => Identity::load_or_create(file, name),
        (None, None, Some(name)) => Identity::self_signed(name),
        (None, None, None) => {
            return Err(Failure::argument("neither certificate_file nor self_signed_name is given"));
        }
        (None, Some(_), _) => return Err(Failure::argument("key_file needs certificate_file")),
        (Some(_), Some(_), Some(_)) => {
            return Err(Failure::argument("key_file and self_signed_name exclude each other"));
        }
    };
    identity.map_err(Failure::argument)
}

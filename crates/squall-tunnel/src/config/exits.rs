//! Exits that an entry may connect to.

use std::{fmt, net::SocketAddr, str::FromStr};

use serde::Deserialize;
use squall::Fingerprint;

use super::{TrustConfig, text::Mistake};

/// Maximum number of exits, or names of SRV records, of an entry.
pub const MAX_EXITS: usize = 16;

/// Prefix of a name of SRV records.
const SRV: &str = "srv:";

/// An exit, or a DNS name with SRV records of exits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExitAddress {
    /// `HOST:PORT`.
    Host(String),
    /// Name of SRV records (RFC 2782), for instance `_squall._udp.example.org`.
    Srv(String),
}

impl ExitAddress {
    /// Returns the domain of SRV records, which the certificates of their exits must name, because
    /// the target of a record is not authenticated (RFC 9525, section 6.1). `None` for a host.
    pub(crate) fn domain(&self) -> Option<&str> {
        let Self::Srv(name) = self else { return None };
        name.splitn(3, '.').nth(2)
    }
}

impl FromStr for ExitAddress {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.strip_prefix(SRV) {
            None if is_host_and_port(text) => Ok(Self::Host(text.to_owned())),
            None => Err(
                "expected HOST:PORT, such as media.example.org:4433 or [2001:db8::7]:4433, or SRV records, \
                such as srv:_squall._udp.example.org",
            ),
            Some(name) if is_service(name) => Ok(Self::Srv(name.trim_end_matches('.').to_owned())),
            Some(_) => Err("expected the name of SRV records, such as srv:_squall._udp.example.org"),
        }
    }
}

impl From<SocketAddr> for ExitAddress {
    fn from(address: SocketAddr) -> Self {
        Self::Host(address.to_string())
    }
}

impl fmt::Display for ExitAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host(host) => f.write_str(host),
            Self::Srv(name) => write!(f, "{SRV}{name}"),
        }
    }
}

/// `true` if a text is a port after a host name or an address, with IPv6 addresses in brackets.
pub(crate) fn is_host_and_port(text: &str) -> bool {
    let Some((host, port)) = text.rsplit_once(':') else { return false };
    let address = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let is_host = match address {
        Some(address) => address.parse::<std::net::Ipv6Addr>().is_ok(),
        None => !host.is_empty() && host.bytes().all(|byte| byte.is_ascii_graphic() && byte != b':'),
    };
    is_host && text.len() <= 255 && port.parse::<u16>().is_ok_and(|port| port != 0)
}

/// `true` if a name has the form `_SERVICE._PROTOCOL.DOMAIN`.
fn is_service(name: &str) -> bool {
    let labels: Vec<&str> = name.trim_end_matches('.').split('.').collect();
    let is_label = |label: &&str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
    };
    let is_service = labels.iter().take(2).all(|label| label.starts_with('_'));
    labels.len() > 2 && name.len() <= 253 && is_service && labels.iter().all(is_label)
}

/// One text or a list of texts, as the value of a key.
#[derive(Deserialize)]
#[serde(untagged, expecting = "expected a text or a list of texts")]
pub(super) enum Texts {
    One(String),
    More(Vec<String>),
}

impl Texts {
    fn into_vec(self) -> Vec<String> {
        match self {
            Self::One(text) => vec![text],
            Self::More(texts) => texts,
        }
    }

    /// Parses the values of a key.
    pub(super) fn parse<T: FromStr<Err: fmt::Display>>(self, key: &str) -> Result<Vec<T>, Mistake> {
        let texts = self.into_vec();
        let single = texts.len() == 1;
        let texts = texts.into_iter().enumerate();
        let place = |index| if single { key.to_owned() } else { format!("{key}.{index}") };
        texts
            .map(|(index, text)| {
                text.parse().map_err(|problem: T::Err| Mistake::new(place(index), problem.to_string()))
            })
            .collect()
    }

    /// Checks the values of a key to be hosts with ports.
    pub(super) fn hosts(self, key: &str, most: usize) -> Result<Vec<String>, Mistake> {
        let hosts = self.into_vec();
        if hosts.len() > most {
            return Err(Mistake::new(key, format!("more than {most} exits")));
        }
        let wrong = hosts.iter().find(|host| !is_host_and_port(host));
        match wrong {
            Some(_) => Err(Mistake::new(key, "expected HOST:PORT, such as media.example.org:4433")),
            None => Ok(hosts),
        }
    }
}

impl TrustConfig {
    /// Returns trust in one fingerprint for all exits, or in one for each.
    pub fn pinned(pins: Vec<Fingerprint>) -> Self {
        match pins[..] {
            [pin] => Self::Pin(pin),
            _ => Self::Pins(pins),
        }
    }
}

/// Checks that exits and fingerprints match.
///
/// # Errors
/// The mistake, if there is one.
pub(super) fn check(to: &[ExitAddress], trust: &TrustConfig) -> Result<(), Mistake> {
    if to.is_empty() || to.len() > MAX_EXITS {
        return Err(Mistake::new("to", format!("expected 1 to {MAX_EXITS} exits")));
    }
    let repeated = to.iter().enumerate().find(|(index, one)| to[..*index].contains(one));
    if let Some((_, exit)) = repeated {
        return Err(Mistake::new("to", format!("'{exit}' is there twice")));
    }
    let TrustConfig::Pins(pins) = trust else { return Ok(()) };
    if to.iter().any(|exit| exit.domain().is_some()) {
        return Err(Mistake::new("pin", "SRV records take one fingerprint for all exits, or ca"));
    }
    if pins.len() != to.len() {
        let (pins, exits) = (pins.len(), to.len());
        let expected = if exits == 1 { "1".to_owned() } else { format!("1, or {exits}: one for each exit") };
        return Err(Mistake::new("pin", format!("there are {pins} fingerprints; expected {expected}")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exits_are_hosts_or_names_of_srv_records() {
        for right in ["a:1", "192.0.2.1:4433", "[2001:db8::1]:65535", "srv:_squall._udp.example.org"] {
            let exit: ExitAddress = right.parse().expect(right);
            assert_eq!(exit.to_string(), right);
        }
        let srv: ExitAddress = "srv:_squall._udp.media.example.org.".parse().expect("is right");
        assert_eq!(srv.domain(), Some("media.example.org"));
        let long = format!("srv:_a._udp.{}", "x".repeat(64));
        let wrong = ["", "a", "a:0", "a:65536", ":1", "::1", "[a]:1", "a\n:1", "a b:1", "srv:", "srv:a.b.c"];
        for wrong in wrong.into_iter().chain(["srv:_a._udp", "srv:_a._udp..x", "srv:_a._udp.x:1", &long]) {
            let problem = wrong.parse::<ExitAddress>().expect_err(wrong);
            assert!(problem.contains("such as"), "{problem}");
        }
    }
}

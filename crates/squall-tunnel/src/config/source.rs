//! Permitted senders of a flow.

use std::{fmt, net::IpAddr, str::FromStr};

/// An address or a network: `ADDR` or `ADDR/PREFIX`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Source {
    address: IpAddr,
    prefix: u32,
}

impl Source {
    /// Creates the network of an address. The prefix has at most as many bits as the address.
    pub(crate) fn new(address: IpAddr, prefix: u32) -> Self {
        Self { address, prefix }
    }

    /// Returns the length of the prefix in bits.
    pub(crate) fn prefix(&self) -> u32 {
        self.prefix
    }

    /// `true` if an address is the first or last one of the network: the network address or the
    /// broadcast address. IPv6 has neither, nor has a network of one or two addresses (RFC 3021).
    pub(crate) fn is_edge(&self, address: IpAddr) -> bool {
        let (IpAddr::V4(own), IpAddr::V4(other)) = (self.address, address) else { return false };
        let hosts = u32::MAX.checked_shr(self.prefix).unwrap_or(0);
        hosts > 1
            && self.contains(address)
            && [own.to_bits() & !hosts, own.to_bits() | hosts].contains(&other.to_bits())
    }

    /// `true` if the network contains an address. IPv4-mapped IPv6 addresses count as IPv4.
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.address, address.to_canonical()) {
            (IpAddr::V4(own), IpAddr::V4(other)) => {
                (own.to_bits() ^ other.to_bits()).leading_zeros() >= self.prefix
            }
            (IpAddr::V6(own), IpAddr::V6(other)) => {
                (own.to_bits() ^ other.to_bits()).leading_zeros() >= self.prefix
            }
            _ => false,
        }
    }
}

impl FromStr for Source {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("'{text}' is not ADDR or ADDR/PREFIX, such as 192.0.2.7 or 2001:db8::/64");
        let (address, prefix) = text.split_once('/').map_or((text, None), |(one, bits)| (one, Some(bits)));
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let address = address.to_canonical();
        let most = if address.is_ipv4() { 32 } else { 128 };
        let prefix = prefix.map_or(Ok(most), |bits| bits.parse().map_err(|_| wrong()))?;
        if prefix > most {
            return Err(format!("'{text}': an address has {most} bits"));
        }
        Ok(Self { address, prefix })
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_compared_by_their_first_bits() {
        let contains = |source: &str, address: &str| {
            let source: Source = source.parse().expect("is right");
            source.contains(address.parse().expect("is an address"))
        };
        assert!(contains("192.0.2.7", "192.0.2.7") && !contains("192.0.2.7", "192.0.2.6"));
        assert!(contains("192.0.2.7/24", "192.0.2.200") && !contains("192.0.2.7/24", "192.0.3.7"));
        assert!(contains("0.0.0.0/0", "203.0.113.1") && !contains("0.0.0.0/0", "2001:db8::1"));
        assert!(contains("192.0.2.7", "::ffff:192.0.2.7"));
        assert!(
            contains("2001:db8::/64", "2001:db8::ffff:1") && !contains("2001:db8::/64", "2001:db8:0:1::1")
        );
        for wrong in ["", "host", "192.0.2.7/33", "192.0.2.7/-1", "2001:db8::/129", "192.0.2.7/", "/8"] {
            assert!(wrong.parse::<Source>().is_err(), "{wrong}");
        }
    }
}

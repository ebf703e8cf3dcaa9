//! Addresses of both sides.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use serde::{Deserialize, Serialize};

/// A version of the Internet Protocol.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Family {
    /// IPv4.
    #[default]
    V4,
    /// IPv6.
    V6,
}

impl Family {
    /// Returns the version of an address.
    pub(crate) fn of(address: IpAddr) -> Self {
        if address.is_ipv4() { Self::V4 } else { Self::V6 }
    }

    /// Returns the unspecified address (0.0.0.0 or ::).
    pub fn unspecified(self) -> IpAddr {
        match self {
            Self::V4 => Ipv4Addr::UNSPECIFIED.into(),
            Self::V6 => Ipv6Addr::UNSPECIFIED.into(),
        }
    }

    /// Prefix length of a path's subnet.
    pub(crate) fn subnet_bits(self) -> u8 {
        match self {
            Self::V4 => 24,
            Self::V6 => 64,
        }
    }

    /// Length of an address in bits.
    pub(crate) fn address_bits(self) -> u8 {
        match self {
            Self::V4 => 32,
            Self::V6 => 128,
        }
    }

    /// Returns a host's address in a subnet: private (RFC 1918), or unique local with a fixed
    /// global id (RFC 4193).
    fn address(self, subnet: u8, host: u8) -> IpAddr {
        match self {
            Self::V4 => Ipv4Addr::new(10, 77, subnet, host).into(),
            Self::V6 => Ipv6Addr::new(0xfd77, subnet.into(), 0, 0, 0, 0, 0, host.into()).into(),
        }
    }
}

/// Returns the address of the server side that is reachable over any path: 10.77.0.1 or fd77::1.
pub fn server(family: Family) -> IpAddr {
    family.address(0, SERVER)
}

/// Addresses of one path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Addresses {
    /// Third number of its IPv4 subnet (a /24), and second group of its IPv6 subnet (a /64).
    subnet: u8,
}

/// Maximum number of paths; each takes a subnet beyond the server's.
pub(crate) const MAX_PATHS: usize = 254;

/// Host part of the server's address.
const SERVER: u8 = 1;

/// Host part of the client's address.
const CLIENT: u8 = 2;

/// Number of addresses that a client takes in rotation.
const ALIASES: u32 = 250;

impl Addresses {
    /// Returns the addresses of the path with this index, from 0.
    ///
    /// # Panics
    ///
    /// If the index is 254 or more.
    pub fn of(path: usize) -> Self {
        assert!(path < MAX_PATHS, "paths are bounded when a shell is prepared");
        Self { subnet: path as u8 + 1 }
    }

    /// Returns the client's address.
    pub fn client(self, family: Family) -> IpAddr {
        family.address(self.subnet, CLIENT)
    }

    /// Returns the server's address on this path.
    pub fn server(self, family: Family) -> IpAddr {
        family.address(self.subnet, SERVER)
    }

    /// Returns the client's address as the server sees it after this number of rebindings.
    pub(crate) fn seen(self, family: Family, rebindings: u32) -> IpAddr {
        // At most 251: an octet holds it.
        family.address(self.subnet, CLIENT + (rebindings % ALIASES) as u8)
    }

    /// Number of the client's routing table for this path.
    pub(crate) fn table(self) -> u32 {
        100 + u32::from(self.subnet)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_path_has_a_subnet_and_rebinding_stays_in_it() {
        let second = Addresses::of(1);
        for (family, subnet, any) in
            [(Family::V4, "10.77.2.", "10.77.0.1"), (Family::V6, "fd77:2::", "fd77::1")]
        {
            let within = |host: &str| format!("{subnet}{host}");
            assert_eq!(server(family).to_string(), any);
            assert_eq!(second.client(family).to_string(), within("2"));
            assert_eq!(second.server(family).to_string(), within("1"));
            assert_eq!(second.seen(family, 0), second.client(family));
            assert_eq!(second.seen(family, 1).to_string(), within("3"));
            let last = if family == Family::V4 { "251" } else { "fb" };
            assert_eq!(second.seen(family, 249).to_string(), within(last));
            assert_eq!(second.seen(family, 250), second.client(family));
        }
    }
}

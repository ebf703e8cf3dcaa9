//! Who has which address.

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
    /// That of an address.
    pub(crate) fn of(address: IpAddr) -> Self {
        if address.is_ipv4() { Self::V4 } else { Self::V6 }
    }

    /// The address that stands for all of them.
    pub fn unspecified(self) -> IpAddr {
        match self {
            Self::V4 => Ipv4Addr::UNSPECIFIED.into(),
            Self::V6 => Ipv6Addr::UNSPECIFIED.into(),
        }
    }

    /// Bits of a path's subnet.
    pub(crate) fn subnet_bits(self) -> u8 {
        match self {
            Self::V4 => 24,
            Self::V6 => 64,
        }
    }

    /// Bits of an address.
    pub(crate) fn address_bits(self) -> u8 {
        match self {
            Self::V4 => 32,
            Self::V6 => 128,
        }
    }

    /// An address in a subnet: of a private network (RFC 1918), or unique local with a global id that is fixed (RFC 4193).
    fn address(self, subnet: u8, host: u8) -> IpAddr {
        match self {
            Self::V4 => Ipv4Addr::new(10, 77, subnet, host).into(),
            Self::V6 => Ipv6Addr::new(0xfd77, subnet.into(), 0, 0, 0, 0, 0, host.into()).into(),
        }
    }
}

/// Where the server side is reached over any path: 10.77.0.1, fd77::1.
pub fn server(family: Family) -> IpAddr {
    family.address(0, SERVER)
}

/// The addresses of one path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Addresses {
    /// The third number of its IPv4 subnet, a /24; the second of its IPv6 subnet, a /64.
    subnet: u8,
}

/// Most paths: each takes a subnet beyond the server's.
pub(crate) const MAX_PATHS: usize = 254;

/// The last number of the server's address.
const SERVER: u8 = 1;

/// The last number of the client's address.
const CLIENT: u8 = 2;

/// How many addresses a client can be given one after the other.
const ALIASES: u32 = 250;

impl Addresses {
    /// Those of the path with this index, from 0.
    ///
    /// # Panics
    ///
    /// Beyond 254 paths.
    pub fn of(path: usize) -> Self {
        assert!(path < MAX_PATHS, "paths are bounded when a shell is prepared");
        Self { subnet: path as u8 + 1 }
    }

    /// The client's.
    pub fn client(self, family: Family) -> IpAddr {
        family.address(self.subnet, CLIENT)
    }

    /// The server's on this path.
    pub fn server(self, family: Family) -> IpAddr {
        family.address(self.subnet, SERVER)
    }

    /// What the server takes for the client's address after this number of rebindings.
    pub(crate) fn seen(self, family: Family, rebindings: u32) -> IpAddr {
        // Below 255 by construction.
        family.address(self.subnet, CLIENT + (rebindings % ALIASES) as u8)
    }

    /// The client's routing table for this path.
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

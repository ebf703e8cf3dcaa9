//! Who has which address.

use std::net::Ipv4Addr;

/// Where the server side is reached over any path.
pub fn server() -> Ipv4Addr {
    Ipv4Addr::new(10, 77, 0, 1)
}

/// The addresses of one path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Addresses {
    /// The third number of its subnet, a /24.
    subnet: u8,
}

/// Bits of a path's subnet.
pub(crate) const PREFIX: u8 = 24;

/// Most paths: each takes a subnet beyond the server's.
pub(crate) const MAX_PATHS: usize = 254;

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
    pub fn client(self) -> Ipv4Addr {
        Ipv4Addr::new(10, 77, self.subnet, CLIENT)
    }

    /// The server's on this path.
    pub fn server(self) -> Ipv4Addr {
        Ipv4Addr::new(10, 77, self.subnet, 1)
    }

    /// What the server takes for the client's address after this number of rebindings.
    pub(crate) fn seen(self, rebindings: u32) -> Ipv4Addr {
        // Below 255 by construction.
        Ipv4Addr::new(10, 77, self.subnet, CLIENT + (rebindings % ALIASES) as u8)
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
        assert_eq!(
            (second.client().to_string(), second.server().to_string()),
            ("10.77.2.2".into(), "10.77.2.1".into())
        );
        assert_eq!(second.seen(0), second.client());
        assert_eq!(second.seen(1).to_string(), "10.77.2.3");
        assert_eq!(second.seen(249).to_string(), "10.77.2.251");
        assert_eq!(second.seen(250), second.client());
    }
}

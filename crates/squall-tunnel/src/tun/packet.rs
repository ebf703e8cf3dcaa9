//! Fields of an IP packet for routing and traffic classes.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Protocol numbers of TCP and UDP.
const WITH_PORTS: [u8; 2] = [6, 17];

/// Headers of an IP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Packet {
    pub(crate) source: IpAddr,
    pub(crate) destination: IpAddr,
    /// Differentiated services code point (RFC 2474).
    pub(crate) dscp: u8,
    pub(crate) protocol: u8,
    /// Source and destination port of TCP and UDP. Later fragments, and packets with IPv6 extension
    /// headers, have none.
    pub(crate) ports: Option<(u16, u16)>,
}

impl Packet {
    /// Parses a packet; `None` if it is neither IPv4 nor IPv6, or shorter than its header.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        match bytes.first()? >> 4 {
            4 => Self::parse_v4(bytes),
            6 => Self::parse_v6(bytes),
            _ => None,
        }
    }

    /// Parses an IPv4 header (RFC 791, section 3.1).
    fn parse_v4(bytes: &[u8]) -> Option<Self> {
        let header = bytes.first_chunk::<20>()?;
        let is_first = u16::from_be_bytes([header[6], header[7]]) & 0x1fff == 0;
        let source: [u8; 4] = header[12..16].try_into().ok()?;
        let destination: [u8; 4] = header[16..20].try_into().ok()?;
        let protocol = header[9];
        let rest = bytes.get(usize::from(header[0] & 0xf) * 4..).filter(|_| is_first);
        Some(Self {
            source: Ipv4Addr::from(source).into(),
            destination: Ipv4Addr::from(destination).into(),
            dscp: header[1] >> 2,
            protocol,
            ports: rest.and_then(|rest| ports(protocol, rest)),
        })
    }

    /// Parses an IPv6 header (RFC 8200, section 3).
    fn parse_v6(bytes: &[u8]) -> Option<Self> {
        let header = bytes.first_chunk::<40>()?;
        let source: [u8; 16] = header[8..24].try_into().ok()?;
        let destination: [u8; 16] = header[24..40].try_into().ok()?;
        Some(Self {
            source: Ipv6Addr::from(source).into(),
            destination: Ipv6Addr::from(destination).into(),
            dscp: (header[0] << 2 | header[1] >> 6) & 0x3f,
            protocol: header[6],
            ports: ports(header[6], &bytes[40..]),
        })
    }

    /// `true` if the packet is valid only on a link or a machine: multicast, link-local and
    /// loopback addresses, unspecified senders, and IPv4-mapped addresses in an IPv6 packet, which
    /// sockets treat as IPv4.
    pub(crate) fn is_of_the_link(&self) -> bool {
        let is_local = |ip: IpAddr| match ip {
            IpAddr::V4(ip) => {
                ip.is_link_local()
                    || ip.is_multicast()
                    || ip.is_broadcast()
                    || ip.is_loopback()
                    || ip.octets()[0] == 0
            }
            IpAddr::V6(ip) => {
                ip.is_unicast_link_local()
                    || ip.is_multicast()
                    || ip.is_unspecified()
                    || ip.is_loopback()
                    || ip.to_ipv4_mapped().is_some()
            }
        };
        is_local(self.source) || is_local(self.destination)
    }
}

/// Marks a packet as having met congestion, if its sender supports that (RFC 3168, section 5).
/// Returns `true` if it does.
pub(super) fn mark(packet: &mut [u8]) -> bool {
    const MASK: u16 = 3;
    let (shift, checksum) = match packet {
        [first, ..] if *first >> 4 == 4 && packet.len() >= 20 => (0, Some(10)),
        [first, ..] if *first >> 4 == 6 && packet.len() >= 40 => (4, None),
        _ => return false,
    };
    let word = |packet: &[u8], at: usize| u16::from_be_bytes([packet[at], packet[at + 1]]);
    let before = word(packet, 0);
    if before >> shift & MASK == 0 {
        return false;
    }
    let after = before | MASK << shift;
    packet[..2].copy_from_slice(&after.to_be_bytes());
    if let Some(checksum) = checksum {
        // RFC 1624, section 3.
        let sum = u32::from(!word(packet, checksum)) + u32::from(!before) + u32::from(after);
        let sum = (sum & 0xffff) + (sum >> 16);
        let sum = (sum & 0xffff) + (sum >> 16);
        packet[checksum..checksum + 2].copy_from_slice(&(!(sum as u16)).to_be_bytes());
    }
    true
}

fn ports(protocol: u8, rest: &[u8]) -> Option<(u16, u16)> {
    let [a, b, c, d] = *rest.first_chunk::<4>().filter(|_| WITH_PORTS.contains(&protocol))?;
    Some((u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Builds an IPv4 packet of UDP.
    fn v4(source: [u8; 4], destination: [u8; 4], dscp: u8, ports: (u16, u16)) -> Vec<u8> {
        let mut packet = vec![0x45, dscp << 2, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0];
        packet.extend(source);
        packet.extend(destination);
        packet.extend(ports.0.to_be_bytes());
        packet.extend(ports.1.to_be_bytes());
        packet.extend([0; 4]);
        packet
    }

    #[test]
    fn headers_are_read() {
        let mut packet = v4([10, 0, 0, 2], [192, 0, 2, 9], 46, (5004, 443));
        let read = Packet::parse(&packet).expect("is a packet");
        assert_eq!((read.source, read.destination), ([10, 0, 0, 2].into(), [192, 0, 2, 9].into()));
        assert_eq!((read.dscp, read.protocol, read.ports), (46, 17, Some((5004, 443))));
        packet[7] = 1;
        assert_eq!(Packet::parse(&packet).map(|later_fragment| later_fragment.ports), Some(None));
        assert_eq!(Packet::parse(&packet[..19]), None);
        let mut v6 = vec![0; 44];
        (v6[0], v6[1], v6[6], v6[41]) = (0x60 | 46 >> 2, (46 & 3) << 6, 6, 22);
        let read = Packet::parse(&v6).expect("is a packet");
        assert_eq!((read.dscp, read.protocol, read.ports), (46, 6, Some((22, 0))));
        assert!(read.is_of_the_link(), "it has no sender");
        assert_eq!(Packet::parse(&[0x50; 60]), None);
    }

    #[test]
    fn congestion_is_marked_for_senders_that_support_it() {
        let checksum = |packet: &[u8]| {
            let sum: u32 =
                packet[..20].chunks(2).map(|two| u32::from(u16::from_be_bytes([two[0], two[1]]))).sum();
            !((sum & 0xffff) + (sum >> 16)) as u16
        };
        for (ecn, marked) in [(0, None), (1, Some(3)), (2, Some(3)), (3, Some(3))] {
            let mut packet = v4([10, 0, 0, 2], [192, 0, 2, 9], 46, (5004, 443));
            packet[1] |= ecn;
            let own = checksum(&packet);
            packet[10..12].copy_from_slice(&own.to_be_bytes());
            assert_eq!(mark(&mut packet), marked.is_some(), "{ecn}");
            assert_eq!((packet[1], checksum(&packet)), (46 << 2 | marked.unwrap_or(0), 0));
            let mut v6 = vec![0; 40];
            (v6[0], v6[1]) = (0x60, ecn << 4 | 5);
            assert_eq!(mark(&mut v6), marked.is_some());
            assert_eq!((v6[0], v6[1]), (0x60, marked.unwrap_or(0) << 4 | 5));
        }
        assert!(!mark(&mut [0x45; 19]) && !mark(&mut []));
    }

    proptest! {
        #[test]
        fn junk_never_panics(junk in prop::collection::vec(any::<u8>(), 0..80)) {
            let _ = Packet::parse(&junk);
        }
    }
}

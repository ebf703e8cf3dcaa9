//! Address translation in IP packets, with the checksums that cover the addresses.

use std::net::{IpAddr, Ipv6Addr};

/// Address field of an IP header (RFC 791 §3.1, RFC 8200 §3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Field {
    Source,
    Destination,
}

const TCP: u8 = 6;
const UDP: u8 = 17;
const ICMPV6: u8 = 58;

/// Bytes of an IPv4 header without options.
const V4_HEADER: usize = 20;

/// Bytes of an IPv6 header without extensions.
const V6_HEADER: usize = 40;

/// Returns the address in a field; `None` if the packet has no complete IP header.
pub(crate) fn address(packet: &[u8], field: Field) -> Option<IpAddr> {
    let (at, bytes) = place(packet, field)?;
    let octets = &packet[at..at + bytes];
    <[u8; 4]>::try_from(octets)
        .map(IpAddr::from)
        .or_else(|_| <[u8; 16]>::try_from(octets).map(IpAddr::from))
        .ok()
}

/// `true` if a packet is link-local, as those of neighbour discovery and multicast listeners are
/// (RFC 4861, RFC 3810). A path between client and server is not one link.
pub(crate) fn is_of_one_link(packet: &[u8]) -> bool {
    let own = |ip: Ipv6Addr| {
        ip.is_unspecified() || ip.is_unicast_link_local() || ip.segments()[0] & 0xff0f == 0xff02
    };
    let is_own = |field| matches!(address(packet, field), Some(IpAddr::V6(ip)) if own(ip));
    is_own(Field::Source) || is_own(Field::Destination)
}

/// Replaces an address by another of the same family, and adjusts the checksums of the header and
/// of the transport. Any other packet stays as it is. Quotations inside ICMP errors keep the old
/// address.
pub(crate) fn replace(packet: &mut [u8], field: Field, new: IpAddr) {
    match (address(packet, field), new) {
        (Some(IpAddr::V4(old)), IpAddr::V4(new)) => swap(packet, field, &old.octets(), &new.octets()),
        (Some(IpAddr::V6(old)), IpAddr::V6(new)) => swap(packet, field, &old.octets(), &new.octets()),
        _ => {}
    }
}

fn swap(packet: &mut [u8], field: Field, old: &[u8], new: &[u8]) {
    let Some((at, bytes)) = place(packet, field) else { return };
    packet[at..at + bytes].copy_from_slice(new);
    if bytes == 4 {
        adjust(packet, 10, old, new);
    }
    if let Some(checksum) = Transport::of(packet).and_then(Transport::checksum) {
        checksum.adjust(packet, old, new);
    }
}

/// Damages the bytes behind the transport's first 8 bytes. A UDP datagram gets a valid checksum
/// afterwards, as from a middlebox that damages the packets it forwards, so that the program
/// receives it. Other packets keep their checksum, and the system drops them.
pub(crate) fn damage(packet: &mut [u8], damage: impl FnOnce(&mut [u8])) {
    let Some(transport) = Transport::of(packet) else { return };
    let Some(payload) = packet.get_mut(transport.at + 8..) else { return };
    let old = payload.to_vec();
    damage(payload);
    let new = payload.to_vec();
    if let Some(checksum) = transport.checksum().filter(|_| transport.protocol == UDP) {
        checksum.adjust(packet, &old, &new);
    }
}

/// Returns the offset of an address and its length in bytes.
fn place(packet: &[u8], field: Field) -> Option<(usize, usize)> {
    let (header, source, bytes) = match packet.first()? >> 4 {
        4 => (V4_HEADER, 12, 4),
        6 => (V6_HEADER, 8, 16),
        _ => return None,
    };
    let at = if field == Field::Source { source } else { source + bytes };
    (packet.len() >= header).then_some((at, bytes))
}

/// Transport part of an IP packet.
#[derive(Debug, Clone, Copy)]
struct Transport {
    protocol: u8,
    /// Offset of its first byte.
    at: usize,
    /// `false` for a later fragment, which has no transport header.
    is_first: bool,
    is_v6: bool,
}

impl Transport {
    /// Returns `None` if the headers are incomplete.
    fn of(packet: &[u8]) -> Option<Self> {
        match packet.first()? >> 4 {
            4 if packet.len() >= V4_HEADER => {
                let fragment = u16::from_be_bytes([packet[6], packet[7]]) & 0x1fff;
                let at = usize::from(packet[0] & 0x0f) * 4;
                Some(Self { protocol: packet[9], at, is_first: fragment == 0, is_v6: false })
            }
            6 if packet.len() >= V6_HEADER => Self::of_v6(packet),
            _ => None,
        }
    }

    /// Follows the chain of extension headers (RFC 8200 §4).
    fn of_v6(packet: &[u8]) -> Option<Self> {
        const HOP_BY_HOP: u8 = 0;
        const ROUTING: u8 = 43;
        const FRAGMENT: u8 = 44;
        const DESTINATION: u8 = 60;
        let (mut protocol, mut at, mut is_first) = (packet[6], V6_HEADER, true);
        // The loop ends: each header takes at least eight bytes.
        loop {
            let header = packet.get(at..at + 8);
            at += match protocol {
                HOP_BY_HOP | ROUTING | DESTINATION => (usize::from(header?[1]) + 1) * 8,
                FRAGMENT => {
                    is_first = u16::from_be_bytes([header?[2], header?[3]]) >> 3 == 0;
                    8
                }
                _ => return Some(Self { protocol, at, is_first, is_v6: true }),
            };
            protocol = header?[0];
            if !is_first {
                return Some(Self { protocol, at, is_first, is_v6: true });
            }
        }
    }

    /// Returns the checksum that covers the addresses; only the first fragment has one.
    fn checksum(self) -> Option<Checksum> {
        let offset = match self.protocol {
            TCP => 16,
            UDP => 6,
            // ICMP's checksum over IPv4 covers no addresses.
            ICMPV6 if self.is_v6 => 2,
            _ => return None,
        };
        self.is_first.then_some(Checksum { at: self.at + offset, may_be_absent: self.protocol == UDP })
    }
}

/// Checksum field of a transport.
#[derive(Debug, Clone, Copy)]
struct Checksum {
    at: usize,
    may_be_absent: bool,
}

impl Checksum {
    /// Adjusts it for replaced bytes.
    fn adjust(self, packet: &mut [u8], old: &[u8], new: &[u8]) {
        let is_absent =
            |packet: &[u8]| self.may_be_absent && packet.get(self.at..self.at + 2) == Some(&[0, 0]);
        if is_absent(packet) {
            return;
        }
        adjust(packet, self.at, old, new);
        // Zero means no checksum (RFC 768).
        if is_absent(packet) {
            packet[self.at..self.at + 2].copy_from_slice(&[0xff, 0xff]);
        }
    }
}

/// Adjusts the checksum at an offset for a change of bytes that it covers (RFC 1624 §3, equation
/// 3).
fn adjust(packet: &mut [u8], at: usize, old: &[u8], new: &[u8]) {
    let Some(field) = packet.get_mut(at..at + 2) else { return };
    let words = |bytes: &[u8]| -> Vec<u16> {
        bytes.chunks(2).map(|pair| u16::from_be_bytes([pair[0], *pair.get(1).unwrap_or(&0)])).collect()
    };
    let mut sum = u32::from(!u16::from_be_bytes([field[0], field[1]]));
    for (old, new) in words(old).into_iter().zip(words(new)) {
        sum += u32::from(!old) + u32::from(new);
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum = (sum & 0xffff) + (sum >> 16);
    field.copy_from_slice(&(!(sum as u16)).to_be_bytes());
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Sums the words (RFC 1071); with a valid checksum the result is 0xffff.
    fn sum(parts: &[&[u8]]) -> u16 {
        let mut sum = 0u32;
        for part in parts {
            for pair in part.chunks(2) {
                sum += u32::from(u16::from_be_bytes([pair[0], pair.get(1).copied().unwrap_or(0)]));
            }
        }
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        sum as u16
    }

    /// Returns the pseudo header that a transport checksum covers (RFC 9293 §3.1, RFC 8200 §8.1).
    fn pseudo(packet: &[u8], protocol: u8, body: &[u8]) -> Vec<u8> {
        let addresses = if packet[0] >> 4 == 4 { &packet[12..20] } else { &packet[8..40] };
        [addresses, &[0, protocol], &(body.len() as u16).to_be_bytes()[..]].concat()
    }

    /// `true` if the checksums of the packet are valid; `headers` is the length of its IP headers.
    fn is_right(packet: &[u8], headers: usize, protocol: u8) -> bool {
        let (header, body) = packet.split_at(headers);
        let header_is_right = packet[0] >> 4 == 6 || sum(&[header]) == 0xffff;
        header_is_right && sum(&[&pseudo(packet, protocol, body), body]) == 0xffff
    }

    /// IP headers of a test packet: IPv4, IPv6, or IPv6 with destination options.
    #[derive(Debug, Clone, Copy, PartialEq)]
    enum Kind {
        V4,
        V6,
        V6Extended,
    }

    fn headers(kind: Kind, protocol: u8) -> Vec<u8> {
        let mut packet = match kind {
            Kind::V4 => vec![0x45, 0, 0, 0, 0, 0, 0, 0, 64, protocol, 0, 0, 10, 77, 1, 2, 10, 77, 0, 1],
            Kind::V6 => vec![0x60, 0, 0, 0, 0, 0, protocol, 64],
            Kind::V6Extended => vec![0x60, 0, 0, 0, 0, 0, 60, 64],
        };
        if kind == Kind::V4 {
            let checksum = !sum(&[&packet]);
            packet[10..12].copy_from_slice(&checksum.to_be_bytes());
            return packet;
        }
        for end in ["fd77:1::2", "fd77::1"] {
            packet.extend(end.parse::<Ipv6Addr>().expect("an address").octets());
        }
        if kind == Kind::V6Extended {
            packet.extend([protocol, 1]);
            packet.extend([0; 14]);
        }
        packet
    }

    /// Returns a packet with valid checksums, and the length of its IP headers.
    fn packet(kind: Kind, protocol: u8, payload: &[u8]) -> (Vec<u8>, usize) {
        let mut packet = headers(kind, protocol);
        let before = packet.len();
        let (header, checksum_at) = match protocol {
            TCP => (20, 16),
            UDP => (8, 6),
            _ => (8, 2),
        };
        let mut body = [&vec![0; header], payload].concat();
        let checksum = match !sum(&[&pseudo(&packet, protocol, &body), &body]) {
            0 if protocol == UDP => 0xffff,
            checksum => checksum,
        };
        body[checksum_at..checksum_at + 2].copy_from_slice(&checksum.to_be_bytes());
        packet.extend(body);
        (packet, before)
    }

    /// Flips a bit.
    fn turn(bytes: &mut [u8], bit: u8) {
        let place = usize::from(bit) / 8 % bytes.len().max(1);
        if let Some(byte) = bytes.get_mut(place) {
            *byte ^= 1 << (bit % 8);
        }
    }

    fn kinds() -> impl Strategy<Value = (Kind, u8)> {
        let v4 = prop_oneof![Just(TCP), Just(UDP)].prop_map(|protocol| (Kind::V4, protocol));
        let v6 = (
            prop_oneof![Just(Kind::V6), Just(Kind::V6Extended)],
            prop_oneof![Just(TCP), Just(UDP), Just(ICMPV6)],
        );
        prop_oneof![v4, v6]
    }

    fn of_family(kind: Kind, v4: [u8; 4], v6: [u8; 16]) -> IpAddr {
        if kind == Kind::V4 { v4.into() } else { v6.into() }
    }

    proptest! {
        #[test]
        fn checksums_stay_right(
            (kind, protocol) in kinds(),
            v4: [u8; 4],
            v6: [u8; 16],
            payload in proptest::collection::vec(any::<u8>(), 0..64),
        ) {
            let (mut packet, before) = packet(kind, protocol, &payload);
            prop_assert!(is_right(&packet, before, protocol));
            let new = of_family(kind, v4, v6);
            for field in [Field::Source, Field::Destination] {
                replace(&mut packet, field, new);
                prop_assert_eq!(address(&packet, field), Some(new));
                prop_assert!(is_right(&packet, before, protocol));
            }
        }

        #[test]
        fn a_damaged_datagram_reaches_its_program(
            (kind, _) in kinds(),
            bit: u8,
            payload in proptest::collection::vec(any::<u8>(), 1..64),
        ) {
            let (mut packet, before) = packet(kind, UDP, &payload);
            let whole = packet.clone();
            damage(&mut packet, |payload| turn(payload, bit));
            prop_assert!(packet != whole && packet.len() == whole.len());
            prop_assert!(is_right(&packet, before, UDP));
        }

        #[test]
        fn any_bytes_are_survived(
            mut bytes in proptest::collection::vec(any::<u8>(), 0..90),
            version in prop_oneof![Just(None), Just(Some(0x45)), Just(Some(0x60))],
            v4: [u8; 4],
            v6: [u8; 16],
            bit: u8,
        ) {
            if let (Some(first), Some(version)) = (bytes.first_mut(), version) {
                *first = version;
            }
            let length = bytes.len();
            is_of_one_link(&bytes);
            replace(&mut bytes, Field::Source, v4.into());
            replace(&mut bytes, Field::Source, v6.into());
            damage(&mut bytes, |payload| turn(payload, bit));
            prop_assert_eq!(bytes.len(), length);
        }
    }

    #[test]
    fn a_udp_packet_without_checksum_stays_without() {
        let (mut packet, before) = packet(Kind::V4, UDP, b"no sum");
        packet[before + 6..before + 8].fill(0);
        replace(&mut packet, Field::Source, IpAddr::from([10, 77, 1, 3]));
        damage(&mut packet, |payload| turn(payload, 3));
        assert_eq!(packet[before + 6..before + 8], [0, 0]);
    }

    #[test]
    fn only_the_first_fragment_has_a_checksum_to_change() {
        let (mut v4, before) = packet(Kind::V4, UDP, b"the middle of something");
        v4[7] = 10;
        let old = v4[before..].to_vec();
        replace(&mut v4, Field::Source, IpAddr::from([10, 77, 1, 3]));
        assert_eq!(v4[before..], old);
        let (whole, before) = packet(Kind::V6, UDP, b"the middle of something");
        for (offset, changes) in [(0, true), (10, false)] {
            let fragment = [UDP, 0, 0, offset << 3, 0, 0, 0, 7];
            let mut v6 = [&whole[..before], &fragment, &whole[before..]].concat();
            v6[6] = 44;
            replace(&mut v6, Field::Source, "fd77:1::3".parse().expect("an address"));
            assert_eq!(v6[before + 8..] != whole[before..], changes, "at {offset}");
        }
    }

    #[test]
    fn traffic_of_one_link_is_found() {
        let with = |source: &str, destination: &str| {
            let mut packet = headers(Kind::V6, ICMPV6);
            for (field, ip) in [(Field::Source, source), (Field::Destination, destination)] {
                replace(&mut packet, field, ip.parse().expect("an address"));
            }
            packet
        };
        for (source, destination) in [("::", "ff02::16"), ("fe80::1", "fd77::1"), ("fd77:1::2", "ff02::2")] {
            assert!(is_of_one_link(&with(source, destination)), "{source} to {destination}");
        }
        assert!(
            !is_of_one_link(&with("fd77:1::2", "fd77::1")) && !is_of_one_link(&with("fd77:1::2", "ff05::2"))
        );
        assert!(!is_of_one_link(&headers(Kind::V4, UDP)));
    }
}

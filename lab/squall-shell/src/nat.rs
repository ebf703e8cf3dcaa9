//! Changing an address in an IPv4 packet, and the checksums that cover it.

use std::net::Ipv4Addr;

use squall_net::Damage;

/// One of the two addresses in an IPv4 header (RFC 791 §3.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Field {
    Source,
    Destination,
}

const TCP: u8 = 6;
const UDP: u8 = 17;

/// Bytes of a header without options.
const HEADER: usize = 20;

/// The address there; `None` if this is no whole IPv4 header.
pub(crate) fn address(packet: &[u8], field: Field) -> Option<Ipv4Addr> {
    if packet.len() < HEADER || packet[0] >> 4 != 4 {
        return None;
    }
    let at = offset(field);
    Some(Ipv4Addr::new(packet[at], packet[at + 1], packet[at + 2], packet[at + 3]))
}

/// Puts another address there, and makes the header's checksum and that of TCP or UDP right again. What is no IPv4 packet
/// stays as it is. Quotations inside ICMP errors keep the old address.
pub(crate) fn replace(packet: &mut [u8], field: Field, new: Ipv4Addr) {
    let Some(old) = address(packet, field) else { return };
    let (old, new) = (old.octets(), new.octets());
    let at = offset(field);
    packet[at..at + 4].copy_from_slice(&new);
    adjust(packet, 10, old, new);
    let header = usize::from(packet[0] & 0x0f) * 4;
    // Only the first fragment has the checksum.
    let fragment = u16::from_be_bytes([packet[6], packet[7]]) & 0x1fff;
    let checksum = match packet[9] {
        TCP if fragment == 0 => header + 16,
        UDP if fragment == 0 => header + 6,
        _ => return,
    };
    let absent = packet[9] == UDP && packet.get(checksum..checksum + 2) == Some(&[0, 0]);
    if !absent {
        adjust(packet, checksum, old, new);
        // A UDP checksum of zero would say that there is none (RFC 768).
        if packet[9] == UDP && packet.get(checksum..checksum + 2) == Some(&[0, 0]) {
            packet[checksum..checksum + 2].copy_from_slice(&[0xff, 0xff]);
        }
    }
}

/// Damages what is behind the headers. A datagram of UDP loses its checksum with that, as a box on the way makes it right
/// again that damages what it forwards: so the program gets it. Other packets keep theirs, and the system drops them.
pub(crate) fn damage(packet: &mut [u8], damage: Damage) {
    let header = usize::from(packet.first().map_or(0, |first| first & 0x0f)) * 4;
    let is_udp = packet.get(9) == Some(&UDP);
    if let Some(checksum) = packet.get_mut(header + 6..header + 8).filter(|_| is_udp) {
        checksum.fill(0);
    }
    if let Some(payload) = packet.get_mut(header + 8..) {
        damage.apply(payload);
    }
}

fn offset(field: Field) -> usize {
    match field {
        Field::Source => 12,
        Field::Destination => 16,
    }
}

/// What becomes of the checksum at a place when four bytes that it covers change (RFC 1624 §3, equation 3).
fn adjust(packet: &mut [u8], at: usize, old: [u8; 4], new: [u8; 4]) {
    let Some(field) = packet.get_mut(at..at + 2) else { return };
    let words =
        |bytes: [u8; 4]| [u16::from_be_bytes([bytes[0], bytes[1]]), u16::from_be_bytes([bytes[2], bytes[3]])];
    let mut sum = u32::from(!u16::from_be_bytes([field[0], field[1]]));
    for (old, new) in words(old).into_iter().zip(words(new)) {
        sum += u32::from(!old) + u32::from(new);
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    field.copy_from_slice(&(!(sum as u16)).to_be_bytes());
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The sum over the words (RFC 1071), which a right checksum brings to 0xffff.
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

    fn is_right(packet: &[u8], protocol: u8) -> bool {
        let (header, body) = packet.split_at(HEADER);
        let pseudo = [&packet[12..20], &[0, protocol], &(body.len() as u16).to_be_bytes()[..]].concat();
        sum(&[header]) == 0xffff && sum(&[&pseudo, body]) == 0xffff
    }

    fn packet(protocol: u8, source: [u8; 4], payload: &[u8]) -> Vec<u8> {
        let header = if protocol == TCP { 20 } else { 8 };
        let mut packet = vec![0x45, 0, 0, 0, 0, 0, 0, 0, 64, protocol, 0, 0];
        packet.extend(source);
        packet.extend([10, 77, 0, 1]);
        let checksum = !sum(&[&packet]);
        packet[10..12].copy_from_slice(&checksum.to_be_bytes());
        packet.extend(vec![0; header]);
        packet.extend(payload);
        let body = packet.split_off(HEADER);
        let pseudo = [&packet[12..20], &[0, protocol], &(body.len() as u16).to_be_bytes()[..]].concat();
        let checksum = match !sum(&[&pseudo, &body]) {
            0 if protocol == UDP => 0xffff,
            checksum => checksum,
        };
        packet.extend(body);
        let at = HEADER + if protocol == TCP { 16 } else { 6 };
        packet[at..at + 2].copy_from_slice(&checksum.to_be_bytes());
        packet
    }

    proptest! {
        #[test]
        fn checksums_stay_right(
            protocol in prop_oneof![Just(TCP), Just(UDP)],
            source: [u8; 4],
            new: [u8; 4],
            payload in proptest::collection::vec(any::<u8>(), 0..64),
        ) {
            let mut packet = packet(protocol, source, &payload);
            prop_assert!(is_right(&packet, protocol));
            replace(&mut packet, Field::Source, new.into());
            prop_assert_eq!(address(&packet, Field::Source), Some(new.into()));
            prop_assert!(is_right(&packet, protocol));
            replace(&mut packet, Field::Destination, source.into());
            prop_assert!(is_right(&packet, protocol));
        }

        #[test]
        fn any_bytes_are_survived(mut bytes in proptest::collection::vec(any::<u8>(), 0..60), new: [u8; 4]) {
            let length = bytes.len();
            replace(&mut bytes, Field::Source, new.into());
            prop_assert_eq!(bytes.len(), length);
        }
    }

    #[test]
    fn a_udp_packet_without_checksum_stays_without() {
        let mut packet = packet(UDP, [10, 77, 1, 2], b"no sum");
        packet[HEADER + 6..HEADER + 8].copy_from_slice(&[0, 0]);
        replace(&mut packet, Field::Source, Ipv4Addr::new(10, 77, 1, 3));
        assert_eq!(packet[HEADER + 6..HEADER + 8], [0, 0]);
    }

    #[test]
    fn only_the_first_fragment_has_a_checksum_to_change() {
        let mut packet = packet(UDP, [10, 77, 1, 2], b"the middle of something");
        packet[7] = 10;
        let before = packet[HEADER..].to_vec();
        replace(&mut packet, Field::Source, Ipv4Addr::new(10, 77, 1, 3));
        assert_eq!(packet[HEADER..], before);
    }
}

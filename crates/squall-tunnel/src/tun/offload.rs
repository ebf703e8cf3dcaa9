//! Segmentation offload of a TUN device: bursts of packets of one TCP connection or UDP flow.
//!
//! The kernel reads and writes each packet behind a header of 10 bytes (`struct virtio_net_hdr`,
//! virtio 1.2, section 5.1.6), with numbers in the byte order of the machine:
//!
//! ```text
//! flags (1)  type (1)  length of the headers (2)  segment (2)  checksum from (2)  checksum at (2)
//! ```
//!
//! A burst is one IP packet of up to 64 KiB whose payload is to be cut into segments, each of which
//! gets the headers of the burst. It crosses the tunnel whole, so that all costs of a packet are
//! those of a burst, and its headers travel once.

/// Bytes of the kernel's header.
pub(super) const VNET: usize = 10;

/// The kernel's header of a complete packet.
pub(super) const WHOLE: [u8; VNET] = [0; VNET];

/// `VIRTIO_NET_HDR_F_NEEDS_CSUM`: the checksum is that of the pseudo header alone.
const NEEDS_CHECKSUM: u8 = 1;

/// Types of bursts: `VIRTIO_NET_HDR_GSO_TCPV4`, `…_TCPV6` and `…_UDP_L4`.
const TCP4: u8 = 1;
const TCP6: u8 = 4;
const UDP: u8 = 5;
/// `VIRTIO_NET_HDR_GSO_ECN`: a flag of the type if the first segment has the flag CWR.
const ECN: u8 = 0x80;

/// Protocol numbers.
const PROTOCOL_TCP: u8 = 6;
const PROTOCOL_UDP: u8 = 17;

/// Flags of TCP that only the first segment has (CWR), and only the last (FIN, PSH).
const CWR: u8 = 0x80;
const FIN_PSH: u8 = 0x09;

/// Maximum number of segments of a burst in the tunnel: that of Linux for UDP (`UDP_MAX_SEGMENTS`).
const MAX_SEGMENTS: usize = 128;

/// Maximum size of a burst in the tunnel, in bytes: datagrams in frames are shorter than 65,535.
const MAX_BURST: usize = 65_532;

/// Cut of a burst into segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cut {
    /// Start of the TCP or UDP header.
    transport: usize,
    is_tcp: bool,
    /// Bytes of payload in each segment but the last.
    segment: usize,
}

impl Cut {
    /// Returns the cut of a burst into segments of this size; `None` if it is not a packet of TCP
    /// or UDP that can be cut, or if there are too many segments.
    pub(super) fn of(packet: &[u8], segment: u16) -> Option<Self> {
        let at = |index: usize| packet.get(index..index + 2).map(|two| u16::from_be_bytes([two[0], two[1]]));
        let (transport, protocol, length) = match packet.first()? >> 4 {
            // More fragments, or the offset of one.
            4 if at(6)? & 0x3fff == 0 => {
                (usize::from(packet[0] & 0xf) * 4, *packet.get(9)?, usize::from(at(2)?))
            }
            6 => (40, *packet.get(6)?, usize::from(at(4)?) + 40),
            _ => return None,
        };
        let is_tcp = protocol == PROTOCOL_TCP;
        let cut = Self { transport, is_tcp, segment: segment.into() };
        let is_right = transport >= 20
            && length == packet.len()
            && (is_tcp || protocol == PROTOCOL_UDP && usize::from(at(transport + 4)?) == length - transport);
        let payload = packet.len().checked_sub(cut.headers(packet)?)?;
        let fits = segment > 0 && payload > cut.segment && payload.div_ceil(cut.segment) <= MAX_SEGMENTS;
        (is_right && fits).then_some(cut)
    }

    /// Returns the size of the segments, if the burst fits a record and its receiver finds the same
    /// cut.
    pub(super) fn in_record(&self, packet: &[u8]) -> Option<u16> {
        let segment = u16::try_from(self.segment).ok()?;
        (packet.len() <= MAX_BURST && Self::of(packet, segment) == Some(*self)).then_some(segment)
    }

    /// Returns the length of all headers.
    fn headers(&self, packet: &[u8]) -> Option<usize> {
        match self.is_tcp {
            true => {
                let length = usize::from(packet.get(self.transport + 12)? >> 4) * 4;
                (length >= 20).then_some(self.transport + length)
            }
            false => Some(self.transport + 8),
        }
    }

    /// Returns the position of the checksum in the transport header.
    fn checksum_at(&self) -> usize {
        if self.is_tcp { 16 } else { 6 }
    }

    /// Returns the number of segments.
    pub(super) fn segments(&self, packet: &[u8]) -> usize {
        let headers = self.headers(packet).unwrap_or(packet.len());
        packet.len().saturating_sub(headers).div_ceil(self.segment.max(1))
    }

    /// `true` if the burst is of UDP, which kernels before Linux 6.2 do not cut.
    pub(super) fn is_udp(&self) -> bool {
        !self.is_tcp
    }

    /// Returns the kernel's header of the burst.
    pub(super) fn header(&self, packet: &[u8]) -> [u8; VNET] {
        let is_v4 = packet.first().is_some_and(|first| first >> 4 == 4);
        let has_cwr = self.is_tcp && packet.get(self.transport + 13).is_some_and(|flags| flags & CWR != 0);
        let kind = match (self.is_tcp, is_v4) {
            (false, _) => UDP,
            (true, true) => TCP4,
            (true, false) => TCP6,
        };
        let mut header = [0; VNET];
        header[0] = NEEDS_CHECKSUM;
        header[1] = kind | if has_cwr { ECN } else { 0 };
        let headers = self.headers(packet).unwrap_or_default();
        let numbers = [headers, self.segment, self.transport, self.checksum_at()];
        for (bytes, number) in header[2..].chunks_exact_mut(2).zip(numbers) {
            bytes.copy_from_slice(&(number as u16).to_ne_bytes());
        }
        header
    }

    /// Passes each segment to `take`, as the kernel would cut the burst.
    pub(super) fn split(&self, packet: &[u8], mut take: impl FnMut(&[u8])) {
        let Some(headers) = self.headers(packet).filter(|headers| *headers <= packet.len()) else { return };
        let (head, payload) = packet.split_at(headers);
        let (transport, is_v4) = (self.transport, packet[0] >> 4 == 4);
        let count = payload.len().div_ceil(self.segment);
        let mut segment = Vec::with_capacity(headers + self.segment);
        for (index, bytes) in payload.chunks(self.segment).enumerate() {
            segment.clear();
            segment.extend_from_slice(head);
            segment.extend_from_slice(bytes);
            let length = segment.len();
            let set = |segment: &mut [u8], at: usize, number: u16| {
                segment[at..at + 2].copy_from_slice(&number.to_be_bytes());
            };
            if is_v4 {
                let id = u16::from_be_bytes([head[4], head[5]]).wrapping_add(index as u16);
                set(&mut segment, 2, length as u16);
                set(&mut segment, 4, id);
                set(&mut segment, 10, 0);
                let sum = checksum(&segment[..transport.min(length)], 0);
                set(&mut segment, 10, sum);
            } else {
                set(&mut segment, 4, (length - 40) as u16);
            }
            if self.is_tcp {
                let sequence = &mut segment[transport + 4..transport + 8];
                let first = u32::from_be_bytes([sequence[0], sequence[1], sequence[2], sequence[3]]);
                let here = first.wrapping_add((index * self.segment) as u32);
                sequence.copy_from_slice(&here.to_be_bytes());
                let flags = &mut segment[transport + 13];
                *flags &= if index > 0 { !CWR } else { 0xff };
                *flags &= if index + 1 < count { !FIN_PSH } else { 0xff };
            } else {
                set(&mut segment, transport + 4, (length - transport) as u16);
            }
            let at = transport + self.checksum_at();
            set(&mut segment, at, 0);
            let addresses = if is_v4 { 12..20 } else { 8..40 };
            let protocol = if self.is_tcp { PROTOCOL_TCP } else { PROTOCOL_UDP };
            let pseudo = sum(&segment[addresses], u64::from(protocol) + (length - transport) as u64);
            let sum = checksum(&segment[transport..], pseudo);
            // 0 means that a datagram of UDP has no checksum (RFC 768).
            set(&mut segment, at, if sum == 0 && !self.is_tcp { 0xffff } else { sum });
            take(&segment);
        }
    }
}

/// A packet as the device delivers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Read<'a> {
    Packet(&'a [u8]),
    /// A packet that is to be cut into segments.
    Burst(&'a [u8], Cut),
}

/// Reads a packet behind its header of the kernel, and completes its checksum. `None` if the header
/// does not fit the packet, which the kernel does not produce.
pub(super) fn read(bytes: &mut [u8]) -> Option<Read<'_>> {
    let (header, packet) = bytes.split_first_chunk_mut::<VNET>()?;
    let number = |at: usize| usize::from(u16::from_ne_bytes([header[at], header[at + 1]]));
    let (segment, from, at) = (number(4), number(6), number(8));
    let is_tcp = match header[1] & !ECN {
        0 => {
            if header[0] & NEEDS_CHECKSUM != 0 {
                let at = from + at;
                let first = packet.get(at..at + 2)?;
                let before = u64::from(u16::from_be_bytes([first[0], first[1]]));
                packet[at..at + 2].fill(0);
                let sum = checksum(packet.get(from..)?, before);
                packet[at..at + 2].copy_from_slice(&sum.to_be_bytes());
            }
            return Some(Read::Packet(packet));
        }
        TCP4 | TCP6 => true,
        UDP => false,
        _ => return None,
    };
    let cut = Cut { transport: from, is_tcp, segment };
    let least = match packet.first()? >> 4 {
        4 => 20,
        6 => 40,
        _ => return None,
    };
    let is_right = segment > 0 && from >= least && cut.headers(packet)? <= packet.len();
    is_right.then_some(Read::Burst(packet, cut))
}

/// Adds the 16-bit words of some bytes to a sum (RFC 1071).
fn sum(bytes: &[u8], before: u64) -> u64 {
    let words = bytes.chunks_exact(2);
    let last = words.remainder().first().map_or(0, |last| u64::from(*last) << 8);
    let word = |two: &[u8]| u64::from(u16::from_be_bytes([two[0], two[1]]));
    before + words.map(word).sum::<u64>() + last
}

/// Returns the checksum of some bytes behind others with this sum (RFC 1071).
fn checksum(bytes: &[u8], before: u64) -> u16 {
    let mut sum = sum(bytes, before);
    while sum > 0xffff {
        sum = (sum >> 16) + (sum & 0xffff);
    }
    !(sum as u16)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Returns a packet of TCP or UDP with these bytes of payload, whose checksum is that of the
    /// pseudo header, as in a burst of the kernel.
    fn burst(is_v4: bool, is_tcp: bool, payload: usize) -> Vec<u8> {
        let (transport, header) = (if is_v4 { 20 } else { 40 }, if is_tcp { 32 } else { 8 });
        let length = transport + header + payload;
        let mut packet: Vec<u8> = (0..length).map(|at| (at * 7) as u8).collect();
        let protocol = if is_tcp { PROTOCOL_TCP } else { PROTOCOL_UDP };
        if is_v4 {
            packet[..4].copy_from_slice(&[0x45, 0, (length >> 8) as u8, length as u8]);
            (packet[6], packet[7], packet[9]) = (0x40, 0, protocol);
        } else {
            packet[0] = 0x60;
            packet[4..6].copy_from_slice(&((length - 40) as u16).to_be_bytes());
            packet[6] = protocol;
        }
        if is_tcp {
            packet[transport + 4..transport + 8].copy_from_slice(&(u32::MAX - 100).to_be_bytes());
            (packet[transport + 12], packet[transport + 13]) = (8 << 4, CWR | FIN_PSH | 0x10);
        } else {
            packet[transport + 4..transport + 6].copy_from_slice(&((8 + payload) as u16).to_be_bytes());
        }
        packet
    }

    /// `true` if header and transport checksums are right.
    fn is_summed(packet: &[u8]) -> bool {
        let is_v4 = packet[0] >> 4 == 4;
        let (transport, addresses, protocol) =
            if is_v4 { (20, 12..20, packet[9]) } else { (40, 8..40, packet[6]) };
        let pseudo = sum(&packet[addresses], u64::from(protocol) + (packet.len() - transport) as u64);
        (!is_v4 || checksum(&packet[..20], 0) == 0) && checksum(&packet[transport..], pseudo) == 0
    }

    fn split(packet: &[u8], cut: Cut) -> Vec<Vec<u8>> {
        let mut segments = Vec::new();
        cut.split(packet, |segment| segments.push(segment.to_vec()));
        segments
    }

    #[test]
    fn a_burst_has_the_header_of_the_kernel() {
        let packet = burst(true, true, 3_000);
        let cut = Cut::of(&packet, 1_248).expect("can be cut");
        let numbers =
            |header: [u8; VNET]| [2, 4, 6, 8].map(|at| u16::from_ne_bytes([header[at], header[at + 1]]));
        let header = cut.header(&packet);
        assert_eq!(
            (header[0], header[1], numbers(header)),
            (NEEDS_CHECKSUM, TCP4 | ECN, [52, 1_248, 20, 16])
        );
        assert_eq!((cut.segments(&packet), cut.in_record(&packet)), (3, Some(1_248)));
        let mut bytes = [&header[..], &packet].concat();
        assert_eq!(read(&mut bytes), Some(Read::Burst(&packet, cut)));

        let packet = burst(false, false, 3_000);
        let cut = Cut::of(&packet, 1_000).expect("can be cut");
        let header = cut.header(&packet);
        assert_eq!((header[1], numbers(header)), (UDP, [48, 1_000, 40, 6]));
    }

    #[test]
    fn a_packet_without_a_checksum_gets_one() {
        let mut packet = burst(true, false, 101);
        let sum = checksum(&packet[..20], 0);
        packet[10..12].copy_from_slice(&[0; 2]);
        let own = checksum(&packet[..20], 0);
        packet[10..12].copy_from_slice(&own.to_be_bytes());
        assert_ne!(sum, own);
        let mut pseudo = super::sum(&packet[12..20], 17 + 109);
        while pseudo > 0xffff {
            pseudo = (pseudo >> 16) + (pseudo & 0xffff);
        }
        packet[26..28].copy_from_slice(&(pseudo as u16).to_be_bytes());
        let mut header = WHOLE;
        header[0] = NEEDS_CHECKSUM;
        header[6..8].copy_from_slice(&20_u16.to_ne_bytes());
        header[8..10].copy_from_slice(&6_u16.to_ne_bytes());
        let mut bytes = [&header[..], &packet].concat();
        let Some(Read::Packet(read)) = read(&mut bytes) else { panic!("is a packet") };
        assert!(is_summed(read));
    }

    #[test]
    fn only_packets_that_can_be_cut_are_bursts() {
        let packet = burst(true, true, 3_000);
        assert_eq!(Cut::of(&packet, 0), None);
        assert_eq!(Cut::of(&packet, 3_000), None, "it is one segment");
        assert_eq!(Cut::of(&packet, 20), None, "too many segments");
        assert_eq!(Cut::of(&packet[..2_999], 1_000), None, "it is cut off");
        let change = |at: usize, byte: u8| {
            let mut packet = packet.clone();
            packet[at] = byte;
            Cut::of(&packet, 1_000)
        };
        assert_eq!(change(9, 1), None, "ICMP");
        assert_eq!(change(6, 0x20), None, "a fragment");
        assert_eq!(change(0, 0x44), None, "the header is too short");
        assert_eq!(change(32, 4 << 4), None, "so is that of TCP");
    }

    proptest! {
        #[test]
        fn segments_are_the_burst(
            is_v4 in any::<bool>(), is_tcp in any::<bool>(), payload in 2..9_000usize, segment in 1..2_000u16,
        ) {
            let packet = burst(is_v4, is_tcp, payload);
            let Some(cut) = Cut::of(&packet, segment) else { return Ok(()) };
            let segments = split(&packet, cut);
            prop_assert_eq!(segments.len(), cut.segments(&packet));
            let transport = if is_v4 { 20 } else { 40 };
            let headers = transport + if is_tcp { 32 } else { 8 };
            let mut all = Vec::new();
            for (index, part) in segments.iter().enumerate() {
                prop_assert!(is_summed(part), "{index}");
                if is_tcp {
                    let sequence = u32::from_be_bytes(part[transport + 4..transport + 8].try_into().expect("four"));
                    prop_assert_eq!(sequence, (u32::MAX - 100).wrapping_add(all.len() as u32));
                    let flags = part[transport + 13];
                    let is_last = index + 1 == segments.len();
                    prop_assert_eq!((flags & CWR != 0, flags & FIN_PSH != 0), (index == 0, is_last));
                }
                all.extend_from_slice(&part[headers..]);
            }
            prop_assert_eq!(&all[..], &packet[headers..]);
        }

        /// Neither the kernel nor a hostile peer makes this end panic.
        #[test]
        fn junk_never_panics(
            junk in prop::collection::vec(any::<u8>(), 0..200), first in prop::option::of(0x44..0x70u8),
            header in any::<[u8; VNET]>(), kind in 0..6u8, segment in any::<u16>(),
        ) {
            let mut junk = junk;
            if let (Some(first), Some(byte)) = (first, junk.first_mut()) {
                *byte = first;
            }
            if let Some(cut) = Cut::of(&junk, segment) {
                prop_assert!(cut.segments(&junk) <= MAX_SEGMENTS);
                let _ = cut.header(&junk);
                split(&junk, cut);
            }
            let mut header = header;
            header[1] = kind;
            let mut bytes = [&header[..], &junk].concat();
            if let Some(Read::Burst(packet, cut)) = read(&mut bytes) {
                let _ = cut.in_record(packet);
                split(packet, cut);
            }
        }
    }
}

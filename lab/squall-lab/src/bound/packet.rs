//! Share of block bytes in a packet.

use squall_proto::{
    sched::Time,
    wire::{Data, Stamp},
};

use super::serialiser::PER_BYTE;

/// Largest packet of a session (IP size): the path MTU discovery ends at a UDP payload of 1,452
/// bytes.
const LARGEST: u64 = 1_480;

const IP_AND_UDP: u64 = 20 + 8;

/// Flags, connection id and the shortest packet number (RFC 9000 §17.3.1). The connection ids of
/// sessions have 8 bytes.
const SHORT_HEADER: u64 = 1 + 8 + 1;

/// Size of the AEAD tag in all cipher suites of QUIC (RFC 9001 §5.3).
const AEAD_TAG: u64 = 16;

/// Type of a DATAGRAM frame without a length field (RFC 9221 §4).
const FRAME: u64 = 1;

/// A packet with the maximum payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Packet {
    /// IP size in bytes.
    pub(super) size: u64,
    /// Bytes of a block in the packet; 0 if there is no room for any.
    pub(super) payload: u64,
}

impl Packet {
    /// The largest packet on a path with this MTU.
    ///
    /// This overhead is a minimum: an acknowledgement, a second block or a longer packet number
    /// only add to it. So no combination of packets has a larger share of payload.
    pub(super) fn largest(mtu: u32) -> Self {
        let size = u64::from(mtu).min(LARGEST);
        Self { size, payload: size.saturating_sub(overhead()) }
    }

    /// Returns the maximum number of block bytes, in millionths, in packets with this total of UDP
    /// payload.
    pub(super) fn within_udp(&self, bytes: u64) -> u64 {
        let udp = u128::from(self.size.saturating_sub(IP_AND_UDP)).max(1);
        let most = (u128::from(bytes) * u128::from(self.payload) * u128::from(PER_BYTE)).div_ceil(udp);
        u64::try_from(most).unwrap_or(u64::MAX)
    }

    /// Returns the number of block bytes that fit into packets of `bytes` in total, one packet
    /// after the other.
    pub(super) fn payload_of(&self, bytes: u64) -> u64 {
        if self.payload == 0 {
            return 0;
        }
        let rest = (bytes % self.size).saturating_sub(self.size - self.payload);
        (bytes / self.size).saturating_mul(self.payload).saturating_add(rest)
    }
}

/// Minimum number of bytes of a packet that are not block data.
fn overhead() -> u64 {
    let least = Data {
        block: 0,
        reliable: false,
        partial: false,
        previous: None,
        priority: 0,
        offset: 0,
        total: Some(1),
        channel: 0,
        left: None,
        sent: Stamp::at(Time::EPOCH),
    };
    IP_AND_UDP + SHORT_HEADER + AEAD_TAG + FRAME + least.header_len(least.offset_len()) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_packet_has_1416_bytes_of_its_1480() {
        assert_eq!(Packet::largest(1_500), Packet { size: 1_480, payload: 1_416 });
        assert_eq!(Packet::largest(1_300), Packet { size: 1_300, payload: 1_236 });
        assert_eq!(Packet::largest(60).payload_of(100_000), 0);
    }

    #[test]
    fn of_a_cap_the_headers_of_the_session_are_taken_off() {
        // A packet has 1,452 bytes of UDP payload.
        assert_eq!(Packet::largest(1_500).within_udp(14_520), 14_160 * PER_BYTE);
        assert_eq!(Packet::largest(60).within_udp(14_520), 0);
        assert_eq!(Packet::largest(1_500).within_udp(u64::MAX), u64::MAX);
    }

    #[test]
    fn the_last_packet_has_headers_too() {
        let packet = Packet::largest(1_500);
        assert_eq!(
            [64, 65, 1_480, 1_544, 1_545].map(|bytes| packet.payload_of(bytes)),
            [0, 1, 1_416, 1_416, 1_417]
        );
    }
}

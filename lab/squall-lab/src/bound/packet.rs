//! How much of a packet can be bytes of blocks.

use squall_proto::{
    sched::Time,
    wire::{Data, Stamp},
};

use super::serialiser::PER_BYTE;

/// The largest packet that a session sends (IP size): its search for the MTU ends at a UDP payload of 1,452.
const LARGEST: u64 = 1_480;

const IP_AND_UDP: u64 = 20 + 8;

/// Flags, connection id and the shortest packet number (RFC 9000 §17.3.1). Sessions have ids of 8 bytes.
const SHORT_HEADER: u64 = 1 + 8 + 1;

/// Of all cipher suites of TLS 1.3 that QUIC has (RFC 9001 §5.3).
const AEAD_TAG: u64 = 16;

/// The type of a DATAGRAM frame that goes without its length (RFC 9221 §4).
const FRAME: u64 = 1;

/// A packet as full as it can be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Packet {
    /// IP size in bytes.
    pub(super) size: u64,
    /// Bytes of a block in it; 0 if there is no room for one.
    pub(super) payload: u64,
}

impl Packet {
    /// The largest on a path that takes packets up to `mtu` bytes.
    ///
    /// What a packet has besides a block's bytes is never less than here: an acknowledgement, a second block or
    /// a longer number only add to it. So of any number of packets this one has the largest share of payload.
    pub(super) fn largest(mtu: u32) -> Self {
        let size = u64::from(mtu).min(LARGEST);
        Self { size, payload: size.saturating_sub(overhead()) }
    }

    /// Block bytes in millionths that packets with this many bytes of UDP payload altogether have at most.
    pub(super) fn within_udp(&self, bytes: u64) -> u64 {
        let udp = u128::from(self.size.saturating_sub(IP_AND_UDP)).max(1);
        let most = (u128::from(bytes) * u128::from(self.payload) * u128::from(PER_BYTE)).div_ceil(udp);
        u64::try_from(most).unwrap_or(u64::MAX)
    }

    /// Block bytes that fit into packets of `bytes` altogether, one packet after the other.
    pub(super) fn payload_of(&self, bytes: u64) -> u64 {
        if self.payload == 0 {
            return 0;
        }
        let rest = (bytes % self.size).saturating_sub(self.size - self.payload);
        (bytes / self.size).saturating_mul(self.payload).saturating_add(rest)
    }
}

/// Bytes of a packet that are not a block's, at least.
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
        // 1,452 bytes of UDP payload are a packet.
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

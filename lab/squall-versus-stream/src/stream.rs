//! Stream that every carrier transports: frames divided into RTP packets.
//!
//! A packet is as large as those of MPEG-TS over UDP (seven TS packets), so that no carrier has to
//! fragment it. After the RTP header (RFC 3550 §5.1) it contains the number of its frame and the
//! time at which that was captured.

use serde::{Deserialize, Serialize};

/// Bytes of UDP payload per packet.
pub const PACKET: usize = 1_316;

/// Bytes of the RTP header and of the stamp after it.
const HEADER: usize = 12 + 16;

/// Rate of RTP's video clock in Hz.
const TICKS: u64 = 90_000;

/// A stream of frames at a constant rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stream {
    /// Bits of UDP payload per second.
    pub rate_bps: u64,
    /// Frames per second.
    pub fps: u64,
}

/// Position and time of a packet in the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    /// Number of the frame, from 0.
    pub frame: u32,
    /// Index of the packet in its frame.
    pub index: u16,
    /// Number of packets of the frame.
    pub count: u16,
    /// Time at which the frame was captured, in microseconds since system start.
    pub taken_us: u64,
}

impl Stream {
    /// Returns the number of packets per frame if all frames are equal, at least one.
    pub fn packets(self) -> u16 {
        let packets = self.rate_bps.div_ceil(self.fps * 8 * PACKET as u64).max(1);
        u16::try_from(packets).unwrap_or(u16::MAX)
    }

    /// Returns the interval between frames in microseconds.
    pub fn interval_us(self) -> u64 {
        1_000_000 / self.fps
    }

    /// Writes a packet; `sequence` is its RTP sequence number.
    pub fn write(self, packet: &mut [u8; PACKET], sequence: u16, stamp: Stamp) {
        let last = stamp.index + 1 == stamp.count;
        let ticks = (u64::from(stamp.frame) * TICKS / self.fps) as u32;
        packet[0] = 0x80;
        packet[1] = 96 | if last { 0x80 } else { 0 };
        packet[2..4].copy_from_slice(&sequence.to_be_bytes());
        packet[4..8].copy_from_slice(&ticks.to_be_bytes());
        packet[8..12].copy_from_slice(b"sqll");
        packet[12..16].copy_from_slice(&stamp.frame.to_be_bytes());
        packet[16..18].copy_from_slice(&stamp.index.to_be_bytes());
        packet[18..20].copy_from_slice(&stamp.count.to_be_bytes());
        packet[20..28].copy_from_slice(&stamp.taken_us.to_be_bytes());
    }
}

/// Returns the stamp of a packet; `None` if the packet is not of this stream.
pub fn read(packet: &[u8]) -> Option<Stamp> {
    if packet.len() < HEADER || &packet[8..12] != b"sqll" {
        return None;
    }
    let four = |at: usize| packet[at..at + 4].try_into().map(u32::from_be_bytes);
    let two = |at: usize| packet[at..at + 2].try_into().map(u16::from_be_bytes);
    let stamp = Stamp {
        frame: four(12).ok()?,
        index: two(16).ok()?,
        count: two(18).ok()?,
        taken_us: packet[20..28].try_into().map(u64::from_be_bytes).ok()?,
    };
    (stamp.index < stamp.count).then_some(stamp)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_say_what_they_are() {
        let stream = Stream { rate_bps: 8_000_000, fps: 30 };
        assert_eq!(stream.packets(), 26);
        assert_eq!(Stream { rate_bps: 30_000_000, fps: 30 }.packets(), 95);
        let mut packet = [0; PACKET];
        let stamp = Stamp { frame: 3, index: 25, count: 26, taken_us: 123_456_789 };
        stream.write(&mut packet, 103, stamp);
        assert_eq!(read(&packet), Some(stamp));
        // The marker of the last packet, and the timestamp of the fourth frame.
        assert_eq!((packet[1] & 0x80, u32::from_be_bytes(packet[4..8].try_into().unwrap())), (0x80, 9_000));
        assert_eq!(read(&packet[..20]), None);
        assert_eq!(read(&[0; PACKET]), None);
    }
}

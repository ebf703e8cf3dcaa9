//! Detection of MPEG-TS and RTP in datagrams.

use rtp_types::RtpPacket;

use super::{
    align::is_whole,
    class::{Cut, Media},
    doubt::NoVideo,
    packet,
    ts::TsCutter,
};

/// Consecutive packets that prove MPEG-TS. A single one may be any datagram that begins with a "G".
const MIN_PACKETS: usize = 3;

/// Consecutive packets of one source that prove RTP.
const MIN_SEQUENCE: u32 = 4;
/// Sources that are tracked at the same time.
const MAX_SOURCES: usize = 4;

/// Detects media in datagrams that do not fit the current format.
#[derive(Debug, Default)]
pub(super) struct Auto {
    /// Consecutive packets of MPEG-TS.
    packets: usize,
    /// Cutter that reads the packets of MPEG-TS, and its result for the latest datagram.
    ts: Option<(Box<TsCutter>, Cut)>,
    /// Sources of possible RTP, latest first: id, next sequence number, and length of the sequence.
    sources: Vec<(u32, u16, u32)>,
    seen: Option<Media>,
}

impl Auto {
    /// Reads a datagram. Returns the media format if the datagram proves one.
    pub(super) fn look(&mut self, datagram: &[u8]) -> Option<Media> {
        let rtp = RtpPacket::parse(datagram).ok();
        let found = self.ts(rtp.as_ref().map_or(datagram, RtpPacket::payload), datagram);
        let found = found.or_else(|| self.rtp(&rtp?));
        self.seen = found.or(self.seen);
        found
    }

    /// Returns the media format that was proved last.
    pub(super) fn seen(&self) -> Option<Media> {
        self.seen
    }

    /// Takes the cutter that has read the MPEG-TS so far, and its result for the latest datagram.
    pub(super) fn take_ts(&mut self) -> Option<(Box<TsCutter>, Cut)> {
        self.ts.take()
    }

    fn ts(&mut self, packets: &[u8], datagram: &[u8]) -> Option<Media> {
        let (ts, cut) = self.ts.get_or_insert_default();
        *cut = ts.cut(datagram);
        if ts.finds_no_video() == Some(NoVideo::Packets) {
            self.packets = 0;
            return None;
        }
        // One datagram may look like a part of a stream by chance, but not two consecutive ones.
        let most = if is_whole(packets) { usize::MAX } else { MIN_PACKETS - 1 };
        self.packets += (packets.len() / packet::LENGTH).min(most);
        (self.packets >= MIN_PACKETS).then_some(Media::Ts)
    }

    fn rtp(&mut self, packet: &RtpPacket<'_>) -> Option<Media> {
        let (id, sequence) = (packet.ssrc(), packet.sequence_number());
        let before = self.sources.iter().position(|(one, ..)| *one == id).map(|at| self.sources.remove(at));
        let next = sequence.wrapping_add(1);
        let source = match before {
            Some((_, expected, count)) if expected == sequence => (id, next, count + 1),
            // Duplicate from the network.
            Some((_, expected, count)) if expected == next => (id, next, count),
            _ => (id, next, 1),
        };
        self.sources.truncate(MAX_SOURCES - 1);
        self.sources.insert(0, source);
        (source.2 >= MIN_SEQUENCE).then_some(Media::Rtp)
    }
}

#[cfg(test)]
mod tests {
    use super::{super::rtp::tests::packet, *};

    /// Returns this number of packets.
    fn packets(count: usize) -> Vec<u8> {
        let mut ts = vec![0xff; count * 188];
        ts.iter_mut().step_by(188).for_each(|byte| *byte = 0x47);
        ts
    }

    #[test]
    fn media_show_after_some_packets() {
        let (rtp, ts) = (Some(Media::Rtp), Some(Media::Ts));
        let of = |ssrc: u8, sequence: u16| {
            let mut packet = packet(96, false, sequence, 0, &[0]);
            packet[11] = ssrc;
            packet
        };
        type Row<'a> = (&'a str, Vec<Vec<u8>>, &'a [Option<Media>]);
        let rows: &[Row<'_>] = &[
            ("many packets", vec![packets(7)], &[ts]),
            ("in RTP", vec![packet(33, false, 1, 0, &packets(7))], &[ts]),
            ("in RTP of any type", vec![packet(98, false, 1, 0, &packets(7))], &[ts]),
            ("one by one", vec![packets(1), packets(1), packets(1)], &[None, None, ts]),
            (
                "a G between",
                vec![packets(1), b"hello".into(), packets(2), packets(1)],
                &[None, None, None, ts],
            ),
            ("RTP", (1..=4).map(|n| of(1, n)).collect(), &[None, None, None, rtp]),
            (
                "doubled",
                [1, 1, 2, 2, 3, 3, 4].map(|n| of(1, n)).into(),
                &[None, None, None, None, None, None, rtp],
            ),
            (
                "of two sources",
                [(1, 1), (2, 9), (1, 2), (2, 10), (1, 3), (2, 11), (2, 12)].map(|(id, n)| of(id, n)).into(),
                &[None, None, None, None, None, None, rtp],
            ),
            ("numbers at random", (1..20).map(|n| of(1, n * 7)).collect(), &[None; 19]),
            ("sources at random", (1..20).map(|n| of(n as u8, n)).collect(), &[None; 19]),
            ("text", vec![b"hello, world, this is no RTP".into(); 100], &[None; 100]),
        ];
        for (name, datagrams, expected) in rows {
            let mut auto = Auto::default();
            let found: Vec<_> = datagrams.iter().map(|datagram| auto.look(datagram)).collect();
            assert_eq!(found, *expected, "{name}");
            assert_eq!(auto.seen(), expected.iter().rev().find_map(|media| *media), "{name}");
        }
    }
}

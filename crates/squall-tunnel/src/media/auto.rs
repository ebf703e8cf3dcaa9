//! What a flow carries, by its first datagrams: only what they show beyond doubt.

use rtp_types::RtpPacket;

use super::{frame::Media, rtp, ts};

/// Datagrams after which a flow that shows nothing is taken for plain datagrams.
const PATIENCE: u32 = 64;

/// Consecutive packets of one source by which RTP is told from what looks like it.
const PROOF: u32 = 4;

/// Looks at first datagrams.
#[derive(Debug, Default)]
pub(crate) struct Auto {
    seen: u32,
    /// Source and next sequence number of what may be RTP, and how often that came.
    rtp: Option<(u32, u16, u32)>,
}

impl Auto {
    /// What the flow carries, if it is clear now.
    pub(super) fn look(&mut self, datagram: &[u8]) -> Option<Media> {
        self.seen += 1;
        if ts::is_ts(datagram) {
            return Some(Media::Ts);
        }
        if rtp::is_rtcp(datagram) {
            return None;
        }
        if let Ok(packet) = RtpPacket::parse(datagram) {
            // With a payload that is what its type says there is no doubt.
            if packet.payload_type() == rtp::MP2T && ts::is_ts(packet.payload()) {
                return Some(Media::Ts);
            }
            let (source, sequence) = (packet.ssrc(), packet.sequence_number());
            let count = match self.rtp {
                Some((known, next, count)) if known == source && next == sequence => count + 1,
                _ => 1,
            };
            self.rtp = Some((source, sequence.wrapping_add(1), count));
            if count >= PROOF {
                return Some(Media::Rtp);
            }
        }
        (self.seen >= PATIENCE).then_some(Media::Udp)
    }
}

#[cfg(test)]
mod tests {
    use super::{super::rtp::tests::packet, *};

    #[test]
    fn ts_shows_at_once_rtp_after_some_packets() {
        let mut ts = vec![0xff; 7 * 188];
        for start in 0..7 {
            ts[start * 188] = 0x47;
        }
        assert_eq!(Auto::default().look(&ts), Some(Media::Ts));
        assert_eq!(Auto::default().look(&packet(33, false, 1, 0, &ts)), Some(Media::Ts));

        let mut auto = Auto::default();
        let told: Vec<_> = (1..=4).map(|n| auto.look(&packet(96, false, n, 0, &[0]))).collect();
        assert_eq!(told, [None, None, None, Some(Media::Rtp)]);
    }

    #[test]
    fn what_shows_nothing_is_plain() {
        let mut auto = Auto::default();
        assert!((1..PATIENCE).all(|_| auto.look(b"hello, world, this is no RTP").is_none()));
        assert_eq!(auto.look(b"hello"), Some(Media::Udp));
    }

    #[test]
    fn numbers_at_random_are_no_rtp() {
        let mut auto = Auto::default();
        let told: Vec<_> = (1..20).map(|n| auto.look(&packet(96, false, n * 7, 0, &[0]))).collect();
        assert!(told.iter().all(Option::is_none));
    }
}

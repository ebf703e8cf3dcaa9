//! Detects the media of a flow from its first datagrams.

use rtp_types::RtpPacket;

use super::{align::is_ts, class::Media, rtp};

/// Datagrams after which an undetected flow counts as plain datagrams.
const MAX_DATAGRAMS: u32 = 64;

/// Consecutive packets of one source that prove RTP.
const MIN_SEQUENCE: u32 = 4;

/// Reads the first datagrams.
#[derive(Debug, Default)]
pub(crate) struct Auto {
    seen: u32,
    /// Source and next sequence number of possible RTP, and the length of the sequence.
    rtp: Option<(u32, u16, u32)>,
}

impl Auto {
    /// The media, once detected.
    pub(super) fn look(&mut self, datagram: &[u8]) -> Option<Media> {
        self.seen += 1;
        if is_ts(datagram) {
            return Some(Media::Ts);
        }
        if rtp::is_rtcp(datagram) {
            return None;
        }
        if let Ok(packet) = RtpPacket::parse(datagram) {
            // A payload that matches its type is a proof.
            if packet.payload_type() == rtp::MP2T && is_ts(packet.payload()) {
                return Some(Media::Ts);
            }
            let (source, sequence) = (packet.ssrc(), packet.sequence_number());
            let count = match self.rtp {
                Some((known, next, count)) if known == source && next == sequence => count + 1,
                _ => 1,
            };
            self.rtp = Some((source, sequence.wrapping_add(1), count));
            if count >= MIN_SEQUENCE {
                return Some(Media::Rtp);
            }
        }
        (self.seen >= MAX_DATAGRAMS).then_some(Media::Udp)
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
        let detected: Vec<_> = (1..=4).map(|n| auto.look(&packet(96, false, n, 0, &[0]))).collect();
        assert_eq!(detected, [None, None, None, Some(Media::Rtp)]);
    }

    #[test]
    fn what_shows_nothing_is_plain() {
        let mut auto = Auto::default();
        assert!((1..MAX_DATAGRAMS).all(|_| auto.look(b"hello, world, this is no RTP").is_none()));
        assert_eq!(auto.look(b"hello"), Some(Media::Udp));
    }

    #[test]
    fn numbers_at_random_are_no_rtp() {
        let mut auto = Auto::default();
        let detected: Vec<_> = (1..20).map(|n| auto.look(&packet(96, false, n * 7, 0, &[0]))).collect();
        assert!(detected.iter().all(Option::is_none));
    }
}

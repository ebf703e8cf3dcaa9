//! Frames in RTP (RFC 3550): by timestamp and marker.

use rtp_types::RtpPacket;

use super::{
    av1,
    class::{Class, Cut, Media},
    h264,
    h265::Layers,
    ts::TsCutter,
    vp8,
    vp9::Structure,
};

/// Payload type of MPEG-TS (RFC 3551 §6).
pub(super) const MP2T: u8 = 33;

/// Finds frames in RTP packets.
#[derive(Debug)]
pub(crate) struct RtpCutter {
    media: Media,
    /// Source and timestamp of the open frame.
    frame: Option<(u32, u32)>,
    /// The source of the latest frame, and the one before that.
    sources: [Option<u32>; 2],
    mixed: bool,
    layers: Layers,
    structure: Structure,
    ts: Option<Box<TsCutter>>,
}

impl RtpCutter {
    pub(super) fn new(media: Media) -> Self {
        Self {
            media,
            frame: None,
            sources: [None; 2],
            mixed: false,
            layers: Layers::default(),
            structure: Structure::default(),
            ts: (media == Media::Rtp).then(Box::default),
        }
    }

    pub(super) fn media(&self) -> Media {
        self.media
    }

    /// Whether frames of several sources come in turn.
    pub(super) fn is_mixed(&self) -> bool {
        self.mixed
    }

    pub(super) fn cut(&mut self, datagram: &[u8]) -> Cut {
        if is_rtcp(datagram) {
            return Cut::aside();
        }
        let Ok(packet) = RtpPacket::parse(datagram) else { return Cut::aside() };
        let kind = packet.payload_type();
        if let (MP2T, Some(ts)) = (kind, &mut self.ts) {
            return ts.cut_packets(packet.payload());
        }
        if self.media == Media::Audio || self.media == Media::Rtp && is_audio(kind) {
            self.frame = None;
            return Cut::apart(Class::Audio);
        }
        let frame = (packet.ssrc(), packet.timestamp());
        let starts = self.frame != Some(frame);
        let [latest, before] = self.sources;
        if latest != Some(frame.0) {
            // A source that has ended does not come back.
            self.mixed |= before == Some(frame.0);
            self.sources = [Some(frame.0), latest];
        }
        let ends = packet.marker_bit();
        self.frame = (!ends).then_some(frame);
        Cut { starts, ends, class: self.class_of(packet.payload()), ..Cut::default() }
    }

    fn class_of(&mut self, payload: &[u8]) -> Option<Class> {
        match self.media {
            Media::H264 => h264::of_payload(payload),
            Media::H265 => self.layers.of_payload(payload),
            Media::Vp8 => vp8::of_payload(payload),
            Media::Vp9 => self.structure.of_payload(payload),
            Media::Av1 => av1::of_payload(payload),
            _ => None,
        }
    }
}

/// Whether a datagram is RTCP on the port of RTP (RFC 5761 §4).
pub(super) fn is_rtcp(datagram: &[u8]) -> bool {
    datagram.get(1).is_some_and(|kind| (192..=223).contains(kind))
}

/// Static payload types of audio (RFC 3551 §6). Types above 95 are dynamic.
fn is_audio(kind: u8) -> bool {
    matches!(kind, 0..=18)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// An RTP packet.
    pub(crate) fn packet(kind: u8, marker: bool, sequence: u16, timestamp: u32, payload: &[u8]) -> Vec<u8> {
        let head = [0x80, kind | u8::from(marker) << 7];
        [&head[..], &sequence.to_be_bytes(), &timestamp.to_be_bytes(), &7u32.to_be_bytes(), payload].concat()
    }

    fn cut(starts: bool, ends: bool, class: Option<Class>) -> Cut {
        Cut { starts, ends, class, ..Cut::default() }
    }

    #[test]
    fn frames_end_with_the_marker_or_another_timestamp() {
        let mut cutter = RtpCutter::new(Media::H264);
        let idr: &[u8] = &[0x7c, 0x85, 0];
        let b: &[u8] = &[0x01, 0x9e];
        let key = Some(Class::Key);
        assert_eq!(cutter.cut(&packet(96, false, 1, 100, idr)), cut(true, false, key));
        assert_eq!(cutter.cut(&packet(96, true, 2, 100, idr)), cut(false, true, key));
        assert_eq!(cutter.cut(&packet(96, false, 3, 200, b)), cut(true, false, Some(Class::Disposable)));
        // The packet with the marker is lost.
        assert_eq!(cutter.cut(&packet(96, true, 5, 300, idr)), cut(true, true, key));
    }

    #[test]
    fn reports_and_strangers_stay_aside() {
        let mut cutter = RtpCutter::new(Media::H264);
        assert_eq!(cutter.cut(&[0x80, 200, 0, 6, 0, 0, 0, 7]), Cut::aside());
        assert_eq!(cutter.cut(b"hello"), Cut::aside());
    }

    #[test]
    fn audio_is_cut_by_the_packet() {
        let mut opus = RtpCutter::new(Media::Audio);
        assert_eq!(opus.cut(&packet(97, false, 1, 960, &[0xfc])), Cut::apart(Class::Audio));
        let mut any = RtpCutter::new(Media::Rtp);
        assert_eq!(any.cut(&packet(0, false, 1, 160, &[0xff])), Cut::apart(Class::Audio));
        assert_eq!(any.cut(&packet(96, false, 1, 160, &[0xff])), cut(true, false, None));
    }
}

//! Frames in RTP (RFC 3550): by timestamp and marker.

use rtp_types::RtpPacket;

use super::{
    av1,
    class::{Class, Cut, Media},
    h264, h265,
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
    /// Source and timestamp of the latest frame, and the markers in it.
    frame: Option<(u32, u32)>,
    markers: u32,
    /// Whether the frame before had several markers: then they end its parts.
    marks_parts: bool,
    /// The source of the latest frame, and the one before that.
    sources: [Option<u32>; 2],
    mixed: bool,
    h264: h264::Stream,
    h265: h265::Stream,
    structure: Structure,
    av1: av1::Stream,
    ts: Option<Box<TsCutter>>,
}

impl RtpCutter {
    pub(super) fn new(media: Media) -> Self {
        Self {
            media,
            frame: None,
            markers: 0,
            marks_parts: false,
            sources: [None; 2],
            mixed: false,
            h264: h264::Stream::default(),
            h265: h265::Stream::default(),
            structure: Structure::default(),
            av1: av1::Stream::default(),
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
        let is_same = self.frame == Some(frame);
        if packet.payload().is_empty() {
            // Padding, as congestion control sends behind a frame.
            let is_open = is_same && self.markers == 0;
            return if is_open { Cut::aside() } else { Cut::apart(Class::Disposable) };
        }
        let [latest, before] = self.sources;
        if latest != Some(frame.0) {
            // A source that has ended does not come back.
            self.mixed |= before == Some(frame.0);
            self.sources = [Some(frame.0), latest];
        }
        let starts = !is_same || self.markers > 0 && self.begins_picture(packet.payload());
        if starts {
            (self.frame, self.marks_parts, self.markers) = (Some(frame), self.markers > 1, 0);
            self.h264.begin();
            self.h265.begin();
            self.av1.begin();
        }
        let marker = packet.marker_bit();
        self.markers = self.markers.saturating_add(marker.into());
        Cut { starts, ends: marker && !self.marks_parts, class: self.class_of(&packet), ..Cut::default() }
    }

    /// Whether another picture begins with a payload behind a marker, though its timestamp is the same. Some encoders mark
    /// each NAL unit. Of unknown codecs a timestamp has one picture.
    fn begins_picture(&self, payload: &[u8]) -> bool {
        match self.media {
            Media::H264 => h264::begins_picture(payload),
            Media::H265 => h265::begins_picture(payload),
            Media::Rtp => false,
            _ => true,
        }
    }

    fn class_of(&mut self, packet: &RtpPacket<'_>) -> Option<Class> {
        match self.media {
            Media::H264 => self.h264.of_payload(packet.payload()),
            Media::H265 => self.h265.of_payload(packet.payload()),
            Media::Vp8 => vp8::of_payload(packet.payload()),
            Media::Vp9 => self.structure.of_payload(packet.payload()),
            Media::Av1 => self.av1.of_packet(packet),
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
    fn markers_on_each_unit_end_no_frame_once_that_shows() {
        let units: [&[u8]; 3] = [&[0x7c, 0x81, 0x9a, 1], &[0x7c, 0x41, 1], &[0x41, 0x42, 1]];
        for codec in [Media::H264, Media::H265, Media::Rtp, Media::Vp8] {
            let mut cutter = RtpCutter::new(codec);
            let mut cuts = Vec::new();
            for (sequence, unit) in (0..12).zip(units.iter().cycle()) {
                let cut = cutter.cut(&packet(96, true, sequence, u32::from(sequence / 3), unit));
                cuts.push((cut.starts, cut.ends));
            }
            let (first, later) = cuts.split_at(3);
            if codec == Media::Vp8 {
                assert!(cuts.iter().all(|cut| *cut == (true, true)), "no NAL units");
            } else {
                assert_eq!(first, [(true, true), (false, true), (false, true)]);
                assert_eq!(later, [(true, false), (false, false), (false, false)].repeat(3));
            }
        }
    }

    #[test]
    fn pictures_of_one_timestamp_begin_with_their_first_slices() {
        let mut h264 = RtpCutter::new(Media::H264);
        for sequence in [0, 2, 4, 6] {
            // An IDR picture, and others behind it, of two slices.
            let (header, class) = if sequence == 0 { (0x65, Class::Key) } else { (0x41, Class::Reference) };
            let first = h264.cut(&packet(96, false, sequence, 5, &[header, 0x98]));
            assert_eq!(first, cut(true, false, Some(class)), "{sequence}");
            let second = h264.cut(&packet(96, true, sequence + 1, 5, &[0x41, 0x42]));
            assert_eq!(second, cut(false, true, Some(Class::Reference)), "{sequence}");
        }
    }

    #[test]
    fn padding_opens_no_frame() {
        let padding = |sequence, timestamp| {
            let mut padding = packet(96, false, sequence, timestamp, &[0, 0, 0, 4]);
            padding[0] |= 0x20;
            padding
        };
        let slice: &[u8] = &[0x41, 0x9a];
        let reference = Some(Class::Reference);
        let mut cutter = RtpCutter::new(Media::H264);
        assert_eq!(cutter.cut(&padding(0, 7)), Cut::apart(Class::Disposable), "before the first frame");
        assert_eq!(cutter.cut(&packet(96, false, 1, 7, slice)), cut(true, false, reference));
        assert_eq!(cutter.cut(&padding(2, 7)), Cut::aside(), "within a frame");
        assert_eq!(cutter.cut(&packet(96, true, 3, 7, &[0x41, 0x42])), cut(false, true, reference));
        assert_eq!(cutter.cut(&padding(4, 7)), Cut::apart(Class::Disposable));
        assert_eq!(cutter.cut(&packet(96, true, 5, 8, slice)), cut(true, true, reference));
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

//! Frames in RTP (RFC 3550): by timestamp and marker.

use rtp_types::RtpPacket;
use squall_units::Time;

use super::{
    align::is_whole,
    av1,
    class::{Class, Cut, Media},
    codec,
    doubt::Fit,
    h264, h265, packet,
    sources::{self, Key, Role, Sources},
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
    sources: Sources,
    /// Source and timestamp of the latest frame.
    frame: Option<(Key, u32)>,
    /// Number of markers in the latest frame.
    markers: u32,
    /// The previous frame had several markers, so they end parts of a frame.
    marks_parts: bool,
    /// Sources of the latest frame and the one before.
    latest: [Option<Key>; 2],
    /// Two sources whose frames alternate.
    mixed: Option<[Key; 2]>,
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
            sources: Sources::default(),
            frame: None,
            markers: 0,
            marks_parts: false,
            latest: [None; 2],
            mixed: None,
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

    /// `true` if the frames of several sources alternate.
    pub(super) fn is_mixed(&self) -> bool {
        let is_video = |key| matches!(self.sources.role(key, self.media), Some(Role::Video | Role::Unknown));
        self.mixed.is_some_and(|mixed| mixed.into_iter().all(is_video))
    }

    pub(super) fn cut(&mut self, now: Time, datagram: &[u8]) -> (Cut, Fit) {
        if is_signalling(datagram) {
            return (Cut::aside(), Fit::Neutral);
        }
        let Ok(packet) = RtpPacket::parse(datagram) else { return (Cut::aside(), Fit::Strange) };
        let (key, payload) = (sources::key(&packet), packet.payload());
        if payload.is_empty() {
            // Padding, as sent by congestion control after a frame, or a keepalive.
            let is_open = self.frame == Some((key, packet.timestamp())) && self.markers == 0;
            let cut = if is_open { Cut::aside() } else { Cut::apart(Class::Disposable) };
            return (cut, Fit::Neutral);
        }
        let (role, was_there) = self.sources.next(now, self.media, &packet);
        if let Some(ts) = self.ts.as_mut().filter(|_| is_mp2t(&packet)) {
            return (ts.cut_packets(payload), Fit::of(ts.finds_no_video()));
        }
        let fit = match role {
            // Any datagram may look like a first packet.
            _ if !was_there => Fit::Strange,
            Role::Video => Fit::Good,
            Role::Audio | Role::Repair if self.sources.has_video() => Fit::Neutral,
            _ if codec::is_looked_for(self.media) => Fit::Blind(None),
            _ => Fit::Good,
        };
        let class = match role {
            _ if self.media == Media::Audio => Class::Audio,
            Role::Video | Role::Unknown => return (self.cut_frame(key, role, &packet), fit),
            Role::Audio => Class::Audio,
            Role::Repair => Class::Disposable,
            Role::Other => Class::Reference,
        };
        (Cut::apart(class), fit)
    }

    fn cut_frame(&mut self, key: Key, role: Role, packet: &RtpPacket<'_>) -> Cut {
        let frame = (key, packet.timestamp());
        let is_same = self.frame == Some(frame);
        let [latest, before] = self.latest;
        if let Some(latest) = latest.filter(|latest| *latest != key) {
            // A source that has ended does not return.
            if before == Some(key) {
                self.mixed = Some([latest, key]);
            }
        }
        if latest != Some(key) {
            self.latest = [Some(key), latest];
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
        let class = if role == Role::Video { self.class_of(packet) } else { None };
        Cut { starts, ends: marker && !self.marks_parts, class, ..Cut::default() }
    }

    /// `true` if a payload after a marker begins another picture although its timestamp is the
    /// same. Some encoders mark each NAL unit. Unknown codecs have one picture per timestamp.
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

/// `true` if a packet contains packets of MPEG-TS: by its type, or else by their sync bytes.
pub(super) fn is_mp2t(packet: &RtpPacket<'_>) -> bool {
    packet.payload_type() == MP2T || packet.payload_len() > packet::LENGTH && is_whole(packet.payload())
}

/// `true` if a datagram may arrive on the port of any format (RFC 7983 §7): RTCP, STUN, DTLS, an
/// empty keepalive.
pub(super) fn is_signalling(datagram: &[u8]) -> bool {
    let is_other =
        matches!(datagram, [] | [0..=3, _, _, _, 0x21, 0x12, 0xa4, 0x42, ..] | [20..=63, 0xfe, ..]);
    is_other || is_rtcp(datagram)
}

/// `true` if a datagram is RTCP on the port of RTP (RFC 5761 §4).
pub(super) fn is_rtcp(datagram: &[u8]) -> bool {
    matches!(datagram, [0x80..=0xbf, 192..=223, ..])
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Builds an RTP packet.
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
        let mut cut_of = |packet: &[u8]| cutter.cut(Time::EPOCH, packet).0;
        let idr: &[u8] = &[0x7c, 0x85, 0];
        let b: &[u8] = &[0x01, 0x9e];
        let key = Some(Class::Key);
        assert_eq!(cut_of(&packet(96, false, 1, 100, idr)), cut(true, false, key));
        assert_eq!(cut_of(&packet(96, true, 2, 100, idr)), cut(false, true, key));
        assert_eq!(cut_of(&packet(96, false, 3, 200, b)), cut(true, false, Some(Class::Disposable)));
        // The packet with the marker is lost.
        assert_eq!(cut_of(&packet(96, true, 5, 300, idr)), cut(true, true, key));
    }

    #[test]
    fn markers_on_each_unit_end_no_frame_once_that_shows() {
        let units: [&[u8]; 3] = [&[0x7c, 0x81, 0x9a, 1], &[0x7c, 0x41, 1], &[0x41, 0x42, 1]];
        for codec in [Media::H264, Media::H265, Media::Rtp, Media::Vp8] {
            let mut cutter = RtpCutter::new(codec);
            let mut cuts = Vec::new();
            for (sequence, unit) in (0..12).zip(units.iter().cycle()) {
                let cut =
                    cutter.cut(Time::EPOCH, &packet(96, true, sequence, u32::from(sequence / 3), unit)).0;
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
            // An IDR picture and later pictures, each of two slices.
            let (header, class) = if sequence == 0 { (0x65, Class::Key) } else { (0x41, Class::Reference) };
            let first = h264.cut(Time::EPOCH, &packet(96, false, sequence, 5, &[header, 0x98])).0;
            assert_eq!(first, cut(true, false, Some(class)), "{sequence}");
            let second = h264.cut(Time::EPOCH, &packet(96, true, sequence + 1, 5, &[0x41, 0x42])).0;
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
        assert_eq!(
            cutter.cut(Time::EPOCH, &padding(0, 7)).0,
            Cut::apart(Class::Disposable),
            "before the first frame"
        );
        assert_eq!(cutter.cut(Time::EPOCH, &packet(96, false, 1, 7, slice)).0, cut(true, false, reference));
        assert_eq!(cutter.cut(Time::EPOCH, &padding(2, 7)).0, Cut::aside(), "within a frame");
        assert_eq!(
            cutter.cut(Time::EPOCH, &packet(96, true, 3, 7, &[0x41, 0x42])).0,
            cut(false, true, reference)
        );
        assert_eq!(cutter.cut(Time::EPOCH, &padding(4, 7)).0, Cut::apart(Class::Disposable));
        assert_eq!(cutter.cut(Time::EPOCH, &packet(96, true, 5, 8, slice)).0, cut(true, true, reference));
    }

    #[test]
    fn reports_and_strangers_stay_aside() {
        let mut cutter = RtpCutter::new(Media::H264);
        for (datagram, fit) in [
            (&[0x80, 200, 0, 6, 0, 0, 0, 7][..], Fit::Neutral),
            (&[0, 1, 0, 0, 0x21, 0x12, 0xa4, 0x42, 0, 0, 0, 0], Fit::Neutral),
            (&[22, 0xfe, 0xfd, 0, 0], Fit::Neutral),
            (&[], Fit::Neutral),
            (b"hello", Fit::Strange),
        ] {
            assert_eq!(cutter.cut(Time::EPOCH, datagram), (Cut::aside(), fit), "{datagram:?}");
        }
    }

    #[test]
    fn audio_is_cut_by_the_packet() {
        let mut opus = RtpCutter::new(Media::Audio);
        assert_eq!(opus.cut(Time::EPOCH, &packet(97, false, 1, 960, &[0xfc])).0, Cut::apart(Class::Audio));
        let mut any = RtpCutter::new(Media::Rtp);
        assert_eq!(any.cut(Time::EPOCH, &packet(0, false, 1, 160, &[0xff])).0, Cut::apart(Class::Audio));
        assert_eq!(any.cut(Time::EPOCH, &packet(96, false, 1, 160, &[0xff])).0, cut(true, false, None));
    }
}

//! Frames in RTP (RFC 3550): by timestamp and marker.

use rtp_types::RtpPacket;
use squall_units::Micros;

use super::{
    av1,
    class::{Class, Cut, Media},
    codec,
    doubt::Fit,
    h264,
    h265::Layers,
    packet::{self, is_ts},
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
    /// Source and timestamp of the open frame.
    frame: Option<(Key, u32)>,
    /// The source of the latest frame, and the one before that.
    latest: [Option<Key>; 2],
    /// Two sources whose frames came in turn.
    mixed: Option<[Key; 2]>,
    layers: Layers,
    structure: Structure,
    ts: Option<Box<TsCutter>>,
}

impl RtpCutter {
    pub(super) fn new(media: Media) -> Self {
        Self {
            media,
            sources: Sources::default(),
            frame: None,
            latest: [None; 2],
            mixed: None,
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
        let is_video = |key| matches!(self.sources.role(key, self.media), Some(Role::Video | Role::Unknown));
        self.mixed.is_some_and(|mixed| mixed.into_iter().all(is_video))
    }

    pub(super) fn cut(&mut self, now: Micros, datagram: &[u8]) -> (Cut, Fit) {
        if is_signalling(datagram) {
            return (Cut::aside(), Fit::Neutral);
        }
        let Ok(packet) = RtpPacket::parse(datagram) else { return (Cut::aside(), Fit::Strange) };
        let (key, payload) = (sources::key(&packet), packet.payload());
        if payload.is_empty() {
            // Padding, or a keepalive.
            let is_inside = self.frame.is_some_and(|(open, _)| open == key);
            let cut = if is_inside { Cut::aside() } else { Cut::apart(Class::Disposable) };
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
        let starts = self.frame != Some(frame);
        let [latest, before] = self.latest;
        if let Some(latest) = latest.filter(|latest| *latest != key) {
            // A source that has ended does not come back.
            if before == Some(key) {
                self.mixed = Some([latest, key]);
            }
        }
        if latest != Some(key) {
            self.latest = [Some(key), latest];
        }
        let ends = packet.marker_bit();
        self.frame = (!ends).then_some(frame);
        let class = if role == Role::Video { self.class_of(packet.payload()) } else { None };
        Cut { starts, ends, class, ..Cut::default() }
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

/// Whether a packet has packets of MPEG-TS in it: by its type, or else by their beginnings.
pub(super) fn is_mp2t(packet: &RtpPacket<'_>) -> bool {
    packet.payload_type() == MP2T || packet.payload_len() > packet::LENGTH && is_ts(packet.payload())
}

/// Whether a datagram may come on the port of any media (RFC 7983 §7): RTCP, STUN, DTLS, an empty keepalive.
pub(super) fn is_signalling(datagram: &[u8]) -> bool {
    let is_other =
        matches!(datagram, [] | [0..=3, _, _, _, 0x21, 0x12, 0xa4, 0x42, ..] | [20..=63, 0xfe, ..]);
    is_other || is_rtcp(datagram)
}

/// Whether a datagram is RTCP on the port of RTP (RFC 5761 §4).
pub(super) fn is_rtcp(datagram: &[u8]) -> bool {
    matches!(datagram, [0x80..=0xbf, 192..=223, ..])
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
        let mut cut_of = |packet: &[u8]| cutter.cut(0, packet).0;
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
    fn reports_and_strangers_stay_aside() {
        let mut cutter = RtpCutter::new(Media::H264);
        for (datagram, fit) in [
            (&[0x80, 200, 0, 6, 0, 0, 0, 7][..], Fit::Neutral),
            (&[0, 1, 0, 0, 0x21, 0x12, 0xa4, 0x42, 0, 0, 0, 0], Fit::Neutral),
            (&[22, 0xfe, 0xfd, 0, 0], Fit::Neutral),
            (&[], Fit::Neutral),
            (b"hello", Fit::Strange),
        ] {
            assert_eq!(cutter.cut(0, datagram), (Cut::aside(), fit), "{datagram:?}");
        }
    }

    #[test]
    fn audio_is_cut_by_the_packet() {
        let mut opus = RtpCutter::new(Media::Audio);
        assert_eq!(opus.cut(0, &packet(97, false, 1, 960, &[0xfc])).0, Cut::apart(Class::Audio));
        let mut any = RtpCutter::new(Media::Rtp);
        assert_eq!(any.cut(0, &packet(0, false, 1, 160, &[0xff])).0, Cut::apart(Class::Audio));
        assert_eq!(any.cut(0, &packet(96, false, 1, 160, &[0xff])).0, cut(true, false, None));
    }
}

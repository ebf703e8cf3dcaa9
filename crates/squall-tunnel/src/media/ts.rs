//! Frames in MPEG-TS (ISO 13818-1): by the starts of video PES packets.

use rtp_types::RtpPacket;

use super::{
    annexb::{Codec, Scan},
    class::{Class, Cut},
    packet::{self, NULL_PID, Packet, is_ts},
    psi::Psi,
};

/// Finds frames in datagrams that consist of packets.
#[derive(Debug)]
pub(crate) struct TsCutter {
    psi: Psi,
    scan: Scan,
    /// Class of the open frame.
    frame: Option<Class>,
    /// Whether the latest datagram had packets.
    is_aligned: bool,
}

/// The reason why no frames are found in a transport stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NoVideo {
    #[error("no packets of MPEG-TS")]
    Packets,
    #[error("MPEG-TS without program tables; the encoder has to repeat PAT and PMT, as each 100 ms")]
    Tables,
    #[error("MPEG-TS without video of a format that is recognised")]
    Format,
}

impl Default for TsCutter {
    fn default() -> Self {
        Self { psi: Psi::default(), scan: Scan::new(Codec::Other), frame: None, is_aligned: false }
    }
}

/// The content of the packets of a datagram.
#[derive(Default)]
struct Content {
    starts: bool,
    /// Class of the previous frame, if video of it precedes a start.
    tail: Option<Class>,
    video: bool,
    /// Whether the last video ends a PES packet.
    ends: bool,
    /// Packets that are neither video nor dispensable.
    other: bool,
}

impl TsCutter {
    /// Why no frames are found at the moment, if none are.
    pub(crate) fn finds_no_video(&self) -> Option<NoVideo> {
        match self.psi.streams() {
            _ if !self.is_aligned => Some(NoVideo::Packets),
            None => Some(NoVideo::Tables),
            Some(streams) => streams.video.is_none().then_some(NoVideo::Format),
        }
    }

    pub(super) fn cut(&mut self, datagram: &[u8]) -> Cut {
        self.is_aligned = false;
        if is_ts(datagram) {
            return self.cut_packets(datagram);
        }
        match RtpPacket::parse(datagram) {
            Ok(packet) if is_ts(packet.payload()) => self.cut_packets(packet.payload()),
            _ => Cut::aside(),
        }
    }

    /// Reads the packets of a datagram.
    pub(super) fn cut_packets(&mut self, packets: &[u8]) -> Cut {
        let mut seen = Content::default();
        self.is_aligned = is_ts(packets);
        for packet in packets.chunks_exact(packet::LENGTH) {
            match Packet::new(packet) {
                Some(packet) => self.read(packet, &mut seen),
                None => seen.other = true,
            }
        }
        let Some(streams) = self.psi.streams() else { return Cut::apart(Class::Data) };
        if streams.video.is_none() {
            return Cut::apart(if seen.other { Class::Audio } else { Class::Data });
        }
        if !seen.video {
            // Usually sound; null packets belong to the open frame.
            return if seen.other { Cut::apart(Class::Audio) } else { Cut::aside() };
        }
        // The rest of the datagram is needed, whatever the class of the frame.
        let others = (seen.other || seen.tail.is_some_and(|tail| tail > Class::Disposable))
            .then_some(Class::Reference);
        Cut { starts: seen.starts, ends: seen.ends, class: self.frame.max(others), ..Cut::default() }
    }

    fn read(&mut self, packet: Packet<'_>, seen: &mut Content) {
        let pid = packet.pid();
        if pid == NULL_PID {
            return;
        }
        let spare = self.psi.feed(packet);
        let video = self.psi.streams().and_then(|streams| streams.video);
        let Some((_, codec)) = video.filter(|(video, _)| *video == pid) else {
            seen.other |= !spare;
            return;
        };
        seen.video = true;
        if self.scan.codec() != codec {
            self.scan = Scan::new(codec);
        }
        let mut payload = packet.payload().unwrap_or_default();
        if packet.is_unit_start() {
            if seen.starts {
                // A whole frame was in this datagram.
                seen.tail = seen.tail.max(Some(self.frame.unwrap_or(Class::Reference)));
            }
            seen.starts = true;
            self.scan.restart();
            self.frame = packet.is_random_access().then_some(Class::Key);
            payload = elementary(payload);
        } else if !seen.starts {
            seen.tail = seen.tail.max(Some(self.frame.unwrap_or(Class::Reference)));
        }
        seen.ends = packet.is_stuffed();
        self.scan.feed(payload);
        self.frame = self.frame.max(self.scan.class());
    }
}

/// The payload of a PES packet that begins here (§2.4.3.6).
fn elementary(pes: &[u8]) -> &[u8] {
    let header = pes.get(8).map_or(pes.len(), |length| 9 + usize::from(*length));
    pes.get(header..).unwrap_or_default()
}

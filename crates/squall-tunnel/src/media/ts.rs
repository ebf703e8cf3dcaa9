//! Frames in MPEG-TS (ISO 13818-1), by the starts of video PES packets.

use std::mem;

use rtp_types::RtpPacket;

use super::{
    align::{self, Aligner},
    annexb::{Codec, Scan},
    class::{Class, Cut},
    doubt::NoVideo,
    packet::{NULL_PID, Packet},
    pes::Pictures,
    psi::{Psi, Role},
    rtp::{self, MP2T},
};

/// Number of frames without the random access flag after which the flag indicates a key picture.
const MIN_UNFLAGGED: u32 = 3;

/// Finds frames in datagrams of transport stream packets.
#[derive(Debug)]
pub(crate) struct TsCutter {
    aligner: Aligner,
    /// The packets are carried in RTP.
    in_rtp: bool,
    psi: Psi,
    scan: Scan,
    pictures: Pictures,
    /// Class of the open frame.
    frame: Option<Class>,
    /// Number of frames without the random access flag since the latest one with it.
    unflagged: u32,
    /// The open frame began in a datagram that belongs to the frame before it.
    begun: bool,
    /// Latest packet with video, to detect duplicates.
    latest: Vec<u8>,
}

impl Default for TsCutter {
    fn default() -> Self {
        Self {
            aligner: Aligner::default(),
            in_rtp: false,
            psi: Psi::default(),
            scan: Scan::new(Codec::Other),
            pictures: Pictures::default(),
            frame: None,
            unflagged: MIN_UNFLAGGED,
            begun: false,
            latest: Vec::new(),
        }
    }
}

/// Content of the packets of a datagram.
#[derive(Debug, Default)]
struct Content {
    packets: bool,
    /// It has packets that are not null, or the first bytes of one that may not be.
    content: bool,
    starts: bool,
    /// Highest class of the frames that end here, if another frame starts after them.
    tail: Option<Class>,
    video: bool,
    /// The last video ends a PES packet.
    ends: bool,
    /// It has packets of audio.
    sound: bool,
    /// It has packets of changed tables.
    tables: bool,
    /// It has packets of unknown content.
    unknown: bool,
}

impl TsCutter {
    pub(super) fn cut(&mut self, datagram: &[u8]) -> Cut {
        if self.in_rtp && rtp::is_rtcp(datagram) {
            return Cut::aside();
        }
        let Ok(packet) = RtpPacket::parse(datagram) else {
            self.in_rtp = false;
            return self.cut_packets(datagram);
        };
        let payload = packet.payload();
        let fits = |bytes: &[u8]| self.aligner.continues(bytes) || align::is_whole(bytes);
        self.in_rtp = match (fits(datagram), fits(payload)) {
            (true, true) => self.in_rtp,
            (false, false) => {
                // The type alone proves nothing: a datagram with arbitrary boundaries may begin
                // like this by chance.
                packet.payload_type() == MP2T
                    && (align::find(payload).is_some() || align::find(datagram).is_none())
            }
            (_, in_rtp) => in_rtp,
        };
        self.cut_packets(if self.in_rtp { payload } else { datagram })
    }

    /// Reads the packets of a datagram.
    pub(super) fn cut_packets(&mut self, packets: &[u8]) -> Cut {
        let mut seen = Content::default();
        let mut aligner = mem::take(&mut self.aligner);
        aligner.feed(packets, |packet| self.read(packet, &mut seen));
        seen.content |= aligner.has_begun();
        self.aligner = aligner;
        if !seen.packets {
            return Cut::aside();
        }
        if !seen.content {
            return Cut::spare();
        }
        if seen.video {
            return self.cut_video(&seen);
        }
        if self.finds_no_video() == Some(NoVideo::Tables) {
            return Cut::apart(Class::Data);
        }
        // Unknown content does not take precedence over known content.
        let classes =
            [(seen.sound, Class::Audio), (seen.tables, Class::Data), (seen.unknown, Class::Reference)];
        match classes.into_iter().find(|(is_there, _)| *is_there) {
            Some((_, class)) => Cut::apart(class),
            None if self.psi.has_video() => Cut::aside(),
            None => Cut::apart(Class::Data),
        }
    }

    /// Returns the reason why currently no frames are found; `None` if frames are found.
    pub(crate) fn finds_no_video(&self) -> Option<NoVideo> {
        let reasons = [
            (!self.aligner.is_aligned(), NoVideo::Packets),
            (!self.psi.has_map(), NoVideo::Tables),
            (!self.psi.has_video(), NoVideo::Format),
            (!self.psi.is_chosen(), NoVideo::Silent),
        ];
        reasons.into_iter().find(|(holds, _)| *holds).map(|(_, reason)| reason)
    }

    /// Returns the position of a datagram with video.
    fn cut_video(&mut self, seen: &Content) -> Cut {
        let starts = mem::take(&mut self.begun);
        // The rest of the datagram is needed, whatever the class of the frame.
        let others = (seen.sound || seen.tables || seen.unknown).then_some(Class::Reference);
        if seen.starts && seen.tail > Some(self.frame.unwrap_or(Class::Reference)) {
            // The datagram belongs to the more important of the two frames; the other begins with
            // the next datagram.
            self.begun = true;
            return Cut { starts, ends: true, class: seen.tail.max(others), ..Cut::default() };
        }
        let tail = seen.tail.filter(|tail| seen.starts && *tail > Class::Disposable);
        Cut {
            starts: starts || seen.starts,
            ends: seen.ends,
            class: self.frame.max(others).max(tail),
            ..Cut::default()
        }
    }

    fn read(&mut self, packet: Packet<'_>, seen: &mut Content) {
        seen.packets = true;
        seen.content |= packet.pid() != NULL_PID;
        match self.psi.read(packet) {
            Role::Video(codec) => self.read_video(packet, codec, seen),
            Role::Sound => seen.sound = true,
            Role::Table => seen.tables = true,
            Role::Unknown => seen.unknown = true,
            Role::Spare => {}
        }
    }

    fn read_video(&mut self, packet: Packet<'_>, codec: Codec, seen: &mut Content) {
        if self.latest.starts_with(packet.bytes()) {
            // Duplicate: a packet may be sent twice (§2.4.3.3).
            return;
        }
        self.latest.clear();
        if packet.is_complete() {
            self.latest.extend_from_slice(packet.bytes());
        }
        seen.video = true;
        if self.scan.codec() != codec {
            self.scan = Scan::new(codec);
        }
        if packet.is_unit_start() && packet.is_new() {
            // A stream may have the flag on each frame, or on each frame with a clock reference.
            let is_flagged = packet.is_random_access();
            let is_key = is_flagged && self.unflagged >= MIN_UNFLAGGED;
            self.unflagged = if is_flagged { 0 } else { self.unflagged.saturating_add(1) };
            self.begin(is_key.then_some(Class::Key), seen);
            self.pictures.restart();
        } else if packet.is_new() && self.pictures.is_too_long() {
            self.begin(None, seen);
        } else if !seen.starts {
            seen.tail = seen.tail.max(Some(self.frame.unwrap_or(Class::Reference)));
        }
        seen.ends = packet.is_stuffed();
        let mut bytes = packet.elementary();
        loop {
            let rest = bytes;
            let begin = self.pictures.next(codec, &mut bytes);
            self.scan.feed(&rest[..rest.len() - bytes.len()]);
            self.frame = self.frame.max(self.scan.class());
            let Some(begin) = begin else { return };
            self.begin(None, seen);
            self.scan.feed(&begin);
        }
    }

    /// Begins a frame of at least this class.
    fn begin(&mut self, class: Option<Class>, seen: &mut Content) {
        if seen.starts {
            // The datagram contained a whole frame.
            seen.tail = seen.tail.max(Some(self.frame.unwrap_or(Class::Reference)));
        }
        seen.starts = true;
        self.scan.restart();
        self.frame = class;
    }
}

#[cfg(test)]
mod tests;

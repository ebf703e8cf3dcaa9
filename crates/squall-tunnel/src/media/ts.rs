//! Frames in MPEG-TS (ISO 13818-1): by the starts of video PES packets.

use mpeg2ts_reader::packet::{Packet, Pid};
use rtp_types::RtpPacket;

use super::{
    annexb::{Codec, Scan},
    frame::{Class, Cut},
    psi::Psi,
};

/// Bytes of a packet.
const PACKET: usize = 188;

/// Packets that carry nothing.
const NULL: Pid = Pid::new(0x1fff);

/// Finds frames in datagrams of packets of 188 bytes.
#[derive(Debug)]
pub(crate) struct TsCutter {
    psi: Psi,
    scan: Scan,
    /// What the open frame is, as far as is known.
    frame: Option<Class>,
}

impl Default for TsCutter {
    fn default() -> Self {
        Self { psi: Psi::default(), scan: Scan::new(Codec::Other), frame: None }
    }
}

/// What the packets of a datagram had to say.
#[derive(Default)]
struct Said {
    starts: bool,
    /// Video of the frame before, in front of a start.
    tail: Option<Class>,
    video: bool,
    /// Whether the last video was the end of a PES packet.
    ends: bool,
    /// Something that is neither video nor nothing.
    other: bool,
}

impl TsCutter {
    pub(super) fn cut(&mut self, datagram: &[u8]) -> Cut {
        if is_ts(datagram) {
            return self.cut_packets(datagram);
        }
        match RtpPacket::parse(datagram) {
            Ok(packet) if is_ts(packet.payload()) => self.cut_packets(packet.payload()),
            _ => Cut::aside(),
        }
    }

    /// Looks at the packets of a datagram.
    pub(super) fn cut_packets(&mut self, packets: &[u8]) -> Cut {
        let mut said = Said::default();
        for packet in packets.chunks_exact(PACKET) {
            match Packet::try_new(packet) {
                Some(packet) => self.look(&packet, &mut said),
                None => said.other = true,
            }
        }
        let Some(streams) = self.psi.streams() else { return Cut::apart(Class::Data) };
        if streams.video.is_none() {
            return Cut::apart(if said.other { Class::Audio } else { Class::Data });
        }
        if !said.video {
            // Sound mostly; null packets may go with whatever is open.
            return if said.other { Cut::apart(Class::Audio) } else { Cut::aside() };
        }
        // What else is in the datagram is needed, whatever the frame is.
        let others = (said.other || said.tail.is_some_and(|tail| tail > Class::Disposable))
            .then_some(Class::Reference);
        Cut { starts: said.starts, ends: said.ends, class: self.frame.max(others), ..Cut::default() }
    }

    fn look(&mut self, packet: &Packet<'_>, said: &mut Said) {
        let pid = packet.pid();
        if pid == NULL {
            return;
        }
        let spare = self.psi.feed(packet);
        let video = self.psi.streams().and_then(|streams| streams.video);
        let Some((_, codec)) = video.filter(|(video, _)| *video == pid) else {
            said.other |= !spare;
            return;
        };
        said.video = true;
        if self.scan.codec() != codec {
            self.scan = Scan::new(codec);
        }
        let mut payload = packet.payload().unwrap_or_default();
        if packet.payload_unit_start_indicator() {
            if said.starts {
                // A whole frame was in this datagram.
                said.tail = said.tail.max(Some(self.frame.unwrap_or(Class::Reference)));
            }
            said.starts = true;
            self.scan.restart();
            let random_access =
                packet.adaptation_field().is_some_and(|field| field.random_access_indicator());
            self.frame = random_access.then_some(Class::Key);
            payload = elementary(payload);
        } else if !said.starts {
            said.tail = said.tail.max(Some(self.frame.unwrap_or(Class::Reference)));
        }
        said.ends = is_stuffed(packet.buffer());
        self.scan.feed(payload);
        self.frame = self.frame.max(self.scan.class());
    }
}

/// Whether an adaptation field is longer than what is in it, as it is where a PES packet ends: the next one begins in
/// a packet of its own (ISO 13818-1 §2.4.3.3, §2.4.3.5).
fn is_stuffed(packet: &[u8]) -> bool {
    let Some((&[_, _, _, control, length], field)) = packet.split_first_chunk::<5>() else { return false };
    let Some(flags) = field.first().filter(|_| control & 0x20 != 0 && length > 0) else {
        // A field without flags is one byte of stuffing.
        return control & 0x20 != 0;
    };
    // Clock references of six bytes, the splice countdown; private data and extensions tell their length.
    let clocks = usize::from(flags & 0x10 != 0) * 6 + usize::from(flags & 0x08 != 0) * 6;
    let mut used = 1 + clocks + usize::from(flags & 0x04 != 0);
    for flag in [0x02, 0x01] {
        if flags & flag != 0 {
            used += 1 + field.get(used).map_or(0, |length| usize::from(*length));
        }
    }
    usize::from(length) > used
}

/// What follows the head of a PES packet (ISO 13818-1 §2.4.3.6).
fn elementary(pes: &[u8]) -> &[u8] {
    let head = pes.get(8).map_or(pes.len(), |length| 9 + usize::from(*length));
    pes.get(head..).unwrap_or_default()
}

/// Whether bytes are packets of a transport stream and nothing else.
pub(super) fn is_ts(bytes: &[u8]) -> bool {
    !bytes.is_empty()
        && bytes.len().is_multiple_of(PACKET)
        && bytes.chunks_exact(PACKET).all(|packet| Packet::is_sync_byte(packet[0]))
}

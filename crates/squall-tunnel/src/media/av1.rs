//! AV1 in RTP ("RTP Payload Format For AV1", AOMedia, v1.0.0): class of a packet's temporal unit.
//!
//! A frame header shows only deep inside whether the frame is disposable. A frame therefore counts
//! as disposable only if a dependency descriptor, an RTP header extension, shows it.

use rtp_types::RtpPacket;

use super::{
    class::Class,
    descriptor::Descriptors,
    picture::{Pictures, Unit},
};

/// Temporal units of a stream.
#[derive(Clone, Debug, Default)]
pub(super) struct Stream {
    pictures: Pictures,
    descriptors: Descriptors,
}

impl Stream {
    /// Begins a temporal unit.
    pub(super) fn begin(&mut self) {
        self.pictures.begin();
    }

    /// Returns the class of a packet.
    pub(super) fn of_packet(&mut self, packet: &RtpPacket<'_>) -> Option<Class> {
        let class = self.of_payload(packet.payload());
        let is_disposable = self.descriptors.is_disposable(packet, class == Some(Class::Key));
        class.map(|class| if class == Class::Reference && is_disposable { Class::Disposable } else { class })
    }

    /// Returns the class of a packet's payload (§4.4 aggregation header).
    fn of_payload(&mut self, payload: &[u8]) -> Option<Class> {
        let (head, mut rest) = payload.split_first()?;
        // N: a coded video sequence begins.
        if head & 0x08 != 0 {
            self.pictures.class_of(Unit::Parameters);
            return self.pictures.class_of(Unit::Slice(Class::Key));
        }
        let (continues, count) = (head & 0x80 != 0, usize::from(head >> 4 & 0x03));
        let mut class = None;
        for index in 1_usize.. {
            if rest.is_empty() || count != 0 && index > count {
                break;
            }
            // Every element has a length, except the last one if the header counts the elements.
            let element =
                if count != 0 && index == count { std::mem::take(&mut rest) } else { take(&mut rest)? };
            if !(continues && index == 1) {
                class = class.max(unit(element).and_then(|unit| self.pictures.class_of(unit)));
            }
        }
        class.or(Some(Class::Reference))
    }
}

/// Returns the role of an open bitstream unit (AV1 §5.3.2 header, §5.9.2 frame header).
fn unit(obu: &[u8]) -> Option<Unit> {
    let head = *obu.first()?;
    let (kind, extension, sized) = (head >> 3 & 0x0f, head & 0x04 != 0, head & 0x02 != 0);
    let mut body = obu.get(if extension { 2 } else { 1 }..)?;
    if sized {
        leb128(&mut body)?;
    }
    match kind {
        // A sequence header.
        1 => Some(Unit::Parameters),
        // A frame header, or a frame: show_existing_frame 0, and frame_type 0 (key) or 2 (intra only).
        3 | 6 => Some(Unit::Slice(match body.first()? >> 5 {
            0 | 2 => Class::Key,
            _ => Class::Reference,
        })),
        _ => None,
    }
}

/// Splits off the first element and its length.
fn take<'a>(input: &mut &'a [u8]) -> Option<&'a [u8]> {
    let len = usize::try_from(leb128(input)?).ok()?;
    let (element, rest) = input.split_at_checked(len)?;
    *input = rest;
    Some(element)
}

/// Splits off the first number (AV1 §4.10.5).
fn leb128(input: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for index in 0..8 {
        let (byte, rest) = input.split_first()?;
        *input = rest;
        value |= u64::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequences_and_key_frames_are_key() {
        let cases: &[(&[u8], Option<Class>)] = &[
            // N.
            (&[0x18, 0x0a, 0x0b], Some(Class::Key)),
            // One element, a frame: of type key, of type inter.
            (&[0x10, 0x30, 0x10], Some(Class::Key)),
            (&[0x10, 0x30, 0x30], Some(Class::Reference)),
            // Types intra only and switch; a repeated key frame.
            (&[0x10, 0x30, 0x50], Some(Class::Key)),
            (&[0x10, 0x30, 0x70], Some(Class::Reference)),
            (&[0x10, 0x18, 0x80], Some(Class::Reference)),
            // Two elements: a sequence header with its length, a frame without.
            (&[0x20, 2, 0x08, 0, 0x30, 0x30], Some(Class::Key)),
            // Not counted: each has a length.
            (&[0x00, 1, 0x10, 2, 0x30, 0x30], Some(Class::Reference)),
            // The first element continues one of an earlier packet, whatever its bytes.
            (&[0x90, 0x08], Some(Class::Reference)),
            // Cut short.
            (&[0x00, 9, 0x08], None),
            (&[], None),
        ];
        // More empty elements than a byte can count.
        let many = [0; 300];
        assert_eq!(Stream::default().of_payload(&many), Some(Class::Reference));
        for (payload, class) in cases {
            assert_eq!(Stream::default().of_payload(payload), *class, "{payload:02x?}");
        }
    }

    #[test]
    fn sequence_headers_with_each_frame_are_no_sign_of_a_key_frame() {
        let mut stream = Stream::default();
        let mut class = |frame_type: u8| {
            stream.begin();
            stream.of_payload(&[0x20, 2, 0x08, 0, 0x30, frame_type << 5])
        };
        use Class::{Key, Reference};
        assert_eq!([0, 1, 1, 0, 1].map(&mut class), [Key, Key, Reference, Key, Reference].map(Some));
    }
}

//! AV1 in RTP ("RTP Payload Format For AV1", AOMedia, v1.0.0): the class of a packet's temporal unit.
//!
//! Whether a frame is disposable is coded deep in its header, or in an RTP header extension that a session description
//! declares; so no frame counts as disposable.

use super::class::Class;

/// Class of a packet's payload (§4.4 aggregation header).
pub(super) fn of_payload(payload: &[u8]) -> Option<Class> {
    let (head, mut rest) = payload.split_first()?;
    // N: a coded video sequence begins.
    if head & 0x08 != 0 {
        return Some(Class::Key);
    }
    let (continues, count) = (head & 0x80 != 0, usize::from(head >> 4 & 0x03));
    let mut class = None;
    for index in 1_usize.. {
        if rest.is_empty() || count != 0 && index > count {
            break;
        }
        // All elements have a length, but for the last one if the header counts them.
        let element = if count != 0 && index == count { std::mem::take(&mut rest) } else { take(&mut rest)? };
        if !(continues && index == 1) {
            class = class.max(of_obu(element));
        }
    }
    class.or(Some(Class::Reference))
}

/// Class of an open bitstream unit (AV1 §5.3.2 header, §5.9.2 frame header).
fn of_obu(obu: &[u8]) -> Option<Class> {
    let head = *obu.first()?;
    let (kind, extension, sized) = (head >> 3 & 0x0f, head & 0x04 != 0, head & 0x02 != 0);
    let mut body = obu.get(if extension { 2 } else { 1 }..)?;
    if sized {
        leb128(&mut body)?;
    }
    match kind {
        // A sequence header.
        1 => Some(Class::Key),
        // A frame header, or a frame: show_existing_frame 0, frame_type 0.
        3 | 6 => Some(if body.first()? & 0xe0 == 0 { Class::Key } else { Class::Reference }),
        _ => None,
    }
}

/// Removes an element, with its length, from the front.
fn take<'a>(input: &mut &'a [u8]) -> Option<&'a [u8]> {
    let len = usize::try_from(leb128(input)?).ok()?;
    let (element, rest) = input.split_at_checked(len)?;
    *input = rest;
    Some(element)
}

/// Removes a number from the front (AV1 §4.10.5).
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
            // Two elements: a sequence header with its length, a frame without.
            (&[0x20, 2, 0x08, 0, 0x30, 0x30], Some(Class::Key)),
            // Not counted: each has a length.
            (&[0x00, 1, 0x10, 2, 0x30, 0x30], Some(Class::Reference)),
            // The first continues what an earlier packet began, whatever it looks like.
            (&[0x90, 0x08], Some(Class::Reference)),
            // Cut short.
            (&[0x00, 9, 0x08], None),
            (&[], None),
        ];
        // More empty elements than a byte can count.
        let many = [0; 300];
        assert_eq!(of_payload(&many), Some(Class::Reference));
        for (payload, class) in cases {
            assert_eq!(of_payload(payload), *class, "{payload:02x?}");
        }
    }
}

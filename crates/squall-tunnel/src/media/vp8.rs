//! VP8 in RTP (RFC 7741): class of a picture from the payload descriptor.

use super::class::Class;

/// Returns the class of a packet's payload (RFC 7741 §4.2, §4.3).
pub(super) fn of_payload(payload: &[u8]) -> Option<Class> {
    let (descriptor, mut rest) = payload.split_first()?;
    let (extended, disposable) = (descriptor & 0x80 != 0, descriptor & 0x20 != 0);
    let first = descriptor & 0x10 != 0 && descriptor & 0x07 == 0;
    if extended {
        let (extension, after) = rest.split_first()?;
        rest = after;
        // PictureID: 7 bits, or 15 if the first bit is set.
        if extension & 0x80 != 0 {
            rest = rest.get(if rest.first()? & 0x80 != 0 { 2 } else { 1 }..)?;
        }
        // TL0PICIDX; then one byte for TID, Y and KEYIDX.
        for flags in [0x40, 0x30] {
            if extension & flags != 0 {
                rest = rest.get(1..)?;
            }
        }
    }
    // The payload header is in the first packet only; its P bit is 0 for a key frame.
    if first && rest.first()? & 0x01 == 0 {
        return Some(Class::Key);
    }
    Some(if disposable { Class::Disposable } else { Class::Reference })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_show_key_and_disposable_frames() {
        let cases: &[(&[u8], Option<Class>)] = &[
            (&[0x10, 0x50], Some(Class::Key)),
            (&[0x10, 0x51], Some(Class::Reference)),
            (&[0x30, 0x51], Some(Class::Disposable)),
            // The second packet of a key frame does not show the class.
            (&[0x00, 0x50], Some(Class::Reference)),
            // PictureID of 15 bits, TL0PICIDX, TID.
            (&[0x90, 0xf0, 0x81, 0x02, 7, 0x40, 0x50], Some(Class::Key)),
            (&[0xb0, 0x80, 0x11, 0x51], Some(Class::Disposable)),
            (&[0x90, 0xf0, 0x81], None),
            (&[0x90], None),
            (&[], None),
        ];
        for (payload, class) in cases {
            assert_eq!(of_payload(payload), *class, "{payload:02x?}");
        }
    }
}

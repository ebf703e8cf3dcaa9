//! H.264 in RTP (RFC 6184): the class of a picture from the NAL units of a packet.

use super::class::Class;

/// Reference picture importance, 0 for none (H.264 §7.4.1, `nal_ref_idc`).
fn is_referenced(header: u8) -> bool {
    header & 0x60 != 0
}

/// Class of a NAL unit, by its header (H.264 Table 7-1).
pub(super) fn of_nal(header: u8) -> Option<Class> {
    match header & 0x1f {
        // IDR and parameter sets, with which decoding begins.
        5 | 7 | 8 | 13 | 15 => Some(Class::Key),
        // Slices and data partitions; in extensions (SVC, MVC) too.
        1..=4 | 20 | 21 => Some(if is_referenced(header) { Class::Reference } else { Class::Disposable }),
        // SEI, delimiters, filler, prefixes: parts of any picture.
        6 | 9..=12 | 14 => None,
        _ => Some(Class::Reference),
    }
}

/// Class of a packet's payload (RFC 6184 §5.2).
pub(super) fn of_payload(payload: &[u8]) -> Option<Class> {
    let (header, rest) = payload.split_first()?;
    match header & 0x1f {
        // STAP-A (§5.7.1); STAP-B begins with a decoding order number.
        24 => of_units(rest, 0),
        25 => of_units(rest.get(2..)?, 0),
        // MTAP16 and MTAP24 (§5.7.2): a base number, then a distance and a time with each unit.
        26 => of_units(rest.get(2..)?, 3),
        27 => of_units(rest.get(2..)?, 4),
        // FU-A, FU-B (§5.8): the importance is in the indicator, the type in the header.
        28 | 29 => of_nal(header & 0xe0 | rest.first()? & 0x1f),
        _ => of_nal(*header),
    }
}

/// The highest class of units that each begin with a length of two bytes, and this many bytes behind it.
fn of_units(mut units: &[u8], between: usize) -> Option<Class> {
    let mut strongest = None;
    while let Some((&[high, low], rest)) = units.split_first_chunk::<2>() {
        let Some(unit) = rest.get(between..) else { break };
        let (unit, rest) = unit.split_at(usize::from(u16::from_be_bytes([high, low])).min(unit.len()));
        strongest = strongest.max(unit.first().and_then(|header| of_nal(*header)));
        units = rest;
    }
    strongest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payloads_are_classed_by_their_units() {
        let cases: &[(&[u8], Option<Class>)] = &[
            (&[0x65, 0x88], Some(Class::Key)),
            (&[0x67, 0x42], Some(Class::Key)),
            (&[0x41, 0x9a], Some(Class::Reference)),
            (&[0x01, 0x9e], Some(Class::Disposable)),
            (&[0x06, 0x05], None),
            (&[0x09, 0xf0], None),
            // STAP-A of a delimiter and a disposable slice, then of parameter sets.
            (&[0x18, 0, 2, 0x09, 0xf0, 0, 2, 0x01, 0x9e], Some(Class::Disposable)),
            (&[0x78, 0, 2, 0x67, 0x42, 0, 2, 0x68, 0xce], Some(Class::Key)),
            // FU-A: the first and the last part of an IDR slice, the middle of a disposable one.
            (&[0x7c, 0x85, 1], Some(Class::Key)),
            (&[0x7c, 0x45, 1], Some(Class::Key)),
            (&[0x1c, 0x01, 1], Some(Class::Disposable)),
            // MTAP16 of a referenced slice.
            (&[0x1a, 0, 0, 0, 2, 0, 0, 0, 0x41, 0x9a], Some(Class::Reference)),
            // Cut short.
            (&[], None),
            (&[0x7c], None),
            (&[0x18, 0], None),
            (&[0x18, 0xff, 0xff, 0x41], Some(Class::Reference)),
        ];
        for (payload, class) in cases {
            assert_eq!(of_payload(payload), *class, "{payload:02x?}");
        }
    }
}

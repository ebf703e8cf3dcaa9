//! H.264 in RTP (RFC 6184): class of a picture from the NAL units of a packet.

use super::{
    bits::Bits,
    class::Class,
    picture::{Pictures, Unit, recovery_point},
};

/// Pictures of a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Stream {
    pictures: Pictures,
}

/// Returns the role of a NAL unit by its header (H.264 Table 7-1) and the bytes after it. `rest` is
/// empty for later parts of a slice.
fn unit(header: u8, rest: &[u8]) -> Option<Unit> {
    // Importance as a reference picture, 0 for none (§7.4.1, `nal_ref_idc`).
    let is_referenced = header & 0x60 != 0;
    Some(match header & 0x1f {
        5 => Unit::Slice(Class::Key),
        6 => return recovery_point(rest),
        7 | 8 | 13 | 15 => Unit::Parameters,
        // Slices and data partitions, also in extensions (SVC, MVC).
        1..=4 | 20 | 21 if !is_referenced => Unit::Slice(Class::Disposable),
        1 | 2 if begins_intra(rest) => Unit::Slice(Class::Key),
        // Delimiters, ends, filler, prefixes: parts of any picture.
        9..=12 | 14 => return None,
        _ => Unit::Slice(Class::Reference),
    })
}

/// `true` if this slice begins a picture and has only intra macroblocks (§7.3.3, Table 7-6): the
/// picture is intra, or, if slices are refreshed in turn, a refresh begins with it.
fn begins_intra(slice: &[u8]) -> bool {
    let mut bits = Bits::new(slice);
    let first_macroblock = bits.exp_golomb();
    first_macroblock == Some(0) && matches!(bits.exp_golomb(), Some(2 | 4 | 7 | 9))
}

/// `true` if a payload begins with the first slice of a picture: its first macroblock is 0, coded
/// in one bit.
pub(super) fn begins_picture(payload: &[u8]) -> bool {
    let (kind, slice) = match payload {
        [header, kind, slice @ ..] if header & 0x1f == 28 && kind & 0x80 != 0 => (kind & 0x1f, slice),
        [header, slice @ ..] => (header & 0x1f, slice),
        [] => return false,
    };
    matches!(kind, 1 | 2 | 5) && slice.first().is_some_and(|byte| byte & 0x80 != 0)
}

/// `true` if a NAL unit is a slice, by its header.
pub(super) fn is_slice(header: u8) -> bool {
    matches!(header & 0x1f, 1..=5)
}

/// `true` if a NAL unit has SEI messages, by its header.
pub(super) fn is_sei(header: u8) -> bool {
    header & 0x1f == 6
}

impl Stream {
    /// Begins a picture.
    pub(super) fn begin(&mut self) {
        self.pictures.begin();
    }

    /// Returns the class of the picture, if a NAL unit shows it. The beginning of a slice is
    /// sufficient.
    pub(super) fn of_nal(&mut self, nal: &[u8]) -> Option<Class> {
        let (header, rest) = nal.split_first()?;
        self.pictures.class_of(unit(*header, rest)?)
    }

    /// Returns the class of a packet's payload (RFC 6184 §5.2).
    pub(super) fn of_payload(&mut self, payload: &[u8]) -> Option<Class> {
        let (header, rest) = payload.split_first()?;
        match header & 0x1f {
            // STAP-A (§5.7.1); STAP-B begins with a decoding order number.
            24 => self.of_units(rest, 0),
            25 => self.of_units(rest.get(2..)?, 0),
            // MTAP16 and MTAP24 (§5.7.2): a base number, then a distance and a time per unit.
            26 => self.of_units(rest.get(2..)?, 3),
            27 => self.of_units(rest.get(2..)?, 4),
            // FU-A, FU-B (§5.8): importance in the indicator, type in the header. FU-B has a
            // decoding order number, and begins its unit.
            fragment @ (28 | 29) => {
                let (kind, rest) = rest.split_first()?;
                let begin = if fragment == 29 { rest.get(2..) } else { Some(rest) };
                let begin = begin.filter(|_| kind & 0x80 != 0).unwrap_or_default();
                self.pictures.class_of(unit(header & 0xe0 | kind & 0x1f, begin)?)
            }
            _ => self.of_nal(payload),
        }
    }

    /// Returns the highest class of units that each begin with a length of two bytes, followed by
    /// `between` bytes.
    fn of_units(&mut self, mut units: &[u8], between: usize) -> Option<Class> {
        let mut strongest = None;
        while let Some((&[high, low], rest)) = units.split_first_chunk::<2>() {
            let Some(unit) = rest.get(between..) else { break };
            let (unit, rest) = unit.split_at(usize::from(u16::from_be_bytes([high, low])).min(unit.len()));
            strongest = strongest.max(self.of_nal(unit));
            units = rest;
        }
        strongest
    }
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
            // Slices of the first macroblock: P (5), I (7 and 2); I of another macroblock; I of an
            // unreferenced picture.
            (&[0x41, 0b1001_1000], Some(Class::Reference)),
            (&[0x41, 0b1000_1000], Some(Class::Key)),
            (&[0x41, 0b1011_0000], Some(Class::Key)),
            (&[0x41, 0b0100_0010, 0], Some(Class::Reference)),
            (&[0x01, 0b1000_1000], Some(Class::Disposable)),
            // FU-A: the first part of an I slice, a later part with the same bytes; FU-B with its number.
            (&[0x5c, 0x81, 0b1000_1000], Some(Class::Key)),
            (&[0x5c, 0x01, 0b1000_1000], Some(Class::Reference)),
            (&[0x5d, 0x81, 0, 0, 0b1000_1000], Some(Class::Key)),
            // A recovery point; in a STAP-A, followed by a P slice.
            (&[0x06, 0x06, 1, 0xc4, 0x80], Some(Class::Key)),
            (&[0x58, 0, 5, 0x06, 0x06, 1, 0x24, 0x80, 0, 2, 0x41, 0x9a], Some(Class::Key)),
            // Cut short.
            (&[], None),
            (&[0x7c], None),
            (&[0x18, 0], None),
            (&[0x18, 0xff, 0xff, 0x41], Some(Class::Reference)),
            (&[0x5d, 0x81, 0], Some(Class::Reference)),
        ];
        for (payload, class) in cases {
            assert_eq!(Stream::default().of_payload(payload), *class, "{payload:02x?}");
        }
    }
}

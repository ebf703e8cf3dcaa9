//! H.265 in RTP (RFC 7798): class of a picture from the NAL units of a packet.

use super::{
    bits::Bits,
    class::Class,
    picture::{Pictures, Unit, recovery_point},
};

/// Pictures of a stream, and values from its parameter sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stream {
    pictures: Pictures,
    /// Highest temporal layer; `None` until known.
    highest: Option<u8>,
    /// Number of bits that slices reserve before their type, by PPS.
    reserved_bits: [u8; 64],
}

impl Default for Stream {
    fn default() -> Self {
        Self { pictures: Pictures::default(), highest: None, reserved_bits: [0; 64] }
    }
}

/// Parses the header of a NAL unit (H.265 §7.3.1.2): type and temporal layer.
fn header(bytes: [u8; 2]) -> (u8, u8) {
    (bytes[0] >> 1 & 0x3f, (bytes[1] & 0x07).saturating_sub(1))
}

/// `true` if a payload begins with the first slice of a picture.
pub(super) fn begins_picture(payload: &[u8]) -> bool {
    let Some((&bytes, rest)) = payload.split_first_chunk::<2>() else { return false };
    let (kind, slice) = match (header(bytes).0, rest) {
        (49, [kind, slice @ ..]) if kind & 0x80 != 0 => (kind & 0x3f, slice),
        (kind, slice) => (kind, slice),
    };
    kind < 32 && slice.first().is_some_and(|byte| byte & 0x80 != 0)
}

/// `true` if a NAL unit is a slice, by the first byte of its header.
pub(super) fn is_slice(header: u8) -> bool {
    header >> 1 & 0x3f < 32
}

/// `true` if a NAL unit has SEI messages that precede a picture, by the first byte of its header.
pub(super) fn is_sei(header: u8) -> bool {
    header >> 1 & 0x3f == 39
}

impl Stream {
    /// Begins a picture.
    pub(super) fn begin(&mut self) {
        self.pictures.begin();
    }

    /// Returns the class of the picture, if a NAL unit shows it. Parses parameter sets. The
    /// beginning of a slice is sufficient.
    pub(super) fn of_nal(&mut self, nal: &[u8]) -> Option<Class> {
        let (&bytes, begin) = nal.split_first_chunk::<2>()?;
        let (kind, layer) = header(bytes);
        match kind {
            // sps_max_sub_layers_minus1 (§7.3.2.2.1), after four bits.
            33 => self.highest = begin.first().map(|byte| byte >> 1 & 0x07).or(self.highest),
            // vps_max_sub_layers_minus1 (§7.3.2.1), after four bits, two flags and six bits.
            32 => self.highest = begin.get(1).map(|byte| byte >> 1 & 0x07).or(self.highest),
            34 => _ = self.read_pps(begin),
            _ => {}
        }
        self.of_type(kind, layer, begin)
    }

    /// Parses the beginning of a PPS (§7.3.2.3.1).
    fn read_pps(&mut self, begin: &[u8]) -> Option<()> {
        let mut bits = Bits::new(begin);
        let id = bits.exp_golomb()?;
        let _sps = bits.exp_golomb()?;
        // dependent_slice_segments_enabled_flag, output_flag_present_flag.
        bits.number(2)?;
        *self.reserved_bits.get_mut(id as usize)? = bits.number(3)? as u8;
        Some(())
    }

    /// Returns the class of the picture for a NAL unit of this type. `begin` is empty for later
    /// parts of a unit.
    fn of_type(&mut self, kind: u8, layer: u8, begin: &[u8]) -> Option<Class> {
        let unit = match kind {
            // Sub-layer non-reference pictures (even types): pictures of the same layer do not
            // depend on them, and here no higher layer exists.
            0..=15 if kind & 1 == 0 && self.highest.is_some_and(|highest| layer >= highest) => {
                Unit::Slice(Class::Disposable)
            }
            0..=9 if layer == 0 && self.begins_intra(begin) == Some(true) => Unit::Slice(Class::Key),
            // IRAP pictures.
            16..=23 => Unit::Slice(Class::Key),
            32..=34 => Unit::Parameters,
            // Delimiters, ends, filler, SEI.
            35..=38 | 40 => return None,
            39 => recovery_point(begin)?,
            _ => Unit::Slice(Class::Reference),
        };
        self.pictures.class_of(unit)
    }

    /// `true` if this slice begins a picture and has only intra blocks (§7.3.6.1, Table 7-7): the
    /// picture is intra, or, if slices are refreshed in turn, a refresh begins with it.
    fn begins_intra(&self, slice: &[u8]) -> Option<bool> {
        let mut bits = Bits::new(slice);
        let is_first = bits.flag()?;
        let reserved = self.reserved_bits.get(bits.exp_golomb()? as usize)?;
        bits.number((*reserved).into())?;
        Some(is_first && bits.exp_golomb()? == 2)
    }

    /// Returns the class of a packet's payload (RFC 7798 §4.4). Decoding order numbers, which only
    /// a session description can request, are not supported.
    pub(super) fn of_payload(&mut self, payload: &[u8]) -> Option<Class> {
        let (&bytes, rest) = payload.split_first_chunk::<2>()?;
        let (kind, layer) = header(bytes);
        match kind {
            // Aggregation packet (§4.4.2).
            48 => self.of_units(rest),
            // Fragmentation unit (§4.4.3): the type is in the FU header.
            49 => {
                let (kind, begin) = rest.split_first()?;
                let begin = if kind & 0x80 != 0 { begin } else { &[] };
                self.of_type(kind & 0x3f, layer, begin)
            }
            // PACI (§4.4.4): the type of the contained unit, after one bit.
            50 => self.of_type(rest.first()? >> 1 & 0x3f, layer, &[]),
            _ => self.of_nal(payload),
        }
    }

    fn of_units(&mut self, mut units: &[u8]) -> Option<Class> {
        let mut strongest = None;
        while let Some((&[high, low], rest)) = units.split_first_chunk::<2>() {
            let (unit, rest) = rest.split_at(usize::from(u16::from_be_bytes([high, low])).min(rest.len()));
            strongest = strongest.max(self.of_nal(unit));
            units = rest;
        }
        strongest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Builds a unit of this type on this temporal layer.
    fn unit(kind: u8, layer: u8, rest: &[u8]) -> Vec<u8> {
        [&[kind << 1, layer + 1], rest].concat()
    }

    #[test]
    fn only_the_highest_layer_is_disposable_and_only_when_it_is_known() {
        let mut stream = Stream::default();
        assert_eq!(stream.of_payload(&unit(0, 1, &[0])), Some(Class::Reference), "no parameter sets yet");
        stream.begin();
        assert_eq!(stream.of_payload(&unit(33, 0, &[0x03])), Some(Class::Key));
        assert_eq!(stream.of_payload(&unit(19, 0, &[0])), Some(Class::Key));
        assert_eq!(stream.of_payload(&unit(0, 0, &[0])), Some(Class::Reference), "a layer above may need it");
        assert_eq!(stream.of_payload(&unit(0, 1, &[0])), Some(Class::Disposable));
        assert_eq!(stream.of_payload(&unit(1, 1, &[0])), Some(Class::Reference));
        assert_eq!(stream.of_payload(&unit(8, 1, &[0])), Some(Class::Disposable), "RASL_N");
        assert_eq!(stream.of_payload(&unit(21, 0, &[0])), Some(Class::Key));
        assert_eq!(stream.of_payload(&unit(39, 0, &[0])), None);
    }

    #[test]
    fn intra_pictures_and_recovery_points_are_key() {
        let mut stream = Stream::default();
        // First slice, of PPS 0: type I (2), type P (1). The same bits in a later slice, and on a
        // higher layer.
        assert_eq!(stream.of_payload(&unit(1, 0, &[0b1101_1000])), Some(Class::Key));
        assert_eq!(stream.of_payload(&unit(1, 0, &[0b1101_0000])), Some(Class::Reference));
        assert_eq!(stream.of_payload(&unit(1, 0, &[0b0101_1000])), Some(Class::Reference));
        assert_eq!(stream.of_payload(&unit(1, 1, &[0b1101_1000])), Some(Class::Reference));
        // PPS 1 reserves a bit, which precedes the type.
        assert_eq!(stream.of_payload(&unit(34, 0, &[0b0101_0000, 0b1000_0000])), Some(Class::Key));
        assert_eq!(stream.of_payload(&unit(1, 0, &[0b1010_0010])), Some(Class::Reference), "P");
        assert_eq!(stream.of_payload(&unit(1, 0, &[0b1010_0011])), Some(Class::Key));
        assert_eq!(stream.of_payload(&unit(1, 0, &[0b1101_1000])), Some(Class::Key), "PPS 0 reserves none");
        // Only the first part of a unit begins it.
        assert_eq!(stream.of_payload(&unit(49, 0, &[0x81, 0b1101_1000])), Some(Class::Key));
        assert_eq!(stream.of_payload(&unit(49, 0, &[0x01, 0b1101_1000])), Some(Class::Reference));
        assert_eq!(stream.of_payload(&unit(39, 0, &[6, 1, 0x50, 0x80])), Some(Class::Key));
        assert_eq!(stream.of_payload(&unit(40, 0, &[6, 1, 0x50, 0x80])), None, "none for a suffix");
    }

    #[test]
    fn aggregates_and_fragments_are_looked_into() {
        let mut stream = Stream::default();
        let sps = unit(33, 0, &[0x01]);
        let aggregate = [&unit(48, 0, &[])[..], &[0, sps.len() as u8], &sps].concat();
        assert_eq!(stream.of_payload(&aggregate), Some(Class::Key));
        // The middle of a non-reference picture, of an IDR picture.
        assert_eq!(stream.of_payload(&unit(49, 0, &[0x00, 1])), Some(Class::Disposable));
        assert_eq!(stream.of_payload(&unit(49, 0, &[0x93, 1])), Some(Class::Key));
        assert_eq!(stream.of_payload(&unit(50, 0, &[19 << 1])), Some(Class::Key));
        assert_eq!(stream.of_payload(&unit(49, 0, &[])), None);
        assert_eq!(stream.of_payload(&[0x26]), None);
    }
}

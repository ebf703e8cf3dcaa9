//! H.265 in RTP (RFC 7798): the class of a picture from the NAL units of a packet.

use super::class::Class;

/// The highest temporal layer of a stream, once parameter sets declared it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Layers {
    highest: Option<u8>,
}

/// Header of a NAL unit (H.265 §7.3.1.2): type, and temporal layer.
fn header(bytes: [u8; 2]) -> (u8, u8) {
    (bytes[0] >> 1 & 0x3f, (bytes[1] & 0x07).saturating_sub(1))
}

impl Layers {
    /// Class of a NAL unit, by its type and temporal layer (H.265 Table 7-1). The parameter sets are read.
    pub(super) fn of_nal(&mut self, unit: &[u8]) -> Option<Class> {
        let (&bytes, begin) = unit.split_first_chunk::<2>()?;
        let (kind, layer) = header(bytes);
        match kind {
            // sps_max_sub_layers_minus1 (§7.3.2.2.1), behind four bits.
            33 => self.highest = begin.first().map(|byte| byte >> 1 & 0x07).or(self.highest),
            // vps_max_sub_layers_minus1 (§7.3.2.1), behind four bits, two flags and six bits.
            32 => self.highest = begin.get(1).map(|byte| byte >> 1 & 0x07).or(self.highest),
            _ => {}
        }
        self.of_type(kind, layer)
    }

    fn of_type(self, kind: u8, layer: u8) -> Option<Class> {
        match kind {
            // Sub-layer non-reference pictures (even numbers): those of their own layer do not need them, and
            // there are others only above.
            0..=15 if kind & 1 == 0 && self.highest.is_some_and(|highest| layer >= highest) => {
                Some(Class::Disposable)
            }
            0..=15 => Some(Class::Reference),
            // IRAP pictures, parameter sets.
            16..=23 | 32..=34 => Some(Class::Key),
            // Delimiters, ends, filler, SEI.
            35..=40 => None,
            _ => Some(Class::Reference),
        }
    }

    /// Class of a packet's payload (RFC 7798 §4.4). Decoding order numbers, which only a session description
    /// can request, are not supported.
    pub(super) fn of_payload(&mut self, payload: &[u8]) -> Option<Class> {
        let (&bytes, rest) = payload.split_first_chunk::<2>()?;
        let (kind, layer) = header(bytes);
        match kind {
            // Aggregation packet (§4.4.2).
            48 => self.of_units(rest),
            // Fragmentation unit (§4.4.3): the type is in its own header.
            49 => self.of_type(rest.first()? & 0x3f, layer),
            // PACI (§4.4.4): the type of what it carries, behind one bit.
            50 => self.of_type(rest.first()? >> 1 & 0x3f, layer),
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

    /// A unit of this type on this temporal layer.
    fn unit(kind: u8, layer: u8, rest: &[u8]) -> Vec<u8> {
        [&[kind << 1, layer + 1], rest].concat()
    }

    #[test]
    fn only_the_highest_layer_is_disposable_and_only_when_it_is_known() {
        let mut layers = Layers::default();
        assert_eq!(layers.of_payload(&unit(0, 1, &[0])), Some(Class::Reference), "no parameter sets yet");
        assert_eq!(layers.of_payload(&unit(33, 0, &[0x03])), Some(Class::Key));
        assert_eq!(layers.of_payload(&unit(0, 0, &[0])), Some(Class::Reference), "a layer above may need it");
        assert_eq!(layers.of_payload(&unit(0, 1, &[0])), Some(Class::Disposable));
        assert_eq!(layers.of_payload(&unit(1, 1, &[0])), Some(Class::Reference));
        assert_eq!(layers.of_payload(&unit(8, 1, &[0])), Some(Class::Disposable), "RASL_N");
        assert_eq!(layers.of_payload(&unit(19, 0, &[0])), Some(Class::Key));
        assert_eq!(layers.of_payload(&unit(21, 0, &[0])), Some(Class::Key));
        assert_eq!(layers.of_payload(&unit(39, 0, &[0])), None);
    }

    #[test]
    fn aggregates_and_fragments_are_looked_into() {
        let mut layers = Layers::default();
        let sps = unit(33, 0, &[0x01]);
        let aggregate = [&unit(48, 0, &[])[..], &[0, sps.len() as u8], &sps].concat();
        assert_eq!(layers.of_payload(&aggregate), Some(Class::Key));
        // The middle of a non-reference picture, of an IDR picture.
        assert_eq!(layers.of_payload(&unit(49, 0, &[0x00, 1])), Some(Class::Disposable));
        assert_eq!(layers.of_payload(&unit(49, 0, &[0x93, 1])), Some(Class::Key));
        assert_eq!(layers.of_payload(&unit(50, 0, &[19 << 1])), Some(Class::Key));
        assert_eq!(layers.of_payload(&unit(49, 0, &[])), None);
        assert_eq!(layers.of_payload(&[0x26]), None);
    }
}

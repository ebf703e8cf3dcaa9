//! VP9 in RTP (RFC 9628): class of a picture from the payload descriptor.

use super::{bits::Bits, class::Class};

/// Highest temporal layer of a stream, if no picture refers to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Structure {
    top: Option<u8>,
}

/// The relevant fields of a payload descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Descriptor {
    /// The picture is predicted from others (P).
    inter: bool,
    /// A frame begins with the payload (B).
    begins: bool,
    /// Temporal and spatial layer, if there are layers.
    layer: Option<(u8, u8)>,
    /// Scalability structure in the descriptor.
    structure: Option<Structure>,
}

impl Structure {
    /// Returns the class of a packet's payload (RFC 9628 §4.2).
    pub(super) fn of_payload(&mut self, payload: &[u8]) -> Option<Class> {
        let mut frame = payload;
        let descriptor = read(&mut frame)?;
        if let Some(structure) = descriptor.structure {
            *self = structure;
        }
        let temporal = descriptor.layer.map(|(temporal, _)| temporal);
        Some(match (descriptor.inter, temporal) {
            // Some senders never set P; the frame header is more reliable if it can be read.
            (false, _) if !descriptor.begins => return None,
            (false, _) if is_intra(frame) == Some(false) => Class::Reference,
            (false, _) => Class::Key,
            (true, Some(layer)) if self.top == Some(layer) && layer > 0 => Class::Disposable,
            (true, _) => Class::Reference,
        })
    }
}

/// Splits off a descriptor (RFC 9628 §4.2).
fn read(input: &mut &[u8]) -> Option<Descriptor> {
    let flags = take(input)?;
    let has = |bit: u8| flags & bit != 0;
    let (id, inter, layers, flexible, structure) = (has(0x80), has(0x40), has(0x20), has(0x10), has(0x02));
    if id && take(input)? & 0x80 != 0 {
        take(input)?;
    }
    let mut layer = None;
    if layers {
        let byte = take(input)?;
        layer = Some((byte >> 5, byte >> 1 & 0x07));
        if !flexible {
            // TL0PICIDX.
            take(input)?;
        }
    }
    if flexible && inter {
        // Up to three reference distances, each with a flag for a further one.
        for _ in 0..3 {
            if take(input)? & 0x01 == 0 {
                break;
            }
        }
    }
    let structure = if structure { Some(read_structure(input)?) } else { None };
    Some(Descriptor { inter, begins: has(0x08), layer, structure })
}

/// `true` if a frame is key or intra, by its uncompressed header (VP9 bitstream §6.2): a marker,
/// the profile, one more bit in profile 3, `show_existing_frame`, `frame_type` (0 for key),
/// `show_frame`, `error_resilient_mode`, and `intra_only` for frames that are not shown. `None` if
/// this is not such a header.
fn is_intra(frame: &[u8]) -> Option<bool> {
    let mut bits = Bits::new(frame);
    let (marker, profile) = (bits.number(2)?, bits.number(2)?);
    if marker != 2 {
        return None;
    }
    if profile == 3 {
        bits.flag()?;
    }
    if bits.flag()? {
        return Some(false);
    }
    if !bits.flag()? {
        return Some(true);
    }
    let is_shown = bits.flag()?;
    bits.flag()?;
    Some(!is_shown && bits.flag().unwrap_or(false))
}

/// Parses a scalability structure (RFC 9628 §4.2.1).
fn read_structure(input: &mut &[u8]) -> Option<Structure> {
    let head = take(input)?;
    let (spatial_layers, sizes, group) = (head >> 5, head & 0x10 != 0, head & 0x08 != 0);
    if sizes {
        *input = input.get(4 * (usize::from(spatial_layers) + 1)..)?;
    }
    if !group {
        return Some(Structure::default());
    }
    let mut pictures: Vec<(u8, [Option<u8>; 3])> = Vec::new();
    for _ in 0..take(input)? {
        let byte = take(input)?;
        let mut distances = [None; 3];
        for distance in distances.iter_mut().take(usize::from(byte >> 2 & 0x03)) {
            *distance = Some(take(input)?);
        }
        pictures.push((byte >> 5, distances));
    }
    Some(Structure { top: unneeded_layer(&pictures) })
}

/// Returns the highest temporal layer of a repeating group, if no picture of the group refers to a
/// picture of it.
fn unneeded_layer(pictures: &[(u8, [Option<u8>; 3])]) -> Option<u8> {
    let top = pictures.iter().map(|(layer, _)| *layer).max()?;
    let needed = pictures.iter().enumerate().any(|(index, (_, distances))| {
        distances.iter().flatten().any(|distance| {
            let back = usize::from(*distance) % pictures.len();
            pictures[(index + pictures.len() - back) % pictures.len()].0 == top
        })
    });
    (!needed).then_some(top)
}

fn take(input: &mut &[u8]) -> Option<u8> {
    let (byte, rest) = input.split_first()?;
    *input = rest;
    Some(*byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two alternating temporal layers: the second refers to the first, the first to the previous
    /// first.
    const TWO_LAYERS: &[u8] = &[0x08, 2, 0x04, 2, 0x24, 1];

    #[test]
    fn pictures_that_are_not_predicted_are_key() {
        let mut stream = Structure::default();
        assert_eq!(stream.of_payload(&[0x8c, 5, 0]), Some(Class::Key));
        // Without a structure: a key frame, another frame, and a part that shows nothing.
        assert_eq!(stream.of_payload(&[0x0c, 0x82]), Some(Class::Key));
        assert_eq!(stream.of_payload(&[0x0c, 0x86]), Some(Class::Reference));
        assert_eq!(stream.of_payload(&[0x04, 0x86]), None);
        // Frames that are not shown: intra only, and not intra only; intra only in profile 3.
        assert_eq!(stream.of_payload(&[0x0c, 0x84, 0x80]), Some(Class::Key));
        assert_eq!(stream.of_payload(&[0x0c, 0x84, 0x00]), Some(Class::Reference));
        assert_eq!(stream.of_payload(&[0x0c, 0xb2, 0x40]), Some(Class::Key));
        assert_eq!(stream.of_payload(&[0xcc, 5, 0]), Some(Class::Reference));
        assert_eq!(stream.of_payload(&[0xcc, 0x85]), None);
        assert_eq!(stream.of_payload(&[]), None);
    }

    #[test]
    fn the_top_layer_is_disposable_when_the_structure_says_so() {
        let mut stream = Structure::default();
        let inter = |layer: u8| [0xec, 5, layer << 5, 0, 0];
        assert_eq!(stream.of_payload(&inter(1)), Some(Class::Reference), "no structure yet");
        let key = [&[0xae, 5, 0, 0], TWO_LAYERS, &[0]].concat();
        assert_eq!(stream.of_payload(&key), Some(Class::Key));
        assert_eq!(stream.of_payload(&inter(1)), Some(Class::Disposable));
        assert_eq!(stream.of_payload(&inter(0)), Some(Class::Reference));
        // Same layers, but each picture refers to the previous one.
        let chain = [&[0xae, 5, 0, 0], &[0x08, 2, 0x04, 1, 0x24, 1][..], &[0]].concat();
        stream.of_payload(&chain);
        assert_eq!(stream.of_payload(&inter(1)), Some(Class::Reference));
    }

    #[test]
    fn distances_of_flexible_mode_are_passed_over() {
        let mut stream = Structure::default();
        assert_eq!(stream.of_payload(&[0xfc, 5, 0x20, 0x03, 0x05, 0x02, 0]), Some(Class::Reference));
        assert_eq!(stream.of_payload(&[0xfc, 5, 0x20, 0x03]), None);
    }
}

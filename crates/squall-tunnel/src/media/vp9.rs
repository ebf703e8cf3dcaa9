//! VP9 in RTP (RFC 9628): the class of a picture from a payload descriptor.

use super::{bits::Bits, class::Class};

/// The highest temporal layer of a stream, if no picture refers to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Structure {
    top: Option<u8>,
}

/// The relevant part of a payload descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Descriptor {
    /// Whether its picture is predicted from others (P).
    inter: bool,
    /// Whether a frame begins with the payload (B).
    begins: bool,
    /// Temporal and spatial layer, if there are layers.
    layer: Option<(u8, u8)>,
    /// Its scalability structure.
    structure: Option<Structure>,
}

impl Structure {
    /// Class of a packet's payload (RFC 9628 §4.2).
    pub(super) fn of_payload(&mut self, payload: &[u8]) -> Option<Class> {
        let mut frame = payload;
        let descriptor = read(&mut frame)?;
        if let Some(structure) = descriptor.structure {
            *self = structure;
        }
        let temporal = descriptor.layer.map(|(temporal, _)| temporal);
        Some(match (descriptor.inter, temporal) {
            // Some senders never set P: the header of the frame is more reliable, where it can be read.
            (false, _) if !descriptor.begins => return None,
            (false, _) if is_intra(frame) == Some(false) => Class::Reference,
            (false, _) => Class::Key,
            (true, Some(layer)) if self.top == Some(layer) && layer > 0 => Class::Disposable,
            (true, _) => Class::Reference,
        })
    }
}

/// Removes a descriptor from the front (RFC 9628 §4.2).
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
        // Up to three distances of references, each with a flag for another one.
        for _ in 0..3 {
            if take(input)? & 0x01 == 0 {
                break;
            }
        }
    }
    let structure = if structure { Some(read_structure(input)?) } else { None };
    Some(Descriptor { inter, begins: has(0x08), layer, structure })
}

/// Whether a frame is key or intra, by its uncompressed header (VP9 bitstream §6.2): a marker, the profile, in profile 3 a
/// bit more, `show_existing_frame`, `frame_type`, 0 for key, `show_frame`, `error_resilient_mode`, and of frames that are not
/// shown `intra_only`. `None` if it is no such header.
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

/// Reads a scalability structure (RFC 9628 §4.2.1).
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

/// The highest temporal layer of a repeating group, if none of the group's pictures refers to one of it.
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

    /// Two temporal layers in turn; the second refers to the first, the first to the first before.
    const TWO_LAYERS: &[u8] = &[0x08, 2, 0x04, 2, 0x24, 1];

    #[test]
    fn pictures_that_are_not_predicted_are_key() {
        let mut stream = Structure::default();
        assert_eq!(stream.of_payload(&[0x8c, 5, 0]), Some(Class::Key));
        // By itself: a key frame, another one, and a part that shows nothing.
        assert_eq!(stream.of_payload(&[0x0c, 0x82]), Some(Class::Key));
        assert_eq!(stream.of_payload(&[0x0c, 0x86]), Some(Class::Reference));
        assert_eq!(stream.of_payload(&[0x04, 0x86]), None);
        // Frames that are not shown: intra only, and not; intra only in profile 3.
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
        // The same, but each picture refers to the one before it, whatever its layer.
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

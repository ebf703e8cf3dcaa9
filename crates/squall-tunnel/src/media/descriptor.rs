//! Dependency descriptor of a frame, an RTP header extension ("RTP Payload Format For AV1",
//! AOMedia, v1.0.0, appendix A).
//!
//! The number of the extension is in the session description, which a tunnel does not have. The
//! extension is therefore found by its content: in a packet of a key frame, a structure that fills
//! the extension to its last byte.

use rtp_types::RtpPacket;

use super::bits::Bits;

/// Maximum number of templates of a structure: `frame_dependency_template_id` has six bits.
const MAX_TEMPLATES: usize = 64;

/// Descriptors of a stream.
#[derive(Clone, Debug, Default)]
pub(super) struct Descriptors {
    /// Number of the extension and its latest structure; `None` until found.
    found: Option<(u8, Structure)>,
}

/// Structure that later descriptors refer to.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Structure {
    /// Id of the first template.
    offset: u32,
    targets: u32,
    /// `true`, by template, if its frames are disposable.
    disposable: Vec<bool>,
}

impl Descriptors {
    /// `true` if the frame of a packet is disposable for all decode targets, according to its
    /// descriptor. `is_key` if the packet belongs to a key frame.
    pub(super) fn is_disposable(&mut self, packet: &RtpPacket<'_>, is_key: bool) -> bool {
        let Some((profile, data)) = packet.extension() else { return false };
        if is_key {
            let structure = |(id, element)| Some((id, read(element, None)?.structure?));
            self.found = elements(profile, data).find_map(structure).or(self.found.take());
        }
        let Some((id, structure)) = &self.found else { return false };
        let element = elements(profile, data).find(|(other, _)| other == id);
        let descriptor = element.and_then(|(_, element)| read(element, Some(structure)));
        descriptor.is_some_and(|descriptor| descriptor.is_disposable)
    }
}

/// Iterates over the elements of a header extension, with their numbers (RFC 8285 §4.2, §4.3).
fn elements(profile: u16, mut data: &[u8]) -> impl Iterator<Item = (u8, &[u8])> {
    let head = match profile {
        0xbede => 1,
        0x1000..=0x100f => 2,
        _ => 0,
    };
    std::iter::from_fn(move || {
        loop {
            let (&first, rest) = data.split_first()?;
            if first == 0 {
                // Padding.
                data = rest;
                continue;
            }
            let (id, len, rest) = match head {
                // 15 ends the extension.
                1 if first >> 4 != 15 => (first >> 4, usize::from(first & 0x0f) + 1, rest),
                2 => (first, usize::from(*rest.first()?), &rest[1..]),
                _ => return None,
            };
            let (element, rest) = rest.split_at_checked(len)?;
            data = rest;
            return Some((id, element));
        }
    })
}

/// A parsed descriptor.
struct Descriptor {
    structure: Option<Structure>,
    is_disposable: bool,
}

/// Parses a descriptor (§A.8.2). A structure in the descriptor takes precedence over the known one.
fn read(element: &[u8], known: Option<&Structure>) -> Option<Descriptor> {
    let mut bits = Bits::new(element);
    let starts_frame = bits.flag()?;
    bits.flag()?;
    let template = bits.number(6)?;
    let _frame = bits.number(16)?;
    let has_more = element.len() > 3;
    let mut has = || if has_more { bits.flag() } else { Some(false) };
    let (has_structure, has_targets, has_own, has_distances, has_chains) =
        (has()?, has()?, has()?, has()?, has()?);
    let (mut structure, mut chains) = (None, 0);
    if has_structure {
        // Only the first packet of a frame has a structure.
        let (read, its_chains) = read_structure(&mut bits).filter(|_| starts_frame)?;
        (structure, chains) = (Some(read), its_chains);
    }
    let valid = structure.as_ref().or(known)?;
    if has_targets {
        bits.number(valid.targets)?;
    }
    let template = (template + 64 - valid.offset) % 64;
    let mut is_disposable = *valid.disposable.get(template as usize)?;
    if has_own {
        is_disposable = read_indications(&mut bits, valid.targets)?;
    }
    if has_structure {
        if has_distances {
            loop {
                match bits.number(2)? {
                    0 => break,
                    size => bits.number(4 * size)?,
                };
            }
        }
        if has_chains {
            for _ in 0..chains {
                bits.number(8)?;
            }
        }
        // Other content does not end there.
        structure = structure.filter(|_| bits.is_padding());
        structure.as_ref()?;
    }
    Some(Descriptor { structure, is_disposable })
}

/// Parses a structure (§A.8.3). Also returns its number of chains.
fn read_structure(bits: &mut Bits<'_>) -> Option<(Structure, u32)> {
    let offset = bits.number(6)?;
    let targets = bits.number(5)? + 1;
    // Layers of the templates: same, next temporal, next spatial layer, or end of the list.
    let (mut templates, mut spatial_layers) = (1, 1);
    loop {
        match bits.number(2)? {
            3 => break,
            2 => spatial_layers += 1,
            _ => {}
        }
        templates += 1;
        if templates > MAX_TEMPLATES {
            return None;
        }
    }
    let disposable = (0..templates).map(|_| read_indications(bits, targets)).collect::<Option<_>>()?;
    // Distances of the referenced frames.
    for _ in 0..templates {
        while bits.flag()? {
            bits.number(4)?;
        }
    }
    let chains = bits.below(targets + 1)?;
    if chains > 0 {
        for _ in 0..targets {
            bits.below(chains)?;
        }
        for _ in 0..templates as u32 * chains {
            bits.number(4)?;
        }
    }
    if bits.flag()? {
        for _ in 0..2 * spatial_layers {
            bits.number(16)?;
        }
    }
    Some((Structure { offset, targets, disposable }, chains))
}

/// Reads an indication for each decode target: 0 if the frame is not part of it, 1 if discardable,
/// 2 and 3 if others depend on it. Returns `true` if no target depends on the frame.
fn read_indications(bits: &mut Bits<'_>, targets: u32) -> Option<bool> {
    (0..targets).try_fold(true, |disposable, _| Some(bits.number(2)? < 2 && disposable))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes bits, most significant first.
    #[derive(Default)]
    struct Writer(Vec<bool>);

    impl Writer {
        fn put(mut self, fields: &[(u32, u32)]) -> Self {
            for (value, bits) in fields {
                self.0.extend((0..*bits).rev().map(|bit| value >> bit & 1 != 0));
            }
            self
        }

        fn bytes(self) -> Vec<u8> {
            let byte =
                |bits: &[bool]| (0..8).fold(0, |byte, at| byte << 1 | u8::from(bits.get(at) == Some(&true)));
            self.0.chunks(8).map(byte).collect()
        }
    }

    /// Builds the descriptor of a key frame of two temporal layers: template 60 (key) and 61 on the
    /// lower layer, 62 on the upper.
    fn key() -> Vec<u8> {
        let head = [(1, 1), (0, 1), (60, 6), (7, 16), (0b10000, 5), (60, 6), (1, 5)];
        let layers = [(0, 2), (1, 2), (3, 2)];
        // Switch for both, switch for both, none and discardable.
        let indications = [(2, 2), (2, 2), (2, 2), (2, 2), (0, 2), (1, 2)];
        let distances = [(0, 1), (1, 1), (1, 4), (0, 1), (1, 1), (0, 4), (0, 1)];
        // One chain of two or fewer, in ns(3): 10; each target is protected by it, in no bits.
        let chains = [(0b10, 2), (0, 4), (2, 4), (1, 4)];
        let resolution = [(1, 1), (1279, 16), (719, 16)];
        let fields = [&head[..], &layers, &indications, &distances, &chains, &resolution];
        fields.iter().fold(Writer::default(), |writer, fields| writer.put(fields)).bytes()
    }

    /// Builds the descriptor of another frame, in three bytes.
    fn of_template(id: u32) -> Vec<u8> {
        Writer::default().put(&[(1, 1), (1, 1), (id, 6), (8, 16)]).bytes()
    }

    fn packet(profile: u16, elements: &[(u8, &[u8])]) -> Vec<u8> {
        let mut data = Vec::new();
        for (id, element) in elements {
            match profile {
                0xbede => data.push(id << 4 | (element.len() - 1) as u8),
                _ => data.extend([*id, element.len() as u8]),
            }
            data.extend_from_slice(element);
        }
        data.resize(data.len().next_multiple_of(4), 0);
        let words = (data.len() / 4) as u16;
        let head = [&[0x90, 96, 0, 1][..], &[0; 8]].concat();
        [&head[..], &profile.to_be_bytes(), &words.to_be_bytes(), &data, &[0x10, 0x30]].concat()
    }

    fn is_disposable(descriptors: &mut Descriptors, packet: &[u8], is_key: bool) -> bool {
        descriptors.is_disposable(&RtpPacket::parse(packet).expect("is RTP"), is_key)
    }

    #[test]
    fn frames_that_no_decode_target_needs_are_disposable() {
        let time: &[u8] = &[1, 2, 3];
        for profile in [0xbede, 0x1000] {
            let mut descriptors = Descriptors::default();
            let mut of = |element: &[u8], is_key| {
                is_disposable(&mut descriptors, &packet(profile, &[(2, time), (5, element)]), is_key)
            };
            assert!(!of(&of_template(62), false), "there is no structure yet");
            assert!(!of(&key(), true));
            assert_eq!([60, 61, 62].map(|id| of(&of_template(id), false)), [false, false, true]);
            assert!(!of(&of_template(63), false), "there is no such template");
            // Its own indications: required by the second target.
            let own =
                Writer::default().put(&[(1, 1), (1, 1), (62, 6), (9, 16), (0b00100, 5), (0, 2), (3, 2)]);
            assert!(!of(&own.bytes(), false));
        }
    }

    #[test]
    fn what_is_no_structure_is_none() {
        for len in 0..key().len() {
            assert!(read(&key()[..len], None).is_none(), "{len}");
        }
        assert!(read(&[key(), vec![0]].concat(), None).is_none(), "it does not end there");
        let mut descriptors = Descriptors::default();
        for element in [&[0xff; 16][..], &[0; 16], &[0x80, 0, 0, 0x80, 0, 0, 0, 0]] {
            is_disposable(&mut descriptors, &packet(0xbede, &[(5, element)]), true);
        }
        assert!(descriptors.found.is_none());
        is_disposable(&mut descriptors, &packet(0xbede, &[(5, &key())]), false);
        assert!(descriptors.found.is_none(), "no key frame");
        // Elements that are cut short, and another kind of extension.
        for (profile, data) in
            [(0xbede, &[0x5f, 1][..]), (0x1000, &[5]), (0x1000, &[5, 9, 1]), (7, &[0x50, 1])]
        {
            assert_eq!(elements(profile, data).count(), 0);
        }
    }
}

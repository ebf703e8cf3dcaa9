//! Formats of the streams of a program, by type and descriptors (ISO 13818-1 Table 2-34, §2.6; ETSI
//! EN 300 468 §6.2).

use super::annexb::Codec;

/// Content of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Video(Codec),
    Sound,
}

/// A format and its signalling.
#[derive(Debug)]
pub(super) struct Format {
    #[cfg_attr(not(test), expect(dead_code, reason = "the documents name it"))]
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    /// Stream types.
    pub(super) types: &'static [u8],
    /// Registration descriptors of private streams, by the identifier.
    pub(super) registrations: &'static [&'static str],
    /// Other descriptors of private streams, by the tag.
    pub(super) tags: &'static [u8],
}

/// Types of private streams, which descriptors describe.
const PRIVATE: [u8; 2] = [0x05, 0x06];

/// First of the user private types.
const USER_PRIVATE: u8 = 0x80;

/// Types of video with another meaning in other systems. Streams whose type is certain are
/// preferred to them.
const AMBIGUOUS: [u8; 2] = [0x27, 0x80];

/// Registration of programs and streams with the types of Blu-ray discs.
const HDMV: &[u8] = b"HDMV";
/// Audio types of Blu-ray discs: linear PCM, AC-3, DTS, Dolby TrueHD, the secondary tracks.
const HDMV_SOUND: [u8; 9] = [0x80, 0x81, 0x82, 0x83, 0x84, 0x85, 0x86, 0xa1, 0xa2];

const REGISTRATION: u8 = 0x05;

/// All recognised formats; `docs/tunnel.md` lists them too.
pub(super) const FORMATS: &[Format] = &[
    format("MPEG-1, MPEG-2", Kind::Video(Codec::Mpeg2), &[0x01, 0x02, 0x80], &[], &[0x02]),
    format("H.264", Kind::Video(Codec::H264), &[0x1b, 0xdb], &["H264", "AVC1"], &[0x28]),
    format("H.265", Kind::Video(Codec::H265), &[0x24, 0x27], &["HEVC"], &[0x38]),
    format("H.266 (VVC)", Kind::Video(Codec::Other), &[0x33], &["VVC "], &[0x39]),
    format("EVC", Kind::Video(Codec::Other), &[0x35], &["EVC "], &[0x3a]),
    format("AV1", Kind::Video(Codec::Other), &[], &["AV01"], &[]),
    format("VP8, VP9", Kind::Video(Codec::Other), &[], &["VP80", "VP90", "VP08", "VP09"], &[]),
    format("MPEG-4 part 2", Kind::Video(Codec::Other), &[0x10], &[], &[0x1b]),
    format("JPEG 2000, JPEG XS", Kind::Video(Codec::Other), &[0x21, 0x32], &["JXS "], &[]),
    format("AVS, AVS2, AVS3", Kind::Video(Codec::Other), &[0x42, 0xd2, 0xd4], &["AVSV", "AVS2", "AVS3"], &[]),
    format("Dirac, VC-1", Kind::Video(Codec::Other), &[0xd1, 0xea], &["drac", "VC-1"], &[]),
    format("MPEG audio, AAC", Kind::Sound, &[0x03, 0x04, 0x0f, 0x11, 0x1c, 0xcf], &[], &[0x7c]),
    format("MPEG-H audio", Kind::Sound, &[0x2d, 0x2e], &[], &[]),
    format(
        "AC-3, E-AC-3, AC-4",
        Kind::Sound,
        &[0x81, 0x87, 0xc1, 0xc2],
        &["AC-3", "EAC3", "AC-4"],
        &[0x6a, 0x7a],
    ),
    format("DTS", Kind::Sound, &[0x8a], &["DTS1", "DTS2", "DTS3"], &[0x7b]),
    format("Opus, SMPTE 302M", Kind::Sound, &[], &["Opus", "BSSD"], &[]),
];

const fn format(
    name: &'static str,
    kind: Kind,
    types: &'static [u8],
    registrations: &'static [&'static str],
    tags: &'static [u8],
) -> Format {
    Format { name, kind, types, registrations, tags }
}

/// Returns the content of a stream of this type, for the descriptors of the program and the stream,
/// and `true` if the content is certain.
pub(super) fn kind(stream_type: u8, program: &[u8], stream: &[u8]) -> Option<(Kind, bool)> {
    if PRIVATE.contains(&stream_type) || stream_type >= USER_PRIVATE || AMBIGUOUS.contains(&stream_type) {
        let described = FORMATS.iter().find(|format| {
            descriptors(stream).any(|(tag, content)| match tag {
                REGISTRATION => format.registrations.iter().any(|name| content.starts_with(name.as_bytes())),
                _ => format.tags.contains(&tag),
            })
        });
        if let Some(format) = described {
            return Some((format.kind, true));
        }
        let mut all = descriptors(program).chain(descriptors(stream));
        let is_disc = all.any(|(tag, name)| tag == REGISTRATION && name.starts_with(HDMV));
        if is_disc && HDMV_SOUND.contains(&stream_type) {
            return Some((Kind::Sound, true));
        }
    }
    let format = FORMATS.iter().find(|format| format.types.contains(&stream_type))?;
    Some((format.kind, !AMBIGUOUS.contains(&stream_type)))
}

/// Iterates over descriptors: a tag, a length, and the content (ISO 13818-1 §2.6).
fn descriptors(mut bytes: &[u8]) -> impl Iterator<Item = (u8, &[u8])> {
    std::iter::from_fn(move || {
        let (&[tag, length], rest) = bytes.split_first_chunk()?;
        let (content, after) = rest.split_at_checked(length.into())?;
        bytes = after;
        Some((tag, content))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_recognised_by_type_and_by_descriptors() {
        let video = |codec| Some((Kind::Video(codec), true));
        let language: &[u8] = &[0x0a, 4, b'e', b'n', b'g', 0];
        type Case<'a> = (u8, &'a [u8], &'a [u8], Option<(Kind, bool)>);
        let cases: &[Case<'_>] = &[
            (0x02, b"", b"", video(Codec::Mpeg2)),
            (0x1b, b"", language, video(Codec::H264)),
            (0x24, b"", b"", video(Codec::H265)),
            (0x33, b"", b"", video(Codec::Other)),
            (0x06, b"", b"\x05\x04HEVC", video(Codec::H265)),
            (0x06, b"", b"\x52\x01\x11\x05\x04AV01", video(Codec::Other)),
            (0x06, b"", b"\x05\x06AC-3\0\0", Some((Kind::Sound, true))),
            (0x06, b"", b"\x6a\x01\0", Some((Kind::Sound, true))),
            (0x05, b"", b"\x38\x01\0", video(Codec::H265)),
            (0xa0, b"", b"\x05\x04HEVC", video(Codec::H265)),
            (0x27, b"", b"", Some((Kind::Video(Codec::H265), false))),
            (0x27, b"", b"\x05\x04HEVC", video(Codec::H265)),
            (0x80, b"", b"", Some((Kind::Video(Codec::Mpeg2), false))),
            (0x80, b"\x05\x04HDMV", b"", Some((Kind::Sound, true))),
            (0x0f, b"", b"\x05\x04HEVC", Some((Kind::Sound, true))),
            (0x06, b"", b"\x05\x04KLVA", None),
            (0x06, b"", language, None),
            (0x15, b"", b"", None),
            // Cut short.
            (0x06, b"", b"\x05\x04HEV", None),
            (0x06, b"", b"\x05", None),
        ];
        for (stream_type, program, stream, expected) in cases {
            assert_eq!(kind(*stream_type, program, stream), *expected, "{stream_type:#x} {stream:02x?}");
        }
    }

    #[test]
    fn each_way_to_signal_a_format_is_of_that_format_only() {
        for format in FORMATS {
            for stream_type in format.types {
                assert_eq!(kind(*stream_type, &[], &[]).map(|(kind, _)| kind), Some(format.kind));
            }
            for name in format.registrations {
                let stream = [&[REGISTRATION, 4], name.as_bytes()].concat();
                assert_eq!(kind(0x06, &[], &stream), Some((format.kind, true)), "{name}");
            }
            for tag in format.tags {
                assert_eq!(kind(0x06, &[], &[*tag, 0]), Some((format.kind, true)), "{tag:#x}");
            }
        }
    }

    #[test]
    fn the_documents_list_the_formats() {
        let document = include_str!("../../../../docs/tunnel.md");
        let hex =
            |numbers: &[u8]| numbers.iter().map(|n| format!("0x{n:02x}")).collect::<Vec<_>>().join(", ");
        let row = |format: &Format| {
            let names: Vec<_> =
                format.registrations.iter().map(|name| format!("`{}`", name.trim())).collect();
            let content = match format.kind {
                Kind::Video(Codec::Other) => "frames",
                Kind::Video(_) => "frames with classes",
                Kind::Sound => "sound",
            };
            let cells = [format.name, content, &hex(format.types), &names.join(", "), &hex(format.tags)];
            format!("| {} |\n", cells.map(|cell| if cell.is_empty() { "–" } else { cell }).join(" | "))
        };
        let table: String = FORMATS.iter().map(row).collect();
        assert!(document.contains(&table), "docs/tunnel.md, Transport streams, should have:\n{table}");
    }
}

//! Checks of payloads against the syntax of a codec.

use super::class::Media;

/// `true` if the format is RTP of a codec whose payload can be checked.
pub(super) fn is_looked_for(media: Media) -> bool {
    matches!(media, Media::H264 | Media::H265 | Media::Vp8 | Media::Vp9 | Media::Av1)
}

/// `true` if a payload fits the codec. `begins` if it is the first of its timestamp.
pub(super) fn fits(media: Media, payload: &[u8], begins: bool) -> bool {
    let Some((&head, rest)) = payload.split_first() else { return false };
    match media {
        Media::H264 => is_h264(head, rest),
        Media::H265 => is_h265(payload),
        // Reserved bits; the first partition begins (RFC 7741 §4.2).
        Media::Vp8 => head & 0x48 == 0 && (!begins || head & 0x17 == 0x10),
        // The frame begins (RFC 9628 §4.2).
        Media::Vp9 => !begins || head & 0x08 != 0,
        // Reserved bits; a sequence does not begin within a unit; no unit continues across frames
        // ("RTP Payload Format For AV1" §4.4).
        Media::Av1 => head & 0x07 == 0 && head & 0x88 != 0x88 && (!begins || head & 0x80 == 0),
        _ => false,
    }
}

/// Checks RFC 6184 §5.2 to §5.8. Data partitions, types 2 to 4, exist only in a profile that no
/// encoder sends.
fn is_h264(header: u8, rest: &[u8]) -> bool {
    let (is_referenced, kind) = (header & 0x60 != 0, header & 0x1f);
    header & 0x80 == 0
        && match kind {
            1 | 14 | 20 => true,
            5 | 7 | 8 | 13 | 15 => is_referenced,
            6 | 9..=12 => !is_referenced,
            24 => are_units(rest, 0, 0),
            25 => rest.get(2..).is_some_and(|rest| are_units(rest, 0, 0)),
            26 => rest.get(2..).is_some_and(|rest| are_units(rest, 3, 0)),
            27 => rest.get(2..).is_some_and(|rest| are_units(rest, 4, 0)),
            // First and last part exclude each other; one bit is reserved.
            28 | 29 => rest.first().is_some_and(|fu| {
                fu & 0xc0 != 0xc0 && fu & 0x20 == 0 && matches!(fu & 0x1f, 1 | 5..=9 | 12 | 14 | 20)
            }),
            _ => false,
        }
}

/// Checks RFC 7798 §4.4.
fn is_h265(payload: &[u8]) -> bool {
    let Some((&[high, low], rest)) = payload.split_first_chunk::<2>() else { return false };
    let is_type = |kind: u8| matches!(kind, 0..=9 | 16..=21 | 32..=40);
    high & 0x80 == 0
        && low & 0x07 != 0
        && match high >> 1 {
            // Unit sizes, which may follow decoding order numbers.
            48 => are_units(rest, 0, 0) || rest.get(2..).is_some_and(|rest| are_units(rest, 0, 1)),
            49 => rest.first().is_some_and(|fu| fu & 0xc0 != 0xc0 && is_type(fu & 0x3f)),
            50 => rest.first().is_some_and(|paci| is_type(paci >> 1 & 0x3f)),
            kind => is_type(kind),
        }
}

/// `true` if the bytes are units, each preceded by its size. After each size there are `inner`
/// bytes that it does not count, and between units `outer` ones.
fn are_units(mut rest: &[u8], inner: usize, outer: usize) -> bool {
    while let Some((&[high, low], after)) = rest.split_first_chunk::<2>() {
        let size = usize::from(u16::from_be_bytes([high, low]));
        match after.get(inner + size..) {
            Some([]) => return size > 0,
            Some(after) if size > 0 && after.len() > outer => rest = &after[outer..],
            _ => return false,
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payloads_fit_one_codec() {
        use Media::{Av1, H264, H265, Vp8, Vp9};
        let rows: &[(&str, &[u8], &[Media])] = &[
            ("H.264 parameters", &[0x67, 0x42, 0, 0x1f], &[H264]),
            ("H.264 fragment", &[0x7c, 0x85, 0], &[H264, Vp9]),
            ("H.264 aggregate", &[0x78, 0, 2, 0x67, 1, 0, 1, 0x68], &[H264, Vp9, Av1]),
            ("H.264 with times", &[0x1a, 0, 0, 0, 2, 0, 0, 0, 0x41, 0], &[H264, Vp9]),
            ("H.265 parameters", &[0x42, 0x01, 1], &[H265]),
            ("H.265 fragment", &[0x62, 0x01, 0x93, 0], &[H265]),
            ("H.265 aggregate", &[0x60, 0x01, 0, 2, 0x40, 1, 0, 1, 0x42], &[H265, Av1]),
            ("the same with order numbers", &[0x60, 0x01, 0, 5, 0, 2, 0x40, 1, 0, 0, 1, 0x42], &[H265, Av1]),
            ("VP8", &[0x10, 0x50], &[Vp8, Av1]),
            ("AAC (RFC 3640)", &[0x00, 0x10, 0x0a, 0x98, 0x21], &[Av1]),
            ("Opus", &[0xfc, 0xff, 0xfe], &[Vp9]),
            ("parity (RFC 5109)", &[0x00, 0x60, 0x12, 0x34, 0, 0, 0, 0, 0, 9], &[Av1]),
            ("nothing", &[], &[]),
        ];
        for (name, payload, expected) in rows {
            let all = [H264, H265, Vp8, Vp9, Av1].into_iter();
            let fitting: Vec<_> = all.filter(|media| fits(*media, payload, true)).collect();
            assert_eq!(fitting, *expected, "{name}");
        }
    }
}

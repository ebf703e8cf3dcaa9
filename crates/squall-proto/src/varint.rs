//! QUIC's variable-length integers (RFC 9000 §16).

/// Largest value.
pub(crate) const MAX: u64 = (1 << 62) - 1;

/// Appends `value`, which must not exceed [`MAX`].
pub(crate) fn write(out: &mut Vec<u8>, value: u64) {
    debug_assert!(value <= MAX);
    match value {
        0..=0x3f => out.push(value as u8),
        0x40..=0x3fff => out.extend_from_slice(&(value as u16 | 0x4000).to_be_bytes()),
        0x4000..=0x3fff_ffff => out.extend_from_slice(&(value as u32 | 0x8000_0000).to_be_bytes()),
        _ => out.extend_from_slice(&(value | 0xc000_0000_0000_0000).to_be_bytes()),
    }
}

/// Appends `value` in `len` bytes (1, 2, 4 or 8), which may be more than it needs.
pub(crate) fn write_in(out: &mut Vec<u8>, value: u64, len: usize) {
    debug_assert!(self::len(value) <= len);
    let bytes = (value | (len.ilog2() as u64) << (8 * len - 2)).to_be_bytes();
    out.extend_from_slice(&bytes[8 - len..]);
}

/// Takes a value off the front; `None` if the input ends within it.
pub(crate) fn read(input: &mut &[u8]) -> Option<u64> {
    let first = *input.first()?;
    let len = 1usize << (first >> 6);
    let (bytes, rest) = input.split_at_checked(len)?;
    *input = rest;
    let value = bytes[1..].iter().fold(u64::from(first & 0x3f), |v, b| v << 8 | u64::from(*b));
    Some(value)
}

/// Returns the encoded length of `value` in bytes.
pub(crate) const fn len(value: u64) -> usize {
    match value {
        0..=0x3f => 1,
        0x40..=0x3fff => 2,
        0x4000..=0x3fff_ffff => 4,
        _ => 8,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn examples_of_rfc_9000() {
        // RFC 9000 §A.1.
        for (wire, value) in [
            (&[0xc2, 0x19, 0x7c, 0x5e, 0xff, 0x14, 0xe8, 0x8c][..], 151_288_809_941_952_652),
            (&[0x9d, 0x7f, 0x3e, 0x7d], 494_878_333),
            (&[0x7b, 0xbd], 15_293),
            (&[0x25], 37),
        ] {
            assert_eq!(read(&mut &wire[..]), Some(value));
            let mut out = Vec::new();
            write(&mut out, value);
            assert_eq!(out, wire);
        }
        assert_eq!(read(&mut &[0x7b][..]), None);
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(value in 0..=MAX) {
            let mut out = Vec::new();
            write(&mut out, value);
            prop_assert_eq!(out.len(), len(value));
            prop_assert_eq!(read(&mut out.as_slice()), Some(value));
            for longer in [1, 2, 4, 8].into_iter().filter(|longer| *longer >= len(value)) {
                let mut even = Vec::new();
                write_in(&mut even, value, longer);
                prop_assert_eq!((even.len(), read(&mut even.as_slice())), (longer, Some(value)));
                prop_assert!(longer > len(value) || even == out);
            }
        }
    }
}

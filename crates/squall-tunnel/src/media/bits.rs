//! Bits of a header, most significant first.

/// Reads bits from the front.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bits<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Bits<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    pub(super) fn flag(&mut self) -> Option<bool> {
        let byte = self.bytes.get(self.at / 8)?;
        let flag = byte >> (7 - self.at % 8) & 1 != 0;
        self.at += 1;
        Some(flag)
    }

    /// Reads a number of this many bits, at most 32.
    pub(super) fn number(&mut self, bits: u32) -> Option<u32> {
        (0..bits).try_fold(0, |number, _| Some(number << 1 | u32::from(self.flag()?)))
    }

    /// Reads a number in Exp-Golomb code below 2^16 (H.264 §9.1).
    pub(super) fn exp_golomb(&mut self) -> Option<u32> {
        let mut zeros = 0;
        while !self.flag()? {
            zeros += 1;
            if zeros > 16 {
                return None;
            }
        }
        Some((1 << zeros) - 1 + self.number(zeros)?)
    }

    /// Reads a number below `bound` in the shortest code (AV1 §4.10.7).
    pub(super) fn below(&mut self, bound: u32) -> Option<u32> {
        let width = u32::BITS - bound.leading_zeros();
        let short = (1 << width) - bound;
        let number = self.number(width.saturating_sub(1))?;
        Some(if number < short { number } else { (number << 1) - short + u32::from(self.flag()?) })
    }

    /// `true` if less than a byte is left, all zeros.
    pub(super) fn is_padding(mut self) -> bool {
        let left = 8 * self.bytes.len() - self.at;
        left < 8 && self.number(left as u32) == Some(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_the_codes_of_the_standards() {
        // 1, 010, 011, 00100, 0001000.
        let mut bits = Bits::new(&[0b1010_0110, 0b0100_0001, 0, 0]);
        assert_eq!([0; 5].map(|_| bits.exp_golomb()), [0, 1, 2, 3, 7].map(Some));
        assert!(!bits.is_padding(), "13 bits");
        assert_eq!((bits.exp_golomb(), bits.exp_golomb()), (None, None), "nothing but zeros");
        assert_eq!(Bits::new(&[0; 9]).exp_golomb(), None);
        // Below 5: 00, 01, 10, 110, 111.
        let mut bits = Bits::new(&[0b0001_1011, 0b0111_0000]);
        assert_eq!([0; 5].map(|_| bits.below(5)), [0, 1, 2, 3, 4].map(Some));
        assert!(bits.is_padding());
        assert_eq!((bits.below(1), bits.number(4), bits.number(1)), (Some(0), Some(0), None));
    }
}

//! How long the bytes of a block take to come into being.

/// The time from the first byte of a block to its last, as of a picture behind its encoder.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Production {
    /// In microseconds; 0 if all bytes are there at once.
    pub time_us: u64,
    /// Whether the session gets the bytes as they come; else it gets the block with its last byte.
    pub growing: bool,
}

/// Bytes come in steps of this many microseconds.
const STEP_US: u64 = 1_000;

impl Production {
    /// The pieces of a block of `size` bytes that is begun at `at_us`: when each is there, and how many bytes it has.
    /// The first is there at once, the last when the time is over.
    pub fn pieces(self, at_us: u64, size: u64) -> impl Iterator<Item = (u64, u64)> {
        let steps = (self.time_us / STEP_US).max(1).min(size - 1).max(1);
        let count = if self.time_us == 0 || size < 2 { 1 } else { steps + 1 };
        let after = move |pieces: u64| size * pieces / count;
        (0..count).map(move |k| (at_us + self.time_us * k / steps, after(k + 1) - after(k)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_comes_in_steps_from_its_first_byte_to_its_last() {
        let production = Production { time_us: 5_000, growing: true };
        let pieces: Vec<_> = production.pieces(100, 603).collect();
        let expected = [(100, 100), (1_100, 101), (2_100, 100), (3_100, 101), (4_100, 100), (5_100, 101)];
        assert_eq!(pieces, expected);
        for size in 1..20 {
            let pieces: Vec<_> = production.pieces(0, size).collect();
            assert_eq!(pieces.iter().map(|piece| piece.1).sum::<u64>(), size);
            assert!(pieces.iter().all(|piece| piece.1 > 0), "{size}: {pieces:?}");
            assert!(size == 1 || pieces.last().expect("has one").0 == 5_000);
        }
        assert_eq!(Production::default().pieces(7, 9).collect::<Vec<_>>(), [(7, 9)]);
    }
}

//! Damage of packets in transit.

use rand_pcg::{Pcg64Mcg, rand_core::Rng as _};

/// Damage by a link with `corrupt`: one to eight inverted bits, drawn once for each packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Damage(u64);

impl Damage {
    pub(crate) fn random(random: &mut Pcg64Mcg) -> Self {
        Self(random.next_u64())
    }

    /// Damages the bytes. The result differs from the original unless it is empty.
    pub fn apply(self, bytes: &mut [u8]) {
        let bits = bytes.len() as u64 * 8;
        if bits == 0 {
            return;
        }
        let mut state = self.0;
        let mut turned = Vec::new();
        for _ in 0..=self.0 % 8 {
            let bit = state % bits;
            // Inverting the same bit twice would be no damage.
            if !turned.contains(&bit) {
                bytes[(bit / 8) as usize] ^= 1 << (bit % 8);
                turned.push(bit);
            }
            // Knuth's MMIX generator: the positions need not be good random numbers, only distinct
            // ones.
            state =
                state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407) >> 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn one_to_eight_bits_are_turned_over(damage: u64, bytes in prop::collection::vec(any::<u8>(), 1..100)) {
            let mut damaged = bytes.clone();
            Damage(damage).apply(&mut damaged);
            let turned: u32 = bytes.iter().zip(&damaged).map(|(a, b)| (a ^ b).count_ones()).sum();
            prop_assert!((1..=8).contains(&turned), "{turned} bits");
        }
    }

    #[test]
    fn nothing_cannot_be_damaged() {
        Damage(7).apply(&mut []);
    }
}

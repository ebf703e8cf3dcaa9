//! Usual sizes of the blocks of a class: the expected length of a growing block.
//!
//! A class is a channel and a priority, because an application gives no other attribute of its
//! blocks: pictures, layers and sound use channels or priorities of their own. If key frames share
//! a class with the other frames, one of them counts as twice the usual size at most, so that it
//! moves the mean by a tenth and not by a third. The mean still follows a permanent change of the
//! stream, by a tenth per block.

use std::collections::BTreeMap;

use crate::{BlockMeta, MAX_BLOCK};

/// Weight of the latest block in the mean.
const WEIGHT: f64 = 0.1;

/// A block counts as this many times the usual size at most.
const LARGEST: f64 = 2.0;

/// Mean sizes of the classes, one entry for each channel and priority in use.
#[derive(Clone, Debug, Default)]
pub(crate) struct UsualSizes(BTreeMap<(u16, u8), f64>);

impl UsualSizes {
    /// Records the final length of a block.
    pub(crate) fn record(&mut self, meta: &BlockMeta) {
        let len = f64::from(meta.len);
        let mean = self.0.entry((meta.channel, meta.priority)).or_insert(len);
        *mean += WEIGHT * (len.min(LARGEST * *mean) - *mean);
    }

    /// Returns the usual length of a block of this class in bytes; 0 before the first.
    pub(crate) fn expected(&self, meta: &BlockMeta) -> u32 {
        let mean = self.0.get(&(meta.channel, meta.priority)).copied().unwrap_or(0.0);
        (mean.round() as u32).min(MAX_BLOCK)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::BlockId;

    fn of(len: u32, channel: u16, priority: u8) -> BlockMeta {
        BlockMeta { priority, channel, ..BlockMeta::new(BlockId(0), len) }
    }

    #[test]
    fn classes_are_apart_and_the_first_block_of_one_is_its_mean() {
        let mut usual = UsualSizes::default();
        usual.record(&of(40_000, 0, 3));
        usual.record(&of(300, 1, 3));
        usual.record(&of(90_000, 0, 0));
        let expected = [(0, 3), (1, 3), (0, 0), (2, 3)].map(|(c, p)| usual.expected(&of(0, c, p)));
        assert_eq!(expected, [40_000, 300, 90_000, 0]);
    }

    #[test]
    fn a_key_frame_moves_the_mean_by_a_tenth_and_a_new_rate_is_followed() {
        let mut usual = UsualSizes::default();
        usual.record(&of(10_000, 0, 3));
        usual.record(&of(60_000, 0, 3));
        assert_eq!(usual.expected(&of(0, 0, 3)), 11_000);
        (0..60).for_each(|_| usual.record(&of(60_000, 0, 3)));
        assert!(usual.expected(&of(0, 0, 3)) > 58_000);
        (0..60).for_each(|_| usual.record(&of(5_000, 0, 3)));
        assert!(usual.expected(&of(0, 0, 3)) < 5_500);
    }
}

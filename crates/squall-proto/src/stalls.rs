//! Stalls of a channel: its next block arrives later than its reader expects.
//!
//! A gap is a stall if the W3C's webrtc-stats would count a freeze (`freezeCount`): at least three
//! usual intervals between blocks, and at least one and 150 ms. The usual interval is the running
//! mean of [`MEMORY`] gaps. The block that ends a gap stalled, and so did those held back with it:
//! blocks that since then arrive less than half an interval apart on average, while they are
//! overdue by that much.

use std::collections::{BTreeSet, HashMap};

use squall_sched::{BlockId, Span, Time};

use crate::wire::Stalled;

/// Largest number of stalls that wait to be reported; the oldest are dropped.
const MAX_WAITING: usize = 64;

/// Excess over the usual interval below which a gap is no stall.
const LEAST: Span = Span::from_millis(150);

/// Number of intervals in the mean.
const MEMORY: u64 = 64;

/// The latest stalls of all channels. The state of a channel is a [`Cadence`], from its first block
/// on.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stalls {
    channels: HashMap<u16, Cadence>,
    waiting: BTreeSet<BlockId>,
}

#[derive(Clone, Copy, Debug)]
struct Cadence {
    /// Usual time between two blocks, a mean.
    interval: Span,
    /// Number of intervals in the mean.
    intervals: u64,
    /// Arrival of the last block.
    at: Time,
    /// Due time of the last block, if it stalled; else its arrival.
    due: Time,
    /// End of the last gap.
    resumed: Time,
    /// Number of blocks that stalled since `resumed`.
    stalled: u64,
}

impl Stalls {
    /// Records a block of a channel that is available to its reader.
    pub(crate) fn on_block(&mut self, now: Time, channel: u16, id: BlockId) {
        let first =
            Cadence { interval: Span::ZERO, intervals: 0, at: now, due: now, resumed: now, stalled: 0 };
        let known = self.channels.entry(channel).or_insert(first);
        if known.at == now && known.intervals == 0 {
            // The first ones, which are due at their arrival.
            return;
        }
        if known.next(now) {
            self.add(id);
        }
    }

    /// Returns the blocks of a lost report, to be reported again.
    pub(crate) fn repeat(&mut self, report: Stalled) {
        report.blocks().for_each(|id| self.add(id));
    }

    /// Returns `true` if the block is among the latest stalls.
    pub(crate) fn contains(&self, id: BlockId) -> bool {
        self.waiting.contains(&id)
    }

    /// Takes the next report.
    pub(crate) fn take(&mut self) -> Option<Stalled> {
        let mut report = Stalled::new(self.waiting.pop_first()?);
        while self.waiting.first().is_some_and(|next| report.add(*next)) {
            self.waiting.pop_first();
        }
        Some(report)
    }

    fn add(&mut self, id: BlockId) {
        self.waiting.insert(id);
        if self.waiting.len() > MAX_WAITING {
            self.waiting.pop_first();
        }
    }
}

impl Cadence {
    /// Records the next block. Returns `true` if it stalled.
    fn next(&mut self, now: Time) -> bool {
        let least = (self.interval * 3).max(self.interval + LEAST);
        let (gap, overdue) = (now - self.at, now - self.due);
        self.at = now;
        let known = self.intervals > 0 && overdue >= least;
        if known && now - self.resumed < self.interval * self.stalled / 2 {
            // Held back with the block that ended the gap.
            self.due += self.interval;
            self.stalled += 1;
            return true;
        }
        let stalled = known && gap >= least;
        (self.resumed, self.stalled) = (now, u64::from(stalled));
        self.due = if stalled { self.due + self.interval } else { now };
        // Another cadence looks like stalls at first, so its gaps count, but limited to the
        // smallest stall.
        let gap = if self.intervals == 0 { gap } else { gap.min(least) };
        self.interval = (self.interval * self.intervals + gap) / (self.intervals + 1);
        self.intervals = (self.intervals + 1).min(MEMORY - 1);
        stalled
    }
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};
    use squall_units::short::{at_ms, ms};

    use super::*;

    /// Returns the numbers of the blocks that stall, among blocks on one channel that arrive at
    /// these times in milliseconds.
    fn stalled(times: impl IntoIterator<Item = u64>) -> Vec<u64> {
        let mut stalls = Stalls::default();
        (0..).zip(times).for_each(|(id, at)| stalls.on_block(at_ms(at), 7, BlockId(id)));
        stalls.waiting.into_iter().map(|id| id.0).collect()
    }

    /// Returns almost 60 frames a second, of which none passes from the 100th on for that many
    /// milliseconds.
    fn held(ms: u64) -> impl Iterator<Item = u64> {
        (0..200).map(move |n| if n >= 100 { (16 * n).max(1584 + ms) } else { 16 * n })
    }

    #[test]
    fn a_gap_stalls_what_ends_it_and_what_was_held_back_with_it() {
        assert!(stalled(held(0)).is_empty());
        assert!(stalled(held(165)).is_empty(), "150 ms more than usual is the least");
        assert_eq!(stalled(held(166)), [100]);
        // They are due 16 ms apart from 1600 on, later 18 as the gap counts in the mean, and arrive
        // at 1984.
        assert_eq!(stalled(held(400)), (100..113).collect::<Vec<_>>());
    }

    #[test]
    fn what_left_in_the_next_round_trip_was_held_back_too() {
        let later = (0..80).map(|n| 20 * n).chain((80..87).map(|_| 2000)).chain((87..100).map(|_| 2040));
        assert_eq!(stalled(later.chain((100..120).map(|n| 20 * n + 50))), (80..93).collect::<Vec<_>>());
    }

    #[test]
    fn slow_channels_have_longer_gaps() {
        let every = |ms: u64, gap: u64| (0..20).map(move |n| ms * n + if n >= 10 { gap - ms } else { 0 });
        assert_eq!((stalled(every(100, 299)), stalled(every(100, 300))), (vec![], vec![10]));
        assert_eq!((stalled(every(1000, 2999)), stalled(every(1000, 3000))), (vec![], vec![10]));
    }

    #[test]
    fn one_gap_is_one_stall_if_nothing_was_held_back() {
        let after = (0..50).map(|n| 20 * n + if n >= 20 { 5000 } else { 0 });
        assert_eq!(stalled(after), [20], "what follows at its usual pace is in time");
    }

    #[test]
    fn another_cadence_is_learned() {
        let slower = (0..100).map(|n| 20 * n).chain((0..400).map(|n| 3000 + 500 * n));
        let all = stalled(slower);
        assert!(all.last().is_some_and(|last| *last < 300), "{all:?}");
    }

    #[test]
    fn channels_have_nothing_to_do_with_one_another() {
        let mut stalls = Stalls::default();
        for id in 0..100 {
            // The second has a gap, in which the first continues.
            stalls.on_block(at_ms(10 * id), 0, BlockId(2 * id));
            if !(40..90).contains(&id) {
                stalls.on_block(at_ms(10 * id), 1, BlockId(2 * id + 1));
            }
        }
        assert_eq!(stalls.take().map(|report| report.block), Some(181));
    }

    #[test]
    fn the_newest_are_kept_and_lost_reports_come_back() {
        let mut stalls = Stalls::default();
        (0..100).map(BlockId).for_each(|id| stalls.add(id));
        assert!(!stalls.contains(BlockId(35)) && stalls.contains(BlockId(36)));
        let first = stalls.take().expect("64 wait");
        assert_eq!(first, Stalled { block: 36, more: (1 << 62) - 1 });
        assert_eq!(stalls.take(), Some(Stalled { block: 99, more: 0 }));
        assert_eq!(stalls.take(), None);
        stalls.repeat(first);
        assert_eq!(stalls.take(), Some(first));
    }

    proptest! {
        /// For any input, each block stalls at most once, none before a gap of 150 ms, and memory
        /// is bounded.
        #[test]
        fn no_stall_without_a_gap(pauses in vec((prop_oneof![4 => 0..40u64, 1 => 0..2000u64], 0..3u16), 1..300)) {
            let mut stalls = Stalls::default();
            let (mut now, mut id, mut gaps) = (Time::EPOCH, 0, false);
            let mut last = [None; 3];
            for (pause, channel) in pauses {
                now += ms(pause);
                let before = last[usize::from(channel)].replace(now);
                gaps |= before.is_some_and(|before| now - before >= LEAST);
                stalls.on_block(now, channel, BlockId(id));
                prop_assert!(gaps || stalls.waiting.is_empty());
                prop_assert!(stalls.waiting.len() <= MAX_WAITING && stalls.channels.len() <= 3);
                id += 1;
            }
        }
    }
}
